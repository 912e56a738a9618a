import pytest
from backends import BACKENDS


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def backend(request):
    return request.param

import pytest

from ember_jax import board_kernel, rollout_kernel
from ember_jax.kernel import Kernel

_LAZY = Kernel(rollout_kernel._call)


@pytest.fixture(params=["together", "lazy"])
def form(request, monkeypatch):
    """Both forms of the ways to exits, on small grids."""
    if request.param == "lazy":
        monkeypatch.setattr(board_kernel, "SELECTED_WORDS", 0)
        monkeypatch.setattr(rollout_kernel, "_ROLLOUTS", _LAZY)
    return request.param

import pytest

from ember_jax import board_kernel, fire_aware_kernel, rollout_kernel
from ember_jax.kernel import Kernel

_ALONE = Kernel(rollout_kernel._call)


@pytest.fixture(params=["together", "alone"])
def form(request, monkeypatch):
    """Both forms of fire-aware ways, and of look-ups on boards, on small grids."""
    if request.param == "alone":
        monkeypatch.setattr(fire_aware_kernel, "_SHORT", 0)
        monkeypatch.setattr(board_kernel, "SELECTED_WORDS", 0)
        monkeypatch.setattr(rollout_kernel, "_ROLLOUTS", _ALONE)
    return request.param

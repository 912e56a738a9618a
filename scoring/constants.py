"""The constants of scoring 1.0 (contract section 11). Not an option: their digest is part of a pack and a report."""

from typing import Any, Final

from ember_ref.canonical import digest

SCORING_VERSION: Final = "1.0"
CONSTANTS: Final[dict[str, Any]] = {
    "scoring_version": SCORING_VERSION,
    "kE": 2,
    "alpha_c": "3/5",
    "k_c": 4,
    "alpha_s": "4/5",
    "k_s": 2,
    "catastrophic_loss_rate": "1/2",
    "kH": 1,
    "hazard_radius": 2,
    "weights": {"time": "3/8", "hazard": "1/4", "path": "1/8", "replanning": "1/4"},
    "severe": {"time": "1/2", "hazard": "3/4", "path": "1/2", "replanning": "1/2"},
    "phi": "4/5",
    "gamma": 1,
    "practical_difference": "1",
    "resamples": 2000,
}
"""The constants object; rationals as text."""
CONSTANTS_DIGEST: Final = digest(CONSTANTS)
"""The digest of the constants object, hex."""

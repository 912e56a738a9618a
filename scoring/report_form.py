"""The form of a REPORT object (contract section 15): keys and types, before anything is computed."""

from typing import Any, Final

from ember_ref.agent import FailureKind
from ember_ref.form import (
    COUNT,
    DIGEST,
    ID,
    SEED,
    Form,
    boolean,
    integer,
    list_of,
    nullable,
    number,
    object_of,
    one_of,
    text,
    tuple_of,
)
from ember_ref.suite import FAMILIES
from scoring.constants import CONSTANTS_DIGEST, SCORING_VERSION
from scoring.evidence import DIAGNOSTICS_FORM, EVIDENCE_FORM
from scoring.hierarchy import LEVEL, METHOD, RESAMPLES
from scoring.score import COMPONENTS, QUALITY_COMPONENTS, Status


def any_integer(value: Any, place: str) -> list[str]:
    """Check that a value is an integer of any size."""
    return [] if type(value) is int else [f"{place}: not an integer"]


EXACT: Final[Form] = tuple_of(any_integer, integer(1))
"""`[numerator, denominator]`."""
INDEXED_EXACT: Final[Form] = tuple_of(COUNT, any_integer, integer(1))
"""`[episode index, numerator, denominator]`."""
INTERVAL_FORM: Final[Form] = object_of(
    {
        "method": one_of(METHOD),
        "level": one_of(LEVEL),
        "resamples": one_of(RESAMPLES),
        "seed": DIGEST,
        "lower": number,
        "upper": number,
    }
)
"""The form of a SCORE_CI."""


_TOTALS: Final = ("escapable", "evacuated", "avoidable_casualties", "avoidable_stranded", "unavoidable_losses")
_COMPONENT: Final = object_of({"value": nullable(number), "defined": COUNT, "total": COUNT})
_TRIAL: Final = object_of(
    {
        "status": one_of(*map(str, Status)),
        "failure": nullable(one_of(*map(str, FailureKind))),
        "score": nullable(number),
        "components": object_of(dict.fromkeys(COMPONENTS, nullable(number))),
        "safety": nullable(number),
        "quality": nullable(number),
        "severity": nullable(number),
        "severe": list_of(one_of(*QUALITY_COMPONENTS)),
        "ceiling": nullable(number),
        "evidence": nullable(EVIDENCE_FORM),
        "diagnostics": nullable(DIAGNOSTICS_FORM),
    }
)
REPORT_FORM: Final[Form] = object_of(
    {
        "scoring_version": one_of(SCORING_VERSION),
        "artifact": one_of("score_report"),
        "constants_digest": one_of(CONSTANTS_DIGEST),
        "model_id": ID,
        "official": boolean,
        "pack_id": nullable(ID),
        "pack_hash": nullable(DIGEST),
        "evaluation_manifest_hash": DIGEST,
        "suite_id": ID,
        "suite_version": text(),
        "suite_hash": DIGEST,
        "simulator_version": text(),
        "observation_version": text(),
        "metrics_version": text(),
        "trials": integer(1),
        "result_digests": list_of(DIGEST, least=1),
        "scheduled_episodes": COUNT,
        "applicable_episodes": COUNT,
        "score": nullable(number),
        "score_exact": nullable(EXACT),
        "confidence_interval": nullable(INTERVAL_FORM),
        "scenario_balanced": nullable(number),
        "micro": nullable(number),
        "families": list_of(object_of({"family": one_of(*FAMILIES), "score": number, "scenarios": list_of(ID)})),
        "scenarios": list_of(object_of({"scenario_id": ID, "score": number})),
        "components": object_of(dict.fromkeys((*COMPONENTS, "safety", "quality"), _COMPONENT)),
        "tail": object_of(
            {
                "median_scenario": nullable(number),
                "worst_scenario": nullable(number),
                "worst_scenario_id": nullable(ID),
                "p10_episode": nullable(number),
                "cvar10": nullable(number),
                "zero_score_episode_trials": object_of(dict.fromkeys(("catastrophic", *FailureKind), COUNT)),
            }
        ),
        "robustness": object_of(
            {
                "episode_trials": COUNT,
                "statuses": object_of(dict.fromkeys(map(str, Status), COUNT)),
                "severe_episode_trials": object_of(dict.fromkeys(QUALITY_COMPONENTS, COUNT)),
            }
        ),
        "totals": object_of(dict.fromkeys(_TOTALS, COUNT)),
        "totals_per_trial": object_of(dict.fromkeys(_TOTALS, number)),
        "diagnostics": object_of(
            {
                "congestion_block_rate": nullable(number),
                "contested_cell_steps": COUNT,
                "contested_cell_steps_per_trial": number,
                "hotspot_cells": COUNT,
                "hotspot_cells_per_trial": number,
                "peak_contested_cells": COUNT,
                "exit_throughput": nullable(number),
            }
        ),
        "episode_scores": list_of(INDEXED_EXACT),
        "episodes": list_of(
            object_of(
                {
                    "index": COUNT,
                    "scenario_id": ID,
                    "scenario_hash": DIGEST,
                    "seed": SEED,
                    "max_evacuated": integer(0, 1024),
                    "score": nullable(number),
                    "trials": list_of(_TRIAL, least=1),
                }
            )
        ),
    }
)
"""The form of a REPORT object."""

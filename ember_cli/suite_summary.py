"""The summary of `ember check-suite`: a row a family with small plots, and the Parquet file."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from scenarios.procedural.check import SLACK_BINS, ScenarioCheck

_BARS: Final = " ▁▂▃▄▅▆▇█"
_BINS: Final = 10


def safety_rows(checks: Sequence[ScenarioCheck]) -> list[dict[str, Any]]:
    """Return a row a family: what can be saved, and how close it is."""
    rows = []
    for family, mine in _families(checks).items():
        rows.append(
            {
                "family": family,
                "scenarios": len(mine),
                "rejected": sum(not check.holds for check in mine),
                "applicable": _percent(_mean(mine, lambda c: c.applicable_share)),
                "M*/people": _percent(_mean(mine, lambda c: c.mean_max_evacuated / c.people)),
                "M* 0 to all": bars(_by_share(mine)),
                "reached": _percent(_mean(mine, lambda c: c.reached_share)),
                "slack": _number(_mean(mine, lambda c: c.mean_slack)),
                f"slack {SLACK_BINS[0]} to {SLACK_BINS[-1]}": bars(
                    [sum(column) for column in zip(*(check.slack_histogram for check in mine), strict=True)]
                ),
                "ID~distance": _number(_mean(mine, lambda c: c.id_correlation), digits=2),
            }
        )
    return rows


def policy_rows(checks: Sequence[ScenarioCheck], policies: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row a family: what policies save, and the evidence under the fire-aware one."""
    rows = []
    for family, mine in _families(checks).items():
        row: dict[str, Any] = {"family": family}
        for name in policies:
            row[_short(name)] = _percent(_saved(mine, name))
        row |= {
            "fixed falls short": _percent(_mean(mine, lambda c: c.fixed_short_share)),
            "detours": _percent(_mean(mine, lambda c: c.detour_share)),
            "exits lost": _percent(_mean(mine, lambda c: c.exit_loss_share)),
        }
        evidence = [check.evidence for check in mine if check.evidence]
        if evidence:
            row |= {
                "invalidations": _number(_of(evidence, "route_invalidations")),
                "recoverable": _number(_of(evidence, "recoverable_route_invalidations")),
                "Q_exit/L": _ratio(evidence, "exit_bound", "sum_earliest"),
                "Q_cut/Q_exit": _ratio(evidence, "time_bound", "exit_bound"),
                "A/Q_cut": _ratio(evidence, "sum_evacuation_steps", "time_bound"),
            }
        rows.append(row)
    return rows


def bars(counts: Sequence[int]) -> str:
    """Return a small bar for every count, the highest full; a count above 0 is never left blank."""
    most = max(counts, default=0)
    return "".join(_BARS[-(-8 * count // most)] if most else " " for count in counts)


def parquet_bytes(checks: Sequence[ScenarioCheck]) -> bytes:
    """Return a Parquet file with a row a scenario; policies and evidence have a column a figure."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: dict[type, Any] = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    lists = {
        "rejections": str,
        "max_evacuated_histogram": int,
        "slack_histogram": int,
        "duplicates": str,
        "turned_duplicates": str,
        "overlap": str,
    }
    columns: dict[str, Any] = {}
    rows = [_flat(check) for check in checks]
    for name in rows[0]:
        if name in lists:
            kind = pa.list_(kinds[lists[name]])
        else:
            found = {type(row[name]) for row in rows} - {type(None)}
            kind = kinds[found.pop()] if found else pa.float64()
        columns[name] = pa.array([row[name] for row in rows], type=kind)
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), stream)
    data: bytes = stream.getvalue().to_pybytes()
    return data


def _flat(check: ScenarioCheck) -> dict[str, Any]:
    row = check.to_dict()
    policies, evidence = row.pop("policies"), row.pop("evidence")
    for policy, figures in policies.items():
        row |= {f"{policy}.{name}": value for name, value in figures.items()}
    flat: dict[str, Any] = row | evidence
    return flat


def _families(checks: Sequence[ScenarioCheck]) -> dict[str, list[ScenarioCheck]]:
    families: dict[str, list[ScenarioCheck]] = {}
    for check in checks:
        families.setdefault(check.family, []).append(check)
    return families


def _by_share(checks: Sequence[ScenarioCheck]) -> list[int]:
    """Return fires by the share of people that can be saved."""
    counts = [0] * (_BINS + 1)
    for check in checks:
        for saved, fires in enumerate(check.max_evacuated_histogram):
            counts[saved * _BINS // check.people] += fires
    return counts


def _saved(checks: Sequence[ScenarioCheck], policy: str) -> float | None:
    savable = sum(check.mean_max_evacuated for check in checks)
    saved = sum(check.policies[policy]["evacuated"] for check in checks)
    return saved / savable if savable else None


def _mean(checks: Sequence[ScenarioCheck], figure: Callable[[ScenarioCheck], float | None]) -> float | None:
    values = [value for value in map(figure, checks) if value is not None]
    return sum(values) / len(values) if values else None


def _of(evidence: Sequence[dict[str, Any]], name: str) -> float:
    return float(sum(item[name] for item in evidence)) / len(evidence)


def _ratio(evidence: Sequence[dict[str, Any]], upper: str, lower: str) -> str:
    whole = sum(item[lower] for item in evidence)
    return f"{sum(item[upper] for item in evidence) / whole:.3f}" if whole else ""


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _number(value: float | None, *, digits: int = 1) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _short(policy: str) -> str:
    return policy.removesuffix("-v1").replace("-shortest-path", "")

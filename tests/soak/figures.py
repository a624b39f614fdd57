"""The figures of a soak, for people and as JSON."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import asdict
from typing import Any

from tests.soak.run import Plan, Result


def figures(plan: Plan, result: Result) -> dict[str, Any]:
    """Plain values; recovery times in seconds."""
    recoveries = [outcome.recovery for outcome in result.outcomes]
    return {
        "clean": result.clean,
        "method": str(plan.method),
        "seed": plan.seed,
        "minutes": plan.seconds / 60,
        "seconds": round(result.seconds, 1),
        "records": result.records,
        "rows": result.verdict.rows,
        "amount": result.verdict.amount,
        "commits": result.commits,
        "faults_planned": len(plan.faults),
        "faults_fired": dict(sorted(Counter(outcome.kind for outcome in result.outcomes).items())),
        "recovery_p50": round(statistics.median(recoveries), 1) if recoveries else None,
        "recovery_max": round(max(recoveries), 1) if recoveries else None,
        "duplicates": result.verdict.duplicates,
        "losses": result.verdict.losses,
        "dead_letters": result.verdict.letters,
        "restarts": result.restarts,
        "driver_ends": result.ends,
        "wrong": [*result.failures, *result.verdict.faults],
        "outcomes": [asdict(outcome) for outcome in result.outcomes],
    }


def as_text(values: dict[str, Any]) -> str:
    """The same for people."""
    hidden = {"clean", "wrong", "outcomes"}
    lines = [f"{name.replace('_', ' '):16} {_shown(value)}" for name, value in values.items() if name not in hidden]
    lines += [f"WRONG: {fault}" for fault in values["wrong"]]
    lines.append("verdict          " + ("clean" if values["clean"] else "NOT clean"))
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "none"
    return str(value)

"""Figures of chaos: how many faults of each kind hit what, and what came of it; as JSON, and as a part of a page."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.chaos.outcome import Outcome
from tests.chaos.plan import KINDS, Where

RESULT = Path("docs/results/chaos.json")
PAGE = Path("docs/resume.md")

_BEGIN, _END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
_COLUMNS: dict[Where, str] = {
    "simulation": "simulations",
    "deployment": "deployments, in one process per server",
    "processes": "deployments, all processes and a proxy",
}


def figures(outcomes: Iterable[Outcome], seed: int, command: str) -> dict[str, Any]:
    """Return the figures of trials as JSON values. command: what made them."""
    outcomes = list(outcomes)
    by_kind: dict[str, Counter[str]] = {where: Counter() for where in _COLUMNS}
    strategies: Counter[str] = Counter()
    executors: Counter[str] = Counter()
    for outcome in outcomes:
        by_kind[outcome.trial.where] += outcome.injected
        strategies[outcome.trial.strategy] += outcome.injected.total()
        executors[outcome.trial.executor] += outcome.injected.total()
    return {
        "command": command,
        "seed": seed,
        "machine": f"{platform.system()}, {platform.machine()}",
        "trials": len(outcomes),
        "faults": sum(counts.total() for counts in by_kind.values()),
        "resumed": sum(outcome.resumed for outcome in outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes)),
        "violations": {outcome.trial.name: outcome.violations for outcome in outcomes if outcome.violations},
        "by_kind": {where: {kind: counts[kind] for kind in KINDS if counts[kind]} for where, counts in by_kind.items()},
        "by_strategy": dict(sorted(strategies.items())),
        "by_executor": dict(sorted(executors.items())),
    }


def section(result: Mapping[str, Any]) -> str:
    """Return the part of the page that shows the figures."""
    by_kind, faults = result["by_kind"], result["by_strategy"]
    lines = [
        f"{result['faults']:,} faults hit {result['trials']:,} runs of {len(faults)} strategies, which were resumed "
        f"{result['resumed']:,} times, in {result['seconds'] / 60:.0f} minutes. "
        f"{_violations(result['violations'])} (`{result['command']}`)",
        "",
        "| fault | " + " | ".join(_COLUMNS.values()) + " |",
        "|---" * (1 + len(_COLUMNS)) + "|",
    ]
    for kind in KINDS:
        counts = [by_kind[where].get(kind, 0) for where in _COLUMNS]
        lines += [f"| {kind} | " + " | ".join(map(str, counts)) + " |"] if any(counts) else []
    lines += [
        "| **all** | " + " | ".join(f"**{sum(by_kind[where].values())}**" for where in _COLUMNS) + " |",
        "",
        "By executor: " + ", ".join(f"{name} {count}" for name, count in result["by_executor"].items()) + ".",
    ]
    return "\n".join(lines)


def _violations(violations: Mapping[str, list[str]]) -> str:
    if not violations:
        return "Nothing that must hold was violated."
    return f"{len(violations)} runs violated what must hold: {', '.join(violations)}."


def shown(page: str, result: Mapping[str, Any]) -> str:
    """Return the page with these figures."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    if not after:
        raise ValueError(f"the page has no place for the figures, from {_BEGIN} to {_END}")
    return f"{before}{_BEGIN}\n\n{section(result)}\n\n{_END}{after}"


def write(result: Mapping[str, Any]) -> None:
    """Write the result file, and the figures into the page."""
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    PAGE.write_text(shown(PAGE.read_text(), result))

"""What `benchmarks.prediction` found, as numbers and as a table; needs no Flower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedtempo.record.folder import environment
from fedtempo.record.prediction import Predicted


def page(found: dict[str, list[Predicted]]) -> str:
    """What came out, as Markdown."""
    lines = ["| strategy | measure | simulated | deployed | error |", "|---|---|---|---|---|"]
    for strategy, measures in found.items():
        for each in measures:
            cells = ["-" if value is None else f"{value:.3g}" for value in (each.predicted, each.real)]
            error = "-" if each.error is None else f"{each.error:+.1%}"
            lines.append(f"| {strategy} | {each.name} | {cells[0]} | {cells[1]} | {error} |")
    return "\n".join(lines)


def facts(found: dict[str, list[Predicted]], load: Sequence[float]) -> dict[str, Any]:
    """What came out, as JSON values; load: of the machine, before and after."""
    return {
        "command": "python -m benchmarks.prediction --out runs/prediction --json docs/results/prediction.json",
        "environment": environment(None),
        "load": [round(each, 1) for each in load],
        "strategies": {
            strategy: [{"name": each.name, "predicted": each.predicted, "real": each.real} for each in measures]
            for strategy, measures in found.items()
        },
    }


def read(told: Mapping[str, Any]) -> dict[str, list[Predicted]]:
    """What `facts` made, again."""
    return {strategy: [Predicted(**each) for each in measures] for strategy, measures in told["strategies"].items()}

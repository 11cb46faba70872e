"""What `benchmarks.prediction` found, as numbers and as tables; needs no Flower."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedtempo.record.folder import environment
from fedtempo.record.prediction import Predicted

TARGET = "time to target, s"
BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"
"""Markers in the page; the numbers stand between them."""

QUIET, BUSY = 0.05, 0.15
"""Largest relative errors of the time to target: on a quiet machine, and beside busy processes."""


@dataclass(frozen=True)
class Used:
    """How the machine was used during one run.

    load: load averages (one minute) before and after. processors: share of the processors' time in use by anybody; None
    if it was not measured.
    """

    load: tuple[float, float]
    processors: float | None

    @classmethod
    @contextlib.contextmanager
    def watched(cls) -> Iterator[list[Used]]:
        """Yield a list to which the use during the block is added at its end."""
        used: list[Used] = []
        before, (busy, total) = os.getloadavg()[0], _processor_time()
        yield used
        later_busy, later_total = _processor_time()
        share = (later_busy - busy) / max(1, later_total - total)
        used.append(cls((round(before, 1), round(os.getloadavg()[0], 1)), round(share, 3)))


@dataclass(frozen=True)
class Outcome:
    """A strategy's measures, and how the machine was used. differences: in load, from when the fleet was measured."""

    measures: Sequence[Predicted]
    used: Used
    differences: Sequence[str] = ()

    @property
    def error(self) -> float | None:
        """Relative error of the time to target."""
        return next(each.error for each in self.measures if each.name == TARGET)


@dataclass(frozen=True)
class Compared:
    """All strategies beside `busy` processes that compute all the time. measured: use while the fleet was measured."""

    busy: int
    measured: Used
    outcomes: Mapping[str, Outcome]


def page(told: Mapping[str, Any]) -> str:
    """Return the numbers that `facts` made as Markdown: times to target first, then all measures."""
    found = read(told)
    lines = [
        f"{told['clients']} clients, with epochs of {told['epochs_s'][0]:g} to {told['epochs_s'][1]:g} seconds:",
        "",
        "| busy processes | strategy | simulated, s | deployed, s | error | load when measured | load in the run |",
        "|---|---|---|---|---|---|---|",
    ]
    for compared in found:
        for strategy, outcome in compared.outcomes.items():
            (target,) = (each for each in outcome.measures if each.name == TARGET)
            loads = " | ".join(_use(each) for each in (compared.measured, outcome.used))
            cells = f"{_number(target.predicted)} | {_number(target.real)} | {_error(target)}"
            differs = " (differs)" if outcome.differences else ""
            lines.append(f"| {compared.busy} | {strategy} | {cells} | {loads}{differs} |")
    lines += ["", *_summary(found), ""]
    for compared in found:
        lines += [f"With {compared.busy} busy processes:", "", "| strategy | measure | simulated | deployed | error |"]
        lines += ["|---|---|---|---|---|"]
        for strategy, outcome in compared.outcomes.items():
            for each in outcome.measures:
                if each.name != TARGET:
                    cells = f"{_number(each.predicted)} | {_number(each.real)} | {_error(each)}"
                    lines.append(f"| {strategy} | {each.name} | {cells} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def _summary(found: Sequence[Compared]) -> list[str]:
    lines = []
    for compared in found:
        errors = [outcome.error for outcome in compared.outcomes.values()]
        known = [abs(error) for error in errors if error is not None]
        aim = BUSY if compared.busy else QUIET
        beside = f"{compared.busy} busy processes" if compared.busy else "no busy processes"
        missing = len(errors) - len(known)
        largest = f"{max(known):.1%}" if known else "unknown"
        reached = "reached" if known and not missing and max(known) <= aim else "**not reached**"
        lines.append(
            f"- With {beside}, the largest error of a time to target is {largest}; the aim of {aim:.0%} is {reached}."
        )
        if missing:
            lines.append(f"- With {beside}, {missing} of {len(errors)} targets were not reached in both.")
        if differ := [strategy for strategy, outcome in compared.outcomes.items() if outcome.differences]:
            lines.append(
                f"- **Warning**: with {beside}, the load in the run was not that of the measurement for "
                f"{', '.join(differ)}. The error is then also one of the measurement."
            )
    return lines


def inserted(text: str, told: Mapping[str, Any]) -> str:
    """Return the page with these numbers between its two markers."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{page(told)}\n\n{END}{after}"


def facts(found: Sequence[Compared], clients: int, epochs_s: tuple[float, float]) -> dict[str, Any]:
    """Return what came out as JSON values. epochs_s: of the fastest and the slowest client, seconds."""
    return {
        "command": "python -m benchmarks.prediction --out runs/prediction --json docs/results/prediction.json",
        "environment": environment(None),
        "clients": clients,
        "epochs_s": list(epochs_s),
        "found": [
            {
                "busy": compared.busy,
                "measured": asdict(compared.measured),
                "strategies": {
                    strategy: {
                        "measures": [
                            {"name": each.name, "predicted": each.predicted, "real": each.real}
                            for each in outcome.measures
                        ],
                        "used": asdict(outcome.used),
                        "differences": list(outcome.differences),
                    }
                    for strategy, outcome in compared.outcomes.items()
                },
            }
            for compared in found
        ],
    }


def read(told: Mapping[str, Any]) -> list[Compared]:
    """Return what `facts` made again."""
    return [
        Compared(
            each["busy"],
            _used(each["measured"]),
            {
                strategy: Outcome(
                    [Predicted(**measure) for measure in outcome["measures"]],
                    _used(outcome["used"]),
                    tuple(outcome["differences"]),
                )
                for strategy, outcome in each["strategies"].items()
            },
        )
        for each in told["found"]
    ]


def _used(told: Mapping[str, Any]) -> Used:
    before, after = told["load"]
    return Used((before, after), told["processors"])


def _use(used: Used) -> str:
    share = "" if used.processors is None else f", {used.processors:.0%} of the processors"
    return f"{used.load[0]:.1f} to {used.load[1]:.1f}{share}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _error(measure: Predicted) -> str:
    return "-" if measure.error is None else f"{measure.error:+.1%}"


def _processor_time() -> tuple[int, int]:
    """Return the time in use and all time of all processors since the machine started, in ticks (Linux)."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)

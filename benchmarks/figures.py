"""A measured figure, what it is held to, and how ways of doing the same are timed: they take turns."""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedtempo.parts.machine import usable_cpus


@dataclass(frozen=True)
class Figure:
    """One measurement. value: the median of `runs`; None where it could not be measured, and `missing` says why.

    gate: what it is held to; the value must reach it, or stay below it where `lower` is set. None: reported alone.
    note: what must be known to read it.
    """

    name: str
    value: float | None
    unit: str
    gate: float | None = None
    lower: bool = False
    runs: Sequence[float] = field(default_factory=tuple)
    missing: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return f"missing: {self.missing}"
        if self.gate is None:
            return ""
        good = self.value <= self.gate if self.lower else self.value >= self.gate
        return f"{'at most' if self.lower else 'at least'} {self.gate:g}: {'yes' if good else 'NO'}"


def figure(
    name: str, runs: Sequence[float], unit: str, gate: float | None = None, *, lower: bool = False, note: str = ""
) -> Figure:
    return Figure(name, statistics.median(runs), unit, gate, lower, tuple(runs), note=note)


def interleaved(
    ways: Mapping[str, Callable[[], float | None]], repetitions: int, *, warm_up: bool = True
) -> dict[str, list[float]]:
    """Seconds of each way in each repetition, all ways taking turns; a first turn of all warms up and is dropped.

    A way that measures itself returns its seconds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for repetition in range(0 if warm_up else 1, repetitions + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            own_s = way()
            passed_s = time.perf_counter() - began
            if repetition:
                seconds[name].append(passed_s if own_s is None else own_s)
    return seconds


def ratios(slow: Sequence[float], fast: Sequence[float]) -> list[float]:
    """How many times as fast the second is, turn by turn: neighbours in time saw the same machine."""
    return [a / b for a, b in zip(slow, fast, strict=True)]


def table(figures: Sequence[Figure]) -> str:
    """One line a figure."""
    lines = []
    for each in figures:
        value = "-" if each.value is None else f"{each.value:,.4g}"
        lines.append(
            f"{each.name:32} {value:>10} {each.unit:9} {_spread(each):26} {each.verdict}  {each.note}".rstrip()
        )
    return "\n".join(lines)


def merge(path: Path, figures: Sequence[Figure], load: Sequence[float]) -> None:
    """Put the figures into a file of results, in the place of those of the same names that are there.

    load: load averages before the first and after the last; each figure keeps its own. What another machine measured
    goes.
    """
    machine = {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": usable_cpus(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept = {each["name"]: each for each in content.get("figures", ())} if content.get("machine") == machine else {}
    kept |= {each.name: {**asdict(each), "load": list(load)} for each in figures}
    content = {"machine": machine, "load": list(load), "figures": list(kept.values())}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def markdown(results: Mapping[str, Any]) -> str:
    """A file of results as a page."""
    machine = results["machine"]
    lines = [
        "# Results",
        "",
        f"{machine['processor']}, {machine['cores']} cores, {machine['platform']}, Python {machine['python']}, "
        f"PyTorch {machine['torch']}. A value is the median of its runs. Written by `python -m benchmarks.run`.",
        "",
        "| figure | value | runs | held to | load | |",
        "|---|---|---|---|---|---|",
    ]
    for entry in results["figures"]:
        each = Figure(**{name: value for name, value in entry.items() if name != "load"})
        value = "-" if each.value is None else f"{each.value:,.4g} {each.unit}"
        load = " to ".join(f"{one:.1f}" for one in entry["load"])
        cells = (f"`{each.name}`", value, _spread(each), each.verdict, load, each.note)
        lines.append(f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _spread(figure: Figure) -> str:
    runs = figure.runs
    return f"{min(runs):,.4g} to {max(runs):,.4g} ({len(runs)})" if len(runs) > 1 else ""


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())

"""The page about what goes beyond the papers, computed from `beyond.json`."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedtempo.studies.papers.pages import render
from fedtempo.studies.papers.ranking import Ratio, Times, median, ratio
from fedtempo.studies.papers.standings import seconds

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """A variant in one cell; numbers are medians over seeds.

    is_first: it is the cell's first variant, which the ratio compares with. times: "42.5 s (35 to 80)". mb: megabytes.
    """

    is_first: bool
    times: str
    median_s: float
    ratio: Ratio
    visits: float
    busy: float
    staleness: float | None
    took_part: float
    mb: float
    chosen: Mapping[str, Any]

    @property
    def sooner(self) -> bool:
        return self.ratio.high < 1

    @property
    def later(self) -> bool:
        return self.ratio.low > 1

    @property
    def differs(self) -> bool:
        """Whether the interval of the ratio excludes 1."""
        return self.sooner or self.later


@dataclass(frozen=True)
class CellResults:
    """The variants that were tried in one cell. facts: the cell's entry in `beyond.json`."""

    facts: Facts

    @property
    def title(self) -> str:
        return str(self.facts["title"])

    @cached_property
    def results(self) -> dict[str, Result]:
        """By label, the first variant first."""
        tried: Mapping[str, Facts] = self.facts["tried"]
        first = next(iter(tried))
        base = tried[first]["runs"]["target_s"]
        return {label: _result(facts, base, self.facts["horizon_s"], label == first) for label, facts in tried.items()}

    @property
    def by_time(self) -> list[tuple[str, Result]]:
        """Labels and results, the least median time first."""
        return sorted(self.results.items(), key=lambda item: item[1].median_s)


@dataclass(frozen=True)
class Tally:
    """In how many cells a variant was compared with the first one, and in how many it proved sooner or later."""

    label: str
    cells: int
    sooner: int
    later: int


@dataclass(frozen=True)
class Spread:
    """Mean, lowest and highest value over seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.fmean(values), min(values), max(values))


@dataclass(frozen=True)
class Ending:
    """Accuracy of a variant at the horizon. difference: from the cell's first variant, None for that one."""

    cell: str
    label: str
    accuracy: Spread
    difference: Spread | None
    chosen: Mapping[str, Any]


def beyond_page(facts: Facts, command: str, kept: Mapping[str, str]) -> str:
    """Return the page as Markdown.

    facts: the contents of `beyond.json`. command: what wrote that file. kept: what offers each variant, by label.
    """
    cells = [CellResults(cell) for cell in facts["cells"]]
    return render(
        "beyond",
        command=command,
        first=next(iter(facts["variants"])),
        variants=facts["variants"],
        kept=kept,
        cells=cells,
        tried={label for cell in cells for label in cell.results},
        tallies=[tally for label in facts["variants"] if (tally := _tally(label, cells)).cells],
        ends=[ending for cell in facts["ends"] for ending in _endings(cell)],
    )


def _result(facts: Facts, base: Times, horizon_s: float, is_first: bool) -> Result:
    runs = facts["runs"]
    staleness = [value for value in runs["staleness"] if value is not None]
    return Result(
        is_first=is_first,
        times=_times(runs["target_s"]),
        median_s=median(runs["target_s"]),
        ratio=ratio(runs["target_s"], base, horizon_s),
        visits=statistics.median(runs["visits"]),
        busy=statistics.median(runs["busy"]),
        staleness=statistics.median(staleness) if staleness else None,
        took_part=statistics.median(runs["took_part"]),
        mb=statistics.median(runs["mb"]),
        chosen=facts["chosen"],
    )


def _tally(label: str, cells: Sequence[CellResults]) -> Tally:
    compared = [cell.results[label] for cell in cells if label in cell.results and not cell.results[label].is_first]
    return Tally(
        label, len(compared), sum(result.sooner for result in compared), sum(result.later for result in compared)
    )


def _endings(cell: Facts) -> list[Ending]:
    tried = cell["tried"]
    first = next(iter(tried))
    base = tried[first]["runs"]["late_accuracy"]
    endings = []
    for label, facts in tried.items():
        late = facts["runs"]["late_accuracy"]
        difference = None if label == first else Spread.of([a - b for a, b in zip(late, base, strict=True)])
        endings.append(Ending(cell["title"], label, Spread.of(late), difference, facts["chosen"]))
    return endings


def _times(times: Times) -> str:
    """Return "42.5 s (35 to 80)", with the number of seeds that reached the target if not all did."""
    known = [time for time in times if time is not None]
    if not known:
        return "never"
    middle = median(times)
    words = "never" if middle == float("inf") else f"{seconds(middle)} s"
    some = "" if len(known) == len(times) else f"{len(known)} of {len(times)}: "
    return f"{words} ({some}{seconds(min(known))} to {seconds(max(known))})"

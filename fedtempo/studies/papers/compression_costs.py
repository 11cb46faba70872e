"""What reaching the target costs with each compression: seconds and megabytes, beside those without compression."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fedtempo.runs.config import Config
from fedtempo.runs.foresight import schedule_only
from fedtempo.runs.launch import make_executor
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from fedtempo.runtime.transfers import TransferSizes
from fedtempo.studies.papers.cell_ratios import CellRatios
from fedtempo.studies.papers.contest_results import CellResult, ContestResults, EntrantResult
from fedtempo.studies.papers.ranking import Ratio, Times, median, ratio, shown_differences

_IN_BYTES = {"sooner": "fewer", "later": "more", "": ""}


class Transfers(NamedTuple):
    """Bytes of a visit's download and upload."""

    down: int
    up: int

    @property
    def words(self) -> str:
        return f"{self.down / 1e3:,.0f} kB down and {self.up / 1e3:,.0f} kB up per visit"

    def share_of(self, other: Transfers) -> float:
        """Return these bytes over those of other transfers, both directions together."""
        return sum(self) / sum(other)


def transfers_of(config: Config) -> Transfers:
    """Return the bytes of a visit, as configured."""
    with make_executor(schedule_only(config), build_world(config)) as executor:
        sizes = TransferSizes.of(executor, config.model_bytes, config.server.compression)
    return Transfers(sizes.down, sizes.up)


def megabytes_until(config: Config, seconds: float) -> float:
    """Return the megabytes that a run has sent in both directions by some simulated time.

    The run is repeated without training, so its strategy's schedule must not depend on what is learned.
    """
    _, records, _ = run(schedule_only(config).with_changes({"run.horizon": seconds}, label=config.label), quiet=True)
    return round(float(sum(records.facts["bytes"].values())) / 1e6, 2)


@dataclass(frozen=True)
class Cost:
    """What a compression costs in a cell. The `mb` of its runs are those until the target, or the horizon.

    time, mb: ratios to the cell's first entrant, which does not compress; None for itself. in_time: "sooner", "later"
    or "" (not shown); in_bytes: "fewer", "more" or "".
    """

    label: str
    title: str
    result: EntrantResult
    time: Ratio | None
    in_time: str
    mb: Ratio | None
    in_bytes: str

    @property
    def mb_to_target(self) -> Times:
        """Megabytes until the target, one per seed; None if it was not reached."""
        return [run.mb if time is not None else None for run, time in zip(self.result.runs, self.result.times_s)]

    @property
    def mb_words(self) -> str:
        """Return "1,250 MB (990 to 1,400)": the median, lowest and highest, and how many seeds reached the target if
        not all did."""
        known = [mb for mb in self.mb_to_target if mb is not None]
        if not known:
            return "never"
        middle = "never" if math.isinf(median(self.mb_to_target)) else f"{median(self.mb_to_target):,.0f} MB"
        some = "" if self.result.always_reached else f"{len(known)} of {len(self.result.runs)}: "
        return f"{middle} ({some}{min(known):,.0f} to {max(known):,.0f})"


@dataclass(frozen=True)
class CellCosts:
    """The costs in one cell, without compression first."""

    cell: CellResult
    costs: Sequence[Cost]

    @property
    def none(self) -> EntrantResult:
        """The result without compression."""
        return self.costs[0].result

    @property
    def missed(self) -> list[str]:
        """Titles of compressions with which most runs miss the target."""
        return [cost.title for cost in self.costs if math.isinf(cost.result.median_s)]

    def titles(self, *, in_time: str | None = None, in_bytes: str | None = None) -> list[str]:
        """Return the titles of compressions of which the seeds say this; without compression is left out."""
        return [
            cost.title
            for cost in self.costs[1:]
            if in_time in (None, cost.in_time) and in_bytes in (None, cost.in_bytes)
        ]


def costs_of(results: ContestResults) -> list[CellCosts]:
    """Return the costs in every cell where compressions competed."""
    return [_cell_costs(results, cell) for cell in results.races if len(cell.tried) > 1]


def _cell_costs(results: ContestResults, cell: CellResult) -> CellCosts:
    in_time, base = CellRatios.of(cell), cell.tried[cell.first_label]
    others = [label for label in cell.tried if label != cell.first_label]
    words = shown_differences([_bytes_pair(cell, cell.tried[label], base) for label in others])
    in_bytes = dict(zip(others, words, strict=True))
    costs = []
    for label, result in cell.tried.items():
        first = label == cell.first_label
        mb = None if first else replace(ratio(_mb(result), _mb(base), 0.0), bound=not result.always_reached)
        word = _IN_BYTES[in_bytes.get(label, "")]
        # What a run had sent by its horizon is less than it would have sent by the target.
        known = (result if word == "fewer" else base).always_reached
        title = results.entrants[label].title
        costs.append(Cost(label, title, result, in_time.ratios[label], in_time.shown[label], mb, word if known else ""))
    return CellCosts(cell, costs)


def _mb(result: EntrantResult) -> list[float]:
    return [run.mb for run in result.runs]


def _bytes_pair(
    cell: CellResult, result: EntrantResult, base: EntrantResult
) -> tuple[list[float], list[float], float, float]:
    """Return megabytes as `shown_differences` takes pairs of times.

    Their resolution is the same share of them as one evaluation more is of the times.
    """
    least_s = min(statistics.fmean(_seconds(cell, each)) for each in (result, base))
    least_mb = min(statistics.fmean(_mb(each)) for each in (result, base))
    return _mb(result), _mb(base), 0.0, least_mb * cell.resolution_s / least_s


def _seconds(cell: CellResult, result: EntrantResult) -> list[float]:
    return [cell.horizon_s if time is None else time for time in result.times_s]

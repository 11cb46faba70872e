"""Reproduces the papers' figures and tables from Python, with the printed beside the measured numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from fedtempo.errors import ConfigError, FedtempoError, nearest
from fedtempo.record import default_name, write_json
from fedtempo.record.folder import environment, unused
from fedtempo.report.rendering import notebook_html
from fedtempo.studies.compare import new_folder
from fedtempo.studies.papers.freshness import after_code_change, is_stale
from fedtempo.studies.papers.output import RESULT, in_place_of, read_result, run_exhibit
from fedtempo.studies.papers.reproduction import SCALES, Request, Scale
from fedtempo.studies.papers.verdicts import Row, Verdict, overall_verdict
from fedtempo.studies.papers.witnesses import (
    add_bits,
    changed,
    failed,
    known_here,
    read_witnesses,
    rerun,
    strategies_of,
)
from fedtempo.studies.tuning.trials import FinishedRun, shared_workers

if TYPE_CHECKING:
    from pandas import DataFrame

_RUNS = Path("runs")


@dataclass(frozen=True, repr=False)
class Reproduction:
    """A reproduced figure or table. rows: printed and measured numbers. folder: where its pictures are."""

    name: str
    title: str
    rows: Sequence[Row]
    folder: Path

    @property
    def verdict(self) -> Verdict | None:
        """ "reached", "same direction", "not shown" or "not reached"; None if no row is judged."""
        return overall_verdict(self.rows)

    @property
    def pictures(self) -> list[Path]:
        """Paths of its pictures, as PNG."""
        return sorted(self.folder.glob("*.png"))

    def table(self) -> DataFrame:
        """Return one row per quantity: what the paper prints, what was measured, their ratio, a verdict, a remark."""
        from fedtempo.report import frames

        return frames.frame([asdict(row) for row in self.rows])

    def __str__(self) -> str:
        lines = [f"  {row.quantity}: {row.measured} (paper: {row.paper})" for row in self.rows]
        return "\n".join([self.title, *lines, f"{self.name}: {self.verdict}" if self.verdict else ""]).rstrip()

    def __repr__(self) -> str:
        return f"<Reproduction {self.name}: {self.verdict or 'no verdict'}>"

    def _repr_html_(self) -> str:
        columns = ("quantity", "paper", "measured", "ratio", "verdict")
        rows = [[str(getattr(row, column) or "") for column in columns] for row in self.rows]
        return notebook_html(self.title, head=columns, rows=rows)


def reproducible() -> dict[str, str]:
    """Return the names that `reproduce` takes, with titles: {"fedhusky/fig5": "accuracy against time, ...", ...}."""
    from fedtempo.studies.papers.registry import EXHIBITS

    return {name: exhibit.title for name, exhibit in EXHIBITS.items()}


def index_results(folder: Path | str) -> Path:
    """Write index.md over all reproductions below a folder; return its path (`fedtempo reproduce --index`).

    folder: as `results` of `reproduce`. Raises ConfigError if it has no results or one cannot be read.
    """
    from fedtempo.studies.papers.index import write_index

    return write_index(Path(folder))


def reproduce_all(
    results: Path | str, *, scale: Scale = "medium", workers: int = 2, ray: str | None = None
) -> Iterator[Reproduction]:
    """Reproduce everything whose result in a folder is stale or missing; yield each (`fedtempo reproduce all`).

    A stale result is replaced by one with the same scale and data. scale: of those that are missing. workers, ray: as
    of `reproduce`. May be interrupted, and continues with the next that is not up to date. Writes index.md at the end.
    Raises ConfigError at the end, with the reasons, if some could not be run.
    """
    from fedtempo.studies.papers.registry import EXHIBITS

    folder, errors = Path(results), []
    finished: dict[str, dict[str, FinishedRun]] = {}  # of one paper, whose figures and tables share runs
    for name in EXHIBITS:
        before = read_result(folder / name / RESULT)
        if before and not is_stale(before):
            continue
        paper = name.partition("/")[0]
        finished = {paper: finished.get(paper, {})}
        try:
            yield _reproduce(
                name,
                None,
                before.get("scale", scale),
                data_of(before),
                results=folder,
                finished=finished[paper],
                workers=workers,
                ray=ray,
            )
        except FedtempoError as error:
            errors.append(f"{name}: {error}")
    index_results(folder)
    if errors:
        raise ConfigError("; ".join(errors))


class Check(NamedTuple):
    """A result whose witnesses ran again. runs: their number.

    changed: labels of those with other bits than before, and why others can no longer run. new: whether the result is
    up to date and the bits are the first of this processor.
    """

    name: str
    runs: int
    changed: Sequence[str]
    new: bool = False


def check_all(results: Path | str) -> Iterator[Check]:
    """Run the witnesses of stale results in a folder; yield what came out (`fedtempo reproduce all --check`).

    A result whose witnesses all have the same bits as before counts as up to date from then on. Results of other
    settings or studies than today's cannot be checked so, only reproduced. Bits depend on the processor, too: so the
    witnesses of a result that is up to date also run, if their bits on this processor are not yet known, and the bits
    are kept for later checks. Writes index.md at the end.
    """
    from fedtempo.studies.papers.registry import EXHIBITS

    folder = Path(results)
    with shared_workers():
        for name in EXHIBITS:
            result = read_result(folder / name / RESULT)
            witnesses = read_witnesses(folder / name)
            now = after_code_change(result, strategies_of(witnesses))
            new = now is None and not is_stale(result) and not known_here(witnesses)
            if not witnesses or not (new or now):
                continue
            found = rerun(witnesses)
            differing = failed(witnesses, found) + ([] if new else changed(witnesses, found))
            if not differing:
                add_bits(folder / name, witnesses, found)
            if not differing and not new:
                result["decided_by"] = now
                result["checked"] = {"runs": len(witnesses), "environment": environment(None)}
                write_json(folder / name / RESULT, result)
            yield Check(name, len(witnesses), differing, new)
    index_results(folder)


def data_of(result: Mapping[str, Any]) -> str | None:
    """Return the source that replaced the paper's data in a `result.json`, None if none did."""
    if "data" in result:
        return result["data"]  # type: ignore[no-any-return]
    return str(result.get("command", "")).partition("--data ")[2] or None  # results of version 1 have only the command


def reproduce(
    what: str,
    folder: Path | str | None = None,
    *,
    scale: Scale | None = None,
    data: str | None = None,
    results: Path | str | None = None,
    cells: Collection[str] | None = None,
    workers: int = 2,
    ray: str | None = None,
) -> Reproduction:
    """Reproduce a paper's figure or table (`fedtempo reproduce`).

    folder: a new folder for pictures and numbers (default: under runs/). scale: "small" (about a minute; with fewer
    than five seeds there is no verdict), "medium", or "full", the paper's setting. data: a source that replaces the
    paper's. results: a folder of results, in which this one replaces an earlier one; not with `folder`. Given neither
    scale nor data, it has those of the earlier one; if there is none, the scale is small. cells: of a
    contest, the cells that may run; others keep what is up to date of the earlier result, or are left out. workers:
    number of worker processes, which run in parallel; a script must guard its start with `if __name__ == "__main__"`.
    ray: address of a Ray cluster that runs instead of them, or "local" for a new one on this machine. Raises
    ConfigError for an unknown name or scale, a folder that is not empty, fewer than one worker, or a cluster that
    cannot be reached.
    """
    if workers < 1:
        raise ConfigError(f"workers = {workers}: must be at least 1")
    return _reproduce(what, folder, scale, data, results=results, cells=cells, workers=workers, ray=ray)


def _reproduce(
    what: str,
    folder: Path | str | None,
    scale: Scale | None,
    data: str | None,
    *,
    results: Path | str | None,
    finished: dict[str, FinishedRun] | None = None,
    cells: Collection[str] | None = None,
    workers: int = 2,
    ray: str | None = None,
) -> Reproduction:
    from fedtempo.studies.papers.contest import ContestRequest
    from fedtempo.studies.papers.registry import EXHIBITS

    if what not in EXHIBITS:
        raise ConfigError(f"reproduce {what}: no such figure or table{nearest(what, EXHIBITS)}")
    if folder is not None and results is not None:
        raise ConfigError("out and results both say where the result goes: give one of them")
    exhibit = EXHIBITS[what]
    if cells is not None and exhibit.page is None:
        raise ConfigError(f"reproduce {what}: only contests have cells; remove {', '.join(cells)}")
    if results is not None and scale is None and data is None:
        before = read_result(Path(results) / what / RESULT)
        scale, data = before.get("scale"), data_of(before)
    scale = scale or "small"
    if scale not in get_args(Scale):
        raise ConfigError(f"scale {scale}: must be one of {', '.join(SCALES)}")
    with contextlib.ExitStack() as stack:
        if results is not None:
            target = Path(results) / what
            writing_to = stack.enter_context(in_place_of(target, exhibit))
        else:
            name = default_name(what.replace("/", "-"), 0).removesuffix("-seed0")
            target = writing_to = new_folder(unused(_RUNS / name) if folder is None else Path(folder))
        request = Request(scale, writing_to, data)
        if exhibit.page is not None:
            earlier = None if results is None else target
            asked = None if cells is None else frozenset(cells)
            request = ContestRequest(scale, writing_to, data, cells=asked, earlier=earlier)
        title, rows = run_exhibit(exhibit, request, finished, workers, ray)
    return Reproduction(what, title, rows, target)

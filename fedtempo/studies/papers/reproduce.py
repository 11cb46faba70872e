"""Figures and tables of papers, from Python: what there is, and each with its numbers beside the measured ones."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from fedtempo.errors import ConfigError, nearest
from fedtempo.record import default_name
from fedtempo.record.folder import unused
from fedtempo.report.rendering import notebook_html
from fedtempo.studies.compare import new_folder
from fedtempo.studies.papers.output import in_place_of, run_exhibit
from fedtempo.studies.papers.reproduction import SCALES, Asked, Row, Scale, Verdict, overall

if TYPE_CHECKING:
    from pandas import DataFrame

_RUNS = Path("runs")


@dataclass(frozen=True, repr=False)
class Reproduction:
    """A figure or table that was run. rows: printed numbers and measured ones; folder: where its pictures lie."""

    name: str
    title: str
    rows: Sequence[Row]
    folder: Path

    @property
    def verdict(self) -> Verdict | None:
        """ "reached", "same direction" or "not reached"; None where the paper prints nothing that could be reached."""
        return overall(self.rows)

    @property
    def pictures(self) -> list[Path]:
        """Its pictures, PNG."""
        return sorted(self.folder.glob("*.png"))

    def table(self) -> DataFrame:
        """A row a quantity: what the paper prints, what was measured, their ratio, a verdict, a remark."""
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
    """What `reproduce` takes, and what each is: {"fedhusky/fig5": "accuracy against time, four strategies", ...}."""
    from fedtempo.studies.papers.registry import EXHIBITS

    return {name: experiment.title for name, experiment in EXHIBITS.items()}


def reproduce(
    what: str,
    folder: Path | str | None = None,
    *,
    scale: Scale = "small",
    data: str | None = None,
    results: Path | str | None = None,
) -> Reproduction:
    """Run a paper's figure or table (`fedtempo reproduce`).

    folder: a new one for pictures and numbers, a name under runs/ where None. scale: "small" (a minute or so),
    "medium", or "full", the paper's setting. data: a source in place of the paper's. results: instead of a new folder,
    keep the result below this one, in place of an earlier one. It trains in worker processes, so that a script guards
    its start with `if __name__ == "__main__"`. Raises ConfigError for what there is not, or a folder that holds
    something.
    """
    from fedtempo.studies.papers.registry import EXHIBITS

    if what not in EXHIBITS:
        raise ConfigError(f"reproduce {what}: no such experiment{nearest(what, EXHIBITS)}")
    if scale not in get_args(Scale):
        raise ConfigError(f"scale {scale}: it can be {', '.join(SCALES)}")
    if folder is not None and results is not None:
        raise ConfigError("out and results both say where the result goes: give one of them")
    experiment = EXHIBITS[what]
    with contextlib.ExitStack() as stack:
        if results is not None:
            kept = Path(results) / what
            place = stack.enter_context(in_place_of(kept, experiment))
        else:
            name = default_name(what.replace("/", "-"), 0).removesuffix("-seed0")
            kept = place = new_folder(unused(_RUNS / name) if folder is None else Path(folder))
        title, rows = run_exhibit(experiment, Asked(scale, place, data))
    return Reproduction(what, title, rows, kept)

"""What reproducing a figure leaves: its picture, and a table with the paper's numbers beside the measured ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from fedtempo.config import Config, load
from fedtempo.record import write_json

Scale = Literal["small", "full"]
SETTINGS = Path(__file__).parent / "settings"


class Verdict(StrEnum):
    """What a measured value says of a printed one."""

    REACHED = "reached"
    DIRECTION = "same direction"
    NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Row:
    """One quantity: what the paper prints, what was measured (spread included), and what is to be said about it.

    ratio: measured over printed. verdict: None where the paper prints nothing that could be reached.
    """

    quantity: str
    paper: str
    measured: str
    remark: str = ""
    ratio: str = ""
    verdict: Verdict | None = None


def number(
    quantity: str,
    paper: float,
    measured: Sequence[float],
    *,
    within: float,
    direction: bool = False,
    digits: int = 1,
    unit: str = "",
    remark: str = "",
) -> Row:
    """A printed number against measured ones, one a seed.

    Reached if their mean is off by at most `within`, a share of the printed number; if not, in the same direction where
    `direction` says so: the paper's order of things holds, with other factors.
    """
    mean = sum(measured) / len(measured)
    verdict = Verdict.REACHED if abs(mean - paper) <= within * abs(paper) else _less(direction)
    ratio = f"{mean / paper:.2f}" if paper else ""
    return Row(quantity, f"{paper:.{digits}f}{unit}", spread(measured, digits, unit), remark, ratio, verdict)


def claim(quantity: str, paper: str, measured: str, holds: bool, remark: str = "") -> Row:
    """Something that the paper says without a number, and whether it holds here."""
    return Row(quantity, paper, measured, remark, "", Verdict.REACHED if holds else Verdict.NOT_REACHED)


def _less(direction: bool) -> Verdict:
    return Verdict.DIRECTION if direction else Verdict.NOT_REACHED


def overall(rows: Sequence[Row]) -> Verdict | None:
    """The verdict on a figure: that of its rows if they agree; in the same direction where some are, and some not."""
    verdicts = {row.verdict for row in rows if row.verdict is not None}
    if len(verdicts) <= 1:
        return next(iter(verdicts), None)
    return Verdict.DIRECTION


@dataclass(frozen=True)
class Experiment:
    """A figure or table that can be run: `reproduce(scale, folder)` writes pictures into `folder`, returns rows."""

    name: str
    title: str
    reproduce: Callable[[Scale, Path], Sequence[Row]]
    minutes: tuple[float, float]
    """Roughly what the small and the full scale take on two cores."""


def settings(name: str, sets: Sequence[str] = ()) -> Config:
    """A configuration of an experiment."""
    return load(SETTINGS / f"{name}.toml", sets)


def write_rows(experiment: Experiment, scale: Scale, rows: Sequence[Row], folder: Path) -> None:
    """`result.json` and `result.md`."""
    facts = {"experiment": experiment.name, "title": experiment.title, "scale": scale, "verdict": overall(rows)}
    write_json(folder / "result.json", {**facts, "rows": [asdict(row) for row in rows]})
    (folder / "result.md").write_text(markdown(rows), encoding="utf-8")


def markdown(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table."""
    lines = ["| quantity | paper | measured | ratio | verdict | remark |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = (row.quantity, row.paper, row.measured, row.ratio, row.verdict or "", row.remark)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def spread(values: Sequence[float], digits: int = 1, unit: str = "") -> str:
    """Mean and, where there are several, lowest and highest: "63.4 % (61.0 to 65.2)"."""
    mean = sum(values) / len(values)
    text = f"{mean:.{digits}f}{unit}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"

"""What reproducing a figure leaves: its picture, and a table with the paper's numbers beside the measured ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from fedtempo.config import Config, load
from fedtempo.record import write_json

Scale = Literal["small", "full"]
SETTINGS = Path(__file__).parent / "settings"


@dataclass(frozen=True)
class Row:
    """One quantity: what the paper prints, what was measured (spread included), and what is to be said about it."""

    quantity: str
    paper: str
    measured: str
    remark: str = ""


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
    facts = {"experiment": experiment.name, "title": experiment.title, "scale": scale}
    write_json(folder / "result.json", {**facts, "rows": [asdict(row) for row in rows]})
    (folder / "result.md").write_text(markdown(rows), encoding="utf-8")


def markdown(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table."""
    lines = ["| quantity | paper | measured | remark |", "|---|---|---|---|"]
    lines += [f"| {row.quantity} | {row.paper} | {row.measured} | {row.remark} |" for row in rows]
    return "\n".join(lines) + "\n"


def spread(values: Sequence[float], digits: int = 1, unit: str = "") -> str:
    """Mean and, where there are several, lowest and highest: "63.4 % (61.0 to 65.2)"."""
    mean = sum(values) / len(values)
    text = f"{mean:.{digits}f}{unit}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"

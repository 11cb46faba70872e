"""What reproducing a figure leaves: its picture, and a table with the paper's numbers beside the measured ones."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as component

from fedtempo.config import Config, assignment, flat, parse
from fedtempo.fields import STRICT, Doc, Positive
from fedtempo.parts import construct
from fedtempo.record import write_json

Scale = Literal["small", "medium", "full"]
SCALES: tuple[Scale, ...] = ("small", "medium", "full")
SETTINGS = Path(__file__).parent / "settings"
Seeds = Annotated[tuple[int, ...], Field(strict=False, min_length=1)]


@component(frozen=True, config=STRICT)
class Budget:
    """What a study of trained competitors may cost: a table `[study.<scale>]` of the settings."""

    seeds: Annotated[Seeds, Doc("of the comparison")]
    tuning_seeds: Annotated[Seeds, Doc("of the tuning; others than those of the comparison")]
    lr: Annotated[
        tuple[float, ...], Field(strict=False, min_length=1), Doc("learning rates that are tried for every competitor")
    ]
    tuning_horizon: Annotated[Positive | None, Doc("seconds after which a run of the tuning ends")] = None


@dataclass(frozen=True)
class Asked:
    """What was asked for. folder: where results go. data: a source in place of the paper's own, if any."""

    scale: Scale
    folder: Path
    data: str | None = None

    def settings(self, paper: str, sets: Sequence[str] = ()) -> Config:
        """The paper's configuration at this scale, which is also left in the folder, to be run by itself."""
        tables = _tables(paper)
        changes: dict[str, Any] = {}
        for key, value in tables["scale"].get(self.scale, {}).items():
            changes |= flat(key, value)
        if self.data is not None:
            changes["data.source"] = self.data
        given = {name: table for name, table in tables.items() if name not in ("scale", "study")}
        config = parse(given).with_changes(changes | dict(map(assignment, sets)))
        (self.folder / f"{paper}.toml").write_text(config.dump(), encoding="utf-8")
        return config

    def budget(self, paper: str) -> Budget:
        """What studies of this paper may cost at this scale."""
        return construct(Budget, _tables(paper)["study"][self.scale], f"study.{self.scale}")


def _tables(paper: str) -> dict[str, Any]:
    return tomllib.loads((SETTINGS / f"{paper}.toml").read_text(encoding="utf-8"))


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
    near = abs(mean - paper) <= within * abs(paper)
    verdict = Verdict.REACHED if near else Verdict.DIRECTION if direction else Verdict.NOT_REACHED
    ratio = f"{mean / paper:.2f}" if paper else ""
    return Row(quantity, f"{paper:.{digits}f}{unit}", spread(measured, digits, unit), remark, ratio, verdict)


def claim(quantity: str, paper: str, measured: str, holds: bool, remark: str = "") -> Row:
    """Something that the paper says without a number, and whether it holds here."""
    return Row(quantity, paper, measured, remark, "", Verdict.REACHED if holds else Verdict.NOT_REACHED)


def overall(rows: Sequence[Row]) -> Verdict | None:
    """The verdict on a figure: that of its rows if they agree; in the same direction where some are, and some not."""
    verdicts = {row.verdict for row in rows if row.verdict is not None}
    if len(verdicts) <= 1:
        return next(iter(verdicts), None)
    return Verdict.DIRECTION


@dataclass(frozen=True)
class Experiment:
    """A figure or table that can be run: `reproduce(asked)` writes pictures into the folder, returns rows.

    data: what the paper has, in words. minutes: roughly what the scales take on two cores.
    """

    name: str
    title: str
    reproduce: Callable[[Asked], Sequence[Row]]
    minutes: tuple[float, float, float]
    data: str = ""

    def titled(self, asked: Asked) -> str:
        """The title, with what was put in place of the paper's data or size."""
        instead = f", on {asked.data} in place of the paper's {self.data}" if asked.data else ""
        return f"{self.name}: {self.title} ({asked.scale} scale{instead})"


def write_rows(experiment: Experiment, asked: Asked, rows: Sequence[Row]) -> None:
    """`result.json` and `result.md`."""
    facts = {
        "experiment": experiment.name,
        "title": experiment.titled(asked),
        "scale": asked.scale,
        "data": measured_on(asked.folder),
        "verdict": overall(rows),
    }
    write_json(asked.folder / "result.json", {**facts, "rows": [asdict(row) for row in rows]})
    pictures = "\n".join(f"![{path.stem}]({path.name})" for path in sorted(asked.folder.glob("*.png")))
    page = f"# {experiment.titled(asked)}\n\n{pictures}\n\n{markdown(rows)}"
    (asked.folder / "result.md").write_text(page, encoding="utf-8")


def measured_on(folder: Path) -> str | None:
    """The source of the data that the configurations left in a folder name; None where there are none."""
    sources = {tomllib.loads(path.read_text(encoding="utf-8"))["data"]["source"] for path in folder.glob("*.toml")}
    return ", ".join(sorted(sources)) or None


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


def drawn(picture: Callable[..., None], folder: Path, stem: str, *arguments: Any, **named: Any) -> None:
    """The same picture as PNG and as SVG."""
    for suffix in ("png", "svg"):
        picture(*arguments, folder / f"{stem}.{suffix}", **named)

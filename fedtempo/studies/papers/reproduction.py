"""What reproducing a figure leaves: its picture, and a table with the paper's numbers beside the measured ones."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as component

from fedtempo.parts.construct import construct
from fedtempo.parts.fields import STRICT, Doc, Positive
from fedtempo.runs.config import Config, assignment, flat, parse

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
    """What was asked for. folder: where results go. data: a source in place of the paper's own, if any.

    earlier_s: filled with the processor time, seconds, of what was there from an earlier try.
    """

    scale: Scale
    folder: Path
    data: str | None = None
    earlier_s: list[float] = field(default_factory=list)

    def settings(self, paper: str, sets: Sequence[str] = ()) -> Config:
        """The paper's configuration at this scale."""
        tables = _tables(paper)
        changes: dict[str, Any] = {}
        for key, value in tables["scale"].get(self.scale, {}).items():
            changes |= flat(key, value)
        if self.data is not None:
            changes["data.source"] = self.data
        given = {name: table for name, table in tables.items() if name not in _NOT_OF_RUNS}
        return parse(given).with_changes(changes | dict(map(assignment, sets)))

    def table(self, paper: str, name: str) -> dict[str, Any]:
        """A table of the paper's settings that is no part of a run's configuration; empty where there is none."""
        table: dict[str, Any] = _tables(paper).get(name, {})
        return table

    def budget(self, paper: str, of: str = "study") -> Budget:
        """What studies of this paper may cost at this scale: the table `[<of>.<scale>]` of its settings."""
        return construct(Budget, _tables(paper)[of][self.scale], f"{of}.{self.scale}")

    def leave(self, config: Config, stem: str) -> Config:
        """Put a configuration that was used into the folder, to be run by itself; returns it."""
        (self.folder / f"{stem}.toml").write_text(config.dump(), encoding="utf-8")
        return config


_NOT_OF_RUNS = frozenset(
    "scale study dear recurrent variants fleets sets league at cells ends beyond".split()  # noqa: SIM905  shorter
)
"""Tables of the settings that are no part of a run's configuration."""


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
    judged: bool = True,
) -> Row:
    """A printed number against measured ones, one a seed.

    Reached if their mean is off by at most `within`, a share of the printed number; if not, in the same direction where
    `direction` says so: the paper's order of things holds, with other factors. judged: False for a number that stands
    beside the printed one for comparison only.
    """
    mean = sum(measured) / len(measured)
    near = abs(mean - paper) <= within * abs(paper)
    verdict = Verdict.REACHED if near else Verdict.DIRECTION if direction else Verdict.NOT_REACHED
    ratio = f"{mean / paper:.2f}" if paper else ""
    printed = f"{paper:.{digits}f}{unit}"
    return Row(quantity, printed, spread(measured, digits, unit), remark, ratio, verdict if judged else None)


def claim(quantity: str, paper: str, measured: str, holds: bool, remark: str = "") -> Row:
    """Something that the paper says without a number, and whether it holds here."""
    return Row(quantity, paper, measured, remark, "", Verdict.REACHED if holds else Verdict.NOT_REACHED)


def overall(rows: Sequence[Row]) -> Verdict | None:
    """The verdict on a figure: reached where all its rows are; in the same direction where at least half of them are
    reached or in the same direction; None where no row says anything.
    """
    verdicts = [row.verdict for row in rows if row.verdict is not None]
    if not verdicts:
        return None
    if set(verdicts) == {Verdict.REACHED}:
        return Verdict.REACHED
    kept = sum(verdict != Verdict.NOT_REACHED for verdict in verdicts)
    return Verdict.DIRECTION if 2 * kept >= len(verdicts) else Verdict.NOT_REACHED


_NAMES = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "ham10000": "HAM10000",
    "emnist": "EMNIST",
    "femnist": "FEMNIST",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "shakespeare": "Shakespeare",
}


def named(sources: Sequence[str]) -> str:
    """Sources of data as papers write them."""
    return ", ".join(_NAMES.get(source, source) for source in sources)


@dataclass(frozen=True)
class Exhibit:
    """A figure or table that can be run: `reproduce(asked)` writes pictures into the folder, returns rows.

    minutes: roughly what the scales take on two cores. data: the sources that the paper has, none where nothing depends
    on data. printed: what it is in the paper; empty for an experiment that no paper has.
    """

    name: str
    title: str
    reproduce: Callable[[Asked], Sequence[Row]]
    minutes: tuple[float, float, float]
    data: tuple[str, ...] = ()
    printed: str = ""

    def titled(self, scale: Scale, measured_on: Sequence[str] = ()) -> str:
        """The title, with the scale and the data, and whose place these take where they are not the paper's."""
        on = ""
        if self.data and measured_on:
            instead = set(measured_on) - set(self.data)
            on = f", on {named(measured_on)}" + (f" in place of the paper's {named(self.data)}" if instead else "")
        return f"{self.name}: {self.title} ({scale} scale{on})"


def spread(values: Sequence[float], digits: int = 1, unit: str = "") -> str:
    """Mean and, where there are several, lowest and highest: "63.4 % (61.0 to 65.2)"."""
    mean = sum(values) / len(values)
    text = f"{mean:.{digits}f}{unit}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def drawn(picture: Callable[..., None], folder: Path, stem: str, *arguments: Any, **options: Any) -> None:
    """The same picture as PNG and as SVG."""
    for suffix in ("png", "svg"):
        picture(*arguments, folder / f"{stem}.{suffix}", **options)

"""Parts of a reproduced figure or table: its settings at a scale, and what can be reproduced."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as component

from fedtempo.parts.construct import construct
from fedtempo.parts.fields import STRICT, Doc, Positive
from fedtempo.runs.config import Config, assignment, flat, parse
from fedtempo.studies.papers.verdicts import Row

Scale = Literal["small", "medium", "full"]
SCALES: tuple[Scale, ...] = ("small", "medium", "full")
SETTINGS = Path(__file__).parent / "settings"
Seeds = Annotated[tuple[int, ...], Field(strict=False, min_length=1)]


@component(frozen=True, config=STRICT)
class Budget:
    """Seeds and learning rates of a study of trained competitors: a table `[study.<scale>]` of the settings."""

    seeds: Annotated[Seeds, Doc("seeds of the comparison")]
    tuning_seeds: Annotated[Seeds, Doc("seeds of the tuning, different from those of the comparison")]
    lr: Annotated[
        tuple[float, ...], Field(strict=False, min_length=1), Doc("learning rates to try for every competitor")
    ]
    tuning_horizon: Annotated[Positive | None, Doc("seconds after which a tuning run ends (default: the horizon)")] = (
        None
    )


@dataclass(frozen=True)
class Request:
    """What to reproduce with. folder: where results go. data: a source that replaces the paper's own, if any.

    earlier_s: to be filled with the processor time (s) of results that an interrupted earlier attempt computed.
    settings_read: filled with the stems of the files of settings that were read.
    """

    scale: Scale
    folder: Path
    data: str | None = None
    earlier_s: list[float] = field(default_factory=list)
    settings_read: set[str] = field(default_factory=set)

    def settings(self, paper: str, sets: Sequence[str] = ()) -> Config:
        """Return the paper's configuration at this scale, with `key=value` assignments on top."""
        tables = self._tables(paper)
        changes = flattened(tables["scale"].get(self.scale, {}))
        if self.data is not None:
            changes["data.source"] = self.data
        given = {name: table for name, table in tables.items() if name not in _NOT_OF_RUNS}
        return parse(given).with_changes(changes | dict(map(assignment, sets)))

    def table(self, paper: str, name: str) -> dict[str, Any]:
        """Return a table of the paper's settings that does not belong to a run's configuration; empty if missing."""
        table: dict[str, Any] = self._tables(paper).get(name, {})
        return table

    def budget(self, paper: str, of: str = "study") -> Budget:
        """Return the budget of this paper's studies at this scale, the table `[<of>.<scale>]` of its settings."""
        return construct(Budget, self._tables(paper)[of][self.scale], f"{of}.{self.scale}")

    def save_comparison(self, stem: str, base: Config, chosen: Mapping[str, Mapping[str, Any]]) -> None:
        """Write a configuration for `fedtempo compare` as `<stem>.toml`.

        chosen: the tuned settings of each competitor, empty for one that was not tuned.
        """
        compared = parse({**base.given, "compare": {label: base.variants.get(label, {}) for label in chosen}})
        changes = {
            f"compare.{label}.{key}": value for label, settings in chosen.items() for key, value in settings.items()
        }
        self.save_config(compared.with_changes(changes), stem)

    def save_config(self, config: Config, stem: str) -> Config:
        """Write a configuration to the folder as `<stem>.toml`, which can be run by itself; return it."""
        (self.folder / f"{stem}.toml").write_text(config.dump(), encoding="utf-8")
        return config

    def _tables(self, paper: str) -> dict[str, Any]:
        self.settings_read.add(paper)
        return tomllib.loads((SETTINGS / f"{paper}.toml").read_text(encoding="utf-8"))


_NOT_OF_RUNS = ("scale", "study", "dear", "dearer", "recurrent", "variants", "contest", "entrants", "cells", "parts")
"""Tables of the settings that do not belong to a run's configuration."""


def flattened(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of the settings as changes of a configuration, {dotted key: value}."""
    return {name: item for key, value in table.items() for name, item in flat(key, value).items()}


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


def source_names(sources: Sequence[str]) -> str:
    """Return data sources as papers write them, "CIFAR-10, Fashion-MNIST"."""
    return ", ".join(_NAMES.get(source, source) for source in sources)


@dataclass(frozen=True)
class Exhibit:
    """A figure or table that can be reproduced: `reproduce(request)` writes pictures into the folder and returns rows.

    minutes: roughly what each scale takes on two cores. data: the paper's data sources, empty if nothing depends on
    data. printed: what it is called in the paper; empty for an experiment that no paper has. page: of a contest, a page
    of its own besides the result's, from the results and the command that made them.
    """

    name: str
    title: str
    reproduce: Callable[[Request], Sequence[Row]]
    minutes: tuple[float, float, float]
    data: tuple[str, ...] = ()
    printed: str = ""
    page: Callable[[Any, str], str] | None = None

    @property
    def stem(self) -> str:
        """The last part of the name, which its page and file of results are named after."""
        return self.name.rpartition("/")[2]

    def full_title(self, scale: Scale, measured_on: Sequence[str] = ()) -> str:
        """Return the title with the scale and the data, and the paper's data if others replaced them."""
        on = ""
        if self.data and measured_on:
            replaced = set(measured_on) - set(self.data)
            on = f", on {source_names(measured_on)}" + (
                f" in place of the paper's {source_names(self.data)}" if replaced else ""
            )
        return f"{self.name}: {self.title} ({scale} scale{on})"


def save_picture(draw: Callable[..., None], folder: Path, stem: str, *arguments: Any, **options: Any) -> None:
    """Draw a picture with `draw(*arguments, path, **options)`, as PNG and as SVG."""
    for suffix in ("png", "svg"):
        draw(*arguments, folder / f"{stem}.{suffix}", **options)

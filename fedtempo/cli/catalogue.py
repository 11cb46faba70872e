"""What there is, by name, and what each field of it means: `fedtempo list` and `fedtempo describe`."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import tomli_w
from annotated_types import Ge, Gt, Interval, Le, Lt
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typing_extensions import Doc

from fedtempo.data.settings import DataSettings
from fedtempo.data.sources import PREFIXES, SOURCES
from fedtempo.deploy.client.settings import ClientData, ClientSettings, Limits
from fedtempo.errors import ConfigError, nearest
from fedtempo.fleet.compute import Compute
from fedtempo.fleet.faults import Faults
from fedtempo.fleet.fleet import FleetPlan
from fedtempo.fleet.presets import PRESETS
from fedtempo.learning.privacy import Privacy
from fedtempo.learning.training import Training
from fedtempo.parts.plugins import imported, installed
from fedtempo.runs.config import REGISTRIES
from fedtempo.runs.deploy_settings import DeploySettings
from fedtempo.runtime.executors.settings import ExecutorSettings
from fedtempo.runtime.run_settings import RunSettings
from fedtempo.runtime.server import ServerSettings

_OF_TRAINING: dict[str, Mapping[str, Any]] = {"losses": {}, "optimizers": {}}
"""Kinds of which our own are described under [training]."""

SECTIONS: dict[str, Any] = {
    "[run]": RunSettings,
    "[data]": DataSettings,
    "[training]": Training,
    "[fleet]": FleetPlan,
    "[fleet.compute]": Compute,
    "[fleet.faults]": Faults,
    "[executor]": ExecutorSettings,
    "[server]": ServerSettings,
    "[server.privacy]": Privacy,
    "[deploy]": DeploySettings,
    "client.toml": ClientSettings,
    "client.toml [data]": ClientData,
    "client.toml [limits]": Limits,
}


def _sources() -> dict[str, Any]:
    return {**SOURCES, **{f"{prefix}:<...>": function for prefix, function in PREFIXES.items()}}


def kinds() -> dict[str, Mapping[str, Any]]:
    """Parts of each kind by name; a part of an installed package is its entry point."""
    ours = {**REGISTRIES, "fleets": PRESETS, "sources": _sources(), "sections": SECTIONS, **_OF_TRAINING}
    outside = {kind: installed(kind) for kind in ours if kind not in ("fleets", "sections")}
    return {kind: {**outside.get(kind, {}), **parts} for kind, parts in ours.items()}


def _loaded(part: Any) -> Any:
    """A part itself, whatever an entry point stands for. Raises ConfigError where its package is broken."""
    if not isinstance(part, EntryPoint):
        return part
    return imported(part.value.partition(" ")[0], f"entry point {part.name!r} of {part.group}")


def list_parts(console: Console, what: str | None) -> None:
    """One table of names with what each is; all kinds where `what` is None. Raises ConfigError for an unknown kind."""
    known = kinds()
    if what is not None and what not in known:
        raise ConfigError(f"list {what}: no such kind{nearest(what, known)}")
    for kind in known if what is None else [what]:
        if not known[kind]:
            continue
        table = Table(title=kind, title_justify="left", title_style="bold", show_header=False, box=None)
        for name, part in sorted(known[kind].items()):
            table.add_row(Text(name, style="cyan"), _summary(part))
        console.print(table)


def describe(console: Console, name: str) -> None:
    """Each part of that name: its docstring, and its fields with type, default, meaning, or a fleet's tables.

    Raises ConfigError for an unknown name.
    """
    found = parts_named(name)
    for position, (kind, unloaded) in enumerate(found):
        part = _loaded(unloaded)
        if position:
            console.print()
        if len(found) > 1:
            console.print(Text(kind, style="bold"))
        if isinstance(unloaded, EntryPoint):
            console.print(Text(f"from {unloaded.value}", style="dim"))
        console.print(Text(inspect.cleandoc(part.__doc__ or "")))
        if kind == "fleets":
            console.print(Text(tomli_w.dumps({"fleet": part()}).strip(), style="dim"))
        elif kind == "sources":
            console.print(Text(f"options: {options_of(part)}", style="dim"))
        elif dataclasses.is_dataclass(part):
            console.print(_fields(part))


def parts_named(name: str) -> list[tuple[str, Any]]:
    """Each part of that name, with its kind. Raises ConfigError where there is none."""
    known = kinds()
    found = [(kind, parts[key]) for kind, parts in known.items() for key in parts if name in _names(key)]
    if not found:
        names = {key for parts in known.values() for key in parts}
        raise ConfigError(f"describe {name}: no such part{nearest(name, names)}")
    return found


def _names(key: str) -> set[str]:
    """What a part may be asked for by: also a section without its brackets, a source by what is before its colon."""
    return {key, key.strip("[]"), key.removesuffix("<...>"), key.removesuffix(":<...>")}


def options_of(source: Any) -> str:
    """A source's options with their defaults; what follows the colon of its name is none."""
    parameters = inspect.signature(source).parameters.values()
    return ", ".join(f"{p.name} = {p.default}" for p in parameters if p.default is not p.empty) or "none"


def _fields(part: Any) -> Table:
    table = Table(header_style="dim", title_justify="left")
    for column in ("field", "type", "default", "meaning"):
        table.add_column(column, overflow="fold")
    hints = typing.get_type_hints(part, include_extras=True)
    for field in dataclasses.fields(part):
        kind, limits, meaning = explained(hints[field.name])
        table.add_row(Text(field.name, style="cyan"), Text(f"{kind}{limits}"), Text(default_of(field)), Text(meaning))
    return table


def explained(hint: Any) -> tuple[str, str, str]:
    """A field's type in words, its limits, and its `Doc` text."""
    limits: list[str] = []
    meaning = ""
    while typing.get_origin(hint) is Annotated:
        hint, *extras = typing.get_args(hint)
        for extra in extras:
            if isinstance(extra, Doc):
                meaning = extra.documentation
            else:
                limits.extend(_limits(extra))
    return _type_name(hint), "".join(f", {limit}" for limit in limits), meaning


def _limits(extra: Any) -> list[str]:
    bounds: list[tuple[str, Any]] = []
    if isinstance(extra, Interval):
        bounds = [(">=", extra.ge), (">", extra.gt), ("<=", extra.le), ("<", extra.lt)]
    elif isinstance(extra, Ge):
        bounds = [(">=", extra.ge)]
    elif isinstance(extra, Gt):
        bounds = [(">", extra.gt)]
    elif isinstance(extra, Le):
        bounds = [("<=", extra.le)]
    elif isinstance(extra, Lt):
        bounds = [("<", extra.lt)]
    return [f"{sign} {bound}" for sign, bound in bounds if bound is not None]


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) is Annotated:
        name, limits, _ = explained(hint)
        return name + limits
    if typing.get_origin(hint) is typing.Literal:
        return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in typing.get_args(hint))
    arguments = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    if typing.get_origin(hint) is dict:
        return "table"
    if typing.get_origin(hint) in (tuple, frozenset):
        return "list of " + _type_name(arguments[0])
    if arguments:
        return " | ".join(map(_type_name, arguments))
    return {"int": "whole number", "float": "number", "str": "text", "bool": "true | false"}.get(
        getattr(hint, "__name__", ""), getattr(hint, "__name__", str(hint))
    )


def default_of(field: dataclasses.Field[Any]) -> str:
    """A field's default as one would write it; "-" for none."""
    if field.default is not dataclasses.MISSING:
        return (
            "-"
            if field.default is None
            else str(field.default).lower()
            if isinstance(field.default, bool)
            else str(field.default)
        )
    if field.default_factory is not dataclasses.MISSING:
        return str(field.default_factory())
    return "required"


def _summary(part: Any) -> Text:
    """What a part is; of an installed package's also where it comes from, or why it cannot be had."""
    if not isinstance(part, EntryPoint):
        return _first_sentence(part)
    try:
        return _first_sentence(_loaded(part)).append(f" ({part.value})", style="dim")
    except ConfigError as error:
        return Text(str(error), style="red")


def _first_sentence(part: Any) -> Text:
    """What a docstring says first; its first sentence may go over lines."""
    text = " ".join(inspect.cleandoc(part.__doc__ or "").split("\n\n")[0].split())
    return Text(text)

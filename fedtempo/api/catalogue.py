"""All parts that a configuration can name, and the meaning of their fields (`fedtempo list`, `fedtempo describe`)."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import tomli_w
from annotated_types import Ge, Gt, Interval, Le, Lt
from pydantic.dataclasses import dataclass as component
from typing_extensions import Doc

from fedtempo.data.quality import Drift, FeatureNoise, LabelNoise
from fedtempo.data.settings import DataSettings
from fedtempo.data.sources import PREFIXES, SOURCES
from fedtempo.deploy.client.settings import ClientData, ClientSettings, Limits
from fedtempo.errors import ConfigError, nearest
from fedtempo.fleet.availability import AVAILABILITY
from fedtempo.fleet.compute import Compute
from fedtempo.fleet.faults import Faults
from fedtempo.fleet.fleet import FleetPlan
from fedtempo.fleet.presets import PRESETS
from fedtempo.learning.compressed import CompressionSettings
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.pretrained import InitialWeights
from fedtempo.learning.privacy import Privacy
from fedtempo.learning.training import Training
from fedtempo.parts.fields import STRICT
from fedtempo.parts.plugins import imported, installed
from fedtempo.runs.config import REGISTRIES
from fedtempo.runs.deploy_settings import DeploySettings
from fedtempo.runtime.budget import Budget
from fedtempo.runtime.executor_settings import ExecutorSettings
from fedtempo.runtime.patience import Patience
from fedtempo.runtime.run_settings import RunSettings
from fedtempo.runtime.server import ServerSettings

_IN_WORDS = {
    "int": "whole number",
    "float": "number",
    "str": "text",
    "bool": "true | false",
    "Distribution": "number | list | table",
    **dict.fromkeys(
        ("Link", "EstimatorKind", "AvailabilityKind", "Compression", "ServerOptimizer", "Any"), "name | table"
    ),
}
"""Types of fields in words, by the name of the Python type; dataclasses are tables."""

_OF_TRAINING: dict[str, Mapping[str, Any]] = {"losses": {}, "optimizers": {}}
"""Kinds whose built-in parts are described under [training]."""


@component(frozen=True, config=STRICT)
class ModelSettings(InitialWeights, Exchange):
    """The `[model]` table, apart from the network's own settings."""


SECTIONS: dict[str, Any] = {
    "[run]": RunSettings,
    "[run.patience]": Patience,
    "[run.budget]": Budget,
    "[data]": DataSettings,
    "[data.partition.label_noise]": LabelNoise,
    "[data.partition.feature_noise]": FeatureNoise,
    "[data.partition.drift]": Drift,
    "[model]": ModelSettings,
    "[training]": Training,
    "[fleet]": FleetPlan,
    "[fleet.compute]": Compute,
    "[fleet.faults]": Faults,
    "[executor]": ExecutorSettings,
    "[server]": ServerSettings,
    "[server.privacy]": Privacy,
    "[server.compression]": CompressionSettings,
    "[deploy]": DeploySettings,
    "client.toml": ClientSettings,
    "client.toml [data]": ClientData,
    "client.toml [limits]": Limits,
}


def _sources() -> dict[str, Any]:
    return {**SOURCES, **{f"{prefix}:<...>": function for prefix, function in PREFIXES.items()}}


def kinds() -> dict[str, Mapping[str, Any]]:
    """Return the parts of each kind by name; a part of another installed package is its entry point."""
    ours = {**REGISTRIES, "fleets": PRESETS, "sources": _sources(), "sections": SECTIONS, **_OF_TRAINING}
    outside = {kind: installed(kind) for kind in ours if kind not in ("fleets", "sections")}
    return {kind: {**outside.get(kind, {}), **parts} for kind, parts in ours.items()}


def _loaded(part: Any) -> Any:
    """Return a part, imported if it is an entry point. Raises ConfigError if its package is broken."""
    if not isinstance(part, EntryPoint):
        return part
    return imported(part.value.partition(" ")[0], f"entry point {part.name!r} of {part.group}")


@dataclass(frozen=True)
class CatalogueEntry:
    """A part in the catalogue.

    summary: the first sentence of its docstring; if its package is broken, the error. origin: "module:name" of a part
    that another installed package provides, else "". broken: whether its package cannot be imported.
    """

    summary: str
    origin: str = ""
    broken: bool = False


@dataclass(frozen=True)
class FieldDescription:
    """A setting of a part: its type and limits, its default ("-" for none, or "required"), its meaning and unit."""

    name: str
    type: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Description:
    """A part in full, or a key of a section.

    kind: such as "strategies" or "links". origin: as in `CatalogueEntry`. text: its docstring, one line per paragraph
    and option; "" for a key. fields: its settings, in order; for a key of the section `name`, only this key. toml: the
    tables that a fleet preset stands for, else "". options: the options of a data source with their defaults, else "".
    choices: the parts that a key can name.
    """

    kind: str
    name: str
    origin: str
    text: str
    fields: tuple[FieldDescription, ...] = ()
    toml: str = ""
    options: str = ""
    choices: Mapping[str, CatalogueEntry] = dataclasses.field(default_factory=dict)


def catalogue(kind: str | None = None) -> dict[str, dict[str, CatalogueEntry]]:
    """Return all parts by kind and name, sorted by name (`fedtempo list`).

    kind: "strategies", "networks", "links", ...; all kinds if None. Raises ConfigError for an unknown kind.
    """
    known = kinds()
    if kind is not None and kind not in known:
        raise ConfigError(f"list {kind}: no such kind{nearest(kind, known)}")
    shown = known if kind is None else {kind: known[kind]}
    return {kind: {name: _entry(part) for name, part in sorted(parts.items())} for kind, parts in shown.items()}


def describe(name: str) -> list[Description]:
    """Return each part of that name, with the type, default and meaning of its fields (`fedtempo describe`).

    name: as in the catalogue; of a section also without its brackets, or its last part ("faults"); of a source also
    without what follows its colon. If no part has the name: a key of sections ("lr"), or a kind of parts ("links").
    Raises ConfigError for an unknown name, or if the package of a part is broken.
    """
    if described := [_description(kind, key, part) for kind, key, part in _parts_with(name)] or _keys(name):
        return described
    raise _unknown(name)


def parts_named(name: str) -> list[tuple[str, Any]]:
    """Return each part of that name, with its kind. Raises ConfigError if there is none."""
    return [(kind, part) for kind, _, part in _named(name)]


def _named(name: str) -> list[tuple[str, str, Any]]:
    """Return kind, name in the catalogue and part. Raises ConfigError if there is none."""
    if named := _parts_with(name):
        return named
    raise _unknown(name)


def _parts_with(name: str) -> list[tuple[str, str, Any]]:
    return [(kind, key, parts[key]) for kind, parts in kinds().items() for key in parts if name in _names(key)]


def _keys(name: str) -> list[Description]:
    """Return each key of that name, with the parts that it can name; or a kind of that name alone."""
    kind = next((kind for kind in kinds() if kind in (name, f"{name}s")), None)
    choices = {} if kind is None else catalogue(kind)[kind]
    sections = [
        Description("sections", section, "", "", fields, choices=choices)
        for section, part in SECTIONS.items()
        if (fields := tuple(field for field in fields_of(part) if field.name == name))
    ]
    return sections or ([] if kind is None else [Description(kind, kind, "", "", choices=choices)])


def _unknown(name: str) -> ConfigError:
    names = {name for parts in kinds().values() for name in parts}
    names |= {field.name for part in SECTIONS.values() for field in dataclasses.fields(part)}
    similar = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.5)
    hint = f"; did you mean {similar[0]!r}?" if similar else ""
    return ConfigError(f"describe {name}: no such part or key{hint} (`fedtempo list` names all parts)")


def _entry(part: Any) -> CatalogueEntry:
    if not isinstance(part, EntryPoint):
        return CatalogueEntry(_first_sentence(part))
    try:
        return CatalogueEntry(_first_sentence(_loaded(part)), part.value)
    except ConfigError as error:
        return CatalogueEntry(str(error), part.value, broken=True)


def _description(kind: str, name: str, listed: Any) -> Description:
    part = _loaded(listed)
    return Description(
        kind=kind,
        name=name,
        origin=listed.value if isinstance(listed, EntryPoint) else "",
        text=flowing(part.__doc__ or ""),
        fields=fields_of(part) if dataclasses.is_dataclass(part) else (),
        toml=tomli_w.dumps({"fleet": part()}).strip() if kind == "fleets" else "",
        options=options_of(part) if kind == "sources" else "",
    )


def fields_of(part: Any) -> tuple[FieldDescription, ...]:
    """Return the fields of a dataclass, in order."""
    hints = typing.get_type_hints(part, include_extras=True)
    described = []
    for field in dataclasses.fields(part):
        kind, limits, meaning = explained(hints[field.name])
        described.append(FieldDescription(field.name, f"{kind}{limits}", default_of(field), meaning))
    return tuple(described)


def _names(key: str) -> set[str]:
    """Return all names of a part: of a section also without its brackets, of a source also without its end."""
    section = key.strip("[]")
    last = section.rpartition(".")[2] if section != key else key
    return {key, section, last, key.removesuffix("<...>"), key.removesuffix(":<...>")}


def flowing(docstring: str) -> str:
    """Return a docstring with one line per paragraph, and one per option ("side: ..."), for a terminal to wrap."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(docstring))
    return "\n\n".join(re.sub(r"\n(?![a-z_]+(, [a-z_]+)*: )\s*", " ", paragraph) for paragraph in paragraphs)


def options_of(source: Any) -> str:
    """Return a source's options with their defaults; what follows the colon of its name is not an option."""
    parameters = inspect.signature(source).parameters.values()
    return ", ".join(f"{p.name} = {p.default}" for p in parameters if p.default is not p.empty) or "none"


def explained(hint: Any) -> tuple[str, str, str]:
    """Return a field's type in words, its limits, and its `Doc` text."""
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
    if dataclasses.is_dataclass(hint):
        return "table"
    name = getattr(hint, "__name__", str(hint))
    return _IN_WORDS.get(name, name)


def default_of(field: dataclasses.Field[Any]) -> str:
    """Return a field's default as it is written in a configuration; "-" for none."""
    if field.default is not dataclasses.MISSING:
        return (
            "-"
            if field.default is None
            else str(field.default).lower()
            if isinstance(field.default, bool)
            else str(field.default)
        )
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
        if dataclasses.is_dataclass(value):
            return next((name for name, part in AVAILABILITY.items() if isinstance(value, part)), "{}")
        return str(value)
    return "required"


def _first_sentence(part: Any) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(part.__doc__ or "").split("\n\n")[0].split())

"""Import parts from outside fedtempo: a user's `module:name`, and entry points of installed packages.

Entry points belong to the group "fedtempo.<kind>", with kind as in `fedtempo list`: fedtempo.strategies, ...
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass, is_pydantic_dataclass

from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.fields import STRICT
from fedtempo.parts.import_path import latest_folder
from fedtempo.parts.user_code import lines_of, place_of, shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def imported(target: str, where: str) -> Any:
    """Return the object `module:name`; name may have dots.

    Raises ConfigError, in a line that begins with `where`, if it does not exist.
    """
    module, _, name = target.partition(":")
    try:
        value: Any = importlib.import_module(module)
    except Exception as error:  # whatever a user's module raises, or a malformed module name
        hint = _missing_module_hint(error, module)
        lines = lines_of(error)
        wrapped = ConfigError(
            f"{where} = {target!r}: cannot import {module!r}: {type(error).__name__}: {error}{hint}{place_of(lines)}"
        )
        wrapped.frames = shown(lines)
        raise wrapped from error
    _check_not_hidden(value, module, f"{where} = {target!r}")
    for attribute in name.split("."):
        try:
            value = getattr(value, attribute)
        except AttributeError:
            raise ConfigError(f"{where} = {target!r}: module {module!r} has no {name!r}") from None
    return value


def part_class(name: object, registry: Mapping[str, type], kind: str, what: str, where: str) -> type:
    """Return the class that `name` stands for: from the registry, an entry point, or `module:Class`.

    A class from outside goes through `checked`. kind: plural, as in `fedtempo list`; what: the word for such a part in
    errors. Raises ConfigError for anything else.
    """
    if not isinstance(name, str):
        raise ConfigError(f"{where} = {name!r}: must be the name of a {what}{nearest('', registry)}")
    if name in registry:
        return registry[name]
    cls = outside(name, kind, where)
    if cls is None:
        raise ConfigError(f"{where} = {name!r}: no such {what}{nearest(name, [*registry, *installed(kind)])}")
    if not isinstance(cls, type):
        raise ConfigError(f"{where} = {name!r}: must be a class, not a {type(cls).__name__}")
    return checked(cls, f"{where} = {name!r}")


def outside(name: str, kind: str, where: str) -> Any:
    """Return the object that `module:name` or an entry point of this kind stands for; None for any other name.

    Raises ConfigError if it cannot be imported.
    """
    if ":" in name:
        return imported(name, where)
    point = installed(kind).get(name)
    return None if point is None else imported(point.value.partition(" ")[0], f"{where} (entry point {name!r})")


def installed(kind: str) -> dict[str, EntryPoint]:
    """Return the installed entry points of a kind, by name."""
    from importlib.metadata import entry_points  # slow to import, and few names are looked up here

    return {point.name: point for point in entry_points(group=f"fedtempo.{kind}")}


def checked(cls: type, where: str) -> type:
    """Return a user's dataclass as one that checks the types of its fields. Raises ConfigError for any other class."""
    if is_pydantic_dataclass(cls):
        return cls
    if not dataclasses.is_dataclass(cls):
        raise ConfigError(f"{where}: {cls.__name__} must be a dataclass, with the configuration's keys as its fields")
    frozen = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return dataclass(cls, config=STRICT, frozen=frozen)


def _missing_module_hint(error: Exception, module: str) -> str:
    """Return advice for an error that says the module does not exist; empty for other errors."""
    if not isinstance(error, ModuleNotFoundError) or error.name != module.partition(".")[0]:
        return ""
    return "; put it beside the configuration, in the current folder, or in a folder of $PYTHONPATH"


def _check_not_hidden(imported_module: Any, module: str, where: str) -> None:
    """Raise ConfigError if the configuration's folder has a module of this name but another one was imported."""
    top = module.partition(".")[0]
    latest = latest_folder()
    if latest is None or not any((latest / name).exists() for name in (f"{top}.py", f"{top}/__init__.py")):
        return
    file = getattr(imported_module, "__file__", None)
    if file is not None and not Path(file).resolve().is_relative_to(latest):
        raise ConfigError(f"{where}: {module!r} was imported from {file}, which hides the one in {latest}; rename it")

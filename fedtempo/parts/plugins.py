"""Parts that are not fedtempo's: a user's `module:name`, and entry points of installed packages.

Entry points are those of the group "fedtempo.<kind>", kind as in `fedtempo list`: fedtempo.strategies, ...
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass, is_pydantic_dataclass

from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.fields import STRICT
from fedtempo.parts.user_code import lines_of, place_of, shown

_folders: list[Path] = []
"""Those of configurations whose modules can be imported, the latest last."""


def add_folder(folder: Path) -> None:
    """From now on modules in `folder` can be imported. They hide none of Python's, nor of what is installed."""
    folder = folder.resolve()
    if folder in _folders:
        _folders.remove(folder)
    _folders.append(folder)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def search_path() -> list[str]:
    """Folders of configurations, for $PYTHONPATH of a program that imports the same."""
    return [str(folder) for folder in reversed(_folders)]


def imported(target: str, where: str) -> Any:
    """The object `module:name`; name may have dots. Raises ConfigError, beginning with `where`, where there is none."""
    module, _, name = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # whatever a user's module raises, or what is no name of a module
        hint = _where_from(error, module)
        lines = lines_of(error)
        told = ConfigError(
            f"{where} = {target!r}: cannot import {module!r}: {type(error).__name__}: {error}{hint}{place_of(lines)}"
        )
        told.frames = shown(lines)
        raise told from error
    _must_be_meant(found, module, f"{where} = {target!r}")
    for step in name.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            raise ConfigError(f"{where} = {target!r}: module {module!r} has no {name!r}") from None
    return found


def part_class(name: object, registry: Mapping[str, type], kind: str, what: str, where: str) -> type:
    """The class that `name` means: of the registry, of an entry point, or `module:Class`. A user's is `checked`.

    kind: plural, as in `fedtempo list`; what: the word for such a part. Raises ConfigError for anything else.
    """
    if not isinstance(name, str):
        raise ConfigError(f"{where} = {name!r}: give the name of a {what}{nearest('', registry)}")
    if name in registry:
        return registry[name]
    found = outside(name, kind, where)
    if found is None:
        raise ConfigError(f"{where} = {name!r}: no such {what}{nearest(name, [*registry, *installed(kind)])}")
    if not isinstance(found, type):
        raise ConfigError(f"{where} = {name!r}: it is a {type(found).__name__}, not a class")
    return checked(found, f"{where} = {name!r}")


def outside(name: str, kind: str, where: str) -> Any:
    """What `module:name`, or an entry point of this kind, means; None for another name. Raises ConfigError."""
    if ":" in name:
        return imported(name, where)
    point = installed(kind).get(name)
    return None if point is None else imported(point.value.partition(" ")[0], f"{where} (entry point {name!r})")


def installed(kind: str) -> dict[str, EntryPoint]:
    """Entry points of a kind, by name."""
    return {point.name: point for point in entry_points(group=f"fedtempo.{kind}")}


def checked(cls: type, where: str) -> type:
    """A user's plain dataclass as one that checks the types of its fields. Raises ConfigError where it is none."""
    if is_pydantic_dataclass(cls):
        return cls
    if not dataclasses.is_dataclass(cls):
        raise ConfigError(f"{where}: {cls.__name__} must be a dataclass, whose fields are the configuration's keys")
    frozen = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return dataclass(cls, config=STRICT, frozen=frozen)


def _where_from(error: Exception, module: str) -> str:
    """What to do where there is no such module at all."""
    if not isinstance(error, ModuleNotFoundError) or error.name != module.partition(".")[0]:
        return ""
    return "; it must lie beside the configuration, in the current folder, or in one of $PYTHONPATH"


def _must_be_meant(found: Any, module: str, place: str) -> None:
    """Raises ConfigError where the configuration's folder has a module of that name, and another one was imported."""
    top = module.partition(".")[0]
    if not _folders or not any((_folders[-1] / name).exists() for name in (f"{top}.py", f"{top}/__init__.py")):
        return
    file = getattr(found, "__file__", None)
    if file is not None and not Path(file).resolve().is_relative_to(_folders[-1]):
        raise ConfigError(f"{place}: {module!r} was imported from {file}, and {_folders[-1]} has one too; rename it")

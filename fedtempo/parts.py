"""Parts of a configuration made from tables: by name from a registry, from a user's module, with errors of one line."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, TypeVar

from pydantic import ValidationError

from fedtempo.errors import ConfigError, nearest

T = TypeVar("T")


def lookup(name: object, registry: Mapping[str, type], what: str, where: str) -> type:
    """The class that `name` means: of the registry, of an installed entry point, or `module:Class`.

    Entry points are those of the group "fedtempo.<what>" (spaces as dashes). Raises ConfigError for an unknown name.
    """
    if not isinstance(name, str):
        raise ConfigError(f"{where} = {name!r}: give the name of a {what}{nearest('', registry)}")
    if name in registry:
        return registry[name]
    if ":" in name:
        found = imported(name, where)
        if not isinstance(found, type):
            raise ConfigError(f"{where} = {name!r}: it is a {type(found).__name__}, not a class")
        return found
    for point in entry_points(group=f"fedtempo.{what.replace(' ', '-')}"):
        if point.name == name:
            loaded: type = point.load()
            return loaded
    raise ConfigError(f"{where} = {name!r}: no such {what}{nearest(name, registry)}")


def imported(path: str, where: str) -> Any:
    """The object `module:name`. Raises ConfigError where there is none."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, ValueError, TypeError) as error:  # the latter two for what is no name of a module
        raise ConfigError(f"{where} = {path!r}: cannot import {module!r}: {error}") from error
    except AttributeError:
        raise ConfigError(f"{where} = {path!r}: module {module!r} has no {name!r}") from None


def construct(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """`cls(**table)` for a dataclass. Raises ConfigError naming `where.field`, the value and what would be right."""
    fields = {field.name for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            raise ConfigError(f"{where}.{key}: unknown key{nearest(key, fields)}")
    try:
        return cls(**table)
    except ValidationError as error:
        raise ConfigError("; ".join(_complaints(error, where))) from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _complaints(error: ValidationError, where: str) -> Iterable[str]:
    """Each of pydantic's findings as `where.field = value: what would be right`."""
    seen = set()
    for finding in error.errors():
        # Steps after the first name alternatives of a type, which say nothing to a user.
        names = [str(step) for step in finding["loc"][:1] if not isinstance(step, int)]
        place = ".".join([where, *names])
        message = finding["msg"].removeprefix("Value error, ")
        message = message[0].lower() + message[1:] if message[:1].isupper() and message[1:2].islower() else message
        value = "" if finding["type"] in ("missing", "value_error") else f" = {finding['input']!r}"
        if place not in seen:
            seen.add(place)
            yield f"{place}{value}: {message}"

"""Build parts of a configuration from its tables, with errors of one line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.user_code import user_error

T = TypeVar("T")


def construct(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Return `cls(**table)` for a dataclass.

    Raises ConfigError naming `where.field`, the value and what would be right.
    """
    fields = names_of_fields(cls)
    moved = getattr(cls, "MOVED", {})
    for key in table:
        if key not in fields:
            if key in moved:
                raise ConfigError(f"{where}.{key} {moved[key]}")
            raise ConfigError(f"{where}.{key}: unknown key{nearest(key, fields)}")
    try:
        return cls(**table)
    except ValidationError as error:
        raise ConfigError("; ".join(_complaints(error, where))) from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error
    except Exception as error:
        if (wrapped := user_error(error, where, cls)) is None:
            raise
        raise wrapped from error


def names_of_fields(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass, which are the keys of its table."""
    return tuple(field.name for field in dataclasses.fields(cls) if field.init)


def take(cls: type[T], table: dict[str, Any], where: str) -> T:
    """Remove the keys of a dataclass from a table that has others too, and return it; see `construct`."""
    return construct(cls, {name: table.pop(name) for name in names_of_fields(cls) if name in table}, where)


def _complaints(error: ValidationError, where: str) -> Iterable[str]:
    """Yield pydantic's complaints as `where.field = value: requirement`, one for each field."""
    seen = set()
    for finding in error.errors():
        # Steps after the first name alternatives of a type, which mean nothing to a user.
        names = [str(step) for step in finding["loc"][:1] if not isinstance(step, int)]
        field = ".".join([where, *names])
        message = finding["msg"].removeprefix("Value error, ")
        message = message[0].lower() + message[1:] if message[:1].isupper() and message[1:2].islower() else message
        value = "" if finding["type"] in ("missing", "value_error") else f" = {finding['input']!r}"
        if field not in seen:
            seen.add(field)
            yield f"{field}{value}: {message}"

"""A part of the fleet from the table that a configuration writes for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.parts.plugins import part_class


def component(table: Mapping[str, Any], registry: Mapping[str, type], group: str, what: str) -> Any:
    """The part of a table {kind, **rest}: `registry[kind](**rest)`, or a user's or an installed package's class.

    group: plural name of such parts; what: the word for one in errors. Raises ValueError, in one line, for a missing or
    unknown kind and for fields that do not fit it.
    """
    fields = dict(table)
    kind = fields.pop("kind", None)
    if kind in registry:
        return made(registry[kind], fields, f"{what} {kind!r}")
    try:
        part = part_class(kind, registry, group, what, "kind")
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return made(part, fields, f"{what} {kind!r}")


def made(part: Callable[..., Any], fields: Mapping[str, Any], name: str) -> Any:
    """`part(**fields)`; raises ValueError in one line that begins with `name` where the fields do not fit."""
    try:
        return part(**fields)
    except ValidationError as error:
        raise ValueError(f"{name}: {one_line(error)}") from error


def one_line(error: ValidationError) -> str:
    """Every complaint of pydantic as `field = value: what would be right`, in one line."""
    parts = []
    for problem in error.errors():
        place = ".".join(str(step) for step in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] in ("missing", "value_error"):
            parts.append(f"{place}: {message}" if place else message)
        else:
            parts.append(f"{place} = {problem['input']!r}: {message}")
    return "; ".join(parts)

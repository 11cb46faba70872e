"""Build a part of the fleet from its table in a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.parts.plugins import part_class


def component(table: Mapping[str, Any], registry: Mapping[str, type], group: str, what: str) -> Any:
    """Return the part that a table {kind, **rest} describes: `registry[kind](**rest)`.

    kind may also name a user's class (`module:Class`) or an entry point of an installed package. group: plural name of
    such parts; what: the word for one in errors. Raises ValueError, in one line, for a missing or unknown kind and for
    fields that do not fit it.
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
    """Return `part(**fields)`. Raises ValueError, in one line that begins with `name`, if the fields do not fit."""
    try:
        return part(**fields)
    except ValidationError as error:
        raise ValueError(f"{name}: {one_line(error)}") from error


def one_line(error: ValidationError) -> str:
    """Return pydantic's complaints in one line, each as `field = value: what would be right`."""
    parts = []
    for problem in error.errors():
        field = ".".join(str(step) for step in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] in ("missing", "value_error"):
            parts.append(f"{field}: {message}" if field else message)
        else:
            parts.append(f"{field} = {problem['input']!r}: {message}")
    return "; ".join(parts)

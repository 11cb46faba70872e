"""A part of the fleet from the table that a configuration writes for it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError


def component(table: Mapping[str, Any], registry: Mapping[str, type], what: str) -> Any:
    """`registry[kind](**rest)` for a table {kind, **rest}; what: the word for such a part in errors.

    Raises ValueError, in one line, for a missing or unknown kind and for fields that do not fit it.
    """
    fields = dict(table)
    kind = fields.pop("kind", None)
    if kind not in registry:
        near = difflib.get_close_matches(str(kind), registry, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"kind = {kind!r} is no {what}{hint} (there are {', '.join(sorted(registry))})")
    return made(registry[kind], fields, f"{what} {kind!r}")


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

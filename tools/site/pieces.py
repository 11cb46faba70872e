"""Pieces that pages include with comments, `<!-- site: WHAT ARGUMENTS -->`: code, tables and calendars of the program.

- `code MODULE:NAME ...`: the source of classes, functions or methods; for a class, without its docstring
- `fields NAME`: the fields of a part, as `fedtempo describe NAME` prints them
- `calendar STRATEGY`: which client works when, on a small fleet
- `compared STRATEGY ...`: the measures of their calendars, as a table
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

from fedtempo.api.catalogue import fields_of, parts_named
from tools.site.calendars import calendar_figure, measures

_PIECE = re.compile(r"^<!-- site: (?P<what>\w+)(?P<arguments>[^\n]*?) -->$", re.MULTILINE)


def expanded(markdown: str) -> str:
    """Return the text with all pieces inserted. Raises ValueError for an unknown or missing piece."""

    def expand(found: re.Match[str]) -> str:
        piece = PIECES.get(found["what"])
        if piece is None:
            raise ValueError(f"{found[0]}: there is {', '.join(PIECES)}")
        try:
            return piece(*found["arguments"].split())
        except (ImportError, AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{found[0]}: {error}") from error

    return _PIECE.sub(expand, markdown)


def code(*names: str) -> str:
    """Return the sources of several objects in one block, titled with the file of the first."""
    objects = [_found(name) for name in names]
    title = importlib.import_module(names[0].partition(":")[0]).__name__.replace(".", "/") + ".py"
    text = "\n\n".join(map(_source, objects))
    return f'```python title="{title}"\n{text}\n```'


def fields(name: str) -> str:
    """Return a table of the fields of a part. A preset with the same name has no fields and is ignored."""
    return fields_table(next(part for _, part in parts_named(name) if dataclasses.is_dataclass(part)))


def fields_table(part: Any) -> str:
    """Return a table of the fields of a dataclass: name, type and limits, default, meaning."""
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in fields_of(part):
        cells = (f"`{field.name}`", field.type, field.default, field.meaning)
        rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(rows) if len(rows) > 2 else "It has no settings."


def compared(*strategies: str) -> str:
    """Return a table of the measures of calendars."""
    rows = ["| strategy | busy | visits | new models | staleness |", "|---|--:|--:|--:|--:|"]
    for strategy in strategies:
        told = measures(strategy)
        numbers = f"{told['busy']:.0%} | {told['visits']:g} | {told['commits']:g} | {told['staleness']:.1f}"
        rows.append(f"| `{strategy}` | {numbers} |")
    return "\n".join(rows)


PIECES: dict[str, Callable[..., str]] = {
    "code": code,
    "fields": fields,
    "calendar": calendar_figure,
    "compared": compared,
}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _found(name: str) -> Any:
    module, _, path = name.partition(":")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module))


def _source(found: Any) -> str:
    """Return the source, without decorators, and for a class without its docstring, which the page replaces."""
    text = textwrap.dedent(inspect.getsource(found)).rstrip()
    if not inspect.isclass(found):
        return text
    (tree,) = ast.parse(text).body
    first = tree.body[0] if isinstance(tree, ast.ClassDef) else None
    if not isinstance(first, ast.Expr):
        return text
    lines = text.splitlines()
    del lines[first.lineno - 1 : (first.end_lineno or first.lineno)]
    if not lines[first.lineno - 1].strip():
        del lines[first.lineno - 1]
    return "\n".join(lines)

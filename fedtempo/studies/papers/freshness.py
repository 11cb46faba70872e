"""Whether a result is up to date: the hash of the code and the settings that decided it, then and now."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fedtempo.parts.source_files import imported_files
from fedtempo.runs.identity import deciding_files
from fedtempo.studies.papers import reproduction

_ROOM = "fedtempo.studies"
_TREE_NODES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_WITHOUT_INFLUENCE = ("compression_figures", "contest_figures", "figures", "pages", "output", "same_work")
"""Modules of this room that only show results, or refuse to compare runs of different work."""


def decided_by(module: str, settings: Iterable[str], strategies: Iterable[str] | None) -> dict[str, Any]:
    """Return hashes of what decides a result, as JSON values.

    module: name of the module that makes it. settings: stems of the files of settings that it reads. strategies:
    modules of the strategies of its runs; None if they are not known, and all count. The hash "code" is of what runs
    are made of, "studies" of what chooses runs and makes rows of them.
    """
    studies = (path for path in imported_files([module], (_ROOM,)) if path.stem not in _WITHOUT_INFLUENCE)
    used = None if strategies is None else sorted(strategies)
    return {
        "module": module,
        "strategies": used,
        "code": _code_sha256(deciding_files(None if used is None else [module, *used])),
        "studies": _code_sha256(sorted(studies)),
        "settings": {stem: _settings_sha256(stem) for stem in sorted(settings)},
    }


def is_stale(result: Mapping[str, Any]) -> bool:
    """Return whether what decided a result has changed since; True if the result does not say what did."""
    before = result.get("decided_by")
    return not isinstance(before, dict) or _today(before) != before


def after_code_change(result: Mapping[str, Any], strategies: Iterable[str] | None) -> dict[str, Any] | None:
    """Return today's hashes of a stale result of which only the code of runs has changed; None for any other result.

    strategies: modules of the strategies of its runs.
    """
    before = result.get("decided_by")
    if not isinstance(before, dict) or not is_stale(result):
        return None
    now = _today({**before, "strategies": strategies})
    changed_only_code = now is not None and all(before.get(name) == now[name] for name in ("studies", "settings"))
    return now if changed_only_code else None


def _today(before: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return today's hashes of what decided a result; None if its module or a file of settings is gone."""
    try:
        return decided_by(before["module"], before["settings"], before.get("strategies"))
    except (OSError, KeyError):
        return None


def _code_sha256(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\n" + _code(path))
    return digest.hexdigest()


@cache
def _code(path: Path) -> bytes:
    return without_comments(path.read_text(encoding="utf-8")).encode()


def _settings_sha256(stem: str) -> str:
    """Return the hash of the values in a file of settings, in which comments and order do not count."""
    tables = tomllib.loads((reproduction.SETTINGS / f"{stem}.toml").read_text(encoding="utf-8"))
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()


def without_comments(source: str) -> str:
    """Return Python source without comments, docstrings and blank lines, on which no result depends."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for first, last in _docstrings(ast.parse(source)):
        lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield the first and last lines of docstrings, also of those below fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, _TREE_NODES):
            for statement in node.body:
                if (
                    isinstance(statement, ast.Expr)
                    and isinstance(statement.value, ast.Constant)
                    and isinstance(statement.value.value, str)
                ):
                    yield statement.lineno, statement.end_lineno or statement.lineno

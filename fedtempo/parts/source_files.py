"""The source files of modules and of what they import, found without importing them."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable
from functools import cache
from pathlib import Path


def imported_files(modules: Iterable[str], rooms: tuple[str, ...]) -> set[Path]:
    """Return the files of modules and of all modules in some packages that they import, directly or not.

    rooms: names of these packages, which are not themselves followed.
    """
    files: set[Path] = set()
    waiting = list(modules)
    while waiting:
        path = file_of(waiting.pop())
        if path is not None and path not in files:
            files.add(path)
            waiting.extend(name for name in _imports(path) if name.startswith(tuple(f"{room}." for room in rooms)))
    return files


@cache
def _imports(path: Path) -> list[str]:
    """Return names that a file imports, also within functions: packages, modules, or names in modules."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [*names, *(name.rpartition(".")[0] for name in names)]


@cache
def file_of(name: str) -> Path | None:
    """Return the source file of a module; None for any other name."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)

"""The code that a module uses: its own, and of the modules that it imports from the definitions that it names."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fedtempo.parts.source_files import file_of

_ALL = "*"
_WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class _Module(NamedTuple):
    """A file. lines: without comments and docstrings. named: statements by the names that they define.

    loose: statements that define nothing, such as calls; they run whatever is used.
    """

    lines: list[str]
    named: dict[str, ast.stmt]
    loose: list[ast.stmt]


def used_code(module: str, rooms: tuple[str, ...], without: Iterable[str] = ()) -> list[tuple[Path, str]]:
    """Return the files of which a module uses anything, by path, each with the code that is used.

    The code has no comments, docstrings and blank lines. Definitions count at the top level of a file: a class as a
    whole. rooms: packages whose modules are followed; without: names of files in them that are not.
    """
    left_out, seen, waiting = set(without), dict[Path, set[str]](), [(module, _ALL)]
    while waiting:
        name, wanted = waiting.pop()
        path = file_of(name)
        if path is None or path.stem in left_out:
            continue
        known, content = seen.setdefault(path, set()), _read(path)
        new = ({wanted} if wanted != _ALL else set(content.named)) - known
        statements = [_only(each, content.named[each]) for each in new if each in content.named]
        if not known:
            statements += content.loose
        known |= new | {""}
        for statement in statements:
            for imported, definition in _imports(statement):
                if imported.startswith(tuple(f"{room}." for room in rooms)):
                    waiting.append((imported, definition))
            waiting += [(name, each) for each in _names(statement) if each in content.named]
    return [(path, _text(_read(path), names)) for path, names in sorted(seen.items())]


def without_comments(source: str) -> list[str]:
    """Return the lines of Python source with nothing in place of comments and docstrings."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for first, last in _docstrings(ast.parse(source)):
        lines[first - 1 : last] = [""] * (last - first + 1)
    return [line.rstrip() for line in lines]


@cache
def _read(path: Path) -> _Module:
    source = path.read_text(encoding="utf-8")
    named: dict[str, ast.stmt] = {}
    loose = []
    for statement in ast.parse(source).body:
        defined = [*_defined(statement)]
        named |= dict.fromkeys(defined, statement)
        if not defined and not _is_docstring(statement) and not _is_for_type_checkers(statement):
            loose.append(statement)
    return _Module(without_comments(source), named, loose)


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top level defines."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


def _only(name: str, statement: ast.stmt) -> ast.stmt:
    """Return the part of a statement that defines a name: of an import of several names, the import of this one."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return statement
    names = [alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) == name]
    if isinstance(statement, ast.Import):
        return ast.Import(names)
    return ast.ImportFrom(statement.module, names, statement.level)


def _imports(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield what a statement imports, also within functions: modules, and which of their definitions."""
    for node in ast.walk(statement):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                yield node.module, alias.name
                yield f"{node.module}.{alias.name}", _ALL  # if it is a module
        elif isinstance(node, ast.Import):
            yield from ((alias.name, _ALL) for alias in node.names)


def _names(statement: ast.stmt) -> Iterator[str]:
    return (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))


def _text(content: _Module, names: set[str]) -> str:
    """Return the lines of the statements that define these names, and of the loose ones; of imports what is used."""
    statements = {id(each): each for name, each in content.named.items() if name in names}
    imports: set[str] = set()
    rows: set[int] = set()
    for statement in [*statements.values(), *content.loose]:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            module = "" if isinstance(statement, ast.Import) else f"{statement.module}."
            used = (alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) in names)
            imports |= {f"import {module}{alias.name} as {alias.asname or alias.name}" for alias in used}
            continue
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        rows |= set(range(first - 1, statement.end_lineno or first))
    return "\n".join([*sorted(imports), *(line for row in sorted(rows) if (line := content.lines[row]).strip())])


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _is_for_type_checkers(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and statement.test.id == "TYPE_CHECKING"
    )


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield the first and last lines of docstrings, also of those below fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRINGS):
            for statement in node.body:
                if _is_docstring(statement):
                    yield statement.lineno, statement.end_lineno or statement.lineno

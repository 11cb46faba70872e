"""Errors in code that is not fedtempo's: told by that code's own lines, without fedtempo's.

Code is the user's where its file lies neither in this package nor in Python's library nor among installed packages. Of
an installed package that a configuration names, its own files count; failing that, the innermost line outside fedtempo.
"""

from __future__ import annotations

import contextlib
import functools
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from fedtempo.errors import FedtempoError, UserCodeError

_LONGEST = 500
"""Characters of an error's message that are repeated."""

_DEEPEST = 8
"""Lines of code that are shown, the innermost ones."""

Line = tuple[str, int, str, str]
"""One frame: file as it is shown, line number, function, source."""


@contextlib.contextmanager
def user_code(where: str, part: object = None) -> Iterator[None]:
    """Run code that may be a user's. What it raises becomes a UserCodeError that begins with `where`.

    part: the object whose code it is. Errors of ours pass as they are, and so do errors of a part of ours (or of no
    known part) in which no code of a user's had a hand.
    """
    try:
        yield
    except FedtempoError:
        raise
    except Exception as error:
        if (told := user_error(error, where, part)) is None:
            raise
        raise told from error


def user_error(error: BaseException, where: str, part: object = None) -> UserCodeError | None:
    """What to raise instead of `error`, which came out of `part`; None where no code of a user's had a hand in it."""
    package = _package(part)
    leaf, others = _first(error)
    lines = lines_of(leaf, package)
    if package is None and not lines:
        return None
    more = f" (and {others} more error{'s' * (others > 1)})" if others else ""
    told = UserCodeError(f"{where}: {described(leaf)}{place_of(lines)}{more}")
    told.frames = shown(lines)
    return told


def with_lines(error: FedtempoError, where: str) -> FedtempoError:
    """An error of ours that a user's code caused, with `where` before it and the code's place behind it."""
    lines = lines_of(error)
    told = type(error)(f"{where}: {error}{place_of(lines)}")
    told.frames = shown(lines)
    return told


def part_name(part: Any) -> str:
    """The `module:name` of a class, a function, or an object's class."""
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}:{named.__qualname__}"


def is_ours(part: Any) -> bool:
    """Whether a class, a function or an object is part of fedtempo."""
    return part_name(part).partition(":")[0].partition(".")[0] == "fedtempo"


def described(error: BaseException) -> str:
    """Type and message of an error, in one line."""
    message = " ".join(str(error).split())
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST]}..."
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def lines_of(error: BaseException, package: str | None = None) -> list[Line]:
    """The lines of a user's code through which an error came, the outermost first. package: see the module."""
    frames = list(traceback.walk_tb(error.__traceback__))
    chosen = [each for each in frames if _is_users(each[0].f_code.co_filename)]
    if not chosen and package is not None:
        outside = [each for each in frames if not _lies_in(each[0].f_code.co_filename, _ours())]
        chosen = [each for each in outside if _module(each[0]).partition(".")[0] == package] or outside[-1:]
    lines = [_line(frame.f_code.co_filename, number, frame.f_code.co_name) for frame, number in chosen]
    if isinstance(error, SyntaxError) and error.filename and _is_users(error.filename):
        lines.append(_line(error.filename, error.lineno or 0, "<module>"))
    return lines


def shown(lines: list[Line]) -> str:
    """Lines of code as a traceback shows them."""
    left_out = [f"({len(lines) - _DEEPEST} more)"] if len(lines) > _DEEPEST else []
    frames = [f"{file}:{number} in {name}\n    {source}" for file, number, name, source in lines[-_DEEPEST:]]
    return "\n".join([*left_out, *frames])


def place_of(lines: list[Line]) -> str:
    """Where an error's innermost line is, to be put behind its message; nothing without lines."""
    if not lines:
        return ""
    file, number, name, _ = lines[-1]
    return f" ({file}:{number} in {name})"


def _first(error: BaseException) -> tuple[BaseException, int]:
    """Of the errors in nested groups the first that is not ours, or else the first; and how many others there are."""
    leaves = list(_leaves(error))
    foreign = [leaf for leaf in leaves if not isinstance(leaf, FedtempoError)] or leaves
    return foreign[0], len(foreign) - 1


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _package(part: object) -> str | None:
    """The top package of a part; None where there is no part, or it is ours."""
    if part is None or is_ours(part):
        return None
    return part_name(part).partition(":")[0].partition(".")[0]


def _line(file: str, number: int, name: str) -> Line:
    import linecache

    path = Path(file)
    with contextlib.suppress(ValueError, OSError):
        path = path.relative_to(Path.cwd())
    return str(path), number, name, linecache.getline(file, number).strip()


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_users(file: str) -> bool:
    if file.startswith("<"):
        return file == "<stdin>" or file.startswith("<ipython")
    return not _lies_in(file, (*_ours(), *_installed()))


def _lies_in(file: str, folders: tuple[str, ...]) -> bool:
    return os.path.abspath(file).startswith(folders)


@functools.cache
def _ours() -> tuple[str, ...]:
    return (f"{Path(__file__).resolve().parents[1]}{os.sep}",)


@functools.cache
def _installed() -> tuple[str, ...]:
    """Folders of Python's library and of installed packages."""
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.__file__)]
    folders += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return tuple(f"{os.path.abspath(folder)}{os.sep}" for folder in folders)

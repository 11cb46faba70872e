"""Report errors in code from outside fedtempo with that code's own lines, and none of fedtempo's.

Code counts as the user's if its file lies neither in this package, nor in Python's library, nor among installed
packages. For an installed package that a configuration names, the lines of that package count; failing that, the
innermost line outside fedtempo.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from fedtempo.errors import FedtempoError, UserCodeError

_LONGEST = 500
"""Largest number of characters of an error's message that are repeated."""

_DEEPEST = 8
"""Largest number of lines of code that are shown, counted from the innermost."""


class Line(NamedTuple):
    """One frame of a traceback."""

    file: str
    """Path as it is shown: relative to the current folder if it lies below."""
    number: int
    function: str
    source: str


@contextlib.contextmanager
def user_code(where: str, part: object = None) -> Iterator[None]:
    """Run code that may be a user's. An error in it becomes a UserCodeError whose text begins with `where`.

    part: the object whose code it is. Errors of type FedtempoError pass unchanged, and so do errors in fedtempo's own
    parts (or in no known part) that no user code took part in.
    """
    try:
        yield
    except FedtempoError:
        raise
    except Exception as error:
        if (wrapped := user_error(error, where, part)) is None:
            raise
        raise wrapped from error


def positional_arguments(function: Callable[..., Any]) -> int | None:
    """Return how many positional arguments without a default a function takes; None if that is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # built in, without a signature
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in kinds and parameter.default is parameter.empty for parameter in parameters)


def user_error(error: BaseException, where: str, part: object = None) -> UserCodeError | None:
    """Return the error to raise in place of `error`, which `part` raised; None if no user code took part in it."""
    package = _package(part)
    leaf, further = _first(error)
    lines = lines_of(leaf, package)
    if package is None and not lines:
        return None
    more = f" (and {further} more error{'s' * (further > 1)})" if further else ""
    wrapped = UserCodeError(f"{where}: {described(leaf)}{place_of(lines)}{more}")
    wrapped.frames = shown(lines)
    return wrapped


def with_lines(error: FedtempoError, where: str) -> FedtempoError:
    """Return a FedtempoError that user code caused, with `where` before its text and the code's position after it."""
    lines = lines_of(error)
    wrapped = type(error)(f"{where}: {error}{place_of(lines)}")
    wrapped.frames = shown(lines)
    return wrapped


def part_name(part: Any) -> str:
    """Return the `module:name` of a class, of a function, or of an object's class."""
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}:{named.__qualname__}"


def is_ours(part: Any) -> bool:
    """Return whether a class, a function or an object is part of fedtempo."""
    return part_name(part).partition(":")[0].partition(".")[0] == "fedtempo"


def described(error: BaseException) -> str:
    """Return an error's type and message in one line."""
    message = " ".join(str(error).split())
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST]}..."
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def lines_of_frames(frames: Iterable[tuple[FrameType, int]]) -> list[Line]:
    """Return the lines of user code among the frames of a stack, outermost first."""
    chosen = [(frame.f_code, number) for frame, number in frames if _is_users(frame.f_code.co_filename)]
    return [_line(code.co_filename, number, code.co_name) for code, number in chosen][-_DEEPEST:]


def lines_of(error: BaseException, package: str | None = None) -> list[Line]:
    """Return the lines of user code that an error passed through, outermost first.

    package: the installed package whose lines count if none of the user's own do; see the module's docstring.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    chosen = [(frame, number) for frame, number in frames if _is_users(frame.f_code.co_filename)]
    if not chosen and package is not None:
        outside = [(frame, number) for frame, number in frames if not _lies_in(frame.f_code.co_filename, _ours())]
        chosen = [pair for pair in outside if _module(pair[0]).partition(".")[0] == package] or outside[-1:]
    lines = [_line(frame.f_code.co_filename, number, frame.f_code.co_name) for frame, number in chosen]
    if isinstance(error, SyntaxError) and error.filename and _is_users(error.filename):
        lines.append(_line(error.filename, error.lineno or 0, "<module>"))
    return lines


def shown(lines: list[Line]) -> str:
    """Return lines of code formatted as in a traceback."""
    left_out = [f"({len(lines) - _DEEPEST} more)"] if len(lines) > _DEEPEST else []
    frames = [f"{line.file}:{line.number} in {line.function}\n    {line.source}" for line in lines[-_DEEPEST:]]
    return "\n".join([*left_out, *frames])


def place_of(lines: list[Line]) -> str:
    """Return the position of the innermost line, to append to a message; empty without lines."""
    return f" ({lines[-1].file}:{lines[-1].number} in {lines[-1].function})" if lines else ""


def _first(error: BaseException) -> tuple[BaseException, int]:
    """Return the first error in nested groups, preferring any that is not a FedtempoError, and the number of others."""
    leaves = list(_leaves(error))
    foreign = [leaf for leaf in leaves if not isinstance(leaf, FedtempoError)] or leaves
    return foreign[0], len(foreign) - 1


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _leaves(member)
    else:
        yield error


def _package(part: object) -> str | None:
    """Return the top-level package of a part; None without a part, or for one of fedtempo's."""
    if part is None or is_ours(part):
        return None
    return part_name(part).partition(":")[0].partition(".")[0]


def _line(file: str, number: int, name: str) -> Line:
    import linecache

    path = Path(file)
    with contextlib.suppress(ValueError, OSError):
        path = path.relative_to(Path.cwd())
    return Line(str(path), number, name, linecache.getline(file, number).strip())


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
    """Return the folder of the package fedtempo."""
    return (f"{Path(__file__).resolve().parents[1]}{os.sep}",)


@functools.cache
def _installed() -> tuple[str, ...]:
    """Return the folders of Python's library and of installed packages."""
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.__file__)]
    folders += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return tuple(f"{os.path.abspath(folder)}{os.sep}" for folder in folders)

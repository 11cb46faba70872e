"""The errors that fedtempo raises on purpose. Each names the problem, its place, and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any


class FedtempoError(Exception):
    """Base class of all errors that fedtempo raises. Its text is one line.

    frames: the lines of the user's code that led to the error, formatted as in a traceback; empty if none did.
    keeps_run: whether the run had results to lose when this error ended it, so that its folder is kept.
    """

    frames: str = ""
    keeps_run: bool = False


class ConfigError(FedtempoError):
    """An unusable configuration, argument or input file. The text names the field, its value and a valid one."""


class RunError(FedtempoError):
    """A run that cannot continue."""


class UserCodeError(ConfigError, RunError):
    """An error raised by code that a configuration names: a strategy, network, loss, data source, ...

    The text names the key, the error and its line; `frames` holds the user's lines and `__cause__` the error itself.
    """


class StrategyError(RunError):
    """A request of a strategy that cannot be met, such as an average with negative weights."""


class Interrupted(RunError):
    """A run ended by Ctrl-C or SIGTERM; if it has a folder, it can be resumed."""


class DeadlockError(RunError):
    """A run in which every task waits for something that can never happen."""


class WorkerError(RunError):
    """A worker process that died or failed during training."""


def too_many_files() -> str:
    """Return the text of an error about the number of open files."""
    try:
        import resource

        limit = f" (ulimit -n {resource.getrlimit(resource.RLIMIT_NOFILE)[0]})"
    except ImportError:  # not on this system
        limit = ""
    return f"too many open files{limit}: allow more, for example with ulimit -n 4096, or lower executor.workers"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the most similar known name, and all known names.

    A name with the same letters in another order is the most similar.
    """
    names = sorted(known)
    exchanged = [each for each in names if sorted(each) == sorted(name)]
    similar = exchanged or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {similar[0]!r}?" if similar else ""
    return f"{hint} (choose from {', '.join(names)})"


def duplicate(values: Sequence[Any]) -> Any:
    """Return the first value that occurs twice."""
    return next(value for position, value in enumerate(values) if value in values[:position])

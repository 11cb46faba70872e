"""Every error that fedtempo raises on purpose. Each says what is wrong, where, and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FedtempoError(Exception):
    """Root of all errors that fedtempo raises. Its text is one line.

    frames: lines of the user's code that led to it, as a traceback shows them; empty if there are none. keeps_run: the
    run had something to lose when this ended it, and its folder stays.
    """

    frames: str = ""
    keeps_run: bool = False


class ConfigError(FedtempoError):
    """A configuration, argument or input file that is not usable: names the field, the value, what would be right."""


class RunError(FedtempoError):
    """A run could not go on."""


class UserCodeError(ConfigError, RunError):
    """Code that a configuration names raised an error: a strategy, network, loss, data source, ...

    The text names the key, the error and its line; `frames` has the user's lines, `__cause__` the error itself.
    """


class StrategyError(RunError):
    """A strategy asked for what cannot be done, such as an average with negative weights."""


class Interrupted(RunError):
    """Ctrl-C or SIGTERM ended it; a folder holds what is needed to resume it."""


class DeadlockError(RunError):
    """Every task of a run waits for something that can never happen."""


class WorkerError(RunError):
    """A worker process died or failed while it trained."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one, and all there are."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{hint} (there are {', '.join(names)})"

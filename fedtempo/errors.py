"""Every error that fedtempo raises on purpose. Each says what is wrong, where, and what would be right."""

from __future__ import annotations


class FedtempoError(Exception):
    """Root of all errors that fedtempo raises."""


class ConfigError(FedtempoError):
    """A configuration, argument or input file that is not usable: names the field, the value, what would be right."""


class RunError(FedtempoError):
    """A run could not go on."""


class DeadlockError(RunError):
    """Every task of a run waits for something that can never happen."""


class WorkerError(RunError):
    """A worker process died or failed while it trained."""

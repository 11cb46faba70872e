"""The training of one visit: as configured, with the changes that a strategy requests."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from fedtempo.errors import RunError, StrategyError
from fedtempo.federation import Work
from fedtempo.learning.training import SMALLEST_LR, Training

_AS_CONFIGURED = Work()
_NOT_OF_TRAINING = ("lr_scale", "statistics", "procedure", "payload", "returns", "numbers", "compute_scale")


def compute_scale(work: Work | None) -> float:
    """Return the computing time of a visit's examples relative to training on them."""
    return 1.0 if work is None or work.compute_scale is None else work.compute_scale


def sends_model(work: Work | None) -> bool:
    """Return whether a visit uploads a model, rather than measurements only."""
    return work is None or work.sends_model


def must_be_whole(work: Work) -> None:
    """Raise RunError for work that the phases of a visit cannot do one by one."""
    if work.payload:
        raise RunError("Work.payload travels with the model: use train or train_all, not download and compute")
    if not work.sends_model:
        raise RunError(f"Work.procedure = {work.procedure!r}: use train or train_all, not download and compute")


def resolve(training: Training, work: Work | None, factor: float | None = None) -> Training:
    """Return the configured training with the changes of this visit; None changes nothing.

    factor: of the learning rate's schedule, which multiplies what the strategy requests (`Work.lr`, `Work.lr_scale`).
    """
    if work is None and factor is None:
        return training
    work = work or _AS_CONFIGURED
    if work.numbers is not None and work.procedure is None:
        raise StrategyError("Work.numbers are for a procedure; set Work.procedure, too")
    if work.procedure is not None:  # the cache must not keep the payload's models
        work = replace(work, procedure=None, payload=(), returns=0, numbers=None, compute_scale=None)
    return _changed(training, work, factor)


@lru_cache(maxsize=4096)
def _changed(training: Training, work: Work, factor: float | None) -> Training:
    changes: dict[str, Any] = {
        name: value for name, value in vars(work).items() if value is not None and name not in _NOT_OF_TRAINING
    }
    if work.lr_scale is not None:
        changes["lr"] = changes.get("lr", training.lr) * work.lr_scale
    if factor is not None:
        changes["lr"] = max(changes.get("lr", training.lr) * factor, SMALLEST_LR)
    if work.epochs is not None and work.steps is None:
        changes["steps"] = None
    changes["statistics"] = training.statistics | work.statistics
    return replace(training, **changes)

"""Schedules of the learning rate: by round, by commit or by time. PyTorch is imported only for its own schedulers.

`SCHEDULES` maps the name used in a configuration to the class; other names are classes of `torch.optim.lr_scheduler`
(`TorchSchedule`), or `module:function` (`UserSchedule`).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.component import component, made
from fedtempo.parts.fields import STRICT, Doc, NonNegative, Positive, Share
from fedtempo.parts.plugins import imported, installed, outside
from fedtempo.parts.text_files import parse_json
from fedtempo.parts.user_code import user_code

By = Literal["round", "commit", "time"]

Over = Annotated[Positive, Doc("rounds, commits or seconds until the last factor is reached; it then stays")]
Last = Annotated[Share, Doc("last factor on training.lr")]


@runtime_checkable
class Schedule(Protocol):
    """A schedule in a configuration."""

    @property
    def by(self) -> By:
        """What its position counts, see `_Schedule`."""
        ...

    def factor(self, position: float, lr: float) -> float:
        """Return the factor (>= 0) on the learning rate at `position`; lr: the configured learning rate."""
        ...


@dataclass(frozen=True, config=STRICT, kw_only=True)
class _Schedule:
    """What all schedules have in common: the unit of their position, and a linear warm-up before them."""

    by: Annotated[
        By,
        Doc(
            "unit of the schedule: 'round' (the version of the global model that the client's model descends from: all "
            "visits of a round or a chain have the same rate), 'commit' (commits so far), or 'time' (seconds)"
        ),
    ] = "round"
    warmup: Annotated[
        NonNegative, Doc("rounds, commits or seconds of linear warm-up; the schedule itself begins after them")
    ] = 0.0
    warmup_from: Annotated[Share, Doc("factor on training.lr at the start of the warm-up")] = 0.1

    def factor(self, position: float, lr: float) -> float:
        if position < self.warmup:
            return self.warmup_from + (1 - self.warmup_from) * position / self.warmup
        return self._after_warmup(position - self.warmup, lr)

    def _after_warmup(self, position: float, lr: float) -> float:
        raise NotImplementedError


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Constant(_Schedule):
    """The configured learning rate, after a warm-up."""

    def _after_warmup(self, position: float, lr: float) -> float:
        return 1.0


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Step(_Schedule):
    """Multiply the rate by `gamma` every so many rounds, commits or seconds (torch.optim.lr_scheduler.StepLR)."""

    every: Annotated[Positive, Doc("rounds, commits or seconds between two steps")]
    gamma: Annotated[Share, Doc("factor of each step")] = 0.1

    def _after_warmup(self, position: float, lr: float) -> float:
        return float(self.gamma ** math.floor(position / self.every))


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Exponential(_Schedule):
    """Multiply the rate by `gamma` per `every` rounds, commits or seconds, continuously (ExponentialLR in PyTorch)."""

    gamma: Annotated[Share, Doc("factor per `every`")]
    every: Annotated[Positive, Doc("rounds, commits or seconds to which `gamma` refers")] = 1.0

    def _after_warmup(self, position: float, lr: float) -> float:
        return float(self.gamma ** (position / self.every))


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Cosine(_Schedule):
    """Half a cosine wave from 1 to `last` (Loshchilov and Hutter 2017, Eq. 5; CosineAnnealingLR in PyTorch)."""

    over: Over
    last: Last = 0.0

    def _after_warmup(self, position: float, lr: float) -> float:
        share = min(position / self.over, 1.0)
        return self.last + (1 - self.last) * (1 + math.cos(math.pi * share)) / 2


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Linear(_Schedule):
    """A straight line from 1 to `last` (LinearLR in PyTorch)."""

    over: Over
    last: Last = 0.0

    def _after_warmup(self, position: float, lr: float) -> float:
        return 1 + (self.last - 1) * min(position / self.over, 1.0)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TorchSchedule(_Schedule):
    """A class of `torch.optim.lr_scheduler`, stepped once per `unit`.

    When the scheduler has made its last step (OneCycleLR), the rate stays.
    """

    kind: str
    options: Annotated[dict[str, Any], Doc("its keyword arguments; rates are absolute, as in PyTorch")] = (
        dataclasses.field(default_factory=dict)
    )
    unit: Annotated[Positive, Doc("rounds, commits or seconds per step of the scheduler")] = 1.0

    def __post_init__(self) -> None:
        try:
            json.dumps(self.options)
        except TypeError as error:
            raise ValueError(f"options: {error}") from error

    def _after_warmup(self, position: float, lr: float) -> float:
        rates = _torch_rates(self.kind, json.dumps(self.options, sort_keys=True), lr)
        return rates.after(math.floor(position / self.unit)) / lr


@dataclass(frozen=True, config=STRICT, kw_only=True)
class UserSchedule(_Schedule):
    """A user's function of the position (rounds, commits or seconds) that returns the factor on training.lr."""

    kind: str

    def _after_warmup(self, position: float, lr: float) -> float:
        where = f"training.schedule.kind = {self.kind!r}"
        function = outside(self.kind, "schedules", "training.schedule.kind")
        with user_code(where, function):
            factor = function(position)
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 <= factor < math.inf:
            raise ConfigError(f"{where} returned {factor!r} at {position:g}; it must return a number of 0 or more")
        return float(factor)


SCHEDULES: dict[str, type[Schedule]] = {
    "constant": Constant,
    "step": Step,
    "exponential": Exponential,
    "cosine": Cosine,
    "linear": Linear,
}


def schedule_from(value: object) -> object:
    """Return the schedule that a configuration names: a table with `kind`, or a name if it needs no settings.

    Raises ValueError, in one line, for an unknown kind and for settings that do not fit it.
    """
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, Mapping):
        return value
    kind = value.get("kind")
    if not isinstance(kind, str) or kind in SCHEDULES:
        return component(value, SCHEDULES, "schedules", "schedule")
    if ":" in kind or kind in installed("schedules"):
        function = outside(kind, "schedules", "training.schedule.kind")
        if not callable(function):
            raise ValueError(f"kind = {kind!r}: must be a function of the position, not {type(function).__name__}")
        return made(UserSchedule, value, f"schedule {kind!r}")
    if kind.isidentifier() and kind[0].isupper():
        return _checked_torch(made(TorchSchedule, value, f"schedule {kind!r}"))
    known = [*SCHEDULES, *installed("schedules"), "a class of torch.optim.lr_scheduler"]
    raise ValueError(f"kind = {kind!r}: no such schedule{nearest(kind, known)}")


def _checked_torch(schedule: TorchSchedule) -> TorchSchedule:
    """Return the schedule. Raises ValueError unless PyTorch has it and accepts its options."""
    try:
        schedule.factor(schedule.warmup, 0.01)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return schedule


class _TorchRates:
    """The rates of a scheduler of PyTorch after 0, 1, 2, ... steps, each computed once."""

    def __init__(self, kind: str, options: str, lr: float) -> None:
        import torch

        name = f"schedule {kind!r}"
        cls = getattr(torch.optim.lr_scheduler, kind, None)
        if not (isinstance(cls, type) and issubclass(cls, torch.optim.lr_scheduler.LRScheduler)):
            raise ConfigError(f"{name}: torch.optim.lr_scheduler has no scheduler of this name")
        if "metrics" in inspect.signature(cls.step).parameters:
            raise ConfigError(f"{name}: depends on measured losses, so it cannot be a function of the position")
        given = parse_json(options)
        if isinstance(given.get("lr_lambda"), str):
            given["lr_lambda"] = imported(given["lr_lambda"], f"{name}: lr_lambda")
        self._name = name
        self._optimizer = torch.optim.SGD([torch.zeros(1, dtype=torch.float64, requires_grad=True)], lr, momentum=0.5)
        try:
            self._scheduler = cls(self._optimizer, **given)
        except Exception as error:  # whatever its constructor raises
            raise ConfigError(f"{name}: {error}") from error
        self._momentum = 0.5
        self._rates = [self._rate()]
        self._last = getattr(self._scheduler, "total_steps", math.inf) - 1
        """Number of its last step. OneCycleLR has no sensible rate beyond it."""

    def after(self, steps: int) -> float:
        steps = int(min(steps, self._last))
        while len(self._rates) <= steps:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it expects steps of the optimiser, which makes none here
                self._scheduler.step()
            self._rates.append(self._rate())
        return self._rates[steps]

    def _rate(self) -> float:
        group = self._optimizer.param_groups[0]
        if group["momentum"] != self._momentum:
            raise ConfigError(f"{self._name}: also changes the momentum; set options.cycle_momentum = false")
        rate = float(group["lr"])
        if not 0 <= rate < math.inf:
            raise ConfigError(f"{self._name}: gives the learning rate {rate!r}; rates must be 0 or more")
        return rate


@lru_cache(maxsize=64)
def _torch_rates(kind: str, options: str, lr: float) -> _TorchRates:
    return _TorchRates(kind, options, lr)

"""What goes wrong, drawn from one number: trials, each a run and the faults that hit it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from fedtempo.runtime.keyed import keyed_generator
from fedtempo.strategies import STRATEGIES

Where = Literal["simulation", "deployment", "processes"]
"""A simulation; a deployment whose messages cross no network; one with a SuperLink, a proxy and client processes."""

SHARES: dict[Where, float] = {"simulation": 0.68, "deployment": 0.28, "processes": 0.04}
EXECUTORS = ("inline", "inline", "processes", "none")

MEANS = ("fedavg", "sequential")
"""Strategies whose next model is the mean of the updates that are based on the last one."""

POINTS = ("seconds", "fsync", "replace", "unlink", "visit")
"""What is counted until a fault of a life: its seconds, its calls of these functions, the visits that it records."""

_OFTEN = ("visit", "visit", "visit", *POINTS)

DRIVER = ("driver killed", "driver stopped", "disk full", "clock jumped")
WORKERS = ("worker killed", "worker stopped")
CLIENTS = ("client killed", "client stopped")
SUPERLINK = ("SuperLink killed", "SuperLink stopped")
PROXY = ("proxy killed", "proxy stopped")
MESSAGES = ("message lost", "message doubled", "message delayed", "message truncated")
KINDS = (*DRIVER, *WORKERS, *CLIENTS, *SUPERLINK, *PROXY, *MESSAGES)

FATAL = ("driver killed", "disk full")
"""Faults that end a life; the run is resumed."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    at: one of POINTS, or "call" (of a server to a client). when: share of what an undisturbed life has of it, or for
    calls how many come before. size: from 0 to 1, how long, how far or where, depending on the kind. back: whether the
    reply is meant rather than the call. of: number of the worker or client that is meant.
    """

    kind: str
    at: str
    when: float
    size: float
    back: bool = False
    of: int = 0


@dataclass(frozen=True)
class Trial:
    """A run and the faults that hit it. eager: whether the run makes a checkpoint whenever it can."""

    seed: int
    number: int
    where: Where
    strategy: str
    executor: str
    eager: bool
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        """The number that repeats this trial, see `trial`."""
        return f"{self.seed}:{self.number}"

    def __str__(self) -> str:
        return f"CHAOS={self.name} ({self.where}, {self.strategy}, {self.executor})"

    def lives(self) -> list[list[Fault]]:
        """Return the faults of the driver and its workers by life: each but the last ends with a fatal one."""
        lives: list[list[Fault]] = [[]]
        for fault in self.faults:
            if fault.at in POINTS:
                lives[-1].append(fault)
                if fault.kind in FATAL:
                    lives.append([])
        return lives

    def around(self) -> list[Fault]:
        """Return the faults of everything else, in the order of the calls that they wait for."""
        return sorted((fault for fault in self.faults if fault.at == "call"), key=lambda fault: fault.when)


def trial(seed: int, number: int) -> Trial:
    """Return trial `number` of the sequence that `seed` stands for."""
    rng = keyed_generator(seed, "chaos", number)
    where = _where(seed, number)
    strategy = _strategy(seed, number, where)
    if where == "simulation":
        executor = EXECUTORS[rng.integers(len(EXECUTORS))]
        kinds = (*DRIVER, *(WORKERS if executor == "processes" else ()))
        faults = [_of_a_life(rng, kinds) for _ in range(rng.integers(4, 10))]
    elif where == "deployment":
        executor = "loopback"
        faults = [_of_a_life(rng, DRIVER) for _ in range(rng.integers(2, 6))]
        faults += [_around(rng, (*MESSAGES, *MESSAGES, *CLIENTS, *SUPERLINK), 40) for _ in range(rng.integers(6, 15))]
    else:
        executor = "Flower"
        kinds = ("driver killed", "driver stopped", "disk full", "clock jumped")
        kinds = (*kinds, *CLIENTS, *SUPERLINK, *PROXY, *MESSAGES[2:])
        faults = [_around(rng, kinds, 12) for _ in range(rng.integers(6, 11))]
    return Trial(seed, number, where, strategy, executor, bool(rng.integers(2)), tuple(faults))


@cache
def _where(seed: int, number: int) -> Where:
    names = list(SHARES)
    return names[int(keyed_generator(seed, "chaos where", number).choice(len(names), p=list(SHARES.values())))]


def _strategy(seed: int, number: int, where: Where) -> str:
    """Return a strategy: each comes up once before any does again, but every fourth deployment has one of MEANS."""
    before = sum(_where(seed, earlier) == where for earlier in range(number))
    if where != "simulation":
        if before % 4 == 3:
            return MEANS[before // 4 % len(MEANS)]
        before -= before // 4
    names = sorted(STRATEGIES)
    order = keyed_generator(seed, f"chaos {where}", before // len(names)).permutation(len(names))
    return names[int(order[before % len(names)])]


def _of_a_life(rng: np.random.Generator, kinds: tuple[str, ...]) -> Fault:
    kind = kinds[int(rng.integers(len(kinds)))]
    at = _OFTEN[int(rng.integers(len(_OFTEN)))]
    if kind == "driver stopped":
        at = "seconds"  # somebody else must let it go on
    elif kind != "driver killed" and at == "seconds":
        at = "visit"  # only signals come from outside
    # A resumed run replays its visits, but writes only what is new.
    when = float(rng.uniform(0.0, 0.95 if at == "visit" else 0.4))
    return Fault(kind, at, when, float(rng.uniform()), of=int(rng.integers(2)))


def _around(rng: np.random.Generator, kinds: tuple[str, ...], calls: int) -> Fault:
    kind = kinds[int(rng.integers(len(kinds)))]
    when, size = float(rng.integers(1, calls)), float(rng.uniform())
    return Fault(kind, "call", when, size, back=bool(rng.integers(2)), of=int(rng.integers(3)))

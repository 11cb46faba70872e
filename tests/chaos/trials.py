"""Trials, one after the other, within a time or until enough faults have hit."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import deployments, simulations
from tests.chaos.outcome import Outcome
from tests.chaos.plan import Trial, trial

_HAS_FLOWER = importlib.util.find_spec("flwr") is not None
if _HAS_FLOWER:
    from tests.chaos import processes


@dataclass(frozen=True)
class Extent:
    """How much chaos. seconds: no trial begins after these. faults: nor after so many have hit. number: this trial
    alone.
    """

    seed: int
    seconds: float = float("inf")
    faults: float = float("inf")
    number: int | None = None

    @classmethod
    def of(cls, chosen: str, seconds: float, faults: float) -> Extent:
        """Return the extent for `chosen`: a seed, or a seed and the number of a trial, SEED:TRIAL."""
        seed, _, number = chosen.partition(":")
        return cls(int(seed), seconds, faults, int(number) if number else None)


def carried_out(extent: Extent, say: Callable[[str], None] = print) -> Iterator[Outcome]:
    """Carry out the trials and yield what became of each. What a trial with violations leaves is kept."""
    began, hits = time.monotonic(), 0
    room = Path(tempfile.mkdtemp(prefix="chaos-", dir=_disk()))
    undisturbed = simulations.Undisturbed(_made(room / "undisturbed"))
    try:
        numbers = itertools.count() if extent.number is None else [extent.number]
        for number in numbers:
            if time.monotonic() - began > extent.seconds or hits >= extent.faults:
                return
            planned = trial(extent.seed, number)
            if planned.where == "processes" and not _HAS_FLOWER:
                continue
            outcome = _outcome(planned, _made(room / str(number)), undisturbed)
            hits += outcome.injected.total()
            if outcome.violations:
                say(f"{planned}: {'; '.join(outcome.violations)}; see {room / str(number)}")
            else:
                shutil.rmtree(room / str(number))
            yield outcome
    finally:
        shutil.rmtree(room / "undisturbed")
        if not any(room.iterdir()):
            room.rmdir()


def _outcome(planned: Trial, room: Path, undisturbed: simulations.Undisturbed) -> Outcome:
    began = time.monotonic()
    if planned.where == "simulation":
        outcome = simulations.disturbed(planned, room, undisturbed)
    elif planned.where == "deployment":
        outcome = deployments.disturbed(planned, room)
    else:
        outcome = processes.disturbed(planned, room)
    outcome.seconds = time.monotonic() - began
    return outcome


def _disk() -> Path | None:
    """Return a folder in memory, where syncs cost nothing and every kill finds another state; None if there is none."""
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder

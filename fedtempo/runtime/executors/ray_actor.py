"""What runs on the nodes of a Ray cluster: one trainer a process, one thread, models in and out by object store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedtempo.learning.numerics import fixed_numerics
from fedtempo.parts.plugins import add_folder
from fedtempo.record.folder import versions
from fedtempo.runtime.executors import Vector
from fedtempo.runtime.executors.job import Answer, Array, PackedJob, Trainer


class Actor:
    """A trainer on a job whose arrays lie in the node's object store, once for all actors on it.

    folders: where the user's modules lie, on a node that has them there.
    """

    def __init__(self, packed: PackedJob, arrays: Mapping[str, Array], folders: Sequence[str] = ()) -> None:
        for folder in map(Path, folders):
            if folder.is_dir():
                add_folder(folder)
        with fixed_numerics():
            self._job = packed.opened({name: _unlocked(array) for name, array in arrays.items()})
            self._trainer = Trainer(self._job, self._job.model())

    def whereabouts(self) -> tuple[str, dict[str, str | None]]:
        """Ray's name of the node it is on, and `computing_versions` there."""
        import ray

        return ray.get_runtime_context().get_node_id(), computing_versions()

    def train(self, received: Vector, *visit: Any) -> tuple[Vector, Answer]:
        return self._trained(self._trainer.train, received, *visit)

    def train_rows(self, received: Vector, *visit: Any) -> tuple[Vector, Answer]:
        return self._trained(self._trainer.train_rows, received, *visit)

    def evaluate(self, vector: Vector, start: int, stop: int) -> tuple[float, ...]:
        with self._told(), fixed_numerics():
            return self._trainer.evaluate_part(vector, start, stop)

    def _trained(self, train: Callable[..., Answer], received: Vector, *visit: Any) -> tuple[Vector, Answer]:
        out = np.empty_like(received)
        with self._told(), fixed_numerics():
            answer = train(received, out, *visit)
        return out, answer

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Raise an error as it is to be told (`Job.failure`): its lines of code are known here alone."""
        try:
            yield
        except Exception as error:
            told = self._job.failure(error)
            if told is error:
                raise
            raise told from error


def computing_versions() -> dict[str, str | None]:
    """Versions of the packages on which the bits of a training depend."""
    known = versions()
    return {name: known[name] for name in ("fedtempo", "torch", "numpy")}


class _Unlocked:
    """Shows an array's memory as writable: PyTorch has no read-only tensors, and a copy for each actor is too many."""

    def __init__(self, array: Array) -> None:
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
        self._array = array


def _unlocked(array: Array) -> Array:
    """The same memory without its lock. Nobody writes to it: training reads examples by gathering rows."""
    return np.asarray(_Unlocked(array))

"""The actor on the nodes of a Ray cluster: one trainer per process, one thread, models in the object store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedtempo.learning.evaluation import Part
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.parts.import_path import add_folder
from fedtempo.record.folder import versions
from fedtempo.runtime.executors import On, Vector
from fedtempo.runtime.executors.job import Answer, Array, PackedJob, Trainer


class Actor:
    """A trainer for a job whose arrays are in the node's object store, shared by all actors on the node.

    folders: folders with the user's modules, if the node has them.
    """

    def __init__(self, packed: PackedJob, arrays: Mapping[str, Array], folders: Sequence[str] = ()) -> None:
        for folder in map(Path, folders):
            if folder.is_dir():
                add_folder(folder)
        with fixed_numerics():
            self._job = packed.opened({name: _unlocked(array) for name, array in arrays.items()})
            self._trainer = Trainer(self._job, self._job.model())

    def whereabouts(self) -> tuple[str, dict[str, str | None]]:
        """Return Ray's id of the actor's node, and `computing_versions` there."""
        import ray

        return ray.get_runtime_context().get_node_id(), computing_versions()

    def train(self, received: Vector, *visit: Any) -> tuple[Vector, Answer]:
        return self._trained(self._trainer.train, received, *visit)

    def train_rows(self, received: Vector, *visit: Any) -> tuple[Vector, Answer]:
        return self._trained(self._trainer.train_rows, received, *visit)

    def train_carried(
        self,
        received: Vector,
        client: int,
        visit: int,
        training: Training,
        state: bytes | None,
        procedure: str | None,
        numbers: Mapping[str, float] | None,
        returns: int,
        *payload: Vector,
    ) -> tuple[Vector, tuple[Answer, bytes | None, list[Vector]]]:
        """Make a visit of a client that keeps something; see `Trainer.train_carried`."""
        out, sent = np.empty_like(received), [np.empty_like(received) for _ in range(returns)]
        with self._reported_errors(), fixed_numerics():
            answer, state = self._trainer.train_carried(
                received,
                out,
                client,
                visit,
                training,
                state=state,
                procedure=procedure,
                numbers=numbers,
                payload=payload,
                sent=sent,
            )
        return out, (answer, state, sent)

    def evaluate(self, vector: Vector, start: int, stop: int, state: bytes | None, on: On) -> Part:
        """Evaluate one batch; see `Trainer.evaluate_part`."""
        with self._reported_errors(), fixed_numerics():
            return self._trainer.evaluate_part(vector, start, stop, state, on)

    def _trained(self, train: Callable[..., Answer], received: Vector, *visit: Any) -> tuple[Vector, Answer]:
        out = np.empty_like(received)
        with self._reported_errors(), fixed_numerics():
            answer = train(received, out, *visit)
        return out, answer

    @contextlib.contextmanager
    def _reported_errors(self) -> Iterator[None]:
        """Convert errors inside the block with `Job.failure`: their lines of code are known only here."""
        try:
            yield
        except Exception as error:
            reported = self._job.failure(error)
            if reported is error:
                raise
            raise reported from error


def computing_versions() -> dict[str, str | None]:
    """Return the versions of the packages on which the bits of a training depend."""
    installed = versions()
    return {name: installed[name] for name in ("fedtempo", "torch", "numpy")}


class _Unlocked:
    """A writable view of a read-only array: PyTorch has no read-only tensors, and copies per actor cost too much."""

    def __init__(self, array: Array) -> None:
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
        self._array = array


def _unlocked(array: Array) -> Array:
    """Return a writable view without copying. Nothing writes to it: training only gathers rows of examples."""
    return np.asarray(_Unlocked(array))

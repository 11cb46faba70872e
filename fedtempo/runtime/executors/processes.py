"""Training in persistent worker processes, one thread each; pipes carry slot numbers, shared memory the models."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import numpy as np

from fedtempo.errors import ConfigError, WorkerError
from fedtempo.learning.training import Training
from fedtempo.parts import leftovers
from fedtempo.parts.machine import usable_cpus
from fedtempo.runtime.executors import Carried, On, Pending, Rows, Trained, Vector
from fedtempo.runtime.executors.arithmetic import read_only
from fedtempo.runtime.executors.job import Job, pack
from fedtempo.runtime.executors.scoring import Scoring
from fedtempo.runtime.executors.shared import Segment, Slot, SlotPool, place, segment_prefix
from fedtempo.runtime.executors.states import State
from fedtempo.runtime.executors.worker import work
from fedtempo.runtime.executors.workers import CarriedTask, Task, Worker, Workers

StartMethod = Literal["fork", "spawn", "forkserver"]

_PATIENCE_S = 2.0
"""Seconds within which a worker must end by itself."""


class _Process(Worker):
    """A worker process and this process's end of its pipe."""

    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        super().__init__()
        self.process, self.connection = process, connection


class Processes(Workers[_Process]):
    """Executor with worker processes on this machine.

    workers: number of processes (default: number of CPUs that this process may use, see `parts.machine`). start_method:
    of `multiprocessing` (default: "fork" if available, else "spawn").
    """

    location_type = Slot
    workers_name = "worker processes"

    def __init__(self, job: Job, workers: int | None = None, start_method: StartMethod | None = None) -> None:
        count = usable_cpus() if workers is None else workers
        if count < 1:
            raise ConfigError(f"executor.workers = {workers!r}: must be at least 1")
        methods = multiprocessing.get_all_start_methods()
        method = start_method or ("fork" if "fork" in methods else "spawn")
        if method not in methods:
            raise ConfigError(f"executor.start_method = {method!r}: this system supports {', '.join(methods)}")
        model = job.model()
        super().__init__(model, Scoring(job))
        self._number = 0
        self._started = 0
        prefix = segment_prefix()
        packed, arrays = pack(job, model.channels_last)
        placement, segment = place(f"{prefix}-data", arrays)
        self._pool = SlotPool(prefix, self._size)
        self._close = weakref.finalize(self, _shut_down, os.getpid(), self._workers, self._pool, segment)
        self._initial = self._store(model.sent.numpy())
        self._method, self._job, self._prefix = method, (packed, placement), prefix
        for _ in range(count):
            self._start_worker()

    def _start_worker(self) -> None:
        context: Any = multiprocessing.get_context(self._method)
        if context.get_start_method() == "forkserver":
            leftovers.own_temporary_folder()
        ours, theirs = context.Pipe()
        # A fork inherits this end of its own and of earlier pipes and must close them, so that their closing is seen.
        inherited = [worker.connection for worker in self._workers] + [ours] if self._method == "fork" else []
        process = context.Process(
            target=work,
            args=(theirs, inherited, *self._job, self._prefix, self._size),
            name=f"fedtempo worker {self._started}",
            daemon=True,
        )
        process.start()
        theirs.close()
        self._started += 1
        self._workers.append(_Process(process, ours))

    def facts(self) -> dict[str, int]:
        """Return facts for the records, including the memory for models."""
        return {
            "workers": len(self._workers),
            "workers_replaced": self._started - len(self._workers),
            "peak_models": self._pool.peak,
            "model_memory_bytes": self._pool.bytes_allocated,
        }

    @property
    def slots_in_use(self) -> int:
        """Number of models in shared memory now."""
        return self._pool.slots_in_use

    @property
    def slots_allocated(self) -> int:
        """Number of models that the shared memory allocated so far can hold."""
        return self._pool.slots_allocated

    @property
    def process_ids(self) -> list[int]:
        """Process ids of the living workers."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def initial(self) -> Slot:
        return self._initial

    def train_rows(self, location: Slot, rows: Rows, visit: int, training: Training) -> Pending[Trained]:
        # With four bytes per row, 16,000 rows fit into a pipe's buffer, and sending does not wait for a busy worker.
        return super().train_rows(location, np.asarray(rows, dtype=np.int32), visit, training)

    def _new_visit(self, name: str, location: Slot, arguments: tuple[Any, ...]) -> tuple[Task, Slot]:
        out = self._pool.take()
        return Task(name, (location.number, out.number, *arguments), (location, out)), out

    def _new_carried(self, location: Slot, arguments: tuple[Any, ...], carried: Carried) -> CarriedTask:
        out, state, sent = (
            self._pool.take(),
            self.states.new(),
            tuple(self._pool.take() for _ in range(carried.returns)),
        )
        before: State | None = carried.state
        message = (
            location.number,
            out.number,
            *arguments,
            self.states.portable(before),
            state.path,
            carried.procedure,
            carried.numbers,
            [each.number for each in carried.payload],
            [each.number for each in sent],
        )
        used = (location, out, before, state, *carried.payload, *sent)
        return CarriedTask(Task("train_carried", message, used), out, state, sent)

    def _new_test(self, location: Slot, start: int, stop: int, state: State | None, on: On) -> Task:
        message = (location.number, start, stop, self.states.portable(state), on)
        return Task("evaluate", message, (location, state))

    def _store(self, vector: Vector) -> Slot:
        slot = self._pool.take()
        np.copyto(self._pool.view(slot.number), vector, casting="same_kind")
        return slot

    def _read(self, locations: Sequence[Slot]) -> list[Vector]:
        return [read_only(self._pool.view(location.number)) for location in locations]

    def _give(self, worker: _Process, task: Task) -> None:
        self._number += 1
        worker.tasks[self._number] = task
        try:
            worker.connection.send((self._number, task.name, task.arguments))
        except OSError:
            self._lose(worker)

    def _pump(self, timeout: float | None) -> None:
        self._send()
        by_connection = {worker.connection: worker for worker in self._workers if worker.tasks}
        if by_connection:
            for connection in wait(list(by_connection), timeout):
                self._receive(by_connection[connection])  # type: ignore[index]
            self._send()
        if not self._workers:
            self._fail_queued(WorkerError("all worker processes have died"))

    def _receive(self, worker: _Process) -> None:
        try:
            number, failed, answer = worker.connection.recv()
        except (EOFError, OSError):
            self._lose(worker)
            return
        error = None
        if failed:
            error, trace = answer
            error.__cause__ = WorkerError(f"in a worker process:\n{trace}")
        worker.tasks.pop(number).finish(answer, error)

    def _lose(self, worker: _Process) -> None:
        worker.process.join(_PATIENCE_S)
        code = worker.process.exitcode
        self._bury(worker, f"signal {-code}" if code is not None and code < 0 else f"exit code {code}")

    def _replace(self, worker: _Process) -> None:
        worker.connection.close()
        with contextlib.suppress(OSError):  # if no process can be started, the others continue
            self._start_worker()


def _shut_down(owner: int, workers: list[_Process], pool: SlotPool, data: Segment) -> None:
    """End the workers, killing those that are busy or do not react, and remove the shared memory."""
    if os.getpid() != owner:  # a forked process has a copy of an executor that it does not own
        return
    for worker in workers:
        if worker.tasks:
            worker.process.kill()
        else:
            with contextlib.suppress(OSError):
                worker.connection.send(None)
    for worker in workers:
        worker.process.join(_PATIENCE_S)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()
        worker.connection.close()
    workers.clear()
    pool.close()
    data.unlink()

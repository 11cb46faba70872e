"""Training in persistent worker processes, one thread each. Pipes carry slot numbers; models stay in shared memory."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import numpy as np

from fedtempo.errors import ConfigError, WorkerError
from fedtempo.learning.evaluation import combine, parts
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Evaluation, Rows, Trained, Vector
from fedtempo.runtime.executors.arithmetic import apply, read_only
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.shared import Segment, Slot, SlotPool, segment_prefix
from fedtempo.runtime.executors.worker import share, work

StartMethod = Literal["fork", "spawn", "forkserver"]

_AHEAD = 2
"""Visits at a worker: one in progress, one waiting, so that it never waits for the next."""

_PATIENCE_S = 2.0
"""How long a worker may take to end by itself."""


class _Task:
    """One message to a worker and its answer. models: the slots that it reads and writes, kept while it lasts.

    lost: workers that died over it.
    """

    __slots__ = ("__weakref__", "answer", "arguments", "error", "finished", "lost", "models", "name")

    def __init__(self, name: str, arguments: tuple[Any, ...], models: tuple[Slot, ...]) -> None:
        self.name, self.arguments, self.models = name, arguments, models
        self.finished = False
        self.lost = 0
        self.answer: Any = None
        self.error: WorkerError | None = None

    def finish(self, answer: Any = None, error: WorkerError | None = None) -> None:
        self.answer, self.error, self.finished, self.models = answer, error, True, ()


class _Worker:
    """A process, this end of its pipe, and by number the tasks that it was sent."""

    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self.process, self.connection = process, connection
        self.tasks: dict[int, _Task] = {}


class _Visit:
    """Pending training of one visit."""

    __slots__ = ("_executor", "_result", "_task")

    def __init__(self, executor: Processes, task: _Task, out: Slot) -> None:
        self._executor, self._task, self._result = executor, task, out

    def result(self) -> Trained:
        self._executor._finish([self._task])
        return Trained(self._result, *self._task.answer)

    def done(self) -> bool:
        return self._executor._are_done([self._task])


class _Test:
    """Pending evaluation: one task for each part of the test set."""

    __slots__ = ("_executor", "_size", "_tasks")

    def __init__(self, executor: Processes, tasks: list[_Task], size: int) -> None:
        self._executor, self._tasks, self._size = executor, tasks, size

    def result(self) -> Evaluation:
        self._executor._finish(self._tasks)
        return Evaluation(*combine([task.answer for task in self._tasks], self._size))

    def done(self) -> bool:
        return self._executor._are_done(self._tasks)


class Processes:
    """Executor with worker processes. The results have the same bits for any number of them.

    Visits start in the order in which they were asked for; evaluations only on workers that have nothing else. What
    nobody waits for any more, and has not started, is dropped. A worker that dies is replaced, and what it was sent is
    done again by the next one that is free, with the same bits; an operation over which a second worker dies fails.

    workers: processes; default one for each core that this process may use. start_method: of `multiprocessing`,
    default "fork" where there is one, else "spawn".
    """

    trains = True

    def __init__(self, job: Job, workers: int | None = None, start_method: StartMethod | None = None) -> None:
        count = _usable_cores() if workers is None else workers
        if count < 1:
            raise ConfigError(f"executor.workers = {workers!r}: at least 1 is needed")
        methods = multiprocessing.get_all_start_methods()
        method = start_method or ("fork" if "fork" in methods else "spawn")
        if method not in methods:
            raise ConfigError(f"executor.start_method = {method!r}: this system has {', '.join(methods)}")
        model = job.model()
        self.size_bytes = 4 * model.n_parameters
        self._size = model.size
        self._test_size = len(job.test_x)
        self._number = 0
        self._visits: deque[weakref.ref[_Task]] = deque()
        self._tests: deque[weakref.ref[_Task]] = deque()
        self._workers: list[_Worker] = []
        self._started = 0
        prefix = segment_prefix()
        shared, segment = share(job, model.channels_last, f"{prefix}-data")
        self._pool = SlotPool(prefix, self._size)
        self._close = weakref.finalize(self, _shut_down, os.getpid(), self._workers, self._pool, segment)
        self._initial = self._store(model.vector.numpy())
        self._method, self._shared, self._prefix = method, shared, prefix
        for _ in range(count):
            self._start_worker()

    def _start_worker(self) -> None:
        context: Any = multiprocessing.get_context(self._method)
        ours, theirs = context.Pipe()
        # A fork inherits this end of its own pipe and of the earlier ones: held open there, no end would be seen.
        inherited = [worker.connection for worker in self._workers] + [ours] if self._method == "fork" else []
        process = context.Process(
            target=work,
            args=(theirs, inherited, self._shared, self._prefix, self._size),
            name=f"fedtempo worker {self._started}",
            daemon=True,
        )
        process.start()
        theirs.close()
        self._started += 1
        self._workers.append(_Worker(process, ours))

    def facts(self) -> dict[str, int]:
        """For the records: workers, how many took the place of one that died, and what models took at most."""
        return {
            "workers": len(self._workers),
            "workers_replaced": self._started - len(self._workers),
            "peak_models": self._pool.peak,
            "model_memory_bytes": self._pool.bytes_allocated,
        }

    @property
    def slots_in_use(self) -> int:
        """Models that lie in shared memory now."""
        return self._pool.slots_in_use

    @property
    def slots_allocated(self) -> int:
        """Models that the shared memory claimed so far has room for."""
        return self._pool.slots_allocated

    @property
    def process_ids(self) -> list[int]:
        """Of the workers that live."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def initial(self) -> Slot:
        return self._initial

    def train(self, location: Slot, client: int, visit: int, training: Training) -> _Visit:
        return self._visit("train", location, client, visit, training)

    def train_rows(self, location: Slot, rows: Rows, visit: int, training: Training) -> _Visit:
        # Four bytes a row: 16,000 of them fit into a pipe at once, and sending does not wait for a busy worker.
        return self._visit("train_rows", location, np.asarray(rows, dtype=np.int32), visit, training)

    def _visit(self, name: str, location: Slot, *arguments: Any) -> _Visit:
        self._must_be_open()
        out = self._pool.take()
        task = _Task(name, (location.number, out.number, *arguments), (location, out))
        self._visits.append(weakref.ref(task))
        self._pump(0)
        return _Visit(self, task, out)

    def evaluate(self, location: Slot) -> _Test:
        self._must_be_open()
        tasks = [
            _Task("evaluate", (location.number, start, stop), (location,)) for start, stop in parts(self._test_size)
        ]
        self._tests.extend(weakref.ref(task) for task in tasks)
        self._pump(0)
        return _Test(self, tasks, self._test_size)

    def apply(self, function: Callable[..., Any], locations: Sequence[Slot], arguments: Mapping[str, Any]) -> Any:
        self._must_be_open()
        with fixed_numerics():
            return apply(
                function,
                locations,
                arguments,
                location_type=Slot,
                size=self._size,
                read=lambda location: read_only(self._pool.view(location.number)),
                store=self._store,
            )

    def is_location(self, value: object) -> bool:
        return isinstance(value, Slot)

    def vector(self, location: Slot) -> Vector:
        self._must_be_open()
        return read_only(self._pool.view(location.number).copy())

    def close(self) -> None:
        queued = [task for reference in (*self._visits, *self._tests) if (task := reference()) is not None]
        self._visits.clear()
        self._tests.clear()
        for task in [*queued, *(task for worker in self._workers for task in worker.tasks.values())]:
            task.finish(error=WorkerError("the executor was closed before this was done"))
        self._close()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _store(self, vector: Vector) -> Slot:
        slot = self._pool.take()
        np.copyto(self._pool.view(slot.number), vector, casting="same_kind")
        return slot

    def _must_be_open(self) -> None:
        if not self._close.alive:
            raise WorkerError("the executor is closed")

    # Tasks: queued here -> sent to a worker -> finished

    def _finish(self, tasks: Sequence[_Task]) -> None:
        """Wait until these are finished; raises the error of the first that failed."""
        for task in tasks:
            while not task.finished:
                self._pump(None)
            if task.error is not None:
                raise task.error

    def _are_done(self, tasks: Sequence[_Task]) -> bool:
        if not all(task.finished for task in tasks):
            self._pump(0)
        return all(task.finished for task in tasks)

    def _pump(self, timeout: float | None) -> None:
        """Send what can be sent, take in the answers that are there (None: wait for one), send again."""
        self._send()
        by_connection = {worker.connection: worker for worker in self._workers if worker.tasks}
        if by_connection:
            for connection in wait(list(by_connection), timeout):
                self._receive(by_connection[connection])  # type: ignore[index]
            self._send()

    def _send(self) -> None:
        while self._visits and (worker := self._least_loaded(_AHEAD)) is not None:
            self._give(worker, self._visits.popleft())
        while self._tests and not self._visits and (worker := self._least_loaded(1)) is not None:
            self._give(worker, self._tests.popleft())
        if not self._workers:
            for queue in (self._visits, self._tests):
                while queue:
                    if (task := queue.popleft()()) is not None:
                        task.finish(error=WorkerError("all worker processes have died"))

    def _least_loaded(self, limit: int) -> _Worker | None:
        worker = min(self._workers, key=lambda worker: len(worker.tasks), default=None)
        return worker if worker is not None and len(worker.tasks) < limit else None

    def _give(self, worker: _Worker, reference: weakref.ref[_Task]) -> None:
        task = reference()
        if task is None:
            return
        self._number += 1
        worker.tasks[self._number] = task
        try:
            worker.connection.send((self._number, task.name, task.arguments))
        except OSError:
            self._bury(worker)

    def _receive(self, worker: _Worker) -> None:
        try:
            number, failed, answer = worker.connection.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        error = WorkerError(f"a worker failed:\n{answer}") if failed else None
        worker.tasks.pop(number).finish(answer, error)

    def _bury(self, worker: _Worker) -> None:
        """A worker has died: another takes its place, and its tasks come first, but for one that was fatal before."""
        worker.process.join(_PATIENCE_S)
        code = worker.process.exitcode
        reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        self._workers.remove(worker)
        worker.connection.close()
        tasks = list(worker.tasks.values())
        if tasks:
            tasks[0].lost += 1  # it was at this one: the others waited behind it
        for task in reversed(tasks):
            if task.lost > 1:
                task.finish(error=WorkerError(f"two worker processes died ({reason}) over this operation"))
            else:
                (self._tests if task.name == "evaluate" else self._visits).appendleft(weakref.ref(task))
        with contextlib.suppress(OSError):  # no process can be made: those that live go on
            self._start_worker()


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shut_down(owner: int, workers: list[_Worker], pool: SlotPool, data: Segment) -> None:
    """End the workers, by force those that are busy or do not listen, and remove the shared memory."""
    if os.getpid() != owner:  # a forked process has a copy of the executor, but it is not its own
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

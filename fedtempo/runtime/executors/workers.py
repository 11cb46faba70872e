"""Base of executors with workers: assignment of tasks, and recovery of the tasks of dead workers."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

from fedtempo.errors import FedtempoError, WorkerError
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Carried, Evaluation, On, Pending, Rows, Trained, Vector
from fedtempo.runtime.executors.arithmetic import Statistics, apply, read_only, whole
from fedtempo.runtime.executors.scoring import Scoring
from fedtempo.runtime.executors.states import State, States

_AHEAD = 2
"""Visits per worker: one in progress and one queued, so that the worker never idles."""


class Task:
    """A message to a worker and its answer.

    models: locations that it reads and writes, kept until it is finished. lost: number of workers that died over it.
    """

    __slots__ = ("__weakref__", "answer", "arguments", "error", "finished", "lost", "models", "name")

    def __init__(self, name: str, arguments: tuple[Any, ...], models: tuple[Any, ...]) -> None:
        self.name, self.arguments, self.models = name, arguments, models
        self.finished = False
        self.lost = 0
        self.answer: Any = None
        self.error: FedtempoError | None = None

    def finish(self, answer: Any = None, error: FedtempoError | None = None) -> None:
        self.answer, self.error, self.finished, self.models = answer, error, True, ()


class Worker:
    """A worker. tasks: tasks sent and not yet answered, in order, by the key of the answer."""

    def __init__(self) -> None:
        self.tasks: dict[Any, Task] = {}


W = TypeVar("W", bound=Worker)


class _Visit:
    """Pending training of one visit."""

    __slots__ = ("_executor", "_result", "_task")

    def __init__(self, executor: Workers[Any], task: Task, out: Any) -> None:
        self._executor, self._task, self._result = executor, task, out

    def result(self) -> Trained:
        self._executor.finish([self._task])
        return Trained(self._result, *self._task.answer)

    def done(self) -> bool:
        return self._executor.are_done([self._task])


class CarriedTask(NamedTuple):
    """The task of a visit to a client that keeps something, and the locations of its results.

    The task's answer is that of `Trainer.train_carried`, with True in place of a state that is in the file already.
    """

    task: Task
    out: Any
    state: State
    sent: tuple[Any, ...]


class _CarriedVisit:
    """Pending training of such a visit."""

    __slots__ = ("_executor", "_made")

    def __init__(self, executor: Workers[Any], made: CarriedTask) -> None:
        self._executor, self._made = executor, made

    def result(self) -> Trained:
        made = self._made
        self._executor.finish([made.task])
        (statistics, flaw), state = made.task.answer
        if isinstance(state, bytes):
            self._executor.states.fill(made.state, state)
            made.task.answer = (statistics, flaw), True
        return Trained(made.out, statistics, flaw, made.state if state else None, made.sent)

    def done(self) -> bool:
        return self._executor.are_done([self._made.task])


class _Test:
    """Pending evaluation, with one task per batch."""

    __slots__ = ("_executor", "_on", "_result", "_tasks")

    def __init__(self, executor: Workers[Any], tasks: Sequence[Task], on: On) -> None:
        self._executor, self._tasks, self._on = executor, tasks, on
        self._result: Evaluation | None = None

    def result(self) -> Evaluation:
        self._executor.finish(self._tasks)
        if self._result is None:
            self._result = self._executor.scoring.evaluation([task.answer for task in self._tasks], self._on)
            self._tasks = ()
        return self._result

    def done(self) -> bool:
        return self._executor.are_done(self._tasks)


class Workers(ABC, Generic[W]):
    """An executor that sends tasks to workers. Results have the same bits for any number of workers.

    Visits start in the order in which they were requested, evaluations only on idle workers. Operations that were
    abandoned before they started are dropped. A dead worker is replaced, and its tasks are repeated by the next free
    worker, with the same bits; an operation fails if two workers die over it.
    """

    trains = True
    location_type: type
    workers_name: str
    """What workers are called in messages."""

    _close: weakref.finalize[Any, Any]
    """Ends the workers and frees the memory."""

    def __init__(self, model: FlatModel, scoring: Scoring) -> None:
        """model: the initial one."""
        self.size_bytes, self.base_bytes, self.vector_bytes = model.size_bytes, model.base_bytes, model.vector_bytes
        self.states = States()
        self.sections, self.naming, self._size = model.sections, model.naming, model.sections.moving
        self.scoring = scoring
        self._fixed: Vector = model.vector[model.sections.moving :].numpy().copy()
        self._visits: deque[weakref.ref[Task]] = deque()
        self._tests: deque[weakref.ref[Task]] = deque()
        self._workers: list[W] = []

    # To be implemented for each kind of worker

    @abstractmethod
    def facts(self) -> dict[str, int]:
        """Return facts for the records: number of workers, of workers replaced after dying, and more."""

    @abstractmethod
    def initial(self) -> Any:
        """Return the location of the initial global model."""

    @abstractmethod
    def _new_visit(self, name: str, location: Any, arguments: tuple[Any, ...]) -> tuple[Task, Any]:
        """Return a task `name` on the model at `location`, and the location of the trained model."""

    @abstractmethod
    def _new_carried(self, location: Any, arguments: tuple[Any, ...], carried: Carried) -> CarriedTask:
        """Return the task of a visit to a client that keeps something. arguments: client, visit and training."""

    @abstractmethod
    def _new_test(self, location: Any, start: int, stop: int, state: State | None, on: On) -> Task:
        """Return the task "evaluate" of one batch, see `Trainer.evaluate_part`."""

    @abstractmethod
    def _store(self, vector: Vector) -> Any:
        """Return a new location for a vector."""

    @abstractmethod
    def _read(self, locations: Sequence[Any]) -> list[Vector]:
        """Return the read-only vectors at locations, valid while these exist."""

    @abstractmethod
    def _give(self, worker: W, task: Task) -> None:
        """Send a task to a worker."""

    @abstractmethod
    def _pump(self, timeout: float | None) -> None:
        """Send tasks, receive the answers available within `timeout` seconds (None: wait for one), and send again."""

    @abstractmethod
    def _replace(self, worker: W) -> None:
        """Clean up after a dead worker, already removed from `_workers`, and start another."""

    # The executor

    def train(
        self, location: Any, client: int, visit: int, training: Training, carried: Carried | None = None
    ) -> Pending[Trained]:
        if carried is None:
            return self._visit("train", location, client, visit, training)
        self._must_be_open()
        made = self._new_carried(location, (client, visit, training), carried)
        self._visits.append(weakref.ref(made.task))
        self._pump(0)
        return _CarriedVisit(self, made)

    def train_rows(self, location: Any, rows: Rows, visit: int, training: Training) -> Pending[Trained]:
        return self._visit("train_rows", location, rows, visit, training)

    def _visit(self, name: str, location: Any, *arguments: Any) -> Pending[Trained]:
        self._must_be_open()
        task, out = self._new_visit(name, location, arguments)
        self._visits.append(weakref.ref(task))
        self._pump(0)
        return _Visit(self, task, out)

    def evaluate(self, location: Any, state: State | None = None, on: On = "test") -> Pending[Evaluation]:
        self._must_be_open()
        tasks = [self._new_test(location, start, stop, state, on) for start, stop in self.scoring.parts(on)]
        self._tests.extend(weakref.ref(task) for task in tasks)
        self._pump(0)
        return _Test(self, tasks, on)

    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[Any],
        statistics: Statistics | None = None,
    ) -> Any:
        self._must_be_open()
        all_locations = [*locations, *(statistics.locations if statistics else ())]
        vectors = dict(zip(map(id, all_locations), self._read(all_locations)))
        with fixed_numerics():
            return apply(
                function,
                locations,
                statistics,
                sections=self.sections,
                read=lambda location: vectors[id(location)],
                store=self._store,
            )

    def place(self, read: Callable[[], Vector]) -> Any:
        self._must_be_open()
        return self._store(read()[: self._size])

    def place_state(self, read: Callable[[], bytes]) -> State:
        return self.states.add(read())

    def state(self, location: State) -> bytes:
        return location.read()

    def is_location(self, value: object) -> bool:
        return isinstance(value, self.location_type)

    def exchanged(self, location: Any) -> Vector:
        self._must_be_open()
        return read_only(self._read([location])[0].copy())

    def vector(self, location: Any) -> Vector:
        return whole(self.exchanged(location), self._fixed)

    def close(self) -> None:
        self._fail_queued(WorkerError("the executor was closed before this operation was done"))
        for worker in self._workers:
            for task in worker.tasks.values():
                task.finish(error=WorkerError("the executor was closed before this operation was done"))
        self._close()
        self.states.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _must_be_open(self) -> None:
        if not self._close.alive:
            raise WorkerError("the executor is closed")

    # Tasks: queued here -> sent to a worker -> finished

    def finish(self, tasks: Sequence[Task]) -> None:
        """Wait until the tasks are finished; raise the error of the first that failed."""
        for task in tasks:
            while not task.finished:
                self._must_be_open()
                self._pump(None)
            if task.error is not None:
                raise task.error

    def are_done(self, tasks: Sequence[Task]) -> bool:
        """Return whether the tasks are finished."""
        if not all(task.finished for task in tasks):
            self._pump(0)
        return all(task.finished for task in tasks)

    def _send(self) -> None:
        while self._visits and (worker := self._least_loaded(_AHEAD)) is not None:
            self._give_next(worker, self._visits)
        while self._tests and not self._visits and (worker := self._least_loaded(1)) is not None:
            self._give_next(worker, self._tests)

    def _least_loaded(self, limit: int) -> W | None:
        worker = min(self._workers, key=lambda worker: len(worker.tasks), default=None)
        return worker if worker is not None and len(worker.tasks) < limit else None

    def _give_next(self, worker: W, queue: deque[weakref.ref[Task]]) -> None:
        if (task := queue.popleft()()) is not None:
            self._give(worker, task)

    def _do_first(self, task: Task) -> None:
        """Put a task at the head of the queue of its kind."""
        (self._tests if task.name == "evaluate" else self._visits).appendleft(weakref.ref(task))

    def _fail_queued(self, error: WorkerError) -> None:
        for queue in (self._visits, self._tests):
            while queue:
                if (task := queue.popleft()()) is not None:
                    task.finish(error=error)

    def _bury(self, worker: W, reason: str, by_task: bool = True) -> None:
        """Replace a dead worker and requeue its tasks first, except one over which another worker has died before.

        by_task: False if no task can be the cause of the death.
        """
        self._workers.remove(worker)
        tasks = list(worker.tasks.values())
        worker.tasks.clear()
        if tasks and by_task:
            tasks[0].lost += 1  # the worker was at this task; the others were queued
        for task in reversed(tasks):
            if task.lost > 1:
                task.finish(error=WorkerError(f"two {self.workers_name} died ({reason}) over this operation"))
            else:
                self._do_first(task)
        self._replace(worker)

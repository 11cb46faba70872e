"""Training on one device: data and models stay there, visits run in parallel, and their steps are recorded once.

A step of a small model consists of a hundred small operations, each of which takes longer to launch than to execute. A
recording (a CUDA graph) is launched as a whole, and several in parallel keep the device busy.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedtempo.data.phases import name_and_phase
from fedtempo.errors import ConfigError, FedtempoError, WorkerError
from fedtempo.federation import EVALUATE
from fedtempo.learning.course import statistics
from fedtempo.learning.evaluation import Part
from fedtempo.learning.examples import Examples
from fedtempo.learning.losses import check_labels
from fedtempo.learning.measuring import statistics_of
from fedtempo.learning.numerics import fixed_device_numerics, fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Carried, Evaluation, On, Rows, Trained, Vector
from fedtempo.runtime.executors.arithmetic import Statistics, apply, read_only, whole
from fedtempo.runtime.executors.cards import described, device_memory, find_device
from fedtempo.runtime.executors.job import Array, Job, labels_of
from fedtempo.runtime.executors.resident import Recordings, Resident
from fedtempo.runtime.executors.scoring import Scoring
from fedtempo.runtime.executors.screening import flaw_in, is_finite
from fedtempo.runtime.executors.streams import CudaStream, HostStream, Mark, Stream

T = TypeVar("T")

AHEAD = 2
"""Visits per stream: one in progress and one queued, so that the device never waits for this process."""


class DeviceModel:
    """Location of a model on the device. Nothing writes to `vector` after construction."""

    __slots__ = ("vector",)

    def __init__(self, vector: Tensor) -> None:
        self.vector = vector


class _Operation(Generic[T]):
    """A pending operation.

    begin: starts it at a resident; returns its mark and a function that makes the answer once the mark is passed.
    location: the model that it reads, kept until it is done.
    """

    __slots__ = ("__weakref__", "_executor", "answer", "begin", "complete", "error", "location", "mark")

    def __init__(
        self, executor: OnDevice, location: DeviceModel, begin: Callable[[Resident], tuple[Mark, Callable[[], T]]]
    ) -> None:
        self._executor = executor
        self.location: DeviceModel | None = location
        self.begin: Callable[[Resident], tuple[Mark, Callable[[], T]]] | None = begin
        self.mark: Mark | None = None
        self.complete: Callable[[], T] | None = None
        self.answer: T
        self.error: FedtempoError | None = None

    def result(self) -> T:
        if self.error is None:
            self._executor._finish(self)
        if self.error is not None:
            raise self.error
        return self.answer

    def done(self) -> bool:
        self._executor._feed()
        return self.is_over()

    def is_over(self) -> bool:
        """Return whether it failed, or its mark is passed."""
        if self.error is None and self.mark is not None:
            return self._query_device(self.mark.query)
        return self.error is not None

    def wait(self) -> None:
        """Wait until it is over; it must have begun."""
        assert self.mark is not None
        self._query_device(self.mark.synchronize)

    def _query_device(self, query: Callable[[], bool | None]) -> bool:
        """Return the answer to a query; if the device raises an error, the operation fails."""
        try:
            return bool(query())
        except RuntimeError as error:
            self.fail(f"the device failed: {error}")
            return True

    def start(self, resident: Resident) -> None:
        begin, self.begin = self.begin, None
        assert begin is not None
        try:
            with device_memory():
                self.mark, self.complete = begin(resident)
        except Exception as error:  # noqa: BLE001  raised by `result`
            self._failed(error)

    def fail(self, why: str) -> None:
        self.error = WorkerError(why)

    def _failed(self, error: Exception) -> None:
        self.error = self._executor.failure(error)
        if self.error is not error:
            self.error.__cause__ = error

    def settle(self) -> None:
        """Make the answer, once; the mark must be passed."""
        complete, self.complete = self.complete, None
        if complete is not None and self.error is None:
            try:
                self.answer = complete()
            except RuntimeError as error:
                self._failed(error)


class OnDevice:
    """Executor on one device, in this process. Its results differ from other executors' by rounding.

    Visits start in the order in which they were requested, in a free stream; operations that were abandoned before they
    started are dropped. Evaluations have a separate stream and start when no visit waits.

    device: "cuda", "cuda:N", or "cpu" (for tests; not faster). streams: number of streams for visits. graphs: whether
    visits are recorded. make_stream: makes a stream, urgent or not.

    Raises ConfigError if there is no such device, RunError if the data and a model do not fit into its memory.
    """

    trains = True

    def __init__(
        self,
        job: Job,
        device: str = "cuda",
        streams: int = 16,
        graphs: bool = True,
        make_stream: Callable[[bool], Stream] | None = None,
    ) -> None:
        if streams < 1:
            raise ConfigError(f"executor.streams = {streams}: must be at least 1")
        if job.compression is not None:
            raise ConfigError(f"executor.device = {device!r}: server.compression works on a CPU only; use 'cpu'")
        if job.personalise is not None:
            raise ConfigError(f"executor.device = {device!r}: run.personalise works on a CPU only; use 'cpu'")
        self._device = find_device(device)
        self._make_stream = make_stream or self._new_stream
        self.failure = job.failure
        self._job, self._streams = job, streams
        self._recordings = Recordings(graphs)
        self._labels = torch.from_numpy(labels_of(job.y).copy())
        with device_memory():
            model = job.model(self._device)
            self._initial = DeviceModel(model.sent.clone())
            self._examples = Examples(job.x, job.y, model.channels_last, device=self._device)
            tests: dict[On, tuple[Array, Array]] = {"test": (job.test_x, job.test_y)}
            if job.client_tests is not None:
                tests["clients"] = job.client_tests.x, job.client_tests.y
            if job.validation_x is not None and job.validation_y is not None:
                tests["validation"] = job.validation_x, job.validation_y
            self._tests_on = {
                on: Examples(x, y, model.channels_last, device=self._device) for on, (x, y) in tests.items()
            }
        self.size_bytes, self.base_bytes, self.vector_bytes = model.size_bytes, model.base_bytes, model.vector_bytes
        self.sections, self.naming = model.sections, model.naming
        if self.sections.local:
            raise _keeps_nothing(device, f"{self.sections.local} of the model's numbers stay at the clients")
        self._fixed: Vector = model.vector[self.sections.moving :].cpu().numpy().copy()
        self._residents: list[Resident] = []
        self._scoring = Scoring(job)
        self._tester = Resident(self._make_stream(False), model, self._examples, self._recordings, job.augment)
        self._visits: deque[weakref.ref[_Operation[Trained]]] = deque()
        self._tests: deque[weakref.ref[_Operation[Evaluation]]] = deque()
        self._running: deque[tuple[_Operation[Any], Resident]] = deque()
        self._open = True
        self._settle()

    def facts(self) -> dict[str, Any]:
        """Return the device, the numbers of streams used, of recordings, and of pieces of visits done with and without
        one, and what prevented visits from being recorded.
        """
        recordings = self._recordings
        return {
            **described(self._device),
            "lanes": len(self._residents),
            "graphs": recordings.made,
            "pieces_by_graph": recordings.repeated,
            "pieces_without": recordings.plain,
            "not_recorded": recordings.obstacles,
        }

    def initial(self) -> DeviceModel:
        return self._initial

    def train(
        self, location: DeviceModel, client: int, visit: int, training: Training, carried: Carried | None = None
    ) -> _Operation[Trained]:
        evaluates = carried is not None and carried.procedure == EVALUATE
        if carried is not None and not evaluates:
            raise _keeps_nothing(self._device.type, f"the strategy uses {carried.procedure!r} at the clients")
        job, rows, sections = self._job, self._job.rows_at(client), self.sections

        def screened(out: Tensor, measured: Mapping[str, float], finite: bool) -> str | None:
            spoiled = job.spoiled(client, visit, lambda: out.cpu().numpy(), len(rows))
            if spoiled is None:
                return flaw_in(out, len(rows), measured, sections=sections, expected=len(rows), finite=finite)
            sent, num_examples = spoiled
            if len(sent) == len(out):
                out.copy_(torch.from_numpy(sent))
            return flaw_in(sent, num_examples, measured, sections=sections, expected=len(rows), finite=is_finite(sent))

        return self._visit(location, rows, lambda: job.visit_rng(client, visit), training, screened, evaluates)

    def train_rows(self, location: DeviceModel, rows: Rows, visit: int, training: Training) -> _Operation[Trained]:
        owned = np.array(rows, dtype=np.int64, order="C")
        return self._visit(location, owned, lambda: self._job.server_rng(visit), training, lambda *_: None)

    def _visit(
        self,
        location: DeviceModel,
        rows: Rows,
        rng: Callable[[], np.random.Generator],
        training: Training,
        flaw_of: Callable[[Tensor, Mapping[str, float], bool], str | None],
        evaluates: bool = False,
    ) -> _Operation[Trained]:
        def begin(resident: Resident) -> tuple[Mark, Callable[[], Trained]]:
            if not len(rows):
                raise ConfigError("a client has no examples to train on; give each client at least one")
            check_labels(training, self._labels[torch.from_numpy(rows)])
            visit = resident.measure if evaluates else resident.train
            started = visit(location.vector, rows, rng(), training)

            def complete() -> Trained:
                if evaluates:
                    measured, finite = statistics_of(started.outcome, started.used), True
                else:
                    measured, finite = statistics(started.outcome, training, len(rows), started.used)
                return Trained(DeviceModel(started.out), measured, flaw_of(started.out, measured, finite))

            return started.mark, complete

        return self._submit(self._visits, location, begin)

    def evaluate(self, location: DeviceModel, state: Any = None, on: On = "test") -> _Operation[Evaluation]:
        kind = name_and_phase(str(on))[0]
        gathers = "scores" if kind == "clients" else self._scoring.gathers

        def begin(resident: Resident) -> tuple[Mark, Callable[[], Evaluation]]:
            results, mark = resident.evaluate(location.vector, self._tests_on[kind], self._scoring.parts(on), gathers)

            def complete() -> Evaluation:
                parts = [
                    Part(tuple(sums.tolist()), None if gathered is None else gathered.numpy())
                    for sums, gathered in results
                ]
                return self._scoring.evaluation(parts, on)

            return mark, complete

        return self._submit(self._tests, location, begin)

    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[DeviceModel],
        statistics: Statistics | None = None,
    ) -> Any:
        self._must_be_open()
        with fixed_numerics():
            return apply(
                function,
                locations,
                statistics,
                sections=self.sections,
                read=self.exchanged,
                store=self._store,
            )

    def place(self, read: Callable[[], Vector]) -> DeviceModel:
        self._must_be_open()
        return self._store(read()[: self.sections.moving])

    def _store(self, vector: Vector) -> DeviceModel:
        return DeviceModel(torch.from_numpy(vector.copy()).to(self._initial.vector))

    def place_state(self, read: Callable[[], bytes]) -> Any:
        raise _keeps_nothing(self._device.type, "a client has a state")

    def state(self, location: Any) -> bytes:
        raise _keeps_nothing(self._device.type, "a client has a state")

    def is_location(self, value: object) -> bool:
        return isinstance(value, DeviceModel)

    def exchanged(self, location: DeviceModel) -> Vector:
        return read_only(location.vector.cpu().numpy())

    def vector(self, location: DeviceModel) -> Vector:
        return whole(self.exchanged(location), self._fixed)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        waiting = [operation for queue in (self._visits, self._tests) for ref in queue if (operation := ref())]
        for operation in [*waiting, *(operation for operation, _ in self._running)]:
            if not operation.is_over():
                operation.fail("the executor was closed before this operation was done")
        self._visits.clear()
        self._tests.clear()
        with contextlib.suppress(RuntimeError):  # a failed device has nothing in progress
            self._settle()
        self._running.clear()
        self._residents.clear()

    def __enter__(self) -> OnDevice:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Streams --------------------------------------------------------------------------------------------------------

    def _submit(
        self,
        queue: deque[weakref.ref[_Operation[T]]],
        location: DeviceModel,
        begin: Callable[[Resident], tuple[Mark, Callable[[], T]]],
    ) -> _Operation[T]:
        self._must_be_open()
        operation = _Operation(self, location, begin)
        queue.append(weakref.ref(operation))
        self._feed()
        return operation

    def _finish(self, operation: _Operation[Any]) -> None:
        """Wait for an operation and start others meanwhile; the one that started first is likely to end first."""
        self._feed()
        while not operation.is_over():
            self._running[0][0].wait()
            self._feed()
        operation.settle()

    def _feed(self) -> None:
        """Start waiting operations in streams that have room."""
        while self._running and self._running[0][0].is_over():
            self._running.popleft()[0].location = None
        if not (self._visits or self._tests):
            return
        load = {id(resident): 0 for resident in (*self._residents, self._tester)}
        for operation, resident in self._running:
            load[id(resident)] += not operation.is_over()
        if (chosen := self._next(load)) is None:
            return
        with fixed_device_numerics():
            while chosen is not None:
                operation, resident = chosen
                operation.start(resident)
                if operation.error is None:
                    self._running.append((operation, resident))
                    load[id(resident)] += not operation.is_over()
                chosen = self._next(load)

    def _next(self, load: dict[int, int]) -> tuple[_Operation[Any], Resident] | None:
        """Return the next operation and where to start it, visits first. load: number of operations in each stream."""
        while self._visits and (resident := self._with_room(load)) is not None:
            if (visit := self._visits.popleft()()) is not None:  # else it was abandoned
                return visit, resident
        while not self._visits and self._tests and load[id(self._tester)] < AHEAD:
            if (test := self._tests.popleft()()) is not None:
                return test, self._tester
        return None

    def _with_room(self, load: dict[int, int]) -> Resident | None:
        """Return an idle stream, else a new one, else one with room in its queue; None if there is none."""
        free = min(self._residents, key=lambda resident: load[id(resident)], default=None)
        if len(self._residents) < self._streams and (free is None or load[id(free)]):
            with device_memory():
                model = self._job.model(self._device)
            free = Resident(self._make_stream(True), model, self._examples, self._recordings, self._job.augment)
            self._residents.append(free)
            load[id(free)] = 0
            self._settle()
        return free if free is not None and load[id(free)] < AHEAD else None

    def _new_stream(self, urgent: bool) -> Stream:
        return HostStream() if self._device.type == "cpu" else CudaStream(self._device, urgent=urgent)

    def _settle(self) -> None:
        """Wait for all operations on the device."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _must_be_open(self) -> None:
        if not self._open:
            raise WorkerError("the executor is closed")


def _keeps_nothing(device: str, why: str) -> ConfigError:
    return ConfigError(f"executor.device = {device!r}: clients cannot keep anything there, and {why}; use 'cpu'")

"""The server's own computations: arithmetic in the loop, evaluations and its own training in a separate thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from fedtempo.deploy.live.event_log import ReceivedModel
from fedtempo.deploy.live.messages import TrainingResult
from fedtempo.deploy.live.operations import Operation, Operations
from fedtempo.deploy.live.uploads import ExampleForm
from fedtempo.errors import FedtempoError, WorkerError
from fedtempo.learning.examples import Examples
from fedtempo.learning.forward import outputs_of
from fedtempo.learning.local import train
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Evaluation, On, Vector
from fedtempo.runtime.executors.arithmetic import Statistics
from fedtempo.runtime.executors.inline import Inline, InlineModel
from fedtempo.runtime.executors.job import Array, Job
from fedtempo.runtime.executors.journalled import Journalled
from fedtempo.runtime.keyed import keyed_generator


class Server:
    """Evaluates models, computes with them, and trains on uploaded examples. Clients train on their own machines.

    The job's training examples are never used. operations: through which evaluations and trainings are started; set
    before the first of them. evaluated: called in the loop when an evaluation has ended.
    """

    trains = True
    operations: Operations
    evaluated: Callable[[], None]

    def __init__(self, job: Job, journalled: Callable[[Inline], Journalled] | None = None) -> None:
        """journalled: wraps the arithmetic in the run's journal, if it has one."""
        inline = Inline(job)
        self._inline, self._job, self._seed = inline, job, job.seed
        self._arithmetic: Inline | Journalled = inline if journalled is None else journalled(inline)
        self._model, self._augment = job.model(), job.augmentation()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="server")
        self.size_bytes, self.sections, self.naming = inline.size_bytes, inline.sections, inline.naming
        self.base_bytes, self.vector_bytes = inline.base_bytes, inline.vector_bytes
        self.base: Vector = self._model.vector[self.sections.moving :].numpy().copy()
        """What does not travel: the first values of local parameters, and frozen parameters."""
        self.layout, self.augment = self._model.layout, job.augment
        self.example_form = _form_of(job)
        """What uploaded examples must look like."""
        self.example_bytes = job.x[:1].nbytes

    def initial(self) -> Any:
        return self._arithmetic.initial()

    def place(self, received: ReceivedModel) -> Any:
        """Return the location of a received model."""
        return self._arithmetic.place(received.read)

    def evaluate(self, location: Any, state: None = None, on: On = "test") -> PendingEvaluation:
        """Start an evaluation on the server's test or validation examples.

        Clients keep their own parts and their examples on their machines, so `state` is never given.
        """
        pending = PendingEvaluation(self, location, on)
        pending.operation.future.add_done_callback(lambda _: self.evaluated())
        return pending

    def evaluate_now(self, location: Any, on: On) -> Future[Evaluation]:
        """Evaluate in the server's thread."""
        held = InlineModel(self.exchanged(location))
        return self._thread.submit(self._inline.evaluate(held, on=on).result)

    async def train_on(self, location: Any, x: Array, y: Array, visit: int, training: Training) -> Any:
        """Train the model at `location` on these examples and return the result's location.

        visit: number of this training, for random draws.
        """

        def operation(vector: Vector) -> TrainingResult:
            with fixed_numerics():
                rng = keyed_generator(self._seed, "server training", visit)
                examples = Examples(x, y, self._model.channels_last)
                statistics = train(self._model, examples, training, rng, vector, augment=self._augment)
                result = TrainingResult(statistics, 0.0, self._model.sent.numpy().copy())
                stored: TrainingResult = self.operations.store(result)
                return stored

        def start(number: int) -> None:
            self._post(number, self._thread.submit(operation, self.exchanged(location)))

        trained: TrainingResult = await self.operations.compute(start).future
        return self.place(trained.model)

    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[Any],
        statistics: Statistics | None = None,
    ) -> Any:
        return self._arithmetic.apply(function, locations, statistics)

    def is_location(self, value: object) -> bool:
        return self._arithmetic.is_location(value)

    def exchanged(self, location: Any) -> Vector:
        return self._arithmetic.exchanged(location)

    def vector(self, location: Any) -> Vector:
        return self._arithmetic.vector(location)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _post(self, number: int, future: Future[Any]) -> None:
        """Report an operation's end when its future is done."""

        def report(done: Future[Any]) -> None:
            if not done.cancelled():
                error = done.exception()
                self.operations.ended(number, done.result() if error is None else self._failure(error))

        future.add_done_callback(report)

    def _failure(self, error: BaseException) -> FedtempoError:
        """Return the error to raise for an error in the thread."""
        raised = self._job.failure(error) if isinstance(error, Exception) else WorkerError(f"at the server: {error}")
        if raised is not error:
            raised.__cause__ = error
        return raised


def _form_of(job: Job) -> ExampleForm:
    """Return the form of the server's own examples. Only those with one input can be uploaded."""

    def compute(x: Array) -> object:
        model = job.model()  # of its own, since examples are read in another thread
        model.module.eval()
        with torch.inference_mode():
            return outputs_of(model.module, torch.from_numpy(x))

    numbers = job.x.dtype.kind == "f"
    largest = float(np.abs(job.x).max(initial=0.0)) if numbers else 0.0
    return ExampleForm(job.x.shape[1:], job.x.dtype, largest, compute)


class PendingEvaluation:
    """An evaluation in progress. Its result arrives as an event of the run, or is waited for after the run's end."""

    def __init__(self, server: Server, location: Any, on: On) -> None:
        self._server, self._location, self._on = server, location, on
        self._computing: Future[Evaluation] | None = None
        self.operation: Operation = server.operations.compute(self._start)

    def result(self) -> Evaluation:
        future = self.operation.future
        if future.done() and not future.cancelled():
            evaluation: Evaluation = future.result()
            return evaluation
        if self._computing is None:
            self._computing = self._server.evaluate_now(self._location, self._on)
        return self._computing.result()

    def done(self) -> bool:
        future = self.operation.future
        return future.done() and not future.cancelled()

    def _start(self, number: int) -> None:
        self._computing = self._server.evaluate_now(self._location, self._on)
        self._server._post(number, self._computing)

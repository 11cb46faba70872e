"""Training in this process, deferred until a result is requested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from fedtempo.errors import FedtempoError
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Carried, Evaluation, On, Rows, Trained, Vector
from fedtempo.runtime.executors.arithmetic import Statistics, apply, read_only, whole
from fedtempo.runtime.executors.job import Answer, Job, Trainer
from fedtempo.runtime.executors.scoring import Scoring
from fedtempo.runtime.executors.states import State, States

T = TypeVar("T")


class InlineModel:
    """Location of a model in this process."""

    __slots__ = ("vector",)

    def __init__(self, vector: Vector) -> None:
        self.vector = read_only(vector)


class Deferred(Generic[T]):
    """A pending operation that is executed at the first call of `result`. failure: see `Job.failure`."""

    __slots__ = ("_error", "_failure", "_operation", "_result")

    def __init__(self, operation: Callable[[], T], failure: Callable[[Exception], FedtempoError]) -> None:
        self._failure = failure
        self._operation: Callable[[], T] | None = operation
        self._result: T
        self._error: FedtempoError | None = None

    def result(self) -> T:
        operation, self._operation = self._operation, None
        if operation is not None:
            try:
                with fixed_numerics():
                    self._result = operation()
            except Exception as error:
                self._error = self._failure(error)
                if self._error is error:
                    raise
                raise self._error from error
        if self._error is not None:
            raise self._error
        return self._result

    def done(self) -> bool:
        return self._operation is None


class Inline:
    """Executor without workers: easiest to debug, with the same bits as other executors."""

    trains = True

    def __init__(self, job: Job) -> None:
        model, self._failure = job.model(), job.failure
        self._trainer = Trainer(job, model)
        self._initial = InlineModel(model.sent.numpy().copy())
        self.sections, self._fixed = model.sections, model.vector[model.sections.moving :].numpy().copy()
        self._scoring, self.naming = Scoring(job), model.naming
        self.size_bytes, self.base_bytes, self.vector_bytes = model.size_bytes, model.base_bytes, model.vector_bytes
        self._states = States()

    def initial(self) -> InlineModel:
        return self._initial

    def train(
        self, location: InlineModel, client: int, visit: int, training: Training, carried: Carried | None = None
    ) -> Deferred[Trained]:
        if carried is None:
            return self._deferred(self._trainer.train, location, client, visit, training)
        return Deferred(lambda: self._train_carried(location, client, visit, training, carried), self._failure)

    def _train_carried(
        self, location: InlineModel, client: int, visit: int, training: Training, carried: Carried
    ) -> Trained:
        out, sent = np.empty_like(location.vector), [np.empty_like(location.vector) for _ in range(carried.returns)]
        (statistics, flaw), state = self._trainer.train_carried(
            location.vector,
            out,
            client,
            visit,
            training,
            state=None if carried.state is None else self.state(carried.state),
            procedure=carried.procedure,
            numbers=carried.numbers,
            payload=[each.vector for each in carried.payload],
            sent=sent,
        )
        kept = None if state is None else self._states.add(state)
        return Trained(InlineModel(out), statistics, flaw, kept, tuple(map(InlineModel, sent)))

    def train_rows(self, location: InlineModel, rows: Rows, visit: int, training: Training) -> Deferred[Trained]:
        return self._deferred(self._trainer.train_rows, location, rows, visit, training)

    def _deferred(self, train: Callable[..., Answer], location: InlineModel, *arguments: Any) -> Deferred[Trained]:
        def operation() -> Trained:
            out = np.empty_like(location.vector)
            statistics, flaw = train(location.vector, out, *arguments)
            return Trained(InlineModel(out), statistics, flaw)

        return Deferred(operation, self._failure)

    def evaluate(self, location: InlineModel, state: State | None = None, on: On = "test") -> Deferred[Evaluation]:
        def operation() -> Evaluation:
            kept = None if state is None else self.state(state)
            batches = self._scoring.parts(on)
            results = [self._trainer.evaluate_part(location.vector, *batch, kept, on) for batch in batches]
            return self._scoring.evaluation(results, on)

        return Deferred(operation, self._failure)

    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[InlineModel],
        statistics: Statistics | None = None,
    ) -> Any:
        with fixed_numerics():
            return apply(
                function,
                locations,
                statistics,
                sections=self.sections,
                read=self.exchanged,
                store=self._place,
            )

    def place(self, read: Callable[[], Vector]) -> InlineModel:
        return self._place(read()[: self.sections.moving])

    def _place(self, vector: Vector) -> InlineModel:
        return InlineModel(vector.astype(self._initial.vector.dtype))

    def place_state(self, read: Callable[[], bytes]) -> State:
        return self._states.add(read())

    def state(self, location: State) -> bytes:
        return location.read()

    def is_location(self, value: object) -> bool:
        return isinstance(value, InlineModel)

    def exchanged(self, location: InlineModel) -> Vector:
        return location.vector

    def vector(self, location: InlineModel) -> Vector:
        return whole(location.vector, self._fixed)

    def facts(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        """Delete clients' states; memory is freed with the last reference."""
        self._states.close()

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

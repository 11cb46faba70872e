"""What the server computes itself: arithmetic at once, evaluations and its own training in a thread beside the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Evaluation, Trained, Vector
from fedtempo.runtime.executors.inline import Held, Inline
from fedtempo.runtime.executors.job import Array, Job
from fedtempo.runtime.keyed import keyed_generator


class Server:
    """Evaluates, does arithmetic, and trains on examples that were uploaded; clients train elsewhere.

    The job's training examples are never used. evaluated: called in the thread after each evaluation.
    """

    trains = True

    def __init__(self, job: Job) -> None:
        self._inline, self._seed = Inline(job), job.seed
        self._model = job.model()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="server")
        self.evaluated: Callable[[], None] = lambda: None
        self.size_bytes = self._inline.size_bytes
        self.layout = self._model.layout
        self.input_shape = tuple(job.x.shape[1:])
        self.example_bytes = job.x[:1].nbytes

    @property
    def size(self) -> int:
        """Length of a model's flat vector."""
        return self._model.size

    def initial(self) -> Held:
        return self._inline.initial()

    def hold(self, vector: Vector) -> Held:
        """A model that came from a client."""
        return Held(vector)

    def evaluate(self, location: Held) -> Future[Evaluation]:
        future = self._thread.submit(self._inline.evaluate(location).result)
        future.add_done_callback(lambda _: self.evaluated())
        return future

    def train_on(self, location: Held, x: Array, y: Array, visit: int, training: Training) -> Future[Trained]:
        """Train the model at `location` on these examples. visit: number of this training, for random draws."""

        def operation() -> Trained:
            with fixed_numerics():
                rng = keyed_generator(self._seed, "server training", visit)
                examples = Examples(x, y, self._model.channels_last)
                statistics = train(self._model, examples, training, rng, location.vector)
                return Trained(Held(self._model.vector.numpy().copy()), statistics)

        return self._thread.submit(operation)

    def apply(self, function: Callable[..., Any], locations: Sequence[Held], arguments: Mapping[str, Any]) -> Any:
        return self._inline.apply(function, locations, arguments)

    def is_location(self, value: object) -> bool:
        return self._inline.is_location(value)

    def vector(self, location: Held) -> Vector:
        return self._inline.vector(location)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

"""What a strategy sees: clients, models as handles, time, and the calls that take time.

A strategy is a frozen dataclass of hyper-parameters with one coroutine, `async def run(self, fed: Federation)`.
It awaits what takes time and nothing else; it never learns whether the clock is virtual or real, where a model's
parameters lie, or how many workers train. Everything here is independent of PyTorch and of the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypeVar

from fedtempo.errors import FedtempoError

if TYPE_CHECKING:
    import numpy as np

S = TypeVar("S", default=Any)
"""What a runtime keeps of a visit (`Visit.state`)."""

Vector: TypeAlias = Any
"""Flat parameters as a function at the server sees them: supports + - * / with vectors and numbers."""


class ClientUnavailable(FedtempoError):
    """A visit that will not end: its client left, failed, or is not there. The client is free again."""

    def __init__(self, client: Client, reason: str) -> None:
        super().__init__(f"client {client.id} is unavailable: {reason}")
        self.client = client
        self.reason = reason


class ConsentError(FedtempoError):
    """Examples or a histogram were asked of a client that did not agree to share them."""


@dataclass(frozen=True)
class Client:
    """A client as the server knows it.

    id: position in `Federation.clients`, from 0. num_examples: training examples it holds. label_histogram: examples
    of each class, or None where the client does not tell. shares_examples: whether it agrees to upload raw examples.
    """

    id: int
    num_examples: int
    label_histogram: tuple[int, ...] | None = None
    shares_examples: bool = False
    name: str = ""


@dataclass(frozen=True, eq=False, init=False)
class Model:
    """An immutable handle on one set of parameters. It holds no tensor.

    version: version of the global model that it descends from; for `Federation.model` its own version.
    location: where the parameters lie, known to the runtime alone.
    """

    version: int
    location: Any = field(repr=False)

    def __init__(self, version: int, location: Any) -> None:
        # One is made per visit: the __init__ of a frozen dataclass takes three times as long.
        fields = self.__dict__
        fields["version"], fields["location"] = version, location


@dataclass(frozen=True)
class Work:
    """What one visit does where it differs from the configuration's `[training]`; None means as configured.

    epochs, steps: passes over the client's data, or optimiser steps (steps wins). full_batch: one step is the gradient
    of all examples. lr: step size. lr_scale: factor on it, or on the configured one. proximal: weight mu of
    mu/2 * |w - w_received|^2. loss: name of the loss. statistics: which measurements to return beside the mean loss, of
    {"squared_loss", "gradient_variance", "gradient_norm"}.
    """

    epochs: int | None = None
    steps: int | None = None
    batch_size: int | None = None
    full_batch: bool | None = None
    lr: float | None = None
    lr_scale: float | None = None
    proximal: float | None = None
    loss: str | None = None
    statistics: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Durations:
    """How long the parts of one visit take, seconds."""

    download_s: float
    compute_s: float
    upload_s: float

    @property
    def visit_s(self) -> float:
        """The whole visit: receive, compute, send."""
        return self.download_s + self.compute_s + self.upload_s


@dataclass(frozen=True, init=False)
class Update:
    """What a visit brought back.

    model: the trained parameters; `model.version` is `base_version`, the version of the global model that the chain
    of visits started from. received: the model this visit started from. statistics: mean loss before each step under
    "loss" and what `Work.statistics` asked for; empty in a run without training. Times in seconds of the run's clock.
    """

    client: Client
    received: Model
    model: Model
    num_examples: int
    statistics: Mapping[str, float]
    started: float
    computed: float
    finished: float

    def __init__(
        self,
        client: Client,
        received: Model,
        model: Model,
        num_examples: int,
        statistics: Mapping[str, float],
        started: float,
        computed: float,
        finished: float,
    ) -> None:
        # There is one for each visit: what a frozen dataclass makes of this takes three times as long.
        fields = self.__dict__
        fields["client"], fields["received"], fields["model"] = client, received, model
        fields["num_examples"], fields["statistics"] = num_examples, statistics
        fields["started"], fields["computed"], fields["finished"] = started, computed, finished

    @property
    def base_version(self) -> int:
        return self.model.version


class Visit(Generic[S]):
    """A client that is held for one visit, between `download` and `upload`.

    Use as a context manager where a visit may be given up: leaving the block before `upload` frees the client.
    """

    __slots__ = ("_release", "client", "computed", "received", "started", "state")

    def __init__(
        self, client: Client, received: Model, started: float, release: Callable[[Visit[S]], None], state: S
    ) -> None:
        """For runtimes. release: called if the visit is released before `finish`. state: the runtime's own."""
        self.client = client
        self.received = received
        self.started = started
        self.computed: float | None = None
        self.state = state
        self._release: Callable[[Visit[S]], None] | None = release

    def release(self) -> None:
        """Free the client; does nothing after `upload` or an earlier release."""
        release, self._release = self._release, None
        if release is not None:
            release(self)

    def finish(self) -> None:
        """The visit has ended: releasing it does nothing from now on. For runtimes."""
        self._release = None

    def __enter__(self) -> Visit[S]:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True)
class Examples:
    """Handle on raw examples that a consenting client sent to the server.

    counts: examples of each class. cut: there were more, which did not come in time.
    """

    client: Client
    counts: tuple[int, ...]
    size_bytes: int
    location: Any = field(repr=False)
    cut: bool = False


class Federation(Protocol):
    """Server's view of one run. Times are seconds since the run began."""

    @property
    def clients(self) -> Sequence[Client]: ...
    @property
    def now(self) -> float: ...
    @property
    def horizon(self) -> float:
        """When the run ends; infinite where only a budget or a target ends it."""
        ...

    @property
    def model(self) -> Model:
        """The current global model; its `version` counts commits."""
        ...

    async def train(
        self,
        client: Client,
        model: Model,
        work: Work | None = None,
        *,
        group: int | None = None,
        to: Client | None = None,
    ) -> Update:
        """The whole visit: wait for the client's turn, receive `model`, compute, send.

        group: number of the group, sequence or round that the visit belongs to, for the records. to: the client that
        continues with the result, where there is one: the model then takes the faster of the direct way and the way
        through the server. Raises ClientUnavailable if the visit will not end.
        """
        ...

    async def train_all(
        self, clients: Iterable[Client], model: Model, work: Work | None = None, *, group: int | None = None
    ) -> list[Update]:
        """The visits at once; those that came back, in the order asked. Lost ones are in the records."""
        ...

    async def download(self, client: Client, model: Model, *, group: int | None = None) -> Visit:
        """First phase of a visit: wait for the client's turn (first come, first served), send it the model."""
        ...

    async def multicast(self, clients: Iterable[Client], model: Model, *, group: int | None = None) -> list[Visit]:
        """First phase of several visits at once: one transmission, at the rate of the slowest client.

        Each client is held from its turn on, and the transmission begins when all are; each client must be named once.
        Returns the visits of the clients that stayed to its end, in the order asked; lost ones are in the records.
        """
        ...

    async def compute(self, visit: Visit, work: Work | None = None) -> None:
        """Second phase: the client trains."""
        ...

    async def upload(self, visit: Visit, *, to: Client | None = None) -> Update:
        """Third phase: the client sends its model and is free."""
        ...

    async def upload_examples(
        self, client: Client, per_class: Sequence[int], *, until: float | None = None, group: int | None = None
    ) -> Examples:
        """Ask for up to `per_class[c]` examples of each class c that the client has not sent yet.

        It is a visit that receives and computes nothing: it waits for the client's turn, and uses the uplink as a model
        does. until: the instant at which the client stops; it keeps what has not come whole by then. Raises
        ConsentError without consent, ClientUnavailable if the client leaves, and then nothing was sent.
        """
        ...

    async def train_on_server(self, model: Model, examples: Sequence[Examples], work: Work | None = None) -> Model:
        """The server trains `model` on all of these examples. It takes the server's time, as arithmetic does."""
        ...

    async def average(self, updates: Sequence[Update | Model], weights: Sequence[float] | None = None) -> Model:
        """Weighted mean at the server, summed in the order given; weights default to the numbers of examples.

        Running statistics are averaged with the same weights; frozen parameters are copied. Raises StrategyError for
        weights that are negative, not finite, all 0, or not as many as updates.
        """
        ...

    async def mix(self, a: Model, b: Model, beta: float) -> Model:
        """(1 - beta) * a + beta * b, at the server; running statistics as with the nearest beta from 0 to 1."""
        ...

    async def on_server(
        self,
        function: Callable[..., Any],
        *models: Model,
        statistics_from: Mapping[Model, float] | None = None,
        **arguments: Any,
    ) -> Any:
        """Arithmetic at the server: `function(*vectors, **arguments)` on flat vectors of trainable parameters.

        A vector in return becomes a Model (its version is that of the first model given), a tuple of vectors a tuple
        of Models; anything else is returned as it is. Models among `arguments` are passed as vectors too. Without
        training the vectors are empty. Vectors are read-only: make new ones.

        Running statistics (batch normalisation) and frozen parameters are not in the vectors: a step along a change
        would make variances negative. A Model that is returned has the frozen parameters that all have, and as
        statistics the mean of those of the models in `statistics_from`, weighted by the values there (at least 0, not
        all 0); by default the plain mean of all models given.
        """
        ...

    def commit(self, model: Model, *, staleness: int = 0) -> Model:
        """Make `model` the global model: version + 1. staleness: commits since the model's base, for the records."""
        ...

    def estimate(self, client: Client) -> Durations:
        """What the server believes that a configured visit takes: a prior, then what was observed.

        Where rates and speeds vary from visit to visit, it knows means at best: what a visit will take shows only as
        it happens.
        """
        ...

    def estimate_example_s(self, client: Client) -> float:
        """What the server believes that the upload of one raw example takes, seconds."""
        ...

    async def sleep_until(self, time: float) -> None:
        """Wait on the run's clock; returns at once (after other ready tasks) if `time` has passed."""
        ...

    def rng(self, purpose: str, *keys: int) -> np.random.Generator:
        """A generator that depends on nothing but (seed, purpose, keys)."""
        ...

    def preparation(self) -> AbstractContextManager[None]:
        """While this context lasts the run's clock stands still: for what happens before time 0, and only there."""
        ...

    def note(self, name: str, value: Any) -> None:
        """Put a fact (JSON values) into the run's records: clusters found, structure chosen, ..."""
        ...


@runtime_checkable
class Strategy(Protocol):
    """Decides who trains when, in which order, and what becomes of the results."""

    async def run(self, fed: Federation) -> None: ...

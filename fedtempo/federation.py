"""The interface that a strategy sees: clients, model handles, time, and the calls that take time.

A strategy is a frozen dataclass of hyper-parameters with one coroutine, `async def run(self, fed: Federation)`.
It awaits only what takes time; it does not know whether the clock is virtual or real, where a model's parameters are
stored, or how many workers train. Nothing here depends on PyTorch or on the runtime.
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
"""Flat parameters as passed to a function at the server; supports + - * / with vectors and numbers."""

EVALUATE = "evaluate"
"""`Work.procedure` of a visit that evaluates the model instead of training it, and uploads no model."""


class ClientUnavailable(FedtempoError):
    """Raised for a visit that will not end: its client left, failed or is offline. The client is free again."""

    def __init__(self, client: Client, reason: str) -> None:
        super().__init__(f"client {client.id} is unavailable: {reason}")
        self.client = client
        self.reason = reason


class ConsentError(FedtempoError):
    """Raised when a client is asked for examples or a histogram that it did not agree to share."""


@dataclass(frozen=True)
class Client:
    """A client as the server knows it.

    id: position in `Federation.clients`, from 0. num_examples: its number of training examples. label_histogram: its
    number of examples of each class, or None if it does not report them. shares_examples: whether it agrees to upload
    raw examples.
    """

    id: int
    num_examples: int
    label_histogram: tuple[int, ...] | None = None
    shares_examples: bool = False
    name: str = ""


@dataclass(frozen=True, eq=False, init=False)
class Model:
    """An immutable handle on one set of parameters; it holds no tensor.

    version: version of the global model that it descends from; for `Federation.model` its own version.
    location: where the parameters are stored; only the runtime uses it.
    """

    version: int
    location: Any = field(repr=False)

    def __init__(self, version: int, location: Any) -> None:
        # One is made per visit: the __init__ of a frozen dataclass takes three times as long.
        fields = self.__dict__
        fields["version"], fields["location"] = version, location


@dataclass(frozen=True)
class Work:
    """How one visit differs from the configuration's `[training]`; None means as configured.

    epochs, steps: local epochs, or optimiser steps (which take precedence). full_batch: each step uses the gradient of
    all examples. lr: learning rate. lr_scale: factor on it, or on the configured one; `training.schedule` multiplies
    the result by its own factor. proximal: weight mu of mu/2 * |w - w_received|^2. loss: name of the loss. statistics:
    measurements to return besides the mean loss, from {"squared_loss", "gradient_variance", "gradient_norm",
    "effective_steps"}.

    procedure: what the client does instead of training as configured: a name in `fedtempo.learning.procedures`, or
    "module:function" of a `ClientVisit`. It may keep tensors at the client from visit to visit. payload: models whose
    trainable parameters the server sends along, such as control variates. returns: number of vectors that the procedure
    sends along (`Update.sent`). Bytes and transfer times include them. Visits with a payload need `train` or
    `train_all`. numbers: further settings of the procedure, which finds them in `ClientVisit.numbers`.

    With procedure = EVALUATE the client measures "loss" and, unless labels are numbers, "accuracy" of the received
    model on its own examples (with `steps`, on that many random mini-batches) and uploads these numbers only;
    `Update.model` is the received model. Such visits need `train` or `train_all`, too. compute_scale: computing time
    per example relative to training (default: 1); a pass without gradients takes about a third.
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
    procedure: str | None = None
    payload: tuple[Model, ...] = ()
    returns: int = 0
    numbers: Mapping[str, float] | None = None
    compute_scale: float | None = None

    @property
    def sends_model(self) -> bool:
        """Whether the client uploads a model."""
        return self.procedure != EVALUATE


@dataclass(frozen=True)
class Durations:
    """Durations of the parts of one visit, seconds."""

    download_s: float
    compute_s: float
    upload_s: float

    @property
    def visit_s(self) -> float:
        """Duration of the whole visit: download, compute, upload."""
        return self.download_s + self.compute_s + self.upload_s


@dataclass(frozen=True, init=False)
class Update:
    """The result of a visit.

    model: the trained parameters; `model.version` is `base_version`, the version of the global model that the chain of
    visits started from. received: the model that this visit started from. statistics: the mean loss before each step,
    as "loss", and the measurements requested by `Work.statistics`; empty in a run without training. started, computed,
    finished: seconds on the run's clock. sent: the vectors that the procedure sent along, as models (`Work.returns`).
    """

    client: Client
    received: Model
    model: Model
    num_examples: int
    statistics: Mapping[str, float]
    started: float
    computed: float
    finished: float
    sent: tuple[Model, ...] = ()

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
        sent: tuple[Model, ...] = (),
    ) -> None:
        # Called once per visit: the __init__ of a frozen dataclass takes three times as long.
        fields = self.__dict__
        fields["client"], fields["received"], fields["model"] = client, received, model
        fields["num_examples"], fields["statistics"] = num_examples, statistics
        fields["started"], fields["computed"], fields["finished"] = started, computed, finished
        fields["sent"] = sent

    @property
    def base_version(self) -> int:
        return self.model.version


class Visit(Generic[S]):
    """A visit in progress, from `download` to `upload`; it holds its client.

    Use it as a context manager if the visit may be abandoned: leaving the block before `upload` frees the client.
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
        """Mark the visit as ended, so that releasing it does nothing. For runtimes."""
        self._release = None

    def __enter__(self) -> Visit[S]:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True)
class Examples:
    """A handle on raw examples that a consenting client uploaded to the server.

    counts: number of examples of each class. cut: whether requested examples are missing because time ran out.
    """

    client: Client
    counts: tuple[int, ...]
    size_bytes: int
    location: Any = field(repr=False)
    cut: bool = False


class Federation(Protocol):
    """The server's view of one run. Times are seconds since the start of the run."""

    @property
    def clients(self) -> Sequence[Client]: ...
    @property
    def now(self) -> float: ...
    @property
    def horizon(self) -> float:
        """When the run ends; infinite if only a budget or a target ends it."""
        ...

    @property
    def model(self) -> Model:
        """The current global model; its `version` counts commits."""
        ...

    @property
    def lr(self) -> float:
        """The configured learning rate (`training.lr`), without the factor of `training.schedule`.

        Pass rates derived from it as `Work.lr`: the schedule then multiplies them too, and does so once.
        """
        ...

    def steps(self, client: Client) -> int:
        """Return the number of optimiser steps in a configured visit of this client."""
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
        """Run a whole visit: wait for the client's turn, send it `model`, let it compute, receive the result.

        group: number of the group, sequence or round that the visit belongs to, for the records. to: the client that
        continues with the result, if any; the model then takes the faster of the direct link and the one through the
        server. Raises ClientUnavailable if the visit will not end.
        """
        ...

    async def train_all(
        self, clients: Iterable[Client], model: Model, work: Work | None = None, *, group: int | None = None
    ) -> list[Update]:
        """Run visits in parallel; return the updates of those that succeed, in the given order.

        Failed visits appear in the records.
        """
        ...

    async def download(self, client: Client, model: Model, *, group: int | None = None) -> Visit:
        """Run the first phase of a visit: wait for the client's turn (first come, first served), send the model."""
        ...

    async def multicast(self, clients: Iterable[Client], model: Model, *, group: int | None = None) -> list[Visit]:
        """Run the first phase of several visits as one transmission at the rate of the slowest client.

        Each client is held from its turn on, and the transmission begins when all are held. Clients must be distinct.
        Returns the visits of the clients that stayed until its end, in the given order; failed ones appear in the
        records.
        """
        ...

    async def compute(self, visit: Visit, work: Work | None = None) -> None:
        """Run the second phase: the client trains."""
        ...

    async def upload(self, visit: Visit, *, to: Client | None = None) -> Update:
        """Run the third phase: the client sends its model and is free again."""
        ...

    async def upload_examples(
        self, client: Client, per_class: Sequence[int], *, until: float | None = None, group: int | None = None
    ) -> Examples:
        """Request up to `per_class[c]` examples of each class c that the client has not uploaded yet.

        This is a visit without download and computation: it waits for the client's turn and uses the uplink like a
        model. until: when the client stops; examples that are not complete by then stay with it. Raises ConsentError
        without consent, and ClientUnavailable if the client leaves, in which case nothing was uploaded.
        """
        ...

    async def train_on_server(self, model: Model, examples: Sequence[Examples], work: Work | None = None) -> Model:
        """Train `model` at the server on all of these examples. It takes the server's time, as arithmetic does."""
        ...

    async def average(self, updates: Sequence[Update | Model], weights: Sequence[float] | None = None) -> Model:
        """Return the weighted mean, computed at the server in the given order; weights default to numbers of examples.

        Running statistics are averaged with the same weights; frozen parameters are copied. Raises StrategyError for
        weights that are negative, not finite, all 0, or differ in number from the updates.
        """
        ...

    async def server_step(self, model: Model) -> Model:
        """Return what a step of `server.optimizer` from the global model towards `model` leads to; else `model`.

        For a round's model that a strategy computes with `on_server`; `average` takes this step by itself.
        """
        ...

    async def mix(self, a: Model, b: Model, beta: float) -> Model:
        """Return (1 - beta) * a + beta * b, computed at the server; running statistics use beta clipped to [0, 1]."""
        ...

    async def on_server(
        self,
        function: Callable[..., Any],
        *models: Model,
        statistics_from: Mapping[Model, float] | None = None,
        **arguments: Any,
    ) -> Any:
        """Call `function(*vectors, **arguments)` at the server, on flat vectors of trainable parameters.

        A returned vector becomes a Model with the version of the first model given, a tuple of vectors a tuple of
        Models; anything else is returned unchanged. Models among `arguments` are passed as vectors too. In a run
        without training the vectors are empty. Vectors are read-only; create new ones.

        Running statistics (batch normalisation) and frozen parameters are not part of the vectors, since a step along a
        change could make variances negative. A returned Model has the common frozen parameters; its statistics are the
        mean of those of the models in `statistics_from`, weighted by the values there (at least 0, not all 0), by
        default the plain mean of all models given.
        """
        ...

    def commit(self, model: Model, *, staleness: int = 0) -> Model:
        """Make `model` the global model, version + 1. staleness: commits since the model's base, for the records."""
        ...

    def estimate(self, client: Client) -> Durations:
        """Return the server's estimate of a configured visit: a prior at first, then observed times.

        If rates and speeds vary from visit to visit, the server knows at most their means, not the duration of the next
        visit.
        """
        ...

    def estimate_example_s(self, client: Client) -> float:
        """Return the server's estimate of the upload of one raw example, seconds."""
        ...

    def forecast(self, client: Client, begin: float, end: float) -> float:
        """Return the forecast that a client will be present from `begin` to `end`, seconds, as a probability.

        `begin` and `end` may both be `now`: whether it is present. In a simulation forecasts are certain, 0 or 1, and
        follow from the fleet's availability; on real clients, whoever is present now is expected to stay, and whoever
        is absent to stay away.
        """
        ...

    async def sleep_until(self, time: float) -> None:
        """Wait on the run's clock; if `time` has passed, return immediately after other ready tasks."""
        ...

    def rng(self, purpose: str, *keys: int) -> np.random.Generator:
        """Return a generator that depends only on (seed, purpose, keys)."""
        ...

    def preparation(self) -> AbstractContextManager[None]:
        """Stop the run's clock while this context is open; only for preparation before time 0."""
        ...

    def note(self, name: str, value: Any) -> None:
        """Write a fact (JSON values) to the run's records, such as the clusters or the chosen structure."""
        ...


@runtime_checkable
class Strategy(Protocol):
    """Decides which clients train when, in which order, and how results are combined.

    A class whose procedure gives clients models of their own (`ClientVisit.personal`) has `OWN_MODELS = True`.
    """

    async def run(self, fed: Federation) -> None: ...


def gives_own_models(strategy: Strategy) -> bool:
    """Return whether a strategy gives clients models of their own, which runs then evaluate on clients' test sets."""
    return bool(getattr(strategy, "OWN_MODELS", False))

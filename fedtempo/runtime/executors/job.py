"""A run's network and data, as executors need them, and a trainer that makes visits with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from fedtempo.data.phases import Phases, in_phase, name_and_phase
from fedtempo.errors import FedtempoError, WorkerError
from fedtempo.federation import EVALUATE
from fedtempo.fleet.faults import Faults
from fedtempo.learning.augmentation import Augmentation
from fedtempo.learning.compressed import CompressedTransfers, CompressionSettings
from fedtempo.learning.evaluation import BATCH, Part, evaluate_part, parts
from fedtempo.learning.examples import Examples
from fedtempo.learning.exchange import EVERYTHING, Exchange
from fedtempo.learning.kept import Kept
from fedtempo.learning.local import train
from fedtempo.learning.malloc import keep_freed_memory
from fedtempo.learning.metric_values import Metrics
from fedtempo.learning.metrics import Asked
from fedtempo.learning.networks import Network, create, network_code, network_error
from fedtempo.learning.pretrained import InitialState
from fedtempo.learning.procedures import make_visit
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.parts.inputs import input_shape
from fedtempo.parts.user_code import described
from fedtempo.runtime.executors import On, Rows, Vector
from fedtempo.runtime.executors.screening import NOT_FINITE, flaw_in, is_finite
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.runtime.transfers import transfers_of

Array = np.ndarray[Any, np.dtype[Any]]
Answer = tuple[dict[str, float], str | None]
"""A visit's statistics, and the flaw of its update (`Trained`)."""


@dataclass(frozen=True, eq=False)
class ClientTests:
    """The clients' own test sets: x, y (n, ...), of all clients in order; ends (clients,): where each one's end."""

    x: Array
    y: Array
    ends: Array


@dataclass(frozen=True, eq=False)
class Job:
    """One run's network and data.

    x (n, ...), y (n, ...): training examples of all clients, as in `Dataset`. clients: each client's examples as row
    numbers of x; a row may belong to several clients. test_x, test_y: test examples. seed: of the run, for all random
    draws. faults: faults of clients' updates. augment: module:function that changes each training batch, see
    `Augmentation`. evaluation_batch: test examples that are evaluated at once. initial: the initial model's state, or
    part of it; the rest is random. exchange: which part of the network travels. compression: of transfers. metrics:
    further ones of the test examples. client_tests: the clients' own test sets. personalise: the training that tunes a
    model to a client before it is evaluated on the client's own. validation_x, validation_y: validation examples; None
    if there are none.

    phases: when examples change; None if they do not. Then `clients` and `client_tests` have those of phase 0, those of
    phase 1, and so on, and the test examples one test set for each phase in which it changes (`data.drift.Drifting`),
    and so the validation examples.
    """

    network: Network
    n_classes: int
    x: Array
    y: Array
    clients: Sequence[Array]
    test_x: Array
    test_y: Array
    seed: int
    faults: Faults = field(default_factory=Faults)
    augment: str | None = None
    evaluation_batch: int = BATCH
    initial: InitialState | None = None
    exchange: Exchange = EVERYTHING
    compression: CompressionSettings | None = None
    metrics: tuple[Asked, ...] = ()
    client_tests: ClientTests | None = None
    personalise: Training | None = None
    validation_x: Array | None = None
    validation_y: Array | None = None
    phases: Phases | None = None

    @property
    def test_parts(self) -> list[tuple[int, int]]:
        """The batches of an evaluation, as (start, stop) of the test examples."""
        return next(iter(self.tests_of("test", len(self.test_x)).values()))

    def tests_of(self, name: str, size: int) -> dict[str, list[tuple[int, int]]]:
        """Return the batches of each phase's test set of this name, as (start, stop). size: of all phases together."""
        names = [name] if self.phases is None else [in_phase(name, k) for k in sorted(set(self.phases.tests))]
        count = size // len(names)
        batches = parts(count, self.evaluation_batch)
        return {each: [(i * count + a, i * count + b) for a, b in batches] for i, each in enumerate(names)}

    def client_of(self, holder: int) -> int:
        """Return the client that holds the examples of a number, see `Phases.holder`."""
        return holder if self.phases is None else holder % self.phases.n_clients

    def augmentation(self) -> Augmentation | None:
        """Return what changes training batches, if anything does; each trainer needs its own."""
        return None if self.augment is None else Augmentation(self.augment)

    def model(self, device: torch.device | str = "cpu") -> FlatModel:
        """Return the initial model on a device."""
        shape = input_shape(self.x)
        seed = int(keyed_generator(self.seed, "initial model").integers(2**63))
        with network_code(self.network):
            module = create(self.network, shape, self.n_classes, seed)
            if self.initial is not None:
                self.initial.load_into(module)
            return FlatModel(module, shape, device=device, exchange=self.exchange)

    def failure(self, error: Exception) -> FedtempoError:
        """Return the error to raise for one in a visit or evaluation: fedtempo's unchanged, a user's with its lines."""
        if isinstance(error, FedtempoError):
            return error
        return network_error(error, self.network) or WorkerError(f"training failed: {described(error)}")

    def rows_at(self, client: int) -> Array:
        """Return a copy of a client's row numbers (int64) of x."""
        return np.array(self.clients[client], dtype=np.int64, order="C")

    def visit_rng(self, client: int, visit: int) -> np.random.Generator:
        """Return the generator for a visit's training."""
        return keyed_generator(self.seed, "training", self.client_of(client), visit)

    def server_rng(self, visit: int) -> np.random.Generator:
        """Return the generator for one of the server's own trainings."""
        return keyed_generator(self.seed, "server training", visit)

    def transfers(self, client: int, visit: int, parameters: int) -> CompressedTransfers | None:
        """Return a visit's compressed transfers, if they are compressed. parameters: those that travel."""
        if self.compression is None:
            return None
        return transfers_of(self.compression, parameters, self.seed, self.client_of(client), visit)

    def spoiled(
        self, client: int, visit: int, parameters: Callable[[], Vector], num_examples: int
    ) -> tuple[Vector, int] | None:
        """Return what a faulty visit sends, see `Faults.sent`; None for other visits, without calling `parameters`.

        parameters: returns the client's update.
        """
        if not self.faults.total:
            return None
        client = self.client_of(client)
        chance = keyed_generator(self.seed, "faults", client, visit)
        fault = self.faults.drawn(client, chance)
        return None if fault is None else self.faults.sent(fault, parameters(), num_examples, chance)


@dataclass(frozen=True)
class PackedJob:
    """A job without its arrays, small enough to send. moved: whether images are stored channels last."""

    job: Job
    moved: bool

    def opened(self, arrays: Mapping[str, Array]) -> Job:
        """Return the job with its arrays, which are not copied."""
        x, test_x = (np.moveaxis(arrays[name], -1, 1) if self.moved else arrays[name] for name in ("x", "test_x"))
        clients = np.split(arrays["rows"], arrays["ends"][:-1])
        tests = None
        if "client_x" in arrays:
            client_x = np.moveaxis(arrays["client_x"], -1, 1) if self.moved else arrays["client_x"]
            tests = ClientTests(client_x, arrays["client_y"], arrays["client_ends"])
        held_x = arrays.get("validation_x")
        return replace(
            self.job,
            x=x,
            y=arrays["y"],
            clients=clients,
            test_x=test_x,
            test_y=arrays["test_y"],
            client_tests=tests,
            validation_x=np.moveaxis(held_x, -1, 1) if held_x is not None and self.moved else held_x,
            validation_y=arrays.get("validation_y"),
        )


def pack(job: Job, channels_last: bool) -> tuple[PackedJob, dict[str, Array]]:
    """Split a job into itself and a few arrays, laid out so that workers can use them without copies."""
    x, test_x = (_single_precision(array) for array in (job.x, job.test_x))
    if channels_last:
        x, test_x = np.moveaxis(x, 1, -1), np.moveaxis(test_x, 1, -1)
    rows = [np.asarray(client, dtype=np.int64) for client in job.clients]
    arrays = {
        "x": x,
        "y": labels_of(job.y),
        "rows": np.concatenate([*rows, np.empty(0, dtype=np.int64)]),
        "ends": np.cumsum([len(client) for client in rows], dtype=np.int64),
        "test_x": test_x,
        "test_y": labels_of(job.test_y),
    }
    if (tests := job.client_tests) is not None:
        client_x = _single_precision(tests.x)
        arrays |= {
            "client_x": np.moveaxis(client_x, 1, -1) if channels_last else client_x,
            "client_y": labels_of(tests.y),
            "client_ends": tests.ends,
        }
    if job.validation_x is not None and job.validation_y is not None:
        held_x = _single_precision(job.validation_x)
        arrays["validation_x"] = np.moveaxis(held_x, 1, -1) if channels_last else held_x
        arrays["validation_y"] = labels_of(job.validation_y)
    empty: Array = np.empty(0)
    alone = replace(job, x=empty, y=empty, clients=(), test_x=empty, test_y=empty, client_tests=None)
    alone = replace(alone, validation_x=None, validation_y=None)
    return PackedJob(alone, channels_last), arrays


def labels_of(array: Array) -> Array:
    """Return labels in the types that `Examples` uses without a copy."""
    return np.asarray(array, dtype={"f": np.float32, "b": np.bool_}.get(array.dtype.kind, np.int64))


def _single_precision(array: Array) -> Array:
    return array.astype(np.float32, copy=False) if array.dtype.kind == "f" else array


class Trainer:
    """Makes a job's visits and evaluations on a model that it owns, in this process and thread."""

    def __init__(self, job: Job, model: FlatModel) -> None:
        keep_freed_memory()
        self.model = model
        self._job = job
        self._augment = job.augmentation()
        self._examples = Examples(job.x, job.y, model.channels_last)
        self._test = Examples(job.test_x, job.test_y, model.channels_last)
        self._gathers = Metrics(job.metrics, job.n_classes).gathers
        tests = job.client_tests
        self._client_tests = None if tests is None else Examples(tests.x, tests.y, model.channels_last)
        self._validation = None
        if job.validation_x is not None and job.validation_y is not None:
            self._validation = Examples(job.validation_x, job.validation_y, model.channels_last)

    def train(self, received: Vector, out: Vector, client: int, visit: int, training: Training) -> Answer:
        """Make a visit from `received` to `out` (both flat); return its statistics and the flaw of its update."""
        job, rows = self._job, self._job.clients[client]
        if job.compression is not None:
            options: Any = {"state": None, "procedure": None, "payload": (), "sent": ()}
            return self.train_carried(received, out, client, visit, training, **options)[0]
        statistics = self._train(received, out, rows, job.visit_rng(client, visit), training)
        return statistics, self._flaw(out, client, visit, statistics)

    def train_carried(
        self,
        received: Vector,
        out: Vector,
        client: int,
        visit: int,
        training: Training,
        *,
        state: bytes | None,
        procedure: str | None,
        payload: Sequence[Vector],
        sent: Sequence[Vector],
        numbers: Mapping[str, float] | None = None,
    ) -> tuple[Answer, bytes | None]:
        """Make a visit as `train` does, of a client that keeps something; also return what it keeps now.

        state, procedure, payload, numbers: see `procedures.make_visit`. sent: where to put the vectors that the client
        sends besides the model.
        """
        rows, rng = self._job.clients[client], self._job.visit_rng(client, visit)
        parameters = self.model.sections.trainable
        transfers = self._job.transfers(client, visit, parameters)
        start = received if transfers is None else transfers.simulated_download(received)
        statistics, vectors, state = make_visit(
            self.model,
            self._examples,
            training,
            rng,
            start,
            rows,
            state=state,
            procedure=procedure,
            numbers=numbers,
            payload=payload,
            returns=len(sent),
            augment=self._augment,
            upload=None if transfers is None else transfers.upload,
        )
        np.copyto(out, self.model.sent.numpy())
        if transfers is not None and procedure != EVALUATE:
            np.add(
                received[:parameters], transfers.uploaded(transfers.message), out=out[:parameters], casting="same_kind"
            )
        for place, vector in zip(sent, vectors):
            np.copyto(place, vector)
        flaw = self._flaw(out, client, visit, statistics)
        if flaw is None and not all(map(is_finite, vectors)):
            flaw = f"a vector that it sends along is {NOT_FINITE}"
        return (statistics, flaw), state

    def _flaw(self, out: Vector, client: int, visit: int, statistics: Mapping[str, float]) -> str | None:
        """Return what is wrong with a client's update, after its fault if it has one."""
        expected = len(self._job.clients[client])
        sent, claimed = self._job.spoiled(client, visit, lambda: out, expected) or (out, expected)
        sections = self.model.sections
        return flaw_in(sent, claimed, statistics, sections=sections, expected=expected, finite=is_finite(sent))

    def train_rows(self, received: Vector, out: Vector, rows: Rows, visit: int, training: Training) -> Answer:
        """Make training number `visit` of the server on these rows of x, as `train` does; it never has a flaw."""
        own_rows = np.array(rows, dtype=np.int64, order="C")
        return self._train(received, out, own_rows, self._job.server_rng(visit), training), None

    def _train(
        self, received: Vector, out: Vector, rows: Array, rng: np.random.Generator, training: Training
    ) -> dict[str, float]:
        statistics = train(self.model, self._examples, training, rng, received, rows, self._augment)
        np.copyto(out, self.model.sent.numpy())
        return statistics

    def evaluate_part(self, vector: Vector, start: int, stop: int, state: bytes | None = None, on: On = "test") -> Part:
        """Evaluate one batch, see `fedtempo.learning.evaluation.Part`; for a single client, its whole test set.

        state: of the client whose local values to use, and on its own test set its own model if it has one. on: see
        `Evaluator.evaluate`.
        """
        kept = Kept.decoded(state, self.model.sections.local)
        self.model.local = kept.local
        if isinstance(on, int) and kept.personal is not None:
            vector = kept.personal.numpy()
        if isinstance(on, int) and self._job.personalise is not None:
            rng = keyed_generator(self._job.seed, "personalise", self._job.client_of(on))
            train(self.model, self._examples, self._job.personalise, rng, vector, self._job.clients[on], self._augment)
        else:
            self.model.load(vector)
        self.model.local = None
        kind = name_and_phase(on)[0] if isinstance(on, str) else ""
        if kind == "test":
            return evaluate_part(self.model, self._test, start, stop, self._gathers)
        if kind == "validation":
            assert self._validation is not None
            return evaluate_part(self.model, self._validation, start, stop, self._gathers)
        assert self._client_tests is not None
        if kind == "clients":
            return evaluate_part(self.model, self._client_tests, start, stop, "scores")
        batches = [(start + a, start + b) for a, b in parts(stop - start, self._job.evaluation_batch)]
        results = [evaluate_part(self.model, self._client_tests, *batch).sums for batch in batches]
        return Part(tuple(map(sum, zip(*results, strict=True))))

"""One CUDA device: does it train as the processor does, with the same bits each time, and how many visits a second?

`python -m benchmarks.gpu [--device cuda:N]` prints the card, versions, every check with what it is held to, and visits
a second for each way of working, in less than four minutes. It returns 1 where a check fails and 2 without a device.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from benchmarks.networks import VOCABULARY
from benchmarks.visits import BATCH, EXAMPLES, LENGTH, LR
from fedtempo.errors import ConfigError
from fedtempo.learning.networks import CharLstm, Cnn, LeNet, Mlp, Network
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Executor, Vector
from fedtempo.runtime.executors.cards import described, find_device
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job

ADAM_CHANGE = 5e-2
"""Limit of `Model.change` with Adam, whose first steps are the signs of gradients, tiny ones too."""

RAGGED = (100, 37, 64, 7)
STREAMS = {"lenet": (1, 4, 16, 64), "mlp": (1, 4, 16, 64), "cnn6": (1, 4, 16), "lstm": (1, 4, 16)}
ENOUGH_S = 200
"""No speed is measured after so many seconds."""

PLAIN = Training(lr=LR, batch_size=BATCH)
EVERYTHING = Training(
    lr=LR,
    batch_size=BATCH,
    epochs=2,
    momentum=0.5,
    nesterov=True,
    weight_decay=1e-3,
    clip_norm=1.0,
    proximal=0.1,
    statistics=frozenset({"squared_loss", "gradient_variance", "gradient_norm"}),
)
ADAM = Training(lr=1e-3, batch_size=BATCH, optimizer="adam")


@dataclass(frozen=True)
class Model:
    """A network with the shape of its examples and its classes, and how far a device may be from the processor.

    change: largest difference of what a visit changes in the parameters, over its L2 norm. loss: of a loss, relative.
    Both are several times what perturbing the first model by 1e-6 of itself makes of the processor's own result. Where
    a network multiplies rounding errors at each step, as with batch normalisation on random labels, `steps` is how many
    steps a visit has that is compared.
    """

    network: Network
    shape: tuple[int, ...]
    classes: int = 10
    change: float = 1e-3
    loss: float = 1e-4
    steps: int | None = None

    def job(self, sizes: Sequence[int]) -> Job:
        """Random examples; each client holds one of `sizes`."""
        rng, count = np.random.default_rng(0), sum(sizes)
        x: np.ndarray = rng.integers(0, self.classes, (count, *self.shape))
        if not isinstance(self.network, CharLstm):
            x = rng.standard_normal((count, *self.shape), dtype=np.float32)
        y, ends = rng.integers(0, self.classes, count), np.cumsum(sizes)
        clients = [np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        return Job(self.network, self.classes, x, y, clients, x, y, seed=0)


MODELS = {
    "lenet": Model(LeNet(), (1, 28, 28)),
    "mlp": Model(Mlp(), (1, 28, 28)),
    "cnn6": Model(
        Cnn((32, 32, 64, 64, 128, 128), pool_after=(2, 4, 6), batch_norm=True, hidden=()),
        (3, 32, 32),
        change=0.1,
        loss=1e-3,
        steps=2,
    ),
    "lstm": Model(CharLstm(), (LENGTH,), VOCABULARY),
}
DROPOUT = Model(Cnn((8, 16), dropout=0.5), (1, 28, 28))


@dataclass(frozen=True)
class Check:
    """value: what was measured; it must not be above `limit`."""

    name: str
    value: float
    limit: float

    @property
    def passed(self) -> bool:
        return self.value <= self.limit


@dataclass(frozen=True)
class Outcome:
    """What visits left: parameters and statistics in the order asked, and the evaluation's loss."""

    vectors: list[Vector]
    statistics: list[Mapping[str, float]]
    loss: float


def outcome(executor: Executor, clients: int, training: Training, visits: int = 3) -> Outcome:
    """Visits of all clients at once, three times: the first goes step by step, the second is recorded and repeated."""
    model = executor.initial()
    asked = [executor.train(model, client, visit, training) for visit in range(visits) for client in range(clients)]
    results = [each.result() for each in asked]
    tested = executor.evaluate(results[0].location).result()
    return Outcome(
        [executor.vector(each.location).copy() for each in results], [each.statistics for each in results], tested.loss
    )


def differing(one: Outcome, other: Outcome) -> float:
    """How many visits differ in a bit."""
    pairs = zip(one.vectors, other.vectors, strict=True)
    return sum(not np.array_equal(a, b) for a, b in pairs) + float(one.statistics != other.statistics)


def change_difference(found: Outcome, expected: Outcome, start: Vector) -> float:
    """Largest difference of a visit's change of the parameters, over the change's norm."""
    pairs = zip(found.vectors, expected.vectors, strict=True)
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(b - start)) for a, b in pairs)


def loss_difference(found: Outcome, expected: Outcome) -> float:
    """Largest relative difference of a visit's mean loss, and of the evaluation's."""
    losses = [(a["loss"], b["loss"]) for a, b in zip(found.statistics, expected.statistics, strict=True)]
    return max(abs(a / b - 1) for a, b in [*losses, (found.loss, expected.loss)])


def checks(device: str, models: Mapping[str, Model] = MODELS, sizes: Sequence[int] = RAGGED) -> Iterator[Check]:
    """Each network against the processor, against itself without recordings, and on other numbers of streams."""
    for name, model in models.items():
        job, count = model.job(sizes), len(sizes)
        for label, settings in (("plain", PLAIN), ("everything", EVERYTHING), ("adam", ADAM)):
            training = replace(settings, steps=model.steps)
            with Inline(job) as inline:
                start, expected = inline.vector(inline.initial()), outcome(inline, count, training)
            with OnDevice(job, device, streams=1) as executor:
                recorded = outcome(executor, count, training)
                facts = executor.facts()
            what, limit = f"{name}, {label}", max(model.change, ADAM_CHANGE if label == "adam" else 0)
            yield Check(f"{what}: change from the processor's", change_difference(recorded, expected, start), limit)
            if label != "adam":
                yield Check(f"{what}: losses from the processor's", loss_difference(recorded, expected), model.loss)
            yield Check(f"{what}: obstacles to recording", len(facts["not_recorded"]), 0)
            yield Check(f"{what}: visits without a recording", float(facts["pieces_by_graph"] == 0), 0)
            if label == "plain":
                for other, streams, graphs in (
                    ("step by step", 1, False),
                    ("on 4 streams", 4, True),
                    ("again", 1, True),
                ):
                    with OnDevice(job, device, streams, graphs) as executor:
                        found = outcome(executor, count, training)
                    yield Check(f"{what}: visits whose bits differ {other}", differing(found, recorded), 0)
    job = DROPOUT.job(sizes)
    runs = []
    for streams in (1, 3):
        with OnDevice(job, device, streams) as executor:
            runs.append(outcome(executor, len(sizes), PLAIN))
            unrecorded = bool(executor.facts()["not_recorded"]) and executor.facts()["graphs"] == 0
            yield Check(f"dropout, {streams} streams: recorded although it draws", float(not unrecorded), 0)
    yield Check("dropout: visits whose bits differ on 3 streams", differing(*runs), 0)
    yield Check("dropout: visits that are the same", float(np.array_equal(runs[0].vectors[0], runs[0].vectors[4])), 0)


@dataclass(frozen=True)
class Speed:
    """Visits of 100 examples in batches of 10 a second."""

    network: str
    way: str
    visits_per_s: float
    peak_mib: float


def speeds(
    device: str,
    models: Mapping[str, Model] = MODELS,
    streams: Mapping[str, Sequence[int]] = STREAMS,
    seconds: float = 2.0,
    clients: int = 10,
) -> Iterator[Speed]:
    """Each network step by step on one stream, then recorded on so many."""
    for name, model in models.items():
        job = model.job([EXAMPLES] * clients)
        ways: list[tuple[str, int, bool]] = [
            ("step by step", 1, False),
            *((f"graphs, {count} streams", count, True) for count in streams[name]),
        ]
        for way, count, graphs in ways:
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            with OnDevice(job, device, count, graphs) as executor:
                _visits(executor, clients, 4 * count)  # each lane records what it does
                done, began = 0, time.perf_counter()
                while (spent := time.perf_counter() - began) < seconds:
                    done += _visits(executor, clients, 8 * count, first=done)
            peak = torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else math.nan
            yield Speed(name, way, done / spent, peak)


def _visits(executor: Executor, clients: int, count: int, first: int = 0) -> int:
    """So many visits, asked for at once."""
    model = executor.initial()
    asked = [executor.train(model, visit % clients, visit, PLAIN) for visit in range(first, first + count)]
    for each in asked:
        each.result()
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda or cuda:N")
    parser.add_argument("--checks-only", action="store_true", help="measure no speed")
    options = parser.parse_args(arguments)
    try:
        device = find_device(options.device)
    except ConfigError as error:
        print(f"benchmarks.gpu: {error}", file=sys.stderr)
        return 2
    if device.type == "cuda":
        torch.cuda.set_device(device)
    print(f"PyTorch {torch.__version__}, " + ", ".join(f"{name} {value}" for name, value in described(device).items()))
    failed, began = 0, time.perf_counter()
    for check in checks(options.device):
        failed += not check.passed
        verdict = "yes" if check.passed else "NO"
        print(f"{check.name:56} {check.value:10.3g}   at most {check.limit:g}: {verdict}", flush=True)
    if not options.checks_only:
        for speed in speeds(options.device):
            print(
                f"{speed.network:8} {speed.way:20} {speed.visits_per_s:10,.1f} visits/s {speed.peak_mib:10,.0f} MiB",
                flush=True,
            )
            if time.perf_counter() - began > ENOUGH_S:
                print("the rest is left out: it takes too long")
                break
    print("every check passed" if not failed else f"{failed} checks failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

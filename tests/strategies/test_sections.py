"""Steps act on trainable parameters; running statistics are averaged, frozen parameters keep their bits."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation
from fedtempo.learning.sections import Sections
from fedtempo.runs.config import parse
from fedtempo.runs.launch import make_executor
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from fedtempo.runtime.executors.job import Trainer
from fedtempo.strategies import STRATEGIES
from tests.runtime.world import Script
from tests.strategies.everyone import cases
from tests.strategies.test_every_strategy import BASE, SPECIAL

Vector = np.ndarray[Any, np.dtype[np.float32]]

needs_accountant = pytest.mark.skipif(importlib.util.find_spec("dp_accounting") is None, reason="needs dp-accounting")

MOMENTUM = {"kind": "sgd", "momentum": 0.9}
STEPS: dict[str, dict[str, Any]] = {
    "fedavg with momentum": {"name": "fedavg", "optimizer": MOMENTUM},
    "fedavg with a long server step": {"name": "fedavg", "optimizer": {"kind": "sgd", "lr": 1.8}},
    "fedavg with adagrad": {"name": "fedavg", "optimizer": "adagrad"},
    "fedavg with adam": {"name": "fedavg", "optimizer": {"kind": "adam", "lr": 0.3}},
    "fedavg with yogi": {"name": "fedavg", "optimizer": "yogi"},
    "fedbuff with long steps": {"name": "fedbuff", "server_lr": 3.0, "buffer": 3},
    "fedhusky, changes of groups": {
        "name": "fedtempo.studies.papers.beyond_parts:FedHuskyGroups",
        "mix": "change",
        "clusters": 2,
    },
    "async-memory without correction": {"name": "async-memory", "correction": False},
    "fedhusky without correction": {"name": "fedhusky", "correction": False, "clusters": 2},
    **{name: {"name": name} for name in sorted(STRATEGIES)},
}
FEW: dict[str, dict[str, Any]] = {
    "fedhusky": {"strategy.clusters": 2},
    "fedhusky-paper": {"strategy.clusters": 2},
    "hybrid": {"strategy.clusters": 2, "run.horizon": 40.0},
    "psfl": {"strategy.width": 3, "strategy.length": 2},
}
"""What strategies need for ten clients and a few visits."""

NETWORKS = ["normalised", "frozen", "both"]


@dataclass
class Seen:
    """The models of a run. initial, final: whole vectors. sent: the model that each visit returned."""

    sections: Sections
    initial: Vector
    final: Vector
    sent: list[Vector]


def configured(network: str, strategy: dict[str, Any], changes: dict[str, Any] | None = None) -> Any:
    fields = dict(strategy)
    server = {"optimizer": fields.pop("optimizer")} if "optimizer" in fields else {}
    tables = {**BASE, "strategy": fields, "executor": {"kind": "inline"}, "server": server}
    special = {} if len(strategy) > 1 else SPECIAL.get(strategy["name"], {}) | FEW.get(strategy["name"], {})
    settings = {
        "model.network": f"tests.strategies.nets:{network}",
        "run.horizon": 16.0,
        "run.evaluate_every": 8.0,
        "data.clients": 10,
        "data.examples_per_client": 12,
        "data.test_examples": 40,
        "training.lr": 0.1,
    }
    return parse(tables).with_changes({**settings, **special, **(changes or {})})


def seen(config: Any, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Run a configuration; return the models that it used and produced."""
    sent: list[Vector] = []
    train = Trainer._train

    def spied(self: Trainer, received: Vector, out: Vector, *rest: Any) -> dict[str, float]:
        statistics = train(self, received, out, *rest)
        sent.append(out.copy())
        return statistics

    train_carried = Trainer.train_carried

    def spied_carried(self: Trainer, received: Vector, out: Vector, *rest: Any, **options: Any) -> Any:
        answer = train_carried(self, received, out, *rest, **options)
        sent.append(out.copy())
        return answer

    monkeypatch.setattr(Trainer, "_train", spied)
    monkeypatch.setattr(Trainer, "train_carried", spied_carried)
    with make_executor(config, build_world(config)) as executor:
        initial, sections = executor.vector(executor.initial()), executor.sections
    summary, _, final = run(config)
    assert final is not None
    assert summary["commits"] >= 1
    return Seen(sections, initial, final, sent)


def must_hold(found: Seen) -> None:
    sections, initial, final = found.sections, found.initial, found.final
    assert np.isfinite(final).all()
    assert final[sections.moving :].tobytes() == initial[sections.moving :].tobytes()
    assert all(sent.shape == (sections.moving,) for sent in found.sent)
    assert not np.array_equal(final[: sections.trainable], initial[: sections.trainable])
    statistics = slice(sections.trainable, sections.moving)
    known = np.stack([initial[statistics], *(sent[statistics] for sent in found.sent)])
    assert (final[statistics] >= known.min(axis=0)).all()
    assert (final[statistics] <= known.max(axis=0)).all()
    assert all((final[start:stop] > 0).all() for start, stop in sections.variances)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", cases(STEPS))
def test_every_strategy_keeps_frozen_parameters_and_averages_statistics(
    name: str, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = seen(configured(network, STEPS[name]), monkeypatch)
    must_hold(found)
    assert (found.sections.frozen == 40) == (network != "normalised")
    assert found.sections.statistics == {"normalised": 8, "frozen": 0, "both": 11}[network]
    if network == "both":
        moving = found.sections.moving
        constant = slice(moving - 11, moving - 8)
        assert found.final[constant].tobytes() == found.initial[constant].tobytes()


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    "server",
    [
        {"aggregation": "median"},
        {"aggregation": "trimmed-mean", "trim": 0.2},
        {"clip_norm": 0.05},
        {"aggregation": "median", "clip_norm": 0.05},
    ],
    ids=str,
)
def test_robust_averages_keep_frozen_parameters_and_average_statistics(
    server: dict[str, Any], network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {f"server.{name}": value for name, value in server.items()}
    for strategy in ({"name": "fedavg", "optimizer": MOMENTUM}, {"name": "csgd"}):
        with monkeypatch.context() as patch:
            must_hold(seen(configured(network, strategy, changes), patch))


def test_a_median_of_statistics_withstands_one_bad_client(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = {"fleet.faults": {"scaled": 1.0, "scale_factor": 1e4, "clients": [3]}, "server.aggregation": "median"}
    found = seen(configured("both", {"name": "fedavg"}, attack), monkeypatch)
    must_hold(found)
    assert np.abs(found.final).max() < 20


def test_clipping_measures_only_trainable_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round: the mean moves by clip_norm at most, and statistics are the plain weighted mean."""
    changes = {"server.clip_norm": 0.01, "run.max_commits": 1, "data.examples_per_client": [4, 20]}
    found = seen(configured("normalised", {"name": "fedavg"}, changes), monkeypatch)
    must_hold(found)
    trainable = found.sections.trainable
    assert np.linalg.norm(found.final[:trainable] - found.initial[:trainable]) < 0.0101
    with monkeypatch.context() as patch:
        plain = seen(configured("normalised", {"name": "fedavg"}, changes | {"server.clip_norm": None}), patch)
    assert np.array_equal(found.final[trainable:], plain.final[trainable:])
    assert not np.array_equal(found.final[:trainable], plain.final[:trainable])


@pytest.mark.parametrize(
    "strategy",
    [{"name": "fedavg", "optimizer": MOMENTUM}, {"name": "fedavg", "optimizer": {"kind": "sgd", "lr": 0.5}}],
    ids=str,
)
def test_server_steps_leave_the_mean_of_statistics_unchanged(
    strategy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, stepped = (
        seen(configured("normalised", each, {"run.max_commits": 1}), monkeypatch)
        for each in ({"name": "fedavg"}, strategy)
    )
    trainable = plain.sections.trainable
    assert np.array_equal(plain.final[trainable:], stepped.final[trainable:])


PRIVACY = {"server.privacy": {"clip_norm": 1.0, "noise_multiplier": 1.1}}


@needs_accountant
def test_privacy_rejects_running_statistics_and_keeps_frozen_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    for network in ("normalised", "both"):
        with pytest.raises(ConfigError, match=r"^server\.privacy: the network has \d+ running statistics .*GroupNorm"):
            run(configured(network, {"name": "fedavg"}, PRIVACY))
    must_hold(seen(configured("frozen", {"name": "fedavg", "optimizer": MOMENTUM}, PRIVACY), monkeypatch))


BATCH_NORM = {"model": {"network": "cnn", "channels": [4], "pool_after": [1], "hidden": [], "batch_norm": True}}
"""A network with 8 running statistics."""


@pytest.mark.parametrize("buffers", ["average", "local", "frozen"])
@pytest.mark.parametrize("name", cases(STEPS))
def test_every_strategy_trains_with_batch_normalisation_whatever_its_buffers_do(
    name: str, buffers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = BATCH_NORM["model"] | {"buffers": buffers}
    changes = {f"model.{name}": value for name, value in model.items()}
    found = seen(configured("normalised", STEPS[name], changes), monkeypatch)
    must_hold(found)
    own = 18 if STEPS[name]["name"] == "fedrep" else 0  # biases, which come after statistics that travel
    assert (found.sections.statistics, found.sections.local - own, found.sections.frozen) == {
        "average": (8, 0, 0),
        "local": (0, 8, 0),
        "frozen": (0, 0, 8),
    }[buffers]
    variances = found.final[-own - 4 : -own or None] if buffers == "average" else found.final[-4:]
    assert (variances > 0).all()
    if buffers != "average":
        assert found.final[-8:].tolist() == [0.0] * 4 + [1.0] * 4


@needs_accountant
@pytest.mark.parametrize("buffers", ["local", "frozen"])
def test_privacy_allows_running_statistics_that_stay_at_the_clients(
    buffers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With statistics that travel it is an error."""
    model = BATCH_NORM["model"] | {"buffers": buffers}
    changes = {f"model.{name}": value for name, value in model.items()} | PRIVACY
    must_hold(seen(configured("normalised", {"name": "fedavg", "optimizer": MOMENTUM}, changes), monkeypatch))


def test_a_users_strategy_is_safe_without_special_code(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = set()

    def far(model: Any, ends: list[Any]) -> tuple[Any, float]:
        lengths.update([len(model), *map(len, ends)])
        return model + 5 * (ends[0] - model), 1.0

    async def steps(fed: Federation) -> None:
        while True:
            updates = await fed.train_all(fed.clients, fed.model)
            stepped, _ = await fed.on_server(far, fed.model, ends=[update.model for update in updates])
            fed.commit(await fed.mix(fed.model, stepped, 1.7))

    monkeypatch.setattr("fedtempo.strategies.fedavg.FedAvg.run", lambda self, fed: Script(steps).run(fed))
    found = seen(configured("both", {"name": "fedavg"}, {"training.lr": 0.001}), monkeypatch)
    must_hold(found)
    assert lengths == {found.sections.trainable}


def test_a_strategy_chooses_whose_statistics_its_models_take(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    async def steps(fed: Federation) -> None:
        updates = await fed.train_all(fed.clients, fed.model)
        weights = {updates[0].model: 1.0, updates[1].model: 3.0}
        made.extend(update.model.location.vector for update in updates)
        made.append((await fed.on_server(lambda w: w * 1.0, fed.model, statistics_from=weights)).location.vector)
        made.append((await fed.on_server(lambda w: w * 1.0, fed.model)).location.vector)
        fed.commit(updates[0].model)

    monkeypatch.setattr("fedtempo.strategies.fedavg.FedAvg.run", lambda self, fed: Script(steps).run(fed))
    found = seen(configured("normalised", {"name": "fedavg"}), monkeypatch)
    part = slice(found.sections.trainable, None)
    np.testing.assert_allclose(made[-2][part], 0.25 * made[0][part] + 0.75 * made[1][part], rtol=1e-6)
    assert np.array_equal(made[-1], found.initial)


@pytest.mark.parametrize("network", NETWORKS)
def test_bits_do_not_depend_on_the_executor(network: str) -> None:
    config = configured(network, {"name": "fedavg", "optimizer": MOMENTUM}, {"run.horizon": 8.0})
    expected, *others = (
        run(config.with_changes({"executor.kind": kind, **more}))[0]
        for kind, more in (("inline", {}), ("processes", {"executor.workers": 2}))
    )
    for other in others:
        assert other["model_sha256"] == expected["model_sha256"]
        assert other["events_sha256"] == expected["events_sha256"]

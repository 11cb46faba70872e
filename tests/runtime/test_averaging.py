"""Averages under the server's settings: the influence of one client, and the strategies that they fit."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.strategies import STRATEGIES
from tests.runtime.world import play
from tests.strategies.everyone import with_every_strategy
from tests.strategies.test_every_strategy import BASE, SPECIAL

PRIVACY = {"clip_norm": 1.0, "noise_multiplier": 2.0, "delta": 1e-4}
needs_accountant = pytest.mark.skipif(importlib.util.find_spec("dp_accounting") is None, reason="needs dp-accounting")

AVERAGES_CLIENTS = {
    "csgd",
    "ditto",
    "fch",
    "fedat",
    "fedavg",
    "fedcs",
    "feddyn",
    "fednova",
    "fedprox",
    "fedrep",
    "hybrid-fl",
    "moon",
    "oort",
    "per-fedavg",
    "power-of-choice",
    "safa",
    "tifl",
    "timelyfl",
}
AVERAGES_CHAINS = {"hierfavg", "hybrid", "psfl", "quafl"}


def configured(strategy: str = "fedavg", changes: dict[str, Any] | None = None):
    config = parse({**BASE, "strategy": {"name": strategy}, "executor": {"kind": "inline"}})
    return config.with_changes(SPECIAL.get(strategy, {}) | {"run.evaluate_every": 10.0} | (changes or {}))


ATTACK = {
    "fleet.faults": {"scaled": 1.0, "clients": [7]},
    "training.lr": 0.5,
    "run.horizon": 50.0,
    "data.partition": {"kind": "iid"},
    "data.examples_per_client": 40,
    "data.test_examples": 200,
}


@pytest.mark.parametrize(
    ("server", "works"),
    [
        ({}, False),
        ({"aggregation": "median"}, True),
        ({"aggregation": "trimmed-mean", "trim": 0.1}, True),
        ({"aggregation": "trimmed-mean", "trim": 0.01}, False),  # trims none of 20 models
        ({"clip_norm": 1.0}, True),
    ],
)
def test_robust_averages_withstand_a_client_that_scales_its_model_a_million_times(
    server: dict[str, Any], works: bool
) -> None:
    summary, _, model = run(configured(changes=ATTACK | {f"server.{name}": value for name, value in server.items()}))
    assert model is not None
    assert (summary["visits_lost"]["refused"] == 0) == works  # a wrecked model spoils honest updates
    assert (np.abs(model).max() < 100) == works
    assert ((summary["final_accuracy"] or 0.0) > 0.7) == works
    assert (summary["diverged"] is None) == works


@pytest.mark.parametrize("name", sorted(STRATEGIES.keys() - {"centralized"}))
@pytest.mark.parametrize("server", [{"aggregation": "median"}, {"aggregation": "trimmed-mean"}, {"clip_norm": 0.5}])
def test_robust_averages_work_with_averaging_strategies_and_are_rejected_by_others(
    name: str, server: dict[str, Any]
) -> None:
    changes = {f"server.{key}": value for key, value in server.items()} | {"run.horizon": 40.0, "executor.kind": "none"}
    if name in AVERAGES_CLIENTS | AVERAGES_CHAINS:
        summary, _, _ = run(configured(name, changes))
        assert summary["commits"] >= 1
    else:
        with pytest.raises(
            ConfigError,
            match=r"server\.(aggregation|clip_norm) = .*: this strategy (commits models|sends vectors) that are no",
        ):
            run(configured(name, changes))


@needs_accountant
@with_every_strategy(without={"centralized"})
def test_privacy_works_with_rounds_of_single_visits_and_is_rejected_by_others(name: str) -> None:
    changes = {"server.privacy": PRIVACY, "run.horizon": 40.0}
    if name in AVERAGES_CLIENTS - {"hybrid-fl", "fch"}:  # these upload examples or compare models
        summary, records, model = run(configured(name, changes))
        assert summary["commits"] >= 2
        assert summary["privacy"]["averages"] >= 1
        assert summary["privacy"]["epsilon"] > 0
        assert np.isfinite(model).all()
        assert summary["model_sha256"] != run(configured(name, {"run.horizon": 40.0}))[0]["model_sha256"]
        assert records.facts["privacy"] == summary["privacy"]
    else:
        if name == "hybrid-fl":
            changes |= {"strategy.uploaders": "all"}  # with few candidates, nobody may upload so soon
        with pytest.raises(ConfigError, match=r"server\.privacy: .*this strategy "):
            run(configured(name, changes))


@needs_accountant
def test_privacy_loss_follows_the_most_active_client_and_private_runs_are_reproducible() -> None:
    changes = {"server.privacy": PRIVACY, "strategy.clients_per_round": 5, "run.horizon": 60.0}
    first, records, _ = run(configured("fedavg", changes))
    again, _, _ = run(configured("fedavg", changes | {"executor.kind": "processes", "executor.workers": 2}))
    other, _, _ = run(configured("fedavg", changes | {"run.seed": 2}))
    assert first["model_sha256"] == again["model_sha256"] != other["model_sha256"]
    # Visits of the round cut by the horizon are done but part of no average.
    averaged = records.visits["base_version"] < records.commits["version"].max()
    done = records.visits["client"][averaged & (records.visits["outcome"] == "done")]
    assert first["privacy"]["averages"] == np.bincount(done).max()
    assert run(configured("fedavg"))[0]["privacy"] is None


@needs_accountant
def test_private_runs_hide_statistics_and_single_models_from_strategies() -> None:
    seen = []

    async def script(fed: Federation) -> None:
        updates = await fed.train_all(fed.clients, fed.model)
        seen.extend(update.statistics for update in updates)
        with pytest.raises(ConfigError, match="computes with single clients' models"):
            await fed.mix(fed.model, updates[0].model, 0.5)
        with pytest.raises(ConfigError, match="computes with single clients' models"):
            await fed.on_server(lambda starts: None, starts=[updates[0].model])
        with pytest.raises(ConfigError, match="computes with single clients' models"):
            await fed.on_server(lambda starts: None, starts={"nested": (updates[0].model,)})
        with pytest.raises(ConfigError, match="sends one client's model to another"):
            await fed.train(fed.clients[0], updates[1].model)
        with pytest.raises(ConfigError, match="commits models that are no average"):
            fed.commit(updates[0].model)
        with pytest.raises(ConfigError, match="client 2 is 2 times in one average"):
            await fed.average([updates[2], updates[2]])
        fed.commit(await fed.average(updates))
        fed.commit(await fed.mix(fed.model, await fed.average(updates[:2]), 0.5))  # averages may be processed further

    _, records = play(script, server={"privacy": PRIVACY}, horizon=10.0)
    assert seen == [{}] * 4
    assert records.commits["version"].tolist() == [1, 2]
    assert records.facts["privacy"]["averages"] == 2


def test_conflicting_settings_are_rejected() -> None:
    for key, value in (("aggregation", "median"), ("clip_norm", 1.0)):
        with pytest.raises(ConfigError, match=rf"{key} = .*with privacy"):
            configured(changes={"server.privacy": PRIVACY, f"server.{key}": value})
    with pytest.raises(ConfigError, match=r"server.privacy: .*noise_multiplier"):
        configured(changes={"server.privacy": {"clip_norm": 1.0, "noise_multiplier": 0.0}})
    with pytest.raises(ConfigError, match=r"server\.trim = 0\.5"):
        configured(changes={"server.trim": 0.5})

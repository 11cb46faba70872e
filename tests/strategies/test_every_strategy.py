"""Properties of every registered strategy; a new one is tested automatically, or after an entry in SPECIAL."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.record import Records
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.strategies import STRATEGIES
from tests.strategies.everyone import with_every_strategy

CLIENTS = 20

# Settings that a strategy needs on this small fleet: dotted keys of the configuration.
SPECIAL: dict[str, dict[str, Any]] = {
    "centralized": {"strategy.round_s": 10.0},
    "fch": {"strategy.clients_per_round": 4},
    "fedhusky": {"strategy.clusters": "labels"},
    "fedhusky-paper": {"strategy.clusters": "labels"},
    "fedrep": {"model.local": ["*bias"], "strategy.head_epochs": 1},
    "hierfavg": {"strategy.cloud_s": 0.5},
    "hybrid": {"strategy.clusters": "labels"},
    "psfl": {"strategy.width": 4, "strategy.length": 3},
}

BASE: dict[str, Any] = {
    "run": {"horizon": 120.0, "verify": True},
    "data": {
        "clients": CLIENTS,
        "examples_per_client": [8, 16],
        "test_examples": 40,
        "tell_labels": True,
        "share_examples": 1.0,
        "partition": {"kind": "dirichlet", "alpha": 0.5},
    },
    "model": {"network": "logistic"},
    "training": {"lr": 0.05, "batch_size": 6},
    "fleet": {
        "compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 3.0},
        "link": {"kind": "fixed", "download_s": 0.25, "upload_s": 0.25},
        "estimates": "exact",
    },
}

everyone = pytest.mark.parametrize("name", sorted(STRATEGIES))
who_trains_clients = pytest.mark.parametrize("name", sorted(STRATEGIES.keys() - {"centralized"}))


def played(name: str, changes: dict[str, Any] | None = None) -> Records:
    """Run a strategy, without training unless the changes (dotted keys of the configuration) turn it on."""
    config = parse({**BASE, "strategy": {"name": name}, "executor": {"kind": "none"}})
    _, records, _ = run(config.with_changes(SPECIAL.get(name, {}) | (changes or {})))
    return records


@everyone
def test_it_runs_until_the_horizon_and_not_beyond(name: str) -> None:
    records = played(name)
    assert (records.facts["ended"], records.facts["elapsed_s"]) == ("horizon", 120.0)
    assert records.commits["version"].size >= 2
    assert records.commits["time"].max() <= 120.0
    assert records.visits["finished"].max() <= 120.0


@with_every_strategy(without={"centralized"})
@pytest.mark.parametrize(
    "availability",
    [
        {"kind": "dropout", "probability": 0.3},
        {"kind": "on-off", "mean_on_s": 15.0, "mean_off_s": 5.0},
        {"kind": "windows", "windows": [[[0.0, 120.0]]] * (CLIENTS - 2) + [[], [[0.0, 5.0]]]},
        {"kind": "windows", "windows": [[[0.0, 30.0], [60.0, 120.0]]] * CLIENTS},
        {"kind": "windows", "windows": [[[40.0, 120.0]]] * CLIENTS},
    ],
    ids=["dropout", "on-off", "some never there", "nobody for a while", "nobody at first"],
)
def test_it_survives_clients_that_leave(name: str, availability: dict[str, Any]) -> None:
    records = played(name, {"fleet.availability": availability})
    assert (records.facts["ended"], records.facts["elapsed_s"]) == ("horizon", 120.0)
    visits = records.visits
    assert (visits["outcome"] == "unavailable").any()
    assert visits["queued"].max() > 90.0
    assert (visits["outcome"] == "done").any()
    assert records.commits["time"].max() > 60.0


FAULTS = {"nan": 0.1, "infinite": 0.05, "shape": 0.05, "count": 0.05, "late": 0.05, "hang": 0.05}


def with_faults(name: str, executor: str) -> Records:
    records = played(name, {"fleet.faults": FAULTS, "server.deadline": 2.0, "executor.kind": executor})
    assert (records.facts["ended"], records.facts["elapsed_s"]) == ("horizon", 120.0)
    outcomes = records.visits["outcome"].tolist()
    assert all(outcomes.count(outcome) >= 2 for outcome in ("refused", "late", "done"))
    assert records.visits["queued"].max() > 90.0
    assert records.commits["time"].max() > 60.0
    return records


@who_trains_clients
def test_it_survives_bad_updates_and_clients_that_never_answer(name: str) -> None:
    with_faults(name, executor="none")


@with_every_strategy(without={"centralized"})
def test_bad_updates_leave_its_model_finite(name: str) -> None:
    losses = with_faults(name, executor="inline").evaluations["loss"]
    assert losses.size > 20
    assert np.isfinite(losses).all()


@everyone
def test_it_rejects_an_unknown_option_with_the_nearest_name(name: str) -> None:
    for field in dataclasses.fields(STRATEGIES[name]):
        with pytest.raises(ConfigError, match=rf"strategy.{field.name}x: unknown key; did you mean '\w+'\?"):
            parse({**BASE, "strategy": {"name": name, f"{field.name}x": 1}})
    with pytest.raises(ConfigError, match=r"strategy.no_such_option: unknown key"):
        parse({**BASE, "strategy": {"name": name, "no_such_option": 1}})


@everyone
def test_the_same_seed_gives_the_same_events_and_another_seed_different_ones(name: str) -> None:
    first, again, other = (played(name, {"run.seed": seed}).facts["events_sha256"] for seed in (1, 1, 2))
    assert first == again != other


@everyone
def test_it_runs_on_a_fleet_with_shared_channels_and_wrong_estimates(name: str) -> None:
    records = played(
        name,
        {
            "fleet.link": {"kind": "fixed", "download_s": 0.25, "upload_s": 0.25, "channels": 5},
            "fleet.estimates": {"kind": "noisy", "error": 0.5},
        },
    )
    assert records.facts["elapsed_s"] == 120.0
    assert records.commits["version"].size >= 1


def trained(name: str, **executor: Any) -> tuple[str, str]:
    """Run a strategy with training on an executor; return the hashes of its model and of its events."""
    records = played(name, {"run.horizon": 30.0, **{f"executor.{key}": value for key, value in executor.items()}})
    assert records.commits["version"].size >= 1
    model, events = records.facts["model_sha256"], records.facts["events_sha256"]
    assert model is not None
    return model, events


@with_every_strategy()
def test_its_bits_do_not_depend_on_the_executor(name: str) -> None:
    expected = trained(name, kind="inline")
    for workers in (1, 2, 4):
        assert trained(name, kind="processes", workers=workers) == expected


@pytest.mark.slow
@everyone
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_its_bits_do_not_depend_on_the_start_method_of_processes(name: str, workers: int) -> None:
    assert trained(name, kind="processes", workers=workers, start_method="spawn") == trained(name, kind="inline")

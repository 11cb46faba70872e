"""Accuracies at the clients follow from the accuracy of each class and the classes that they hold."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter

from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from fedtempo.studies.papers.cache import late_accuracy
from fedtempo.studies.papers.per_client import Final, by_class, client_accuracies, final_of


def config(**partition: object) -> Config:
    return parse(
        {
            "run": {"horizon": 150.0, "seed": 3},
            "data": {"source": "digits", "clients": 20, "examples_per_client": 10, "partition": partition},
            "model": {"network": "mlp", "hidden": [16]},
            "training": {"lr": 0.5, "epochs": 2},
            "fleet": {"preset": "fedhusky"},
            "strategy": {"name": "fedavg", "clients_per_round": 5},
            "executor": {"kind": "inline"},
        }
    )


def test_classes_weighted_by_their_numbers_give_the_accuracy_of_the_run() -> None:
    setting = config(kind="classes", mean=1.0, std=0.0)
    world = build_world(setting)
    summary, _, model = run(setting, quiet=True)
    assert model is not None
    accuracies = by_class(setting, world, model)
    counts = np.bincount(world.test.labels(world.dataset), minlength=10)
    assert accuracies @ counts / counts.sum() == pytest.approx(summary["final_accuracy"], abs=1e-12)
    assert 0 < summary["final_accuracy"] < 1

    at_clients = client_accuracies(
        setting, world, model
    )  # each client holds one class, so it has the accuracy of that class
    held = accuracies[np.array(world.histograms).argmax(axis=1)]
    assert at_clients.worst == held.min()
    assert at_clients.worst_tenth == pytest.approx(np.sort(held)[:2].mean())
    assert at_clients.mean == pytest.approx(held.mean())


def test_clients_with_like_data_have_like_accuracies() -> None:
    setting = config(kind="dirichlet", alpha=1e6, by="client")
    summary, records, _ = run(setting, quiet=True)
    final = TypeAdapter(Final).validate_python(final_of(setting))
    assert (final.seed, final.accuracy) == (setting.run.seed, pytest.approx(late_accuracy(records), abs=1e-4))
    assert summary["final_accuracy"] == pytest.approx(final.accuracy, abs=0.2)
    alike = final.clients
    assert alike is not None
    assert 0.3 < alike.worst <= alike.worst_tenth <= alike.mean < alike.worst + 0.15

"""Accuracy at the end of a run, and of its final model at its clients: that of each class, weighted by those held."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.runs.config import Config
from fedtempo.runs.run import run
from fedtempo.runs.world import World, build_world
from fedtempo.studies.papers.cache import late_accuracy


@dataclass(frozen=True)
class ClientAccuracies:
    """Accuracies of one model over a run's clients. worst_tenth: mean of the lowest tenth of them, at least one."""

    mean: float
    worst_tenth: float
    worst: float


@dataclass(frozen=True)
class Final:
    """A run to its end. accuracy: mean over its last tenth. clients: of the final model; None without classes."""

    seed: int
    accuracy: float
    clients: ClientAccuracies | None


def final_of(config: Config) -> dict[str, Any]:
    """Run a configuration to its end; return a `Final` as JSON values."""
    world = build_world(config)
    _, records, model = run(config, quiet=True)
    assert model is not None
    clients = client_accuracies(config, world, model) if world.dataset.task == "classes" else None
    return asdict(Final(config.run.seed, round(late_accuracy(records), 4), clients))


def client_accuracies(config: Config, world: World, model: npt.NDArray[np.float32]) -> ClientAccuracies:
    """Return the accuracies of a flat model at the clients, for data of classes."""
    held = np.array(world.histograms, dtype=np.float64)
    at_clients = held / held.sum(axis=1, keepdims=True) @ by_class(config, world, model)
    tenth = max(1, len(at_clients) // 10)
    return ClientAccuracies(
        mean=float(at_clients.mean()),
        worst_tenth=statistics.fmean(np.sort(at_clients)[:tenth]),
        worst=float(at_clients.min()),
    )


def by_class(config: Config, world: World, model: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the accuracy (n_classes,) of a flat model on the test examples of each class; 0 without any."""
    import torch

    from fedtempo.learning.examples import Examples
    from fedtempo.runs.launch import make_job

    job = make_job(config, world)
    network = job.model()
    network.load(model)
    network.module.eval()
    x, y = Examples(job.test_x, job.test_y, network.channels_last).span(0, len(job.test_x))
    with torch.inference_mode():
        right = (network.module(x).argmax(dim=1) == y).numpy()
    labels = y.numpy()
    counts = np.bincount(labels, minlength=job.n_classes)
    return np.bincount(labels, weights=right, minlength=job.n_classes) / np.maximum(counts, 1)

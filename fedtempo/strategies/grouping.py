"""Step 1 of grouped training: find clients with similar data (FedHusky, Section III-A)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation, Work
from fedtempo.parts.fields import Count, Doc, Gt, Le
from fedtempo.strategies.planning.clusters import (
    cluster_clients,
    even_out_speeds,
    points_from_gram,
    points_from_vectors,
)

_COLUMNS = 65_536
"""Number of parameters converted to float64 at a time."""


ClusterChoice = Annotated[
    Literal["models", "labels"] | Count,
    Doc('how to cluster clients: "models" (also finds the number of clusters), "labels", or a number: from models'),
]
WarmupEpochs = Annotated[Count, Doc("local epochs before clients' models are compared")]
CountWarmup = Annotated[
    bool, Doc("count the time of that training as part of the run; the FedHusky paper starts after it")
]
Reach = Annotated[float, Gt(0), Le(1), Doc("share of each cluster's clients that are visited, the fastest ones")]


async def find_clusters(
    fed: Federation, by: str | int, warmup_epochs: int, count_warmup: bool, *, even_speeds: bool = False
) -> list[int]:
    """Return each client's cluster, numbered from 0; sizes differ by at most one.

    by: "models": every client trains the initial model and sends it; the gap statistic gives the number of clusters,
    k-means on the models the clusters, and rebalancing evens out their sizes. An integer: the same with that number of
    clusters; 1 needs no training. "labels": from clients' label histograms, one cluster per class; needs no training
    (an oracle if clients would not reveal them). even_speeds: clients of different clusters are then swapped until all
    clusters are about equally fast by the estimated visits. Raises ConfigError if the histograms or the trained models
    are missing.
    """
    if isinstance(by, int) and by > len(fed.clients):
        raise ConfigError(f"strategy.clusters = {by}: more clusters than clients ({len(fed.clients)})")
    if by == 1:
        return [0] * len(fed.clients)
    if by == "labels":
        points, known = points_from_vectors(_label_shares(fed)), list(range(len(fed.clients)))
        n_clusters: int | None = len(fed.clients[0].label_histogram or ())
    else:
        gram, known = await _model_gram(fed, warmup_epochs, count_warmup)
        points = points_from_gram(gram)
        n_clusters = by if isinstance(by, int) else None
    clustering = cluster_clients(points, n_clusters, fed.rng("clusters"))
    labels = clustering.labels
    if even_speeds:
        visits_s = [fed.estimate(fed.clients[client]).visit_s for client in known]
        labels = even_out_speeds(points, labels, 1 / np.maximum(visits_s, 1e-9))
    cluster = [-1] * len(fed.clients)
    for client, label in zip(known, labels):
        cluster[client] = int(label)
    for client in range(len(cluster)):
        if cluster[client] < 0:  # it sent no model: put it into the smallest cluster
            cluster[client] = min(range(clustering.n_clusters), key=lambda c: (cluster.count(c), c))
    fed.note("clusters", cluster)
    return cluster


async def _model_gram(fed: Federation, epochs: int, counts: bool) -> tuple[np.ndarray, list[int]]:
    """Return the inner products of the changes made by local training, (n, n), and the ids of the n clients."""
    with contextlib.nullcontext() if counts else fed.preparation():
        updates = await fed.train_all(fed.clients, fed.model, Work(epochs=epochs))
    gram: np.ndarray = await fed.on_server(gram_matrix, fed.model, models=[update.model for update in updates])
    if not gram.any():
        raise ConfigError('strategy.clusters needs trained models, but this run trains none: use clusters = "labels"')
    return gram, [update.client.id for update in updates]


def _label_shares(fed: Federation) -> np.ndarray:
    """Return the share of each label among each client's examples, (n, n_classes)."""
    histograms = [client.label_histogram for client in fed.clients]
    if any(histogram is None for histogram in histograms):
        raise ConfigError(
            'strategy.clusters = "labels" needs label histograms: set data.tell_labels = true if clients reveal them'
        )
    counts = np.array(histograms, dtype=float)
    shares: np.ndarray = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return shares


def gram_matrix(origin: Any, *, models: Sequence[Any]) -> np.ndarray:
    """Return the inner products of the vectors `model - origin`, (n, n) in float64."""
    gram = np.zeros((len(models), len(models)))
    start = np.asarray(origin)
    for column in range(0, start.size, _COLUMNS):
        part = slice(column, column + _COLUMNS)
        changes = np.stack([np.asarray(model)[part] for model in models]).astype(np.float64) - start[part]
        gram += changes @ changes.T
    return gram

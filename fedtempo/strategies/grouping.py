"""Step 1 of grouped training: which clients hold similar data (FedHusky, Section III-A)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation, Work
from fedtempo.parts.fields import Count, Doc
from fedtempo.strategies.planning.clusters import (
    cluster_clients,
    even_out_speeds,
    points_from_gram,
    points_from_vectors,
)

_COLUMNS = 65_536
"""Parameters taken at a time into float64."""


ClusterChoice = Annotated[
    Literal["models", "labels"] | Count,
    Doc('how clients are clustered: "models" (number found too), a number of clusters found from models, or "labels"'),
]
WarmupEpochs = Annotated[Count, Doc("passes over its data that a client trains before its model is compared")]
CountWarmup = Annotated[
    bool, Doc("whether that training's time is part of the run; the FedHusky paper begins after it")
]


async def find_clusters(
    fed: Federation, by: str | int, warmup_epochs: int, count_warmup: bool, *, even_speeds: bool = False
) -> list[int]:
    """Each client's cluster, numbered from 0; clusters of equal size, up to one.

    by: "models": every client trains the initial model by itself and sends it; the gap statistic gives the number of
    clusters, k-means on the models the clusters, and re-balancing their sizes. An integer: the same with that many
    clusters; one needs no training. "labels": from the histograms that clients tell, one cluster a class (an oracle
    where clients would not tell; needs no training). even_speeds: clients of two clusters then change places until
    clusters are about as fast as each other, by the estimated visits. Raises ConfigError where the histograms or the
    trained models are missing.
    """
    if isinstance(by, int) and by > len(fed.clients):
        raise ConfigError(f"strategy.clusters = {by}: more clusters than there are clients, {len(fed.clients)}")
    if by == 1:
        return [0] * len(fed.clients)
    if by == "labels":
        points, known = points_from_vectors(_label_shares(fed)), list(range(len(fed.clients)))
        wanted: int | None = len(fed.clients[0].label_histogram or ())
    else:
        gram, known = await _model_gram(fed, warmup_epochs, count_warmup)
        points = points_from_gram(gram)
        wanted = by if isinstance(by, int) else None
    found = cluster_clients(points, wanted, fed.rng("clusters"))
    labels = found.labels
    if even_speeds:
        visits_s = [fed.estimate(fed.clients[client]).visit_s for client in known]
        labels = even_out_speeds(points, labels, 1 / np.maximum(visits_s, 1e-9))
    cluster = [-1] * len(fed.clients)
    for client, label in zip(known, labels):
        cluster[client] = int(label)
    for client in range(len(cluster)):
        if cluster[client] < 0:  # it sent no model: the smallest cluster takes it
            cluster[client] = min(range(found.n_clusters), key=lambda c: (cluster.count(c), c))
    fed.note("clusters", cluster)
    return cluster


async def _model_gram(fed: Federation, epochs: int, counts: bool) -> tuple[np.ndarray, list[int]]:
    """Inner products of the changes that local training made, and which clients sent one."""
    with contextlib.nullcontext() if counts else fed.preparation():
        updates = await fed.train_all(fed.clients, fed.model, Work(epochs=epochs))
    gram: np.ndarray = await fed.on_server(gram_matrix, fed.model, models=[update.model for update in updates])
    if not gram.any():
        raise ConfigError('strategy.clusters needs trained models, and this run trains none: use clusters = "labels"')
    return gram, [update.client.id for update in updates]


def _label_shares(fed: Federation) -> np.ndarray:
    """Share of each label among a client's examples, (n, n_classes)."""
    told = [client.label_histogram for client in fed.clients]
    if any(histogram is None for histogram in told):
        raise ConfigError(
            'strategy.clusters = "labels" needs label histograms: set data.tell_labels = true if clients tell them'
        )
    counts = np.array(told, dtype=float)
    shares: np.ndarray = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return shares


def gram_matrix(origin: Any, *, models: Sequence[Any]) -> np.ndarray:
    """Inner products (n, n), float64, of the vectors `model - origin`."""
    gram = np.zeros((len(models), len(models)))
    start = np.asarray(origin)
    for column in range(0, start.size, _COLUMNS):
        part = slice(column, column + _COLUMNS)
        changes = np.stack([np.asarray(model)[part] for model in models]).astype(np.float64) - start[part]
        gram += changes @ changes.T
    return gram

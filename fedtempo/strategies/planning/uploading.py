"""Choice of the raw examples that consenting clients upload within a time window (Hybrid-FL, Section IV-B).

Clients upload one after the other, so the duration of a choice is the sum of its examples' upload times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

UploadRule = Literal["iid", "max-throughput"]


@dataclass(frozen=True, eq=False)
class Uploads:
    """Uploads in order: clients (positions in the given arrays) and labels, each (n_uploads,).

    seconds: their total duration. complete: whether nothing is left to upload.
    """

    clients: Ids
    labels: Ids
    seconds: float
    complete: bool

    def counts(self, n_clients: int, n_classes: int) -> Ids:
        """Return the number of examples of each class that each client uploads, (n_clients, n_classes)."""
        sent = np.zeros((n_clients, n_classes), dtype=np.int64)
        np.add.at(sent, (self.clients, self.labels), 1)
        return sent


def choose_uploads(example_s: ArrayLike, stock: ArrayLike, window_s: float, rule: UploadRule) -> Uploads:
    """Choose the examples to upload within `window_s`, which may be used up.

    example_s: (n_clients,), upload time of one example of each client, seconds. stock: (n_clients, n_classes), examples
    that each client still holds. All clients must have agreed to upload.

    "iid" (Algorithm 3): repeated passes over the classes take one example of each class from the fastest client that
    still has one; a class that no client has is skipped. The first example that does not fit ends the choice, but its
    pass is completed as in the paper: a later class with a faster client may still fit. "max-throughput": client after
    client from the fastest on, class after class, until an example does not fit. Ties go to the first client.
    """
    seconds = np.asarray(example_s, dtype=np.float64)
    counts = np.asarray(stock, dtype=np.int64)
    fastest = np.argsort(seconds, kind="stable")
    if rule == "iid":
        clients, labels, passes = _class_by_class(fastest, counts)
    else:
        labels = np.repeat(np.tile(np.arange(counts.shape[1]), len(counts)), counts[fastest].ravel())
        clients = np.repeat(fastest, counts.sum(axis=1)[fastest])
        passes = np.arange(len(clients))
    ends = np.cumsum(seconds[clients])
    n_fitting = int(np.searchsorted(ends, window_s, side="right"))
    used = float(ends[n_fitting - 1]) if n_fitting else 0.0
    chosen = list(range(n_fitting))
    for later in range(n_fitting + 1, len(clients)):
        if passes[later] != passes[n_fitting]:
            break
        if used + seconds[clients[later]] <= window_s:
            used += float(seconds[clients[later]])
            chosen.append(later)
    return Uploads(clients[chosen], labels[chosen], used, n_fitting == len(clients))


def _class_by_class(fastest: Ids, counts: Ids) -> tuple[Ids, Ids, Ids]:
    """Return clients, labels and pass numbers of Algorithm 3's sequence for an unlimited window."""
    totals = counts.sum(axis=0)
    clients = np.concatenate([np.repeat(fastest, of_class[fastest]) for of_class in counts.T])
    labels = np.repeat(np.arange(len(totals)), totals)
    passes = np.arange(len(labels)) - np.repeat(np.cumsum(totals) - totals, totals)
    order = np.lexsort((labels, passes))
    return clients[order], labels[order], passes[order]

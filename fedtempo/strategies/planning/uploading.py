"""Which raw examples consenting clients send to the server within a window of time (Hybrid-FL, Section IV-B).

Clients send one after the other, never at once, so the time of a choice is the sum of its examples' times.
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
    """What is to be sent, in order: (n_uploads,) each, the sender as its position in the arrays that were given.

    seconds: that all of it takes. complete: nothing is left to send.
    """

    clients: Ids
    labels: Ids
    seconds: float
    complete: bool

    def counts(self, n_clients: int, n_classes: int) -> Ids:
        """Examples of each class that each client sends, (n_clients, n_classes)."""
        sent = np.zeros((n_clients, n_classes), dtype=np.int64)
        np.add.at(sent, (self.clients, self.labels), 1)
        return sent


def choose_uploads(example_s: ArrayLike, stock: ArrayLike, window_s: float, rule: UploadRule) -> Uploads:
    """Examples to send within `window_s` (all of it may be used).

    example_s: (n_clients,), seconds that one example of each client takes. stock: (n_clients, n_classes), examples that
    each has not sent yet. All of them must have agreed to send.

    "iid" (Algorithm 3): pass after pass over the classes, each time one example of the class from the fastest client
    that still has one; a class that nobody has is passed over. The first example that does not fit ends the choice, but
    its pass is finished, as printed: a later class with a faster sender may still fit. "max-throughput": client after
    client from the fastest, class after class, until an example does not fit. Equally fast: the first client.
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
    """Clients, labels and numbers of pass of Algorithm 3's whole sequence, were the window endless."""
    totals = counts.sum(axis=0)
    clients = np.concatenate([np.repeat(fastest, of_class[fastest]) for of_class in counts.T])
    labels = np.repeat(np.arange(len(totals)), totals)
    passes = np.arange(len(labels)) - np.repeat(np.cumsum(totals) - totals, totals)
    order = np.lexsort((labels, passes))
    return clients[order], labels[order], passes[order]

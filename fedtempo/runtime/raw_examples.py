"""Raw examples: which client holds which, and what each has sent to the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtempo.federation import Client, Examples

Ids = np.ndarray[Any, np.dtype[np.int64]]


class RawExamples:
    """The examples of one run's clients. Each is sent once at most.

    labels: each client's labels, in the order of its examples. rows: their row numbers among the training examples of
    the executor. example_bytes: what sending one takes.
    """

    def __init__(self, labels: Sequence[np.ndarray], rows: Sequence[np.ndarray], example_bytes: int) -> None:
        self._labels, self._rows = labels, rows
        self._unsent: dict[int, np.ndarray] = {}
        self.example_bytes = example_bytes

    def unsent(self, client: Client, per_class: Sequence[int]) -> Ids:
        """Up to so many examples of each class that the client has not sent yet, class by class, as its own numbers."""
        labels = self._labels[client.id]
        unsent = self._unsent.setdefault(client.id, np.ones(len(labels), dtype=bool))
        chosen = [np.flatnonzero(unsent & (labels == label))[:wanted] for label, wanted in enumerate(per_class)]
        return np.concatenate([*chosen, np.empty(0, dtype=np.int64)])

    def send(self, client: Client, chosen: Ids, n_classes: int, *, cut: bool) -> Examples:
        """These of the client's examples are at the server now."""
        self._unsent[client.id][chosen] = False
        counts = np.bincount(self._labels[client.id][chosen], minlength=n_classes)
        return Examples(client, tuple(counts.tolist()), self.example_bytes * len(chosen), chosen, cut)

    def rows(self, examples: Sequence[Examples]) -> Ids:
        """Row numbers of these examples, in the order given."""
        return np.concatenate([self._rows[each.client.id][each.location] for each in examples])

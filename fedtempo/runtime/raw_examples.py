"""Raw examples in a simulation: which ones clients hold, and which ones the server has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtempo.federation import Client, Examples

Ids = np.ndarray[Any, np.dtype[np.int64]]


class RawExamples:
    """The examples of one run's clients. Each is sent at most once.

    labels: each client's labels, in the order of its examples. rows: row numbers of each client's examples among the
    executor's training examples. example_bytes: size of one example when it is sent.
    """

    def __init__(self, labels: Sequence[np.ndarray], rows: Sequence[np.ndarray], example_bytes: int) -> None:
        self._labels, self._rows = labels, rows
        self._unsent: dict[int, np.ndarray] = {}
        self.example_bytes = example_bytes

    def unsent(self, client: Client, per_class: Sequence[int]) -> Ids:
        """Return up to `per_class[c]` unsent examples of each class c, class by class, as the client's own indices."""
        labels = self._labels[client.id]
        unsent = self._unsent.setdefault(client.id, np.ones(len(labels), dtype=bool))
        chosen = [np.flatnonzero(unsent & (labels == label))[:count] for label, count in enumerate(per_class)]
        return np.concatenate([*chosen, np.empty(0, dtype=np.int64)])

    def send(self, client: Client, chosen: Ids, n_classes: int, *, cut: bool) -> Examples:
        """Mark the chosen examples of a client as sent and return them. cut: not all arrived in time."""
        self._unsent[client.id][chosen] = False
        counts = np.bincount(self._labels[client.id][chosen], minlength=n_classes)
        return Examples(client, tuple(counts.tolist()), self.example_bytes * len(chosen), chosen, cut)

    def rows(self, examples: Sequence[Examples]) -> Ids:
        """Return the row numbers of these examples, in the order given."""
        return np.concatenate([self._rows[upload.client.id][upload.location] for upload in examples])

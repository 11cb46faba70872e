"""Raw examples from consenting clients: requested in batches, each example once, and kept at the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.deploy.live.messages import BadUpdate, Reply
from fedtempo.federation import Client, Examples

Array = np.ndarray[Any, np.dtype[Any]]

BATCH = 64
"""Examples per message; small, since a batch in transit at the deadline is lost."""


class Uploads:
    """The examples that clients have uploaded, counted by client and class."""

    def __init__(self) -> None:
        self._sent: dict[int, list[int]] = {}

    def begin(self, client: Client, per_class: Sequence[int]) -> ExampleRequest:
        """Request up to `per_class[c]` examples of each class c that `client` has not sent yet."""
        sent = self._sent.setdefault(client.id, [0] * len(per_class))
        return ExampleRequest(client, per_class, sent)

    def gathered(self, examples: Sequence[Examples]) -> tuple[Array, Array]:
        """Return the inputs and labels of all these examples, in the order given."""
        batches = [batch for uploaded in examples for batch in uploaded.location]
        return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


class ExampleRequest:
    """One upload in progress: the examples still to request, and those received.

    sent: number of examples of each class that the client has sent in all its uploads; `add` updates it.
    """

    def __init__(self, client: Client, per_class: Sequence[int], sent: list[int]) -> None:
        self._client, self._sent = client, sent
        self._left = list(per_class)
        self._counts = [0] * len(per_class)
        self._batches: list[tuple[Array, Array]] = []

    def next_call(self) -> dict[str, Any] | None:
        """Return the content of the next call, which skips examples already sent; None if no request is left."""
        room, take = BATCH, []
        for remaining in self._left:
            take.append(min(remaining, room))
            room -= take[-1]
        return {"after": list(self._sent), "take": take} if any(take) else None

    def add(self, x: Array, y: Array, requested: Sequence[int]) -> int:
        """Record the received examples and return their size in bytes; a class that came up short is exhausted."""
        for label, count in enumerate(np.bincount(y, minlength=len(self._left)).tolist()):
            self._sent[label] += count
            self._counts[label] += count
            self._left[label] = self._left[label] - count if count == requested[label] else 0
        self._batches.append((x, y))
        return x.nbytes

    def close(self, *, cut: bool) -> Examples:
        """End the upload. cut: the deadline passed before all examples had arrived."""
        size_bytes = sum(x.nbytes for x, _ in self._batches)
        return Examples(self._client, tuple(self._counts), size_bytes, tuple(self._batches), cut)


def read_examples(
    reply: Reply, request: Mapping[str, Any], input_shape: Sequence[int], n_classes: int
) -> tuple[Array, Array, list[int]]:
    """Read a batch: inputs, labels, and the numbers requested of each class. Raises BadUpdate for anything else."""
    if len(reply.arrays) != 2:
        raise BadUpdate(f"it has {len(reply.arrays)} arrays instead of inputs and labels")
    x, y = reply.arrays
    if x.shape != (len(y), *input_shape) or x.dtype.kind not in "fi" or y.ndim != 1 or y.dtype.kind != "i":
        raise BadUpdate(f"its examples are {x.dtype} of shape {x.shape}, its labels {y.dtype} of shape {y.shape}")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise BadUpdate("its examples contain values that are not finite")
    if len(y) and not 0 <= y.min() <= y.max() < n_classes:
        raise BadUpdate(f"its labels lie outside 0 to {n_classes - 1}")
    requested: list[int] = list(request["take"])
    if (np.bincount(y, minlength=n_classes) > requested).any():
        raise BadUpdate("it sent more examples than were requested")
    return x, y.astype(np.int64), requested

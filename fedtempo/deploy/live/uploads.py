"""Raw examples from consenting clients: requested in batches, each example once, and kept at the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtempo.deploy.live.bounds import BadUpdate
from fedtempo.deploy.live.messages import Reply
from fedtempo.federation import Client, Examples

Array = np.ndarray[Any, np.dtype[Any]]

BATCH = 64
"""Examples per message; small, since a batch in transit at the deadline is lost."""


_MOST_TIMES = 100.0
"""Numbers in an example may be this many times as large as the largest of the server's own examples, or of 1."""


@dataclass(frozen=True)
class ExampleForm:
    """What an uploaded example must look like to be trained on, as the server's own do.

    largest: magnitude of the largest number in them. compute: computes the network's outputs for examples; raises any
    exception if it cannot, as for symbols that the network does not know.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    largest: float
    compute: Callable[[Array], object]

    def read(self, x: Array) -> Array:
        """Return examples as the network takes them. Raises BadUpdate for unusable ones."""
        whole = self.dtype.kind in "iu"
        if x.shape[1:] != self.shape or x.dtype.kind not in ("iu" if whole else "f"):
            raise BadUpdate(f"its examples are {x.dtype} of shape {x.shape[1:]}, not {self.dtype} of {self.shape}")
        with np.errstate(over="ignore"):
            read = x.astype(self.dtype)
        if whole:
            try:
                self.compute(read)
            except Exception as error:
                raise BadUpdate(f"the network cannot compute with its examples: {error}") from error
        elif not np.isfinite(read).all():
            raise BadUpdate("its examples contain values that are not finite")
        elif (most := float(np.abs(read).max(initial=0.0))) > _MOST_TIMES * max(1.0, self.largest):
            raise BadUpdate(
                f"its examples contain {most:.3g}; the largest of the server's is {self.largest:.3g}, and at most "
                f"{_MOST_TIMES:g} times as much is accepted"
            )
        return read


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
    reply: Reply, request: Mapping[str, Any], form: ExampleForm, n_classes: int
) -> tuple[Array, Array, list[int]]:
    """Read a batch: inputs, labels, and the numbers requested of each class. Raises BadUpdate for anything else."""
    if len(reply.arrays) != 2:
        raise BadUpdate(f"it has {len(reply.arrays)} arrays instead of inputs and labels")
    x, y = reply.arrays
    if y.ndim != 1 or y.dtype.kind != "i" or x.ndim == 0 or len(x) != len(y):
        raise BadUpdate(f"its examples are {x.dtype} of shape {x.shape}, its labels {y.dtype} of shape {y.shape}")
    requested: list[int] = list(request["take"])
    if len(y) > sum(requested):
        raise BadUpdate("it sent more examples than were requested")
    if len(y) and not 0 <= y.min() <= y.max() < n_classes:
        raise BadUpdate(f"its labels lie outside 0 to {n_classes - 1}")
    if (np.bincount(y, minlength=n_classes) > requested).any():
        raise BadUpdate("it sent more examples than were requested")
    return form.read(x), y.astype(np.int64), requested

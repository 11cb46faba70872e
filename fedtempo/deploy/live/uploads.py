"""Raw examples that consenting clients send: asked for in pieces, each once, and kept at the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.deploy.live.messages import BadUpdate, Reply
from fedtempo.federation import Client, Examples

Array = np.ndarray[Any, np.dtype[Any]]

PIECE = 64
"""Examples of one message: what is on its way when time is up is lost, so a piece is small."""


class Uploads:
    """What every client has sent so far."""

    def __init__(self) -> None:
        self._sent: dict[int, list[int]] = {}

    def begin(self, client: Client, per_class: Sequence[int]) -> Wanted:
        """Ask `client` for up to so many examples of each class that it has not sent yet."""
        sent = self._sent.setdefault(client.id, [0] * len(per_class))
        return Wanted(client, per_class, sent)

    def gathered(self, examples: Sequence[Examples]) -> tuple[Array, Array]:
        """Inputs and labels of all of these, in the order given."""
        parts = [part for each in examples for part in each.location]
        return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


class Wanted:
    """One upload: what is left to ask for, and what has come.

    sent: numbers of examples of each class that the client has sent in all uploads; it goes up with what comes.
    """

    def __init__(self, client: Client, per_class: Sequence[int], sent: list[int]) -> None:
        self._client, self._sent = client, sent
        self._left = list(per_class)
        self._counts = [0] * len(per_class)
        self._parts: list[tuple[Array, Array]] = []

    def next_call(self) -> dict[str, Any] | None:
        """What to ask for next: so many examples of each class, after those that were sent; None where all is there."""
        room, take = PIECE, []
        for left in self._left:
            take.append(min(left, room))
            room -= take[-1]
        return {"after": list(self._sent), "take": take} if any(take) else None

    def add(self, x: Array, y: Array, asked: Sequence[int]) -> int:
        """These came; returns their size in bytes. Of a class that came short there are no more."""
        for label, count in enumerate(np.bincount(y, minlength=len(self._left)).tolist()):
            self._sent[label] += count
            self._counts[label] += count
            self._left[label] = self._left[label] - count if count == asked[label] else 0
        self._parts.append((x, y))
        return x.nbytes

    def close(self, *, cut: bool) -> Examples:
        size_bytes = sum(x.nbytes for x, _ in self._parts)
        return Examples(self._client, tuple(self._counts), size_bytes, tuple(self._parts), cut)


def read_examples(
    reply: Reply, asked: Mapping[str, Any], input_shape: Sequence[int], n_classes: int
) -> tuple[Array, Array, list[int]]:
    """Inputs, labels and what was asked of each class. Raises BadUpdate for anything that was not asked for."""
    if len(reply.arrays) != 2:
        raise BadUpdate(f"it has {len(reply.arrays)} arrays, not inputs and labels")
    x, y = reply.arrays
    if x.shape != (len(y), *input_shape) or x.dtype.kind not in "fi" or y.ndim != 1 or y.dtype.kind != "i":
        raise BadUpdate(f"its examples are {x.dtype} of shape {x.shape}, its labels {y.dtype} of shape {y.shape}")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        raise BadUpdate("its examples hold numbers that are not finite")
    if len(y) and not 0 <= y.min() <= y.max() < n_classes:
        raise BadUpdate(f"its labels lie outside 0 to {n_classes - 1}")
    take: list[int] = list(asked["take"])
    if (np.bincount(y, minlength=n_classes) > take).any():
        raise BadUpdate("it sent more examples than were asked for")
    return x, y.astype(np.int64), take

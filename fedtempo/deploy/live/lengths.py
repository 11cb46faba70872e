"""Lengths of the parts of an update, by which it is compared with those of other clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedtempo.learning.sections import Sections
from fedtempo.runtime.executors import Vector


class Length(NamedTuple):
    """Length (L2 norm) of a part of an update, and of the model's part that it refers to, which has `size` numbers."""

    of: str
    length: float
    model: float
    size: int


def lengths_of(
    received: Vector, arrays: Sequence[Vector], sections: Sections, *, change: bool = False
) -> tuple[tuple[str, float, float, int], ...]:
    """Return the lengths of the parts of an update, see `Length`.

    received: the model that the client received. arrays: the model that it sent, or the change if `change`, and the
    vectors that came with it.
    """
    n, model = sections.trainable, _norm(received[: sections.trainable])
    moved = _wide(arrays[0][:n]) if change else _wide(arrays[0][:n]) - received[:n]
    parts = [Length("change of the model", float(np.linalg.norm(moved)), model, n)]
    if sections.statistics:
        statistics = _wide(arrays[0][n:]) - received[n:]
        of_model = _norm(received[n:])
        parts.append(
            Length("change of running statistics", float(np.linalg.norm(statistics)), of_model, sections.statistics)
        )
    parts += [Length(f"vector {i}", _norm(vector[:n]), model, n) for i, vector in enumerate(arrays[1:], 1)]
    return tuple((part.of, part.length, part.model, part.size) for part in parts)


def _wide(vector: Vector) -> Vector:
    return vector.astype(np.float64)


def _norm(vector: Vector) -> float:
    return float(np.linalg.norm(_wide(vector)))

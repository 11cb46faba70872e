"""Names of a flat vector's parts: a model as named arrays with ordinary strides, as plain PyTorch stores it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

METADATA_KEY = "fedtempo"
"""Key of `Naming.metadata` under which the layout of the flat vector is stored."""

_CHANNELS_LAST = (0, 2, 3, 1)
"""Axes of a convolution's weights in the order in which a channels-last vector stores them."""


class Piece(NamedTuple):
    """One tensor of a module's state in the flat vector: vector[start : start + size], size the product of shape.

    channels_last: whether it holds a convolution's weights (out, in, height, width) as (out, height, width, in).
    """

    name: str
    start: int
    shape: tuple[int, ...]
    channels_last: bool = False

    @property
    def stop(self) -> int:
        return self.start + math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Naming:
    """How the entries of a module's state dict lie in its flat vector.

    size: length of the vector. order: names of all entries, as in the state dict. pieces: by name; tied parameters are
    the same piece under several names. constants: entries outside the vector, such as the integer counters of batch
    normalisation, at the values that every visit starts with.
    """

    size: int
    order: Sequence[str]
    pieces: Mapping[str, Piece]
    constants: Mapping[str, Array] = field(default_factory=dict)

    def named(self, vector: Array) -> dict[str, Array]:
        """Return the arrays of a flat vector (size,) by name, as copies with ordinary strides."""
        return {name: self._array(name, vector) for name in self.order}

    def flat(self, arrays: Mapping[str, Array]) -> Array:
        """Return the flat vector (size,), float32, of arrays by name. Raises ValueError if they do not fit."""
        vector = np.empty(self.size, dtype=np.float32)
        for name, piece in self.pieces.items():
            if (array := arrays[name]).shape != piece.shape:
                raise ValueError(f"{name} has shape {array.shape}, not {piece.shape}")
            vector[piece.start : piece.stop] = (
                array.transpose(_CHANNELS_LAST) if piece.channels_last else array
            ).ravel()
        return vector

    def metadata(self) -> dict[str, str]:
        """Return what a file of `named` arrays needs besides them, so that `of_file` restores this naming."""
        pieces = [[piece.name, piece.start, piece.channels_last] for piece in self.pieces.values()]
        layout = {"size": self.size, "order": list(self.order), "pieces": pieces}
        return {"format": "pt", METADATA_KEY: json.dumps(layout)}

    @classmethod
    def of_file(cls, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> Naming:
        """Return the naming that a file describes. Raises ValueError if the arrays do not cover the vector exactly."""
        try:
            layout = json.loads(metadata[METADATA_KEY])
            size, order = int(layout["size"]), [str(name) for name in layout["order"]]
            pieces = {
                str(name): Piece(str(name), int(start), arrays[name].shape, bool(channels_last))
                for name, start, channels_last in layout["pieces"]
            }
            constants = {name: arrays[name] for name in order if name not in pieces}
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"the layout of its tensors cannot be read: {error!r}") from error
        end = 0
        for start, stop in sorted({(piece.start, piece.stop) for piece in pieces.values() if piece.stop > piece.start}):
            if start != end:
                raise ValueError(f"its tensors leave a gap or overlap at {end}")
            end = stop
        if end != size or set(order) != arrays.keys() or not pieces.keys() <= arrays.keys():
            raise ValueError(f"its {len(arrays)} tensors do not make up a model of {size} numbers")
        if wrong := [piece.name for piece in pieces.values() if piece.channels_last and len(piece.shape) != 4]:
            raise ValueError(f"{wrong[0]} is no convolution")
        return cls(size, order, pieces, constants)

    def _array(self, name: str, vector: Array) -> Array:
        if (piece := self.pieces.get(name)) is None:
            return self.constants[name].copy()
        values = vector[piece.start : piece.stop]
        if not piece.channels_last:
            return values.reshape(piece.shape).copy()
        out, into, height, width = piece.shape
        return values.reshape(out, height, width, into).transpose(0, 3, 1, 2).copy()

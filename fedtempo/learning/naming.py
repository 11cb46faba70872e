"""Names of a flat vector's parts: a model as named arrays with ordinary strides, as plain PyTorch stores it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fedtempo.parts.text_files import parse_json

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

    def part(self, values: Array, start: int) -> dict[str, Array]:
        """Return the arrays, by name, that lie in a part of flat vectors, as copies with ordinary strides.

        values: shape (vectors, n), the entries from `start` on. The vectors are the first axis of each array.
        """
        arrays = {}
        for name, piece in self._pieces_in(start, start + values.shape[1]):
            arrays[name] = _ordinary(values[:, piece.start - start : piece.stop - start], piece)
        return arrays

    def part_of(self, arrays: Mapping[str, Array], start: int, vectors: int) -> Array:
        """Return the values (vectors, n), float32, that `part` was given. Raises ValueError if they do not fit."""
        stop = max((self.pieces[name].stop for name in arrays if name in self.pieces), default=start)
        pieces = dict(self._pieces_in(start, stop))
        if pieces.keys() != arrays.keys():
            raise ValueError(f"its tensors are not those of the model from entry {start} on")
        values = np.empty((vectors, stop - start), dtype=np.float32)
        for name, piece in pieces.items():
            if (array := arrays[name]).shape != (vectors, *piece.shape):
                raise ValueError(f"{name} has shape {array.shape}, not {(vectors, *piece.shape)}")
            rows = array.transpose(0, *(1 + axis for axis in _CHANNELS_LAST)) if piece.channels_last else array
            begin, end = piece.start - start, piece.stop - start
            values[:, begin:end] = rows.reshape(vectors, end - begin)
        return values

    def metadata(self) -> dict[str, str]:
        """Return what a file of `named` arrays needs besides them, so that `of_file` restores this naming."""
        pieces = [[piece.name, piece.start, piece.channels_last] for piece in self.pieces.values()]
        layout = {"size": self.size, "order": list(self.order), "pieces": pieces}
        return {"format": "pt", METADATA_KEY: json.dumps(layout)}

    @classmethod
    def of_file(cls, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> Naming:
        """Return the naming that a file describes. Raises ValueError if the arrays do not cover the vector exactly."""
        try:
            layout = parse_json(metadata[METADATA_KEY])
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
        array: Array = _ordinary(vector[None, piece.start : piece.stop], piece)[0]
        return array

    def _pieces_in(self, start: int, stop: int) -> list[tuple[str, Piece]]:
        """Return the names and pieces that lie in vector[start:stop]. Raises ValueError if they do not fill it."""
        inside = [(name, piece) for name, piece in self.pieces.items() if start <= piece.start and piece.stop <= stop]
        covered = {(piece.start, piece.stop) for _, piece in inside}
        if not 0 <= start <= stop <= self.size or sum(end - begin for begin, end in covered) != stop - start:
            raise ValueError(f"entries {start} to {stop} are no whole tensors of the model")
        return inside


def _ordinary(values: Array, piece: Piece) -> Array:
    """Return a piece of several vectors as an array (vectors, *shape), a copy with ordinary strides.

    values: shape (vectors, size of the piece).
    """
    vectors = len(values)
    if not piece.channels_last:
        return values.reshape(vectors, *piece.shape).copy()
    out, into, height, width = piece.shape
    return values.reshape(vectors, out, height, width, into).transpose(0, 1, 4, 2, 3).copy()

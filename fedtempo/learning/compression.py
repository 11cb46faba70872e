"""Compression of what travels: sparse, quantised and sign messages, as the bytes that are sent.

A vector is encoded to bytes and decoded from them, in simulations too, so that what is counted is what is sent.

Sources: top-k with error feedback, Stich, Cordonnier and Jaggi, Sparsified SGD with Memory, NeurIPS 2018; QSGD,
Alistarh, Grubic, Li, Tomioka and Vojnovic, NeurIPS 2017, Section 3.1; scaled signs with error feedback, Karimireddy,
Rebjock, Stich and Jaggi, Error Feedback Fixes SignSGD, ICML 2019, Algorithm 1.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np
from annotated_types import Gt, Le
from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Count, Doc

Array = np.ndarray[Any, np.dtype[Any]]
Vector = np.ndarray[Any, np.dtype[np.float32]]
_FLOAT, _INDEX = np.dtype("<f4"), np.dtype("<u4")


@runtime_checkable
class Compression(Protocol):
    """Turns vectors into bytes and back.

    error_feedback: whether the sender adds what earlier messages left out to the next one.
    """

    error_feedback: bool

    def encode(self, vector: Vector, rng: np.random.Generator) -> bytes:
        """Return a vector (size,) as bytes. rng: for random draws."""
        ...

    def decode(self, data: bytes, size: int) -> Vector:
        """Return the vector (size,) that bytes stand for. Raises ValueError for bytes that `encode` cannot return."""
        ...

    def n_bytes(self, size: int) -> int:
        """Return the length of the encoded vector (size,), which depends on nothing else."""
        ...


@dataclass(frozen=True, config=STRICT)
class TopK:
    """The entries of the largest magnitude, each as its position and its value (8 bytes)."""

    share: Annotated[float, Gt(0), Le(1), Doc("share of the entries that is sent, rounded up")] = 0.01
    error_feedback: Annotated[bool, Doc("add what was left out to the client's next update")] = True

    def encode(self, vector: Vector, rng: np.random.Generator) -> bytes:
        chosen = _largest(vector, _count(self.share, vector.size))
        return chosen.astype(_INDEX).tobytes() + vector[chosen].astype(_FLOAT).tobytes()

    def decode(self, data: bytes, size: int) -> Vector:
        _must_be_long(data, self.n_bytes(size))
        count = _count(self.share, size)
        chosen = np.frombuffer(data, _INDEX, count).astype(np.int64)
        if count and (chosen[-1] >= size or (np.diff(chosen) <= 0).any()):
            raise ValueError(f"positions must ascend and be below {size}")
        return _spread(np.frombuffer(data, _FLOAT, offset=chosen.size * _INDEX.itemsize), chosen, size)

    def n_bytes(self, size: int) -> int:
        return _count(self.share, size) * (_INDEX.itemsize + _FLOAT.itemsize)


@dataclass(frozen=True, config=STRICT)
class RandomK:
    """Entries at random positions, which a seed stands for (8 bytes, and 4 for each entry).

    Without error feedback values are multiplied by the inverse of the share, so that the message is right on average.
    """

    share: Annotated[float, Gt(0), Le(1), Doc("share of the entries that is sent, rounded up")] = 0.01
    error_feedback: Annotated[bool, Doc("add what was left out to the client's next update")] = True

    def encode(self, vector: Vector, rng: np.random.Generator) -> bytes:
        seed = int(rng.integers(2**63))
        chosen = self._positions(seed, vector.size)
        scale = 1.0 if self.error_feedback else vector.size / max(1, chosen.size)
        return seed.to_bytes(8, "little") + (vector[chosen] * np.float32(scale)).astype(_FLOAT).tobytes()

    def decode(self, data: bytes, size: int) -> Vector:
        _must_be_long(data, self.n_bytes(size))
        chosen = self._positions(int.from_bytes(data[:8], "little"), size)
        return _spread(np.frombuffer(data, _FLOAT, offset=8), chosen, size)

    def n_bytes(self, size: int) -> int:
        return 8 + _count(self.share, size) * _FLOAT.itemsize

    def _positions(self, seed: int, size: int) -> Array:
        chosen = np.random.Generator(np.random.PCG64(seed)).choice(size, _count(self.share, size), replace=False)
        return np.sort(chosen)


@dataclass(frozen=True, config=STRICT)
class Quantized:
    """Every entry rounded at random to one of a few levels of its bucket's norm, right on average (QSGD)."""

    bits: Annotated[Literal[4, 8], Doc("bits per entry: sign and level, of which there are 2^(bits - 1)")] = 8
    bucket: Annotated[Count, Doc("entries that share a norm (4 bytes)")] = 512
    norm: Annotated[Literal["l2", "max"], Doc("norm of a bucket: Euclidean, as in the paper, or largest magnitude")] = (
        "l2"
    )
    error_feedback: Annotated[bool, Doc("add what rounding took away to the client's next update")] = False

    def encode(self, vector: Vector, rng: np.random.Generator) -> bytes:
        buckets = self._buckets(vector)
        norms = np.linalg.norm(buckets.astype(np.float64), axis=1, ord=2 if self.norm == "l2" else np.inf)
        finite = np.where(np.isfinite(norms) & (norms > 0), norms, 1.0)
        scaled = np.abs(np.nan_to_num(buckets, posinf=0.0, neginf=0.0)) / finite[:, None] * self._levels
        levels = np.minimum(np.floor(scaled + rng.random(buckets.shape)), self._levels)
        signed = np.copysign(levels, buckets).astype(np.int8).ravel()[: vector.size]
        return bytes(norms.astype(_FLOAT).tobytes()) + self._packed(signed)

    def decode(self, data: bytes, size: int) -> Vector:
        _must_be_long(data, self.n_bytes(size))
        n_buckets = -(-size // self.bucket)
        norms = np.frombuffer(data, _FLOAT, n_buckets)
        levels = self._unpacked(data[n_buckets * _FLOAT.itemsize :], size)
        if levels.size and int(np.abs(levels.astype(np.int16)).max()) > self._levels:
            raise ValueError(f"levels must be {-self._levels} to {self._levels}")
        with np.errstate(invalid="ignore"):  # a norm that is not finite makes its bucket not a number
            units = np.repeat(norms / np.float32(self._levels), self.bucket)[:size]
            return np.asarray(levels * units, dtype=np.float32)

    def n_bytes(self, size: int) -> int:
        return -(-size // self.bucket) * _FLOAT.itemsize + -(-size * self.bits // 8)

    @property
    def _levels(self) -> int:
        return int(2 ** (self.bits - 1) - 1)

    def _buckets(self, vector: Vector) -> Vector:
        n_buckets = -(-vector.size // self.bucket)
        return np.pad(vector, (0, n_buckets * self.bucket - vector.size)).reshape(n_buckets, self.bucket)

    def _packed(self, levels: Array) -> bytes:
        if self.bits == 8:
            return bytes(levels.tobytes())
        nibbles = (levels + self._levels).astype(np.uint8)
        pairs = np.pad(nibbles, (0, nibbles.size % 2)).reshape(-1, 2)
        return bytes((pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8))

    def _unpacked(self, data: bytes, size: int) -> Array:
        if self.bits == 8:
            return np.frombuffer(data, np.int8)
        pairs = np.frombuffer(data, np.uint8)
        nibbles = np.stack([pairs & 15, pairs >> 4], axis=1).ravel()[:size]
        return nibbles.astype(np.int8) - np.int8(self._levels)


@dataclass(frozen=True, config=STRICT)
class Sign:
    """One bit per entry, its sign, times the mean magnitude of all (4 bytes)."""

    error_feedback: Annotated[bool, Doc("add what was left out to the client's next update")] = True

    def encode(self, vector: Vector, rng: np.random.Generator) -> bytes:
        scale = np.abs(vector, dtype=np.float64).mean() if vector.size else 0.0
        return np.array([scale], _FLOAT).tobytes() + np.packbits(vector >= 0).tobytes()

    def decode(self, data: bytes, size: int) -> Vector:
        _must_be_long(data, self.n_bytes(size))
        scale = np.frombuffer(data, _FLOAT, 1)[0]
        positive = np.unpackbits(np.frombuffer(data, np.uint8, offset=_FLOAT.itemsize), count=size).astype(bool)
        return np.asarray(np.where(positive, scale, -scale), dtype=np.float32)

    def n_bytes(self, size: int) -> int:
        return _FLOAT.itemsize + -(-size // 8)


COMPRESSIONS: dict[str, type[Any]] = {"top-k": TopK, "random-k": RandomK, "quantized": Quantized, "sign": Sign}
"""Compressions by the name that a configuration uses."""


class Compressor:
    """Compresses the updates of one sender. residual: what earlier messages left out; None before the first one."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression

    def sent(self, change: Vector, residual: Vector | None, rng: np.random.Generator) -> tuple[bytes, Vector | None]:
        """Return a change as bytes, and what they leave out, which the next call adds; None without error feedback."""
        wanted = change if residual is None else change + residual
        data = self._compression.encode(wanted, rng)
        if not self._compression.error_feedback:
            return data, None
        return data, wanted - self._compression.decode(data, change.size)

    def received(self, data: bytes, size: int) -> Vector:
        """Return the change (size,) that bytes stand for. Raises ValueError for bytes that no sender makes."""
        return self._compression.decode(data, size)


def _count(share: float, size: int) -> int:
    return min(size, math.ceil(share * size))


def _largest(vector: Vector, count: int) -> Array:
    """Return the positions of the `count` entries of the largest magnitude, ascending; of equal ones the first.

    Entries that are not numbers count as the largest, so that they are not lost.
    """
    magnitudes = np.nan_to_num(np.abs(vector), nan=np.inf)
    if count == vector.size:
        return np.arange(vector.size)
    least = np.partition(magnitudes, vector.size - count)[vector.size - count]
    above, equal = np.flatnonzero(magnitudes > least), np.flatnonzero(magnitudes == least)
    chosen: Array = np.concatenate([above, equal[: count - above.size]])
    return np.sort(chosen)


def _spread(values: Vector, positions: Array, size: int) -> Vector:
    vector = np.zeros(size, dtype=np.float32)
    vector[positions] = values
    return vector


def _must_be_long(data: bytes, expected: int) -> None:
    if len(data) != expected:
        raise ValueError(f"{len(data)} bytes; a message has {expected}")

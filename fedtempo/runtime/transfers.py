"""How many bytes the transfers of a run take, and their compression with the random draws of each visit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fedtempo.learning.compressed import CompressedTransfers, CompressionSettings
from fedtempo.runtime.keyed import keyed_generator

REPORT_BYTES = 16
"""Size of a visit's measurements, its loss and accuracy, if they are all that a client uploads."""


def transfers_of(
    settings: CompressionSettings, parameters: int, seed: int, client: int, visit: int
) -> CompressedTransfers:
    """Return the compressed transfers of a visit. parameters: number of trainable parameters that travel."""
    return CompressedTransfers(settings, parameters, lambda purpose: keyed_generator(seed, purpose, client, visit))


class Sized(Protocol):
    """The sizes of a model, as executors and a deployment's server have them (`runtime.executors.Executor`)."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def base_bytes(self) -> int: ...
    @property
    def vector_bytes(self) -> int: ...


@dataclass(frozen=True)
class TransferSizes:
    """Bytes of a run's transfers.

    model: of a model without compression. down, up: of what travels in a download and in an upload. base: of what a
    client receives once, with its first model. vector: of a vector that travels besides a model.
    """

    model: int
    down: int
    up: int
    base: int
    vector: int

    @classmethod
    def of(
        cls, model: Sized, configured: int | None = None, compression: CompressionSettings | None = None
    ) -> TransferSizes:
        """Return the sizes for a model. configured: `model.size_bytes`, the size without compression."""
        size, base, vector = model.size_bytes, model.base_bytes, model.vector_bytes
        down = up = size
        if compression is not None:
            down, up = (size - vector + each for each in compression.n_bytes(vector // 4))
        if configured is not None:
            down, up = (_scaled(configured, each, size) for each in (down, up))
            size, base, vector = configured, 0, configured
        return cls(size, down, up, base, vector)


def _scaled(configured: int, compressed: int, size: int) -> int:
    """Return a configured size times the share of a model's size that is sent, at least one byte of a model."""
    return configured if compressed == size else min(configured, max(1, round(configured * compressed / size)))

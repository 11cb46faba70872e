"""The `[server.compression]` table, and the compressed transfers of a visit.

Only the trainable parameters that travel are compressed. Running statistics and the vectors of procedures are sent as
they are, 4 bytes per number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.learning.compression import COMPRESSIONS, Compression, Compressor, Quantized, Vector
from fedtempo.parts.component import component
from fedtempo.parts.fields import STRICT, Doc


def _compression_from(value: object) -> object:
    if isinstance(value, str):
        value = {"kind": value}
    return component(value, COMPRESSIONS, "compressions", "compression") if isinstance(value, Mapping) else value


@dataclass(frozen=True, config=STRICT)
class CompressionSettings:
    """The `[server.compression]` table."""

    up: Annotated[
        Compression | None,
        BeforeValidator(_compression_from),
        Doc("how clients compress the change of the model in a visit: {kind, ...} (default: not)"),
    ] = None
    down: Annotated[
        Compression | None,
        BeforeValidator(_compression_from),
        Doc("how the server compresses the model that it sends: {kind = 'quantized', ...} (default: not)"),
    ] = None

    def __post_init__(self) -> None:
        if self.down is None:
            return
        if not isinstance(self.down, Quantized):
            raise ValueError(
                f"down = {self.down!r}: only kind = 'quantized' can compress a whole model; the others suit changes"
            )
        if self.down.error_feedback:
            raise ValueError("down.error_feedback = true: only clients keep what a message leaves out; remove it")

    @property
    def keeps(self) -> bool:
        """Whether clients keep what their updates leave out (error feedback)."""
        return self.up is not None and self.up.error_feedback

    def n_bytes(self, parameters: int) -> tuple[int, int]:
        """Return the bytes of so many parameters in a download and in an upload."""
        down, up = (4 * parameters if kind is None else kind.n_bytes(parameters) for kind in (self.down, self.up))
        return down, up


class CompressedTransfers:
    """The transfers of the trainable parameters in one visit: what is sent, and what the receiver makes of it.

    A download carries a model, an upload the change from the model that was received. The server adds this change to
    the model that it sent, which it knows exactly.
    """

    def __init__(
        self, settings: CompressionSettings, parameters: int, rng: Callable[[str], np.random.Generator]
    ) -> None:
        """parameters: number of trainable parameters that travel. rng(purpose): makes a generator for one transfer."""
        self._down, self._up = settings.down, settings.up
        self._parameters, self._rng = parameters, rng
        self.keeps = settings.keeps
        self.message = b""
        """The upload, once the client has trained."""

    def download(self, model: Vector) -> bytes:
        """Return the bytes that the server sends for a model (parameters,)."""
        if self._down is None:
            return _plain(model)
        with np.errstate(over="ignore", invalid="ignore"):  # a model that has diverged
            return self._down.encode(model, self._rng("compressed download"))

    def downloaded(self, data: bytes) -> Vector:
        """Return the model (parameters,) that a client receives. Raises ValueError for bytes that no server sends."""
        return self._decoded(self._down, data)

    def upload(self, change: Vector, residual: Vector | None) -> Vector | None:
        """Set `message` to the bytes that a client sends for a change (parameters,); return what they leave out.

        residual: what the client's last upload left out.
        """
        if self._up is None:
            self.message = _plain(change)
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            self.message, left_out = Compressor(self._up).sent(change, residual, self._rng("compressed upload"))
        return left_out

    def uploaded(self, data: bytes) -> Vector:
        """Return the change (parameters,) that the server receives. Raises ValueError as `downloaded` does."""
        return self._decoded(self._up, data)

    def simulated_download(self, model: Vector) -> Vector:
        """Return what a client receives of a model that travels (parameters and statistics)."""
        if self._down is None:
            return model
        return self._with_parameters(model, self.downloaded(self.download(model[: self._parameters])))

    def _with_parameters(self, model: Vector, parameters: Vector) -> Vector:
        """Return a copy of a model that travels, with other parameters."""
        other = model.copy()
        other[: self._parameters] = parameters
        return other

    def _decoded(self, kind: Compression | None, data: bytes) -> Vector:
        if kind is not None:
            return kind.decode(data, self._parameters)
        if len(data) != 4 * self._parameters:
            raise ValueError(f"{len(data)} bytes; a message has {4 * self._parameters}")
        return np.frombuffer(data, dtype="<f4")


def _plain(vector: Any) -> bytes:
    return bytes(np.asarray(vector, dtype="<f4").tobytes())

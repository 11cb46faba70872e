"""Variation of visits about a client's mean."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedtempo.fleet.truncation import TruncatedNormal, fluctuation, open_uniforms

_FIRST_BLOCK, _LARGEST_BLOCK = 16, 512
_ALL_BLOCKS_BYTES = 16 << 20
_MOST_AHEAD = 256


class Factors:
    """The clients' factors, one per visit: the visit's time over its mean. Each client has its own generator.

    Factors are drawn in blocks that start small, so that a visit costs about a microsecond whether a client is visited
    twice or a thousand times; if clients come in order, as in rounds of all clients, blocks of increasingly many
    clients are drawn together. Each value takes one draw, so the blocks do not affect the values. All blocks together
    take at most about 16 MiB, and no generator is kept.

    rng: makes a client's generator, the same on each call.
    """

    def __init__(self, variation: Variation, n_clients: int, rng: Callable[[int], np.random.Generator]) -> None:
        self._law, self._reciprocal, self._rng = variation.law, variation.reciprocal, rng
        self._blocks = [array("d")] * n_clients
        self._drawn = [0] * n_clients
        self._largest = min(max(_FIRST_BLOCK, _ALL_BLOCKS_BYTES // (8 * max(1, n_clients))), _LARGEST_BLOCK)
        self._expected, self._ahead = -1, 1

    def next(self, client: int) -> float:
        """Return the next visit's factor; exactly 1.0, without a draw, if nothing varies."""
        if self._law is None:
            return 1.0
        block = self._blocks[client]
        return (block or self._draw(self._law, client)).pop()

    def _draw(self, law: TruncatedNormal, client: int) -> array[float]:
        """Draw a client's next block, and those of following clients that have drawn as many values so far."""
        self._ahead = min(2 * self._ahead, _MOST_AHEAD) if client == self._expected else 1
        blocks, drawn = self._blocks, self._drawn[client]
        reached = range(client, min(client + self._ahead, len(blocks)))
        chosen = [other for other in reached if not blocks[other] and self._drawn[other] == drawn]
        size = min(drawn + _FIRST_BLOCK, self._largest)
        uniforms = np.empty((len(chosen), size))
        for row, other in enumerate(chosen):
            generator = self._rng(other)
            if drawn:
                generator.bit_generator.advance(drawn)  # type: ignore[attr-defined]
            uniforms[row] = open_uniforms(generator, size)
            self._drawn[other] = drawn + size
        values = law.inverse_cdf(uniforms)
        if self._reciprocal:
            values = 1 / values
        for other, factors in zip(chosen, values[:, ::-1], strict=True):
            blocks[other] = array("d", factors.tobytes())
        self._expected = chosen[-1] + 1
        return blocks[client]


@dataclass(frozen=True)
class Variation:
    """Distribution of the factor per visit, None for no variation; reciprocal: of a speed, not a time."""

    law: TruncatedNormal | None = None
    reciprocal: bool = False

    @classmethod
    def of_time(cls, std: float) -> Variation:
        """Return normal times with relative standard deviation `std`, truncated at 0 (PSFL, Sec. VI)."""
        return cls(TruncatedNormal(1.0, std, 0.0)) if std > 0 else cls()

    @classmethod
    def bounded(cls, share: float, std: float | None, of_speed: bool) -> Variation:
        """Return a time or speed within `share` of its mean (Hybrid-FL, Sec. V-A); std as in `fluctuation`, mean 1."""
        return cls(fluctuation(1.0, share, std), of_speed) if share > 0 else cls()

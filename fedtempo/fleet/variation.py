"""How much one visit differs from a client's mean."""

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
    """The clients' factors, one a visit: seconds of the visit over its mean. A client's come from its generator alone.

    Drawn in blocks, small ones first, so that neither a client that is seen twice nor one that is seen a thousand times
    costs more than a microsecond or so a visit; and where clients come one after the other, as in a round of all, for
    ever more of them at once. Each value takes one draw, so none of this shows in the values. The blocks of all clients
    together take some 16 MiB at most, and no generator is kept.

    rng: makes a client's generator, the same each time.
    """

    def __init__(self, variation: Variation, n_clients: int, rng: Callable[[int], np.random.Generator]) -> None:
        self._law, self._reciprocal, self._rng = variation.law, variation.reciprocal, rng
        self._blocks = [array("d")] * n_clients
        self._drawn = [0] * n_clients
        self._largest = min(max(_FIRST_BLOCK, _ALL_BLOCKS_BYTES // (8 * max(1, n_clients))), _LARGEST_BLOCK)
        self._expected, self._ahead = -1, 1

    def next(self, client: int) -> float:
        """The next visit's factor; exactly 1.0, without a draw, where nothing varies."""
        if self._law is None:
            return 1.0
        block = self._blocks[client]
        return (block or self._draw(self._law, client)).pop()

    def _draw(self, law: TruncatedNormal, client: int) -> array[float]:
        """A client's next block, and those of clients behind it whose turn would be next and who are as far."""
        self._ahead = min(2 * self._ahead, _MOST_AHEAD) if client == self._expected else 1
        blocks, drawn = self._blocks, self._drawn[client]
        reached = range(client, min(client + self._ahead, len(blocks)))
        chosen = [other for other in reached if not blocks[other] and self._drawn[other] == drawn]
        size = min(drawn + _FIRST_BLOCK, self._largest)
        uniforms = np.empty((len(chosen), size))
        for place, each in enumerate(chosen):
            generator = self._rng(each)
            if drawn:
                generator.bit_generator.advance(drawn)  # type: ignore[attr-defined]
            uniforms[place] = open_uniforms(generator, size)
            self._drawn[each] = drawn + size
        values = law.inverse_cdf(uniforms)
        if self._reciprocal:
            values = 1 / values
        for each, row in zip(chosen, values[:, ::-1], strict=True):
            blocks[each] = array("d", row.tobytes())
        self._expected = chosen[-1] + 1
        return blocks[client]


@dataclass(frozen=True)
class Variation:
    """Law of the factor from visit to visit, None for no variation; reciprocal: it is that of a speed, not a time."""

    law: TruncatedNormal | None = None
    reciprocal: bool = False

    @classmethod
    def of_time(cls, std: float) -> Variation:
        """Times normal about their mean with relative standard deviation `std`, cut off at 0 (PSFL, Sec. VI)."""
        return cls(TruncatedNormal(1.0, std, 0.0)) if std > 0 else cls()

    @classmethod
    def bounded(cls, share: float, std: float | None, of_speed: bool) -> Variation:
        """A time or a speed within `share` of its mean (Hybrid-FL, Sec. V-A); std as in `fluctuation`, mean 1."""
        return cls(fluctuation(1.0, share, std), of_speed) if share > 0 else cls()

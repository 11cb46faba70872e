"""How much one visit differs from a client's mean."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from fedtempo.fleet.truncation import TruncatedNormal, fluctuation

_FIRST_BLOCK, _LARGEST_BLOCK = 16, 512


class Factors:
    """One client's factors, one a visit: seconds of the visit over its mean. They depend on the generator alone.

    Drawn in blocks, small ones first, so that neither a client that is seen twice nor one that is seen a thousand times
    costs more than a microsecond or so a visit. A block takes four kilobytes at most. Each value takes one draw, so
    block sizes do not show in the values.
    """

    __slots__ = ("_block", "_law", "_reciprocal", "_rng", "_size")

    def __init__(self, rng: np.random.Generator, law: TruncatedNormal | None, reciprocal: bool = False) -> None:
        self._rng = rng
        self._law = law
        self._reciprocal = reciprocal
        self._size = _FIRST_BLOCK
        self._block = array("d")

    def next(self) -> float:
        """The next visit's factor; exactly 1.0, without a draw, where nothing varies."""
        if self._law is None:
            return 1.0
        if not self._block:
            values = self._law.draw(self._rng, self._size)
            self._block = array("d", (1 / values if self._reciprocal else values)[::-1].tobytes())
            self._size = min(2 * self._size, _LARGEST_BLOCK)
        return self._block.pop()


@dataclass(frozen=True)
class Variation:
    """Law of the factor from visit to visit, None for no variation; reciprocal: it is that of a speed, not a time."""

    law: TruncatedNormal | None = None
    reciprocal: bool = False

    def factors(self, rng: np.random.Generator) -> Factors:
        """One client's stream of factors on the time of its visits."""
        return Factors(rng, self.law, self.reciprocal)

    @classmethod
    def of_time(cls, std: float) -> Variation:
        """Times normal about their mean with relative standard deviation `std`, cut off at 0 (PSFL, Sec. VI)."""
        return cls(TruncatedNormal(1.0, std, 0.0)) if std > 0 else cls()

    @classmethod
    def bounded(cls, share: float, std: float | None, of_speed: bool) -> Variation:
        """A time or a speed within `share` of its mean (Hybrid-FL, Sec. V-A); std as in `fluctuation`, mean 1."""
        return cls(fluctuation(1.0, share, std), of_speed) if share > 0 else cls()

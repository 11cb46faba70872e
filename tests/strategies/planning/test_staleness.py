from __future__ import annotations

import pytest

from fedtempo.strategies.planning.staleness import constant, hinge, polynomial


def test_fresh_updates_keep_their_weight() -> None:
    assert (constant(0), polynomial(0, 0.9), hinge(0, 10, 4)) == (1, 1, 1)


def test_staleness_functions_have_their_published_values() -> None:
    assert constant(100) == 1
    assert polynomial(3, 0.5) == 0.5
    assert polynomial(1, 0.9) == pytest.approx(0.5358867312681466, rel=1e-12)
    assert [hinge(x, 10, 4) for x in (4, 5, 6)] == pytest.approx([1, 1 / 11, 1 / 21])


def test_updates_from_the_future_are_rejected() -> None:
    with pytest.raises(ValueError, match="staleness = -1"):
        polynomial(-1, 0.5)

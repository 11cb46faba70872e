"""Async-memory with and without its parts, on arrivals worked out by hand and beside async-memory and CA2FL."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from fedtempo.strategies import CA2FL, AsyncMemory
from fedtempo.studies.papers.async_parts import AsyncMemoryParts
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals

CHANGES = [(0, 4.0), (1, 2.0), (0, 1.0), (2, 3.0), (2, 6.0), (1, -1.0), (0, 3.0), (1, 3.0)]


def models(strategy: Any, clients: int = 3) -> list[Any]:
    played = Arrivals(clients).play(strategy, *((client, [c, 2 * c]) for client, c in CHANGES))
    return [pytest.approx(model) for model in played]


def test_with_all_parts_it_is_async_memory() -> None:
    assert models(AsyncMemoryParts()) == Arrivals(3).play(AsyncMemory(), *((i, [c, 2 * c]) for i, c in CHANGES))


@pytest.mark.parametrize(("buffer", "step"), [(1, 0.5), (2, 1.0), (3, 0.25)])
def test_without_its_parts_it_is_ca2fl(buffer: int, step: float) -> None:
    bare = AsyncMemoryParts(
        exponent=0.0, gain=step, memory=1.0, buffer=buffer, mean_of="all", next_client="any", steady=False
    )
    assert models(bare) == Arrivals(3).play(
        CA2FL(buffer=buffer, server_lr=step), *((i, [c, 2 * c]) for i, c in CHANGES)
    )


@pytest.mark.parametrize("part", [{"buffer": 2}, {"mean_of": "all"}, {"memory": 1.0}, {"exponent": 0.0}])
def test_each_part_makes_a_difference(part: dict[str, Any]) -> None:
    assert models(AsyncMemoryParts(**part)) != Arrivals(3).play(AsyncMemory(), *((i, [c, 2 * c]) for i, c in CHANGES))


def test_who_is_next_is_the_idle_client_with_the_fewest_visits_or_any() -> None:
    def visits(next_client: Any) -> list[int]:
        strategy = AsyncMemoryParts(next_client=next_client, clients_at_once=2)
        _, records = play(strategy, clients=6, compute=1.0, horizon=60.0)
        return [int((records.visits["client"] == client).sum()) for client in range(6)]

    assert max(visits("fewest")) - min(visits("fewest")) <= 1
    assert max(visits("any")) - min(visits("any")) > 1


@pytest.mark.parametrize("other", [{"clusters": "labels"}, {"correction": False}])
def test_what_it_does_not_offer_is_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="use async-memory"):
        AsyncMemoryParts(**other)

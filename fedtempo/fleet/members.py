"""The part of a fleet that takes part in a run, if some clients are only tested on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fedtempo.fleet.fleet import Fleet
from fedtempo.fleet.links import Direction
from fedtempo.fleet.presence import Availability, Present, Scheduled
from fedtempo.fleet.truncation import FloatArray


def members_of(fleet: Fleet, members: Sequence[int]) -> Fleet:
    """Return the fleet of these clients, ascending, which are numbered from 0 then; each keeps what it had."""
    chosen = np.array(members, dtype=np.int64)

    def own(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else values[chosen]

    def direction(way: Direction) -> Direction:
        return Direction(own(way.seconds), own(way.rate_bps))

    numbers = {client: number for number, client in enumerate(members)}
    faulty = tuple(numbers[client] for client in fleet.faults.clients if client in numbers)
    faults = fleet.faults
    if faults.clients:
        faults = replace(faults, clients=faulty) if faulty else type(faults)()
    return replace(
        fleet,
        speed=replace(fleet.speed, values=fleet.speed.values[chosen]),
        links=replace(
            fleet.links,
            download=direction(fleet.links.download),
            upload=direction(fleet.links.upload),
            positions=own(fleet.links.positions),
        ),
        availability=_present(fleet.availability, members),
        faults=faults,
        compute_watts=own(fleet.compute_watts),
        link_watts=own(fleet.link_watts),
    )


def _present(availability: Availability, members: Sequence[int]) -> Availability:
    if isinstance(availability, Present):
        return availability
    return availability.of(members) if isinstance(availability, Scheduled) else _Some(availability, members)


class _Some:
    """The availability of some of a fleet's clients."""

    def __init__(self, whole: Availability, members: Sequence[int]) -> None:
        self._whole, self._members = whole, list(members)

    def available_until(self, client: int, t: float) -> float:
        return self._whole.available_until(self._members[client], t)

    def next_available(self, client: int, t: float) -> float:
        return self._whole.next_available(self._members[client], t)

    def failure_point(self, client: int, visit_rng: Callable[[], np.random.Generator]) -> float | None:
        return self._whole.failure_point(self._members[client], visit_rng)

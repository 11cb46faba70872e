"""Depth-first search for a group, best clients first, that learns from every dead end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fedtempo.scheduling.group_table import Knowledge


class Visit(NamedTuple):
    """A possible next stop of a group: `client` works in [begin, end), after which the clusters `rest` are left."""

    client: int
    begin: int
    end: int
    rest: int


class Outcome(NamedTuple):
    """Stops (client, begin) of the first group found; None with `proved` if there is none, without if time ran out."""

    stops: tuple[tuple[int, int], ...] | None
    proved: bool


def search(
    rest: int,
    start: int,
    choices: Callable[[int, int, bool], Iterator[Visit]],
    knowledge: Knowledge,
    budget: float,
    *,
    restricted: bool = False,
) -> Outcome:
    """The first group, in the order of `choices`, that serves the clusters `rest` (not empty) from tick `start` on.

    choices(rest, tick, first) yields the next visits of a group that arrives at `tick`, preferred ones first; `first`
    at the group's first visit. As the search takes the first choice that can be completed at each position, the
    group's sequence of preferences is the lexicographically smallest of all.
    budget: number of states to look into. With exact knowledge the search never turns back and needs one a position.
    restricted: `choices` leaves out clients that other searches may take; what fails here then stays in this search.
    """
    failed_here: set[tuple[int, int]] = set()
    stops: list[tuple[int, int]] = []
    states = [(rest, start, choices(rest, start, True))]
    spent = 0
    while states:
        rest, tick, untried = states[-1]
        for client, begin, end, left in untried:
            if not knowledge.possible(left, end) or (left, end) in failed_here:
                continue
            if spent >= budget:
                return Outcome(None, proved=False)
            spent += 1
            stops.append((client, begin))
            if not left:
                return Outcome(tuple(stops), proved=True)
            states.append((left, end, choices(left, end, False)))
            break
        else:
            states.pop()
            if stops:  # else it was the start, whose first visit may be bound to a head and never waits
                stops.pop()
                if restricted:
                    failed_here.add((rest, tick))
                else:
                    knowledge.rule_out(rest, tick)
    return Outcome(None, proved=True)

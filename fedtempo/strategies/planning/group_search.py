"""Depth-first search for a group, best clients first, that learns from every dead end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fedtempo.strategies.planning.group_order import Order
from fedtempo.strategies.planning.group_table import Knowledge, StartMasks


class Outcome(NamedTuple):
    """Stops (client, begin) of the group found; None with `proved` if there is none, without if the budget ran out."""

    stops: tuple[tuple[int, int], ...] | None
    proved: bool


def search(
    rest: int,
    start: int,
    order: Order,
    members: Sequence[int],
    starts: StartMasks,
    knowledge: Knowledge,
    *,
    head: int | None = None,
    allowed: int | None = None,
    max_wait: int = 0,
    budget: float = math.inf,
) -> Outcome:
    """The first group, by the order of the clients, that serves the clusters `rest` (not empty) from tick `start` on.

    As the first client that can still be followed by others is taken at each position, the group's sequence of
    (wait, preference) is the lexicographically smallest of all.
    members: mask of each cluster's clients, or of more. head: the client that goes
    first. allowed: mask of the clients to consider, where not all; what fails then is proved for this search alone and
    not handed to `knowledge`. budget: number of states to look into; where the knowledge is exact the search never
    turns back and needs one a position.
    """
    possible = knowledge.possible
    everyone = starts.everyone if allowed is None else allowed
    failed_here: set[tuple[int, int]] = set()

    def next_visits(rest: int, tick: int, candidates: int, wait: int) -> Iterator[tuple[int, int, int, int]]:
        """(client, begin, end, rest afterwards) of the visits that a group may make that arrives at `tick`."""
        wanted = 0
        for cluster, mask in enumerate(members):
            if rest >> cluster & 1:
                wanted |= mask
        for begin in range(tick, tick + wait + 1):
            if free := starts.at(begin) & candidates & wanted:
                for _, duration, client, _, cluster_bit in order.among(free):
                    if rest & cluster_bit and possible(rest ^ cluster_bit, begin + duration):
                        yield client, begin, begin + duration, rest ^ cluster_bit

    stops: list[tuple[int, int]] = []
    states = [(rest, start, next_visits(rest, start, everyone if head is None else 1 << head, 0))]
    spent = 0
    while states:
        rest, tick, untried = states[-1]
        for client, begin, end, left in untried:
            if (left, end) in failed_here:
                continue
            if spent >= budget:
                return Outcome(None, proved=False)
            spent += 1
            stops.append((client, begin))
            if not left:
                return Outcome(tuple(stops), proved=True)
            states.append((left, end, next_visits(left, end, everyone, max_wait)))
            break
        else:
            states.pop()
            if stops:  # else it was the start, which is no arrival: its visit may be bound to a head and does not wait
                stops.pop()
                if allowed is None:
                    knowledge.rule_out(rest, tick)
                else:
                    failed_here.add((rest, tick))
    return Outcome(None, proved=True)

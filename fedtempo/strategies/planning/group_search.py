"""Depth-first search for a group, preferred clients first, that records every dead end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fedtempo.strategies.planning.group_order import Order
from fedtempo.strategies.planning.group_table import Knowledge, StartMasks


class Outcome(NamedTuple):
    """Stops (client, begin) of the group; None if there is none (`proved`) or the budget ran out (not `proved`)."""

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
    """Find the most preferred group that serves the clusters `rest` (not empty) from tick `start` on.

    At each position the first client is taken that can still be followed by others, so the group's sequence of (wait,
    preference) is lexicographically smallest. members: a mask for each cluster that includes its clients. head: the
    client that goes first. allowed: mask of the clients to consider (default: all); failures then hold for this search
    only and are not passed to `knowledge`. budget: number of states to expand; with exact knowledge the search never
    backtracks and needs one state per position.
    """
    possible = knowledge.possible
    everyone = starts.everyone if allowed is None else allowed
    failed_here: set[tuple[int, int]] = set()

    def next_visits(rest: int, tick: int, candidates: int, wait: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (client, begin, end, remaining rest) of the visits open to a group that arrives at `tick`."""
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
            if stops:  # the start is no arrival: its visit may have a fixed head and does not wait
                stops.pop()
                if allowed is None:
                    knowledge.rule_out(rest, tick)
                else:
                    failed_here.add((rest, tick))
    return Outcome(None, proved=True)

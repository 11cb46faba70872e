"""Numbers of local steps with which clients of different speed arrive together (FedCompass).

Li et al., FedCompass: Efficient Cross-Silo Federated Learning on Heterogeneous Client Devices using a Computing Power
Aware Scheduler, ICLR 2024. Times are seconds on the run's clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Closing(NamedTuple):
    """The end of a group of clients that are to arrive together.

    latest_s: when the server stops waiting. step_s: time per step of the group's fastest client.
    """

    latest_s: float
    step_s: float


def joined(expected_s: Sequence[float], now: float, step_s: float, least: int, most: int) -> tuple[int, int] | None:
    """Return the position of the group that a client can join with the most steps, and their number; None if none.

    expected_s: when each group is to arrive. The client, which takes `step_s` per step, must arrive by then, with
    `least` to `most` steps.
    """
    possible = [
        (steps, position)
        for position, expected in enumerate(expected_s)
        if least <= (steps := steps_within(expected - now, step_s, most)) <= most
    ]
    if not possible:
        return None
    steps, position = max(possible)
    return position, steps


def steps_of_new_group(groups: Sequence[Closing], now: float, step_s: float, least: int, most: int) -> int:
    """Return the steps of a client that joins no group, so that clients of a present one can join its group next.

    A group's fastest client, which begins again by `latest_s`, then has time for `most` steps. Of the numbers of steps
    for each group the largest up to `most` is taken, but at least `least`; `most` if there is none.
    """
    targets = [group.latest_s + group.step_s * most for group in groups if now < group.latest_s]
    possible = [steps for target in targets if (steps := steps_within(target - now, step_s, most)) <= most]
    return max(least, *possible) if possible else most


def steps_within(seconds: float, step_s: float, most: int) -> int:
    """Return how many steps of `step_s` fit into this time; more than `most` if steps take no time."""
    if seconds <= 0:
        return 0
    return min(most + 1, math.floor(seconds / step_s)) if step_s > 0 else most + 1

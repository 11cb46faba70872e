"""How many local steps a client takes between two polls of the server.

The server polls some clients in each round, all with the same chance, so the number of rounds between two polls of a
client is geometric.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Expected(NamedTuple):
    """What to expect of a client between two polls. some: probability of at least one step. steps: their mean."""

    some: float
    steps: float


def steps_within(seconds: float, step_s: float, most: int) -> int:
    """Return the number of steps that fit into this time, 0 to `most`."""
    if seconds >= most * step_s - 1e-9:
        return most
    return max(0, math.floor(seconds / step_s + 1e-9))


def expected_steps(chance: float, round_s: float, exchange_s: float, step_s: float, most: int) -> Expected:
    """Return the probability of at least one step between two polls, and the expected number of steps.

    chance: probability of being polled in a round, above 0. round_s, exchange_s, step_s: duration of a round, of the
    exchange of models at a poll, and of a step, seconds. most: the largest number of steps.
    """
    some, steps, later = 0.0, 0.0, 1.0  # later: probability that the next poll comes in this round or later
    for rounds in range(1, math.ceil((exchange_s + most * step_s) / round_s) + 1):
        fit = steps_within(rounds * round_s - exchange_s, step_s, most)
        if fit == most:
            break
        now = later * chance
        some, steps, later = some + (now if fit else 0.0), steps + now * fit, later - now
    return Expected(some + later, steps + later * most)

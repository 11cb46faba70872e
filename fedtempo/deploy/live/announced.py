"""Numbers of examples that clients announce, compared with those of the other clients: nobody can check them.

They weigh a client's model in averages, lengthen its visits and excuse long updates. So none may exceed the median of
the others' by more than a factor. As long as liars are fewer than half, this median lies among honest numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedtempo.federation import Client

MOST_TIMES = 100.0
"""A client may announce this many times as many examples as the median of the others, and be as many times as slow."""

FEWEST = 2
"""Other clients that are needed for a comparison: between two clients nobody can tell who lies."""


def most_times(max_change: float) -> float:
    """Return the largest factor between a client's examples and the others' median; infinite for no limit.

    max_change: `deploy.max_change`, which raises the factor if it is larger, and lifts the limit if it is 0.
    """
    return max(MOST_TIMES, max_change) if max_change else math.inf


def medians_of_others(numbers: Sequence[float]) -> list[float]:
    """Return, for each number, the median of all the others; infinity if these are fewer than `FEWEST`.

    It is the higher one of two middle values, so that no single liar among three clients lowers it.
    """
    others = len(numbers) - 1
    if others < FEWEST:
        return [math.inf] * len(numbers)
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    ranked, middle = [numbers[i] for i in order], others // 2
    medians = [0.0] * len(numbers)
    for rank, i in enumerate(order):
        medians[i] = ranked[middle + 1] if rank <= middle else ranked[middle]
    return medians


def objections(examples: Mapping[str, int], factor: float) -> dict[str, str]:
    """Return why clients cannot take part beside the others, by name. examples: how many each announces, by name."""
    return {
        name: (
            f"client {name}: it announces {number:,} examples, more than {factor:g} times the median of the other "
            f"clients', {median:,}; leave it out, or set deploy.max_change to at least {math.ceil(number / median)}, "
            "or to 0 for no such limit"
        )
        for (name, number), median in zip(examples.items(), medians_of_others(list(examples.values())))
        if number > factor * median
    }


class Patience:
    """Bounds how long the server waits for one client by what it expects of the others.

    What it expects of a client follows from the number of examples that this announces, and from how long it took.
    """

    def __init__(self, clients: Sequence[Client], expected_s: Callable[[Client], float]) -> None:
        """expected_s: returns the seconds that the server expects of a client's visit now."""
        self._expected_s = expected_s
        self._of = np.array([expected_s(client) for client in clients])

    def share(self, client: Client) -> float:
        """Return by which factor, at most 1, to shorten a wait: a client may take `MOST_TIMES` the others' median."""
        own = self._of[client.id] = self._expected_s(client)
        others = np.delete(self._of, client.id)
        if len(others) < FEWEST or own <= 0:
            return 1.0
        middle = len(others) // 2
        return min(1.0, MOST_TIMES * float(np.partition(others, middle)[middle]) / own)


def credited(examples: Sequence[int], max_change: float) -> list[int]:
    """Return the numbers of examples that excuse long updates: at most `max_change` times the median of the others."""
    if not max_change:
        return list(examples)
    return [
        math.ceil(min(number, max_change * median)) for number, median in zip(examples, medians_of_others(examples))
    ]

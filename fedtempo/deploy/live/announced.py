"""Numbers of examples that clients announce, compared with those of the other clients: nobody can check them.

They weigh a client's model in averages, lengthen its visits and excuse long updates. So none may exceed the median of
the others' by more than a factor. As long as liars are fewer than half, this median lies among honest numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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


def credited(examples: Sequence[int], max_change: float) -> list[int]:
    """Return the numbers of examples that excuse long updates: at most `max_change` times the median of the others."""
    if not max_change:
        return list(examples)
    return [
        math.ceil(min(number, max_change * median)) for number, median in zip(examples, medians_of_others(examples))
    ]

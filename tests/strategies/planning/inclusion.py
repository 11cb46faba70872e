"""The probability of each client under PSFL's samplings: the oracle for comparing draws."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fedtempo.strategies.planning.sampling import time_classes, weighted_chances

Floats = NDArray[np.float64]


def partition_inclusion(times: ArrayLike, length: int, n_sequences: int) -> tuple[Floats, Floats]:
    """Return each client's probability to be in a round, and to be at a given position of a given sequence.

    The second is 1 / n_clients, so that the round's mean is unbiased (Theorem 3), only if `length` divides n_clients.
    """
    classes = time_classes(times, length)
    size = np.empty(sum(map(len, classes)))
    for members in classes:
        size[members] = len(members)
    return n_sequences / size, 1 / (length * size)


def uniform_inclusion(n_clients: int, length: int, n_sequences: int) -> tuple[float, float]:
    """Return a client's probability to be in a round, and to be at a given position of a given sequence."""
    return length * n_sequences / n_clients, 1 / n_clients


def weighted_inclusion(times: ArrayLike, length: int, n_sequences: int) -> Floats:
    """Return each client's probability to be in a round, (n_clients,), to about 1e-10.

    Drawing without replacement is a race of exponential clocks with the chances as rates: a client is in if fewer
    than length * n_sequences others ring before it. Integrated over the time at which it rings.
    """
    rate = weighted_chances(times)
    n_clients, places = len(rate), length * n_sequences
    if places == n_clients:
        return np.ones(n_clients)

    def density(time: float) -> Floats:
        rang = -np.expm1(-rate * time)
        # before[i, k]: probability that k of the others rang before, up to places - 1
        before = np.zeros((n_clients, places))
        before[:, 0] = 1
        for other in range(n_clients):
            chance = np.full((n_clients, 1), rang[other])
            chance[other] = 0
            rung = before[:, :-1] * chance
            before *= 1 - chance
            before[:, 1:] += rung
        at_time: Floats = rate * np.exp(-rate * time) * before.sum(axis=1)
        return at_time

    inclusion, _ = scipy.integrate.quad_vec(density, 0, np.inf, epsabs=1e-11, epsrel=1e-10, norm="max")
    return np.asarray(inclusion, float)


def within_binomial_bounds(counts: ArrayLike, chance: ArrayLike | float, rounds: int) -> None:
    """Assert that counts of events of the given chances lie within 5 standard deviations."""
    expected = rounds * np.asarray(chance)
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected * (1 - np.asarray(chance))) + 1e-9).all()

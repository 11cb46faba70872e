"""PSFL's choice of clients: sequences of one client from each time class, or of any clients.

Parallel-sequential federated learning trains `n_sequences` (W) sequences of `length` (S) clients in a round. Partition
sampling (Section V-C) sorts clients into S classes of similar speed and takes one of each for every sequence, so that
all sequences take about the same time. Uniform and weighted sampling are its rivals (Section VI-B.2).

Sequences are integer arrays of client ids, (n_sequences, length), with no client twice in a round.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fedtempo.errors import ConfigError

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


def time_classes(times: ArrayLike, n_classes: int) -> list[Ids]:
    """Clients of similar speed, fastest class first, each in the order of (time, id).

    times: (n_clients,), seconds. Sizes are floor or ceil of n_clients / n_classes; the fastest classes take the extra
    clients. Raises ConfigError if there are more classes than clients.
    """
    seconds = np.asarray(times, float)
    if not 1 <= n_classes <= len(seconds):
        raise ConfigError(f"length = {n_classes} must lie in 1..{len(seconds)}, the number of clients")
    return np.array_split(np.argsort(seconds, kind="stable"), n_classes)


def partition_sequences(times: ArrayLike, length: int, n_sequences: int, rng: np.random.Generator) -> Ids:
    """From each of `length` time classes one client for every sequence, each sequence in random order.

    Raises ConfigError if a class has fewer clients than there are sequences.
    """
    classes = time_classes(times, length)
    _check_sequences(n_sequences, len(classes[-1]), f"clients of the smallest of {length} time classes")
    drawn = np.column_stack([rng.choice(members, n_sequences, replace=False) for members in classes])
    return rng.permuted(drawn, axis=1)


def uniform_sequences(n_clients: int, length: int, n_sequences: int, rng: np.random.Generator) -> Ids:
    """Any clients, all equally likely. Raises ConfigError if there are too few."""
    _check_total(n_clients, length, n_sequences)
    return rng.choice(n_clients, length * n_sequences, replace=False).reshape(n_sequences, length)


def weighted_sequences(times: ArrayLike, length: int, n_sequences: int, rng: np.random.Generator) -> Ids:
    """Fast clients more often: draws without replacement with chances as 1 / sqrt(time), then shuffled.

    Raises ConfigError if there are too few clients.
    """
    chances = weighted_chances(times)
    _check_total(len(chances), length, n_sequences)
    drawn = rng.choice(len(chances), length * n_sequences, replace=False, p=chances)
    return rng.permutation(drawn).reshape(n_sequences, length)


def weighted_chances(times: ArrayLike) -> Floats:
    """Chance of each client, (n_clients,), to be the first that weighted sampling draws: as 1 / sqrt(time)."""
    seconds = np.asarray(times, float)
    if not (seconds > 0).all():
        raise ConfigError(f"times must be positive for weighted sampling; the least is {seconds.min()}")
    weights = 1 / np.sqrt(seconds)
    chances: Floats = weights / weights.sum()
    return chances


def partition_inclusion(times: ArrayLike, length: int, n_sequences: int) -> tuple[Floats, Floats]:
    """Of partition sampling: each client's chance to be in a round, and to be at a given place of a given sequence.

    The second is 1 / n_clients, so that the round's mean is unbiased (Theorem 3), only if `length` divides n_clients.
    """
    classes = time_classes(times, length)
    _check_sequences(n_sequences, len(classes[-1]), f"clients of the smallest of {length} time classes")
    size = np.empty(sum(map(len, classes)))
    for members in classes:
        size[members] = len(members)
    return n_sequences / size, 1 / (length * size)


def uniform_inclusion(n_clients: int, length: int, n_sequences: int) -> tuple[float, float]:
    """Of uniform sampling: a client's chance to be in a round, and to be at a given place of a given sequence."""
    _check_total(n_clients, length, n_sequences)
    return length * n_sequences / n_clients, 1 / n_clients


def weighted_inclusion(times: ArrayLike, length: int, n_sequences: int) -> Floats:
    """Of weighted sampling: each client's chance to be in a round, (n_clients,), to about 1e-10.

    Drawing without replacement is a race of exponential clocks with the chances as rates: a client is in if fewer
    than length * n_sequences others ring before it. Integrated over the time at which it rings.
    """
    rate = weighted_chances(times)
    n_clients, places = len(rate), length * n_sequences
    _check_total(n_clients, length, n_sequences)
    if places == n_clients:
        return np.ones(n_clients)

    def density(time: float) -> Floats:
        rang = -np.expm1(-rate * time)
        # before[i, k]: chance that k of the others rang before, up to places - 1
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


def expected_sequence_s(times: ArrayLike, one_place: ArrayLike, length: int) -> float:
    """Expected seconds of one sequence, where each of its places holds client n with chance one_place[n]."""
    return length * float(np.dot(np.asarray(times, float), np.asarray(one_place, float)))


def _check_sequences(n_sequences: int, most: int, what: str) -> None:
    if not 1 <= n_sequences <= most:
        raise ConfigError(f"n_sequences = {n_sequences} must lie in 1..{most}, the number of {what}")


def _check_total(n_clients: int, length: int, n_sequences: int) -> None:
    if not 1 <= length <= n_clients:
        raise ConfigError(f"length = {length} must lie in 1..{n_clients}, the number of clients")
    _check_sequences(n_sequences, n_clients // length, f"sequences of {length} that {n_clients} clients fill")

"""PSFL's sampling of clients: sequences of one client from each time class, or of any clients.

Parallel-sequential federated learning trains `n_sequences` (W) sequences of `length` (S) clients per round. Partition
sampling (Section V-C) sorts clients into S classes of similar speed and takes one of each for every sequence, so that
all sequences take about the same time. The paper compares it with uniform and weighted sampling (Section VI-B.2).

Sequences are integer arrays of client ids, (n_sequences, length); no client occurs twice in a round.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedtempo.errors import ConfigError

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


def time_classes(times: ArrayLike, n_classes: int) -> list[Ids]:
    """Return the clients in classes of similar speed, fastest class first, each class ordered by (time, id).

    times: (n_clients,), seconds. Sizes are n_clients / n_classes rounded down or up; the fastest classes are the larger
    ones. Raises ConfigError if there are more classes than clients.
    """
    seconds = np.asarray(times, float)
    if not 1 <= n_classes <= len(seconds):
        raise ConfigError(f"length = {n_classes} must lie in 1..{len(seconds)}, the number of clients")
    return np.array_split(np.argsort(seconds, kind="stable"), n_classes)


def partition_sequences(times: ArrayLike, length: int, n_sequences: int, rng: np.random.Generator) -> Ids:
    """Draw from each of `length` time classes one client for every sequence; each sequence is in random order.

    Raises ConfigError if a class has fewer clients than there are sequences.
    """
    classes = time_classes(times, length)
    _check_sequences(n_sequences, len(classes[-1]), f"clients of the smallest of {length} time classes")
    drawn = np.column_stack([rng.choice(members, n_sequences, replace=False) for members in classes])
    return rng.permuted(drawn, axis=1)


def uniform_sequences(n_clients: int, length: int, n_sequences: int, rng: np.random.Generator) -> Ids:
    """Draw any clients, all equally likely. Raises ConfigError if there are too few."""
    _check_total(n_clients, length, n_sequences)
    return rng.choice(n_clients, length * n_sequences, replace=False).reshape(n_sequences, length)


def weighted_sequences(times: ArrayLike, length: int, n_sequences: int, rng: np.random.Generator) -> Ids:
    """Draw fast clients more often: without replacement, with chances proportional to 1 / sqrt(time), then shuffle.

    Raises ConfigError if there are too few clients.
    """
    chances = weighted_chances(times)
    _check_total(len(chances), length, n_sequences)
    drawn = rng.choice(len(chances), length * n_sequences, replace=False, p=chances)
    return rng.permutation(drawn).reshape(n_sequences, length)


def weighted_chances(times: ArrayLike) -> Floats:
    """Return each client's chance to be drawn first by weighted sampling, (n_clients,): as 1 / sqrt(time)."""
    seconds = np.asarray(times, float)
    if not (seconds > 0).all():
        raise ConfigError(f"times must be positive for weighted sampling; the smallest is {seconds.min()}")
    weights = 1 / np.sqrt(seconds)
    chances: Floats = weights / weights.sum()
    return chances


def _check_sequences(n_sequences: int, most: int, what: str) -> None:
    if not 1 <= n_sequences <= most:
        raise ConfigError(f"n_sequences = {n_sequences} must lie in 1..{most}, the number of {what}")


def _check_total(n_clients: int, length: int, n_sequences: int) -> None:
    if not 1 <= length <= n_clients:
        raise ConfigError(f"length = {length} must lie in 1..{n_clients}, the number of clients")
    _check_sequences(n_sequences, n_clients // length, f"sequences of {length} that {n_clients} clients fill")

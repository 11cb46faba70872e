"""Each client's own test set: a share of its examples, or the test examples that the data have for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedtempo.data.dataset import IntArray
from fedtempo.errors import ConfigError


class HeldOut(NamedTuple):
    """Rows of the training examples by client, (n,) each: those that it trains on, and its test set."""

    training: list[IntArray]
    tests: list[IntArray]


def held_out(counts: IntArray, share: float) -> IntArray:
    """Return how many of these numbers of examples a share is: rounded, at least one, and not all of them."""
    numbers: IntArray = np.minimum(np.maximum(1, np.rint(share * counts)), counts - 1).astype(np.int64)
    return numbers


def hold_out(
    owned: Sequence[IntArray], share: float, n_examples: int, rng: Callable[[int], np.random.Generator]
) -> HeldOut:
    """Hold out a share of each client's examples (`held_out`).

    A client with a single example has no test set. Nobody trains on an example that is in any client's test set, so
    where clients share examples more than the share is left out. rng: returns the generator for a client's draw.
    Raises ConfigError if a client would have nothing left to train on, or no client has a test set.
    """
    tests: list[IntArray] = []
    is_test = np.zeros(n_examples, dtype=bool)
    for client, rows in enumerate(owned):
        own = np.unique(rows)
        count = int(held_out(np.array([len(own)]), share)[0])
        tests.append(np.sort(rng(client).permutation(own)[:count]))
        is_test[tests[-1]] = True
    training = [rows[~is_test[rows]] for rows in owned]
    where = f"data.client_test_share = {share:g}"
    if empty := [client for client, rows in enumerate(training) if not len(rows)]:
        raise ConfigError(
            f"{where}: nothing is left for client {empty[0]} to train on ({len(empty)} clients), because all its "
            "examples are in other clients' test sets; use a smaller share, or a partition that shares no examples"
        )
    if not is_test.any():
        raise ConfigError(f"{where}: every client has a single example; remove it, or use fewer clients")
    return HeldOut(training, tests)


def owned_tests(
    owned: Sequence[IntArray], train_owners: IntArray | None, test_owners: IntArray | None, name: str
) -> list[IntArray]:
    """Return the rows of the test examples that belong to each client's owner, (n,) each; a client may have none.

    owned: rows of training examples, of one owner each. name: of the data, in errors. Raises ConfigError if the data do
    not say whose their test examples are, or none belongs to a client.
    """
    where = "data.client_test_share = 'data'"
    if train_owners is None or test_owners is None:
        raise ConfigError(f"{where}: {name} does not say whose its test examples are; give a share, such as 0.2")
    order = np.argsort(test_owners, kind="stable")
    owners = test_owners[order]
    tests = []
    for rows in owned:
        start, stop = np.searchsorted(owners, train_owners[rows[0]] + np.arange(2))
        tests.append(order[start:stop])
    if not any(map(len, tests)):
        raise ConfigError(
            f"{where}: none of the test examples of {name} belongs to a client; give a share, such as 0.2"
        )
    return tests

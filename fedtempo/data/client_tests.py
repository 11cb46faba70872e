"""Examples that each client holds out: a share of its own, or the test examples that the data have for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedtempo.data.dataset import FloatArray, IntArray
from fedtempo.data.held_out import last_share
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
    owned: Sequence[IntArray],
    share: float,
    n_examples: int,
    rng: Callable[[int], np.random.Generator],
    *,
    groups: IntArray | None = None,
    times: FloatArray | None = None,
    starts: FloatArray | None = None,
    where: str = "data.client_test_share",
) -> HeldOut:
    """Hold out a share of each client's examples (`held_out`).

    groups, times: of the training examples, (n,), if known. With groups, a client holds out a share of its groups, each
    whole; with times, its latest examples (`last_share`). starts: when what each example predicts begins; a client does
    not train on examples whose time is not before all that its test set predicts.

    A client with a single example, group or time has no test set. Nobody trains on an example, or on a group, that is
    in any client's test set, so where clients share these more than the share is left out. rng: returns the generator
    for a client's draw. where: the key, for errors. Raises ConfigError if a client would have nothing left to train on,
    or no client has a test set.
    """
    tests: list[IntArray] = []
    is_test = np.zeros(n_examples, dtype=bool)
    for client, rows in enumerate(owned):
        own = np.unique(rows)
        if times is not None:
            latest = last_share(times[own], share)
            tests.append(own[:0] if latest is None else own[latest])
        else:
            units = own if groups is None else np.unique(groups[own])
            count = int(held_out(np.array([len(units)]), share)[0])
            chosen = np.sort(rng(client).permutation(units)[:count])
            tests.append(chosen if groups is None else own[np.isin(groups[own], chosen)])
        is_test[tests[-1]] = True
    if groups is not None:
        is_test |= np.isin(groups, groups[is_test])
    training = [rows[~is_test[rows]] for rows in owned]
    if times is not None and starts is not None:
        limits = [starts[test].min(initial=np.inf) for test in tests]
        training = [rows[times[rows] < limit] for rows, limit in zip(training, limits)]
    where = f"{where} = {share:g}"
    what, few = ("examples", "example") if groups is None else ("groups", "group")
    if starts is not None and (empty := [client for client, rows in enumerate(training) if not len(rows)]):
        raise ConfigError(
            f"{where}: client {empty[0]} has no example left ({len(empty)} clients) that predicts only rows before "
            "those of its test set; use a smaller share, or a shorter horizon"
        )
    if empty := [client for client, rows in enumerate(training) if not len(rows)]:
        raise ConfigError(
            f"{where}: nothing is left for client {empty[0]} to train on ({len(empty)} clients), because all its "
            f"{what} are in other clients' test sets; use a smaller share, or a partition that shares no {what}"
        )
    if not is_test.any():
        few = few if times is None else "time"
        raise ConfigError(f"{where}: every client has a single {few}; remove it, or use fewer clients")
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

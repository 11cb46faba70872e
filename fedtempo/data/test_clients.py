"""Clients that do not take part: models are tested on their examples (`data.test_clients`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedtempo.data.dataset import IntArray
from fedtempo.data.settings import ClientFolds
from fedtempo.errors import ConfigError, nearest

_KEY = "data.test_clients"


def chosen_clients(
    asked: float | Sequence[str | int] | ClientFolds,
    names: Sequence[str],
    seed: int,
    rng: Callable[..., np.random.Generator],
) -> IntArray:
    """Return the numbers of the clients to test on, ascending: at least one, and not all.

    names: of all clients, in order. seed: of the run. rng: makes a generator of a seed and a purpose. Raises
    ConfigError for names of no client, and for too few clients.
    """
    n = len(names)
    if n < 2:
        raise ConfigError(f"{_KEY}: the data have a single client; at least one must train and one be tested on")
    if isinstance(asked, ClientFolds):
        return _fold(asked, n, seed, rng)
    if isinstance(asked, float):
        count = min(max(1, round(asked * n)), n - 1)
        return np.sort(rng(seed, "test clients").permutation(n)[:count]).astype(np.int64)
    wanted = [str(name) for name in asked]
    for name in wanted:
        if name not in names:
            raise ConfigError(f"{_KEY} = {list(asked)}: no client is called {name!r}{nearest(name, names)}")
    chosen = sorted({names.index(name) for name in wanted})
    if len(chosen) == n:
        raise ConfigError(f"{_KEY} = {list(asked)}: these are all clients; leave at least one to train")
    return np.array(chosen, dtype=np.int64)


def _fold(asked: ClientFolds, n: int, seed: int, rng: Callable[..., np.random.Generator]) -> IntArray:
    """Return a fold of the clients. Every `folds` seeds from 1 on share a division of the clients into folds."""
    if asked.folds > n:
        raise ConfigError(f"{_KEY}.folds = {asked.folds}: more folds than clients ({n})")
    round_, position = divmod(seed - 1, asked.folds)
    if asked.fold is not None:
        round_, position = 0, asked.fold - 1
    order = rng(round_ + 1, "client folds").permutation(n)
    return np.sort(np.array_split(order, asked.folds)[position]).astype(np.int64)

"""Clients that are tested on: a share, by name, and folds that hold out each client once."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

from fedtempo.data.settings import ClientFolds
from fedtempo.data.test_clients import chosen_clients
from fedtempo.errors import ConfigError
from fedtempo.runtime.keyed import keyed_generator

NAMES = [f"site{i}" for i in range(1, 11)]


def chosen(asked: Any, seed: int = 1, names: list[str] = NAMES) -> list[int]:
    clients: list[int] = chosen_clients(asked, names, seed, keyed_generator).tolist()
    return clients


@pytest.mark.parametrize(("share", "count"), [(0.1, 1), (0.01, 1), (0.25, 2), (0.36, 4), (0.99, 9)])
def test_a_share_of_the_clients_is_drawn(share: float, count: int) -> None:
    """Rounded (to even at a half), at least one and not all."""
    clients = chosen(share)
    assert len(clients) == count
    assert clients == sorted(set(clients))
    assert clients == chosen(share)
    assert len({tuple(chosen(0.36, seed)) for seed in range(1, 9)}) > 4


def test_clients_are_named_or_numbered() -> None:
    assert chosen(("site10", "site2")) == [1, 9]
    assert chosen((3, "1"), names=["0", "1", "2", "3"]) == [1, 3]
    with pytest.raises(
        ConfigError, match=r"data\.test_clients = \['site22'\]: no client is called 'site22'; did you me"
    ):
        chosen(("site22",))
    with pytest.raises(ConfigError, match="these are all clients; leave at least one to train"):
        chosen(("a", "b"), names=["a", "b"])
    with pytest.raises(ConfigError, match="the data have a single client"):
        chosen(0.5, names=["a"])


def test_seeds_1_to_k_hold_out_each_client_once() -> None:
    folds = [chosen(ClientFolds(3), seed) for seed in (1, 2, 3)]
    assert sorted(map(len, folds)) == [3, 3, 4]
    assert sorted(chain(*folds)) == list(range(10))
    again = [chosen(ClientFolds(3), seed) for seed in (4, 5, 6)]
    assert sorted(chain(*again)) == list(range(10))
    assert again != folds
    assert chosen(ClientFolds(3, 2), 1) == chosen(ClientFolds(3, 2), 17) == folds[1]
    assert len(chosen(ClientFolds(3), 0)) > 0
    with pytest.raises(ConfigError, match=r"data\.test_clients\.folds = 11: more folds than clients \(10\)"):
        chosen(ClientFolds(11))


def test_every_division_covers_all_clients() -> None:
    for k in range(2, 11):
        held = np.concatenate([chosen(ClientFolds(k), seed) for seed in range(1, k + 1)])
        assert sorted(held.tolist()) == list(range(10))

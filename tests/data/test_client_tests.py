"""Each client's own test set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.data.client_tests import hold_out, owned_tests
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError


def rng(client: int) -> np.random.Generator:
    return np.random.default_rng(client)


class Rolled(np.random.Generator):
    """A generator whose permutations shift by the number of the client."""

    def __init__(self, client: int) -> None:
        super().__init__(np.random.PCG64(0))
        self._client = client

    def permutation(self, x: Any, axis: int = 0) -> Any:
        return np.roll(x, self._client)


def test_a_share_of_each_clients_examples_is_held_out() -> None:
    owned = [np.arange(0, 10), np.arange(10, 15), np.array([15, 16]), np.array([17])]
    held = hold_out(owned, 0.3, 18, rng)
    assert list(map(len, held.tests)) == [3, 2, 1, 0]  # a client keeps at least one, and one example is no test set
    for rows, training, tests in zip(owned, held.training, held.tests, strict=True):
        assert sorted([*training, *tests]) == rows.tolist()
        assert (np.diff(training) > 0).all()
    again = hold_out(owned, 0.3, 18, rng)
    assert all(np.array_equal(a, b) for a, b in zip(held.tests, again.tests, strict=True))


def test_nobody_trains_on_another_clients_test_examples() -> None:
    owned = [np.arange(0, 10), np.arange(5, 15), np.array([0, 0, 1, 1, 2, 2])]
    held = hold_out(owned, 0.2, 15, rng)
    every = np.concatenate(held.tests)
    assert all(len(tests) >= 1 for tests in held.tests)
    assert not any(np.isin(training, every).any() for training in held.training)
    with pytest.raises(ConfigError, match=r"client_test_share = 0\.9: nothing is left for client 0 to train on"):
        hold_out([np.arange(4), np.arange(4)], 0.9, 4, Rolled)  # draws 0, 1, 2 and 3, 0, 1
    with pytest.raises(ConfigError, match="every client has a single example"):
        hold_out([np.array([0]), np.array([1])], 0.2, 2, rng)


def test_what_a_client_trains_to_predict_ends_before_what_its_test_set_predicts() -> None:
    """Each example predicts three instants: its time and the two before."""
    times = np.arange(3.0, 23.0)
    held = hold_out([np.arange(10), np.arange(10, 20)], 0.3, 20, rng, times=times, starts=times - 2)
    assert [rows.tolist() for rows in held.tests] == [[7, 8, 9], [17, 18, 19]]
    assert [rows.tolist() for rows in held.training] == [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14]]
    with pytest.raises(ConfigError, match=r"client 1 has no example left .* use a smaller share, or a shorter horizon"):
        hold_out([np.arange(10), np.arange(10, 13)], 0.3, 20, rng, times=times, starts=times - 2)


def test_the_data_may_have_a_test_set_for_each_client() -> None:
    owned = [np.array([0, 1]), np.array([4]), np.array([2, 3])]
    owners, test_owners = np.array([7, 7, 2, 2, 9]), np.array([2, 9, 7, -1, 7])
    tests = owned_tests(owned, owners, test_owners, "letters")
    assert [rows.tolist() for rows in tests] == [[2, 4], [1], [0]]
    with pytest.raises(ConfigError, match="letters does not say whose its test examples are; give a share"):
        owned_tests(owned, owners, None, "letters")
    with pytest.raises(ConfigError, match="none of the test examples of letters belongs to a client"):
        owned_tests(owned, owners, np.full(5, -1), "letters")


def test_sources_with_clients_say_whose_their_test_examples_are(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "arrays.npz",
        train_x=np.zeros((2, 3), np.float32),
        train_y=[0, 1],
        test_x=np.zeros((2, 3), np.float32),
        test_y=[1, 0],
        train_owners=[5, 6],
        test_owners=[6, 5],
    )
    assert load(f"npz:{tmp_path}/arrays.npz").test_owners.tolist() == [6, 5]
    for name, length in (("a", 50), ("b", 100)):
        (tmp_path / f"{name}.txt").write_text("x" * length)
    text = load(f"text:{tmp_path}", length=4)
    assert text.test_owners.tolist() == [0, 0, 1, 1, 1, 1]  # the last 10 and 20 bytes, in blocks of 4 and the next byte
    rows = [f"{i},{i % 2},{'ab'[i // 10]}" for i in range(20)]
    (tmp_path / "rows.csv").write_text("\n".join(["size,label,client", *rows]))
    (tmp_path / "more.csv").write_text("size,label,client\n1,0,b\n2,1,c\n3,1,a\n")
    table = load(f"table:{tmp_path}/rows.csv", label="label", client="client", task="classes")
    assert np.bincount(table.test_owners).tolist() == [2, 2]
    given = load(f"table:{tmp_path}/rows.csv", label="label", client="client", task="classes", test="more.csv")
    assert given.test_owners.tolist() == [1, -1, 0]
    with pytest.raises(ValueError, match=r"test_owners has shape \(1,\); must be \(3,\)"):
        replace(given, test_owners=np.array([1]))


def test_whole_groups_are_held_out_and_nobody_trains_on_them() -> None:
    """Groups 0 and 1 at client 0; 0, 2 and 3 at client 1. Half are held out: 0, and 3 and 0 (1.5 groups round to 2)."""
    groups = np.array([0, 0, 1, 1, 2, 2, 3, 3, 0])
    held = hold_out([np.arange(4), np.arange(4, 9)], 0.5, 9, Rolled, groups=groups)
    assert [rows.tolist() for rows in held.tests] == [[0, 1], [6, 7, 8]]
    assert [rows.tolist() for rows in held.training] == [[2, 3], [4, 5]]
    with pytest.raises(ConfigError, match=r"nothing is left for client 0 to train on .* all its groups are in other"):
        hold_out([np.array([0]), np.array([1, 2])], 0.5, 3, Rolled, groups=np.array([1, 0, 1]))


def test_the_latest_examples_of_each_client_are_held_out() -> None:
    times = np.array([1.0, 2, 3, 4, 40, 30, 20, 10, 5])
    held = hold_out([np.arange(4), np.arange(4, 8), np.array([8])], 0.25, 9, rng, times=times, where="data.x")
    assert [rows.tolist() for rows in held.tests] == [[3], [4], []]
    assert [rows.tolist() for rows in held.training] == [[0, 1, 2], [5, 6, 7], [8]]
    with pytest.raises(ConfigError, match=r"data.x = 0.25: every client has a single time"):
        hold_out([np.arange(4)], 0.25, 4, rng, times=np.zeros(4), where="data.x")

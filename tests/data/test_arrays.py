"""Arrays in .npz files: splits that fedtempo makes, validation examples, and names of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.data.dataset import Dataset
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError


def stored(folder: Path, **arrays: Any) -> str:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return f"npz:{path}"


def examples(n: int = 40) -> dict[str, Any]:
    x = np.zeros((n, 1, 8, 8), dtype=np.float32)
    x[:, 0, 0, 0] = np.arange(n)
    return {"train_x": x, "train_y": np.arange(n) % 2}


def numbers(x: Any) -> list[int]:
    """Return the numbers of examples among all."""
    return sorted(x[:, 0, 0, 0].astype(int).tolist())


def test_without_a_test_set_a_share_is_held_out(tmp_path: Path) -> None:
    source = stored(tmp_path, **examples())
    data = load(source, test_share=0.25)
    assert len(data.test_y) == 10
    assert sorted(numbers(data.train_x) + numbers(data.test_x)) == list(range(40))
    assert load(source, test_share=0.25).sha256 == data.sha256
    with pytest.raises(ConfigError, match=r"npz:.*: 0 of 40 examples are for testing; add examples, or change"):
        load(source, test_share=0.001)


def test_groups_and_times_are_kept_apart(tmp_path: Path) -> None:
    patients = np.arange(40) // 4
    data = load(stored(tmp_path, **examples(), train_groups=patients))
    assert data.train_groups is not None
    assert set(patients[numbers(data.test_x)]).isdisjoint(patients[numbers(data.train_x)])
    assert sorted(data.train_groups.tolist()) == sorted(patients[numbers(data.train_x)].tolist())
    days = np.datetime64("2024-01-01") + np.arange(40)[::-1]
    data = load(stored(tmp_path, **examples(), train_times=days, train_owners=np.repeat([3, 7], 20)), test_share=0.1)
    assert numbers(data.test_x) == [0, 1, 20, 21]
    assert data.train_times is not None
    assert data.train_times.min() == np.datetime64("2024-01-01").astype("datetime64[s]").astype(int)
    with pytest.raises(ConfigError, match="train_groups, train_times: give one of them"):
        load(stored(tmp_path, **examples(), train_groups=patients, train_times=np.arange(40)))
    with pytest.raises(ConfigError, match=r"train_times has shape \(3,\); must be \(40,\)"):
        load(stored(tmp_path, **examples(), train_times=np.arange(3)))
    with pytest.raises(ConfigError, match="train_times: example 0 is 'a', neither a number nor a date"):
        load(stored(tmp_path, **examples(), train_times=np.array(["a"] * 40)))


def labels(n: int, value: int | None = None) -> np.ndarray[Any, Any]:
    return np.arange(n) % 2 if value is None else np.full(n, value)


def test_a_validation_split_is_read_and_can_be_tested_on(tmp_path: Path) -> None:
    """As in the data sets of challenges: test labels that are all -1."""
    test = {"test_x": np.zeros((6, 1, 8, 8), np.float32), "test_y": labels(6, -1)}
    held = {"validation_x": np.ones((4, 1, 8, 8), np.float32), "validation_y": labels(4)}
    source = stored(tmp_path, **examples(), **test, **held)
    with pytest.raises(ConfigError, match=r"all 6 test labels are -1.*set data\.options\.test_split = 'validation'"):
        load(source)
    data = load(source, test_split="validation")
    assert data.test_x.min() == 1.0
    assert data.validation_y is None
    data = load(source, test_split="train")
    assert (len(data.test_y), len(data.train_y)) == (8, 32)
    assert data.validation_y is not None
    assert data.validation_y.tolist() == [0, 1, 0, 1]
    with pytest.raises(ConfigError, match="test_split = 'dev': must be 'test', 'validation' or 'train'"):
        load(source, test_split="dev")
    with pytest.raises(ConfigError, match="holds validation_y alone; give validation_x and validation_y"):
        load(stored(tmp_path, **examples(), validation_y=labels(4)))


def first_names(data: Dataset) -> list[str]:
    assert data.train_owners is not None
    return [data.owner_names[owner] for owner in np.unique(data.train_owners)]


def test_clients_that_are_not_numbered_from_0_keep_their_numbers_as_names(tmp_path: Path) -> None:
    data = load(stored(tmp_path, **examples(), train_owners=np.arange(40) % 10 + 1))
    assert first_names(data) == [str(i) for i in range(1, 11)]
    data = load(stored(tmp_path, **examples(), train_owners=np.array([f"{i % 10 + 1}" for i in range(40)])))
    assert first_names(data) == [str(i) for i in range(1, 11)]
    assert load(stored(tmp_path, **examples(), train_owners=np.arange(40) % 10)).owner_names == ()
    with pytest.raises(ConfigError, match=r"train_owners is float64 .*; must be integers or text"):
        load(stored(tmp_path, **examples(), train_owners=np.zeros(40)))


def test_owners_of_any_numbers_keep_their_names(tmp_path: Path) -> None:
    owners = np.array([-3, 10_000_007, 12])[np.arange(40) % 3]
    whole = {**examples(), "test_x": examples(4)["train_x"], "test_y": np.arange(4) % 2}
    data = load(stored(tmp_path, **whole, train_owners=owners, test_owners=np.array([12, 5, 10_000_007, -3])))
    assert data.owner_names == ("-3", "12", "10000007")
    assert data.train_owners is not None
    assert data.train_owners[:3].tolist() == [0, 2, 1]
    assert data.test_owners is not None
    assert data.test_owners.tolist() == [1, -1, 2, 0]
    with pytest.raises(ConfigError, match="client '10000007': all rows have the same time"):
        load(stored(tmp_path, **examples(), train_owners=owners, train_times=np.where(owners > 12, 0, np.arange(40))))

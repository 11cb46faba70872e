"""Results kept in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.data import cache
from fedtempo.data.cache import remembered, remembered_arrays
from fedtempo.data.cache_dir import cache_folder


class Maker:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        return [["a", "é", "\u2028"], {"n": 1.5}]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fedtempo"


def test_a_cached_result_is_not_computed_again(folder: Path) -> None:
    make = Maker()
    assert remembered("x-1", make) == remembered("x-1", make) == make()
    assert make.calls == 2
    assert [path.name for path in folder.iterdir()] == ["x-1.json"]
    remembered("x-2", make)
    assert make.calls == 3


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"nonsense", "shorter", "other digit"])
def test_a_damaged_file_is_computed_again(folder: Path, damage: bytes | str) -> None:
    make = Maker()
    remembered("x", make)
    path = folder / "x.json"
    whole = path.read_bytes()
    path.write_bytes(
        damage if isinstance(damage, bytes) else whole[:-1] if damage == "shorter" else whole.replace(b"1.5", b"2.5")
    )
    assert remembered("x", make) == make()
    assert path.read_bytes() == whole


def test_arrays_are_cached_and_computed_again_if_a_file_is_damaged(folder: Path) -> None:
    calls = []

    def make() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "y": np.array([1, 2])}

    for damage in (None, None, b"", b"nonsense", 130, "missing", "another value", "no hashes"):
        path = folder / "a-1" / "x.npy"
        if damage == "missing":
            path.unlink()
        elif damage == "another value":
            path.write_bytes(path.read_bytes().replace(b"\x80?", b"\x00?"))
        elif damage == "no hashes":
            (folder / "a-1" / "sha256.json").write_text("[]")
        elif damage is not None:
            path.write_bytes(path.read_bytes()[:damage] if isinstance(damage, int) else damage)
        arrays = remembered_arrays("a-1", make)
        assert arrays.keys() == {"x", "y"}
        assert arrays["x"].dtype == np.float32
        assert arrays["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert len(calls) == 7
    assert [entry.name for entry in folder.iterdir()] == ["a-1"]
    assert isinstance(remembered_arrays("a-1", make)["x"], np.memmap)


def test_without_a_writable_folder_results_are_computed_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    make = Maker()
    assert remembered("x", make) == remembered("x", make)
    assert make.calls == 2


def test_no_partial_file_remains(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert remembered("x", Maker()) == Maker()()
    assert list(folder.iterdir()) == []


def test_without_a_home_folder_nothing_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "cache_folder", lambda: None)
    make = Maker()
    assert remembered("x", make) == remembered("x", make)
    assert make.calls == 2


def test_the_cache_folder_follows_the_users_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "fedtempo"
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/fedtempo"))  # no home
    assert cache_folder() is None, "nothing is written below the folder that happens to be the current one"

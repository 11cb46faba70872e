"""Results kept in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fedtempo.data.cache import remembered


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


def test_the_second_time_nothing_is_made(folder: Path) -> None:
    make = Maker()
    assert remembered("x-1", make) == remembered("x-1", make) == make()
    assert make.calls == 2
    assert [path.name for path in folder.iterdir()] == ["x-1.json"]
    remembered("x-2", make)
    assert make.calls == 3


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"nonsense", "shorter", "other digit"])
def test_a_damaged_file_is_made_again(folder: Path, damage: bytes | str) -> None:
    make = Maker()
    remembered("x", make)
    path = folder / "x.json"
    whole = path.read_bytes()
    path.write_bytes(
        damage if isinstance(damage, bytes) else whole[:-1] if damage == "shorter" else whole.replace(b"1.5", b"2.5")
    )
    assert remembered("x", make) == make()
    assert path.read_bytes() == whole


def test_where_nothing_can_be_written_it_is_made_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    make = Maker()
    assert remembered("x", make) == remembered("x", make)
    assert make.calls == 2


def test_nothing_half_written_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert remembered("x", Maker()) == Maker()()
    assert list(folder.iterdir()) == []


def test_without_a_home_nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    make = Maker()
    assert remembered("x", make) == remembered("x", make)
    assert make.calls == 2

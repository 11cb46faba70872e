"""Certificates, keys and clients of a deployment, from Python."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from fedtempo import ConfigError, make_keys, register_keys, serve_client


@pytest.mark.parametrize(
    "call",
    [
        lambda folder: serve_client(folder / "client.toml"),
        lambda folder: make_keys(folder, ["localhost"], ["ward"]),
        lambda folder: register_keys(folder, "127.0.0.1:1"),
    ],
    ids=["serve", "make", "register"],
)
def test_every_call_for_clients_needs_flower(
    call: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(ConfigError, match="Flower is not installed"):
        call(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_keys_are_created_once(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    made = make_keys(tmp_path, ["server.example.org"], ["ward"])
    names = {"ca.crt", "ca.key", "server.crt", "server.key", "ward", "ward.pub"}
    assert {path.name for path in made} == names
    assert make_keys(tmp_path, ["server.example.org"], ["ward"]) == []
    assert {path.name for path in make_keys(tmp_path, clients=["other"])} == {"other", "other.pub"}
    with pytest.raises(ConfigError, match="hosts: give the host names"):
        make_keys(tmp_path / "new", clients=["ward"])


def test_a_missing_client_file_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        serve_client(tmp_path / "nowhere.toml")

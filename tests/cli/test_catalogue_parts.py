"""What `fedtempo list` and `fedtempo describe` say of fleets, sources and names that mean several things."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest

from fedtempo.cli import catalogue
from fedtempo.errors import ConfigError

Shown = Callable[[str], str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Return what `fedtempo describe NAME` prints."""
    monkeypatch.setenv("COLUMNS", "120")

    def described(name: str) -> str:
        catalogue.describe(name)
        return capsys.readouterr().out

    return described


def test_a_fleet_is_described_by_its_tables(shown: Shown) -> None:
    text = shown("fch-zipf")
    assert "Zipf's law" in text
    assert tomllib.loads(text[text.index("[fleet") :])["fleet"]["compute"]["speed"]["exponent"] == 1.2


def test_a_name_shared_by_several_parts_describes_each(shown: Shown) -> None:
    text = shown("fedhusky")
    assert text.index("strategies") < text.index("exponent") < text.index("fleets") < text.index('"path-loss"')


def test_a_source_lists_its_options(shown: Shown) -> None:
    assert "options: roles = 715, length = 80, stride = 20, test_share = 0.2" in shown("shakespeare")
    assert "options: none" in shown("mnist")
    assert "options: subset = None, feature = None, label = None" in shown("hf:<...>")


def test_a_source_is_recognised_by_its_prefix(shown: Shown) -> None:
    assert shown("table") == shown("table:") == shown("table:<...>")
    assert "standardize = False" in shown("table")


def test_fleets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    catalogue.list_("fleets")
    assert capsys.readouterr().out.count("psfl-") == 4


def test_unknown_names_are_rejected(shown: Shown) -> None:
    with pytest.raises(ConfigError, match="describe fedhuski: no such part or key; did you mean 'fedhusky'"):
        shown("fedhuski")


def test_a_key_is_described_with_its_section_and_with_the_parts_that_it_can_name(shown: Shown) -> None:
    availability = shown("availability")
    assert availability.index("[fleet]") < availability.index("when clients are available")
    assert all(name in availability for name in ("always", "diurnal", "dropout", "on-off", "windows", "trace"))
    assert "estimates" not in availability
    assert all(section in shown("clip_norm") for section in ("[training]", "[server]", "[server.privacy]"))
    assert "path-loss" in shown("links")

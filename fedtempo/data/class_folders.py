"""Files in folders: one folder per class, optionally within one folder per client, and below `train`, `test`, ..."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.data.held_out import untrained_classes
from fedtempo.data.labels import must_be_trained
from fedtempo.data.splitting import both, must_not_be_asked, spread
from fedtempo.data.validation import NAMES as VALIDATION_NAMES
from fedtempo.data.validation import Split
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, natural

_PURPOSES = {"train": "train", "test": "test", **dict.fromkeys(VALIDATION_NAMES, "validation")}


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
    split = all(len(names) > 1 and names[0] in _PURPOSES for names in folders)
    found = []
    for file, names in zip(files, folders):
        part, rest = (_PURPOSES[names[0]], names[1:]) if split else ("", names)
        if len(rest) not in (1, 2):
            raise ConfigError(
                f"{file}: {what} must lie in <class>/ or <client>/<class>/, optionally below train/, test/ and "
                "validation/"
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
    what: str,
    examples: Callable[[list[Path]], tuple[npt.NDArray[Any], str]],
    test_share: float,
    test_split: str | None = None,
    whose: str = "a folder for each of {n} clients",
) -> Dataset:
    """Return the data set of files in folders.

    Classes and clients are in natural order. what: as for `find_files`. examples: returns the examples of
    all files, the first axis, and a description of them. test_share: of each client and class, for testing if there is
    no split test. test_split: "validation" to test on those files, "train" to leave out the split test. whose:
    describes how clients are named; {n} is their number.

    Raises ConfigError if training or test examples are missing, or a class has no training examples.
    """
    if test_split == "train":
        files = [one for one in files if one.split != "test"]
    kinds = sorted({one.kind for one in files}, key=natural)
    clients = sorted({one.client for one in files if one.split in ("", "train")} - {""}, key=natural)
    y = np.array([kinds.index(one.kind) for one in files], dtype=np.int64)
    number = {client: i for i, client in enumerate(clients)}
    owners = np.array([number.get(one.client, -1) for one in files], dtype=np.int64)
    splits = np.array([one.split or "train" for one in files])
    train = np.flatnonzero(splits == "train")
    if not len(train):
        raise ConfigError(f"{root}: no training {what}; put them into {root / 'train'}")
    if "test" not in splits and test_split != "validation":
        held = spread([owners[train], y[train]], test_share, len(train))
        both(held, str(root), test_share)
        splits[train[held]] = "test"
        train = train[~held]
    else:
        must_not_be_asked(test_share, "set test_split = 'train'")
    rows = {split: np.flatnonzero(splits == split) for split in ("test", "validation")}
    for split, of_split in rows.items():
        if files[0].split and len(of_split):
            try:
                must_be_trained(y[train], y[of_split], kinds)
            except ValueError as error:
                raise ConfigError(f"{root}: {split}: {error}") from None
    x, about = examples([one.file for one in files])
    parts = {split: Split(x[part], y[part], owners[part] if clients else None) for split, part in rows.items()}
    untrained = untrained_classes(y[train], y[rows["test"]], kinds)
    by_client = f", {whose.format(n=len(clients))}: {listed(clients)}" if clients else ""
    return from_arrays(
        known_as,
        x[train],
        y[train],
        parts["test"].x,
        parts["test"].y,
        len(kinds),
        owners[train] if clients else None,
        parts["test"].owners,
        validation=parts["validation"] if len(rows["validation"]) else None,
        test_split=None if test_split == "train" else test_split,
        owner_names=tuple(clients),
        class_names=tuple(kinds),
        about=f"{about}, classes by folder: {', '.join(kinds)}{by_client}",
        warnings=() if untrained is None else (untrained,),
    )

"""Data sets in .npz files: arrays by name, with or without a test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.archive import read_npz
from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.data.formats.medmnist import from_medmnist, is_medmnist
from fedtempo.data.held_out import as_times, held_out_rows, numbered, strata_of
from fedtempo.data.splitting import TEST_SHARE, both, check_share, must_not_be_asked
from fedtempo.data.validation import Split, check_test_split
from fedtempo.errors import ConfigError

_NEEDED = ("train_x", "train_y")
_PAIRS = (("test_x", "test_y"), ("validation_x", "validation_y"))
_OF_TRAINING = ("train_owners", "train_groups", "train_times")
_OPTIONAL = (*(name for pair in _PAIRS for name in pair), *_OF_TRAINING, "test_owners", "n_classes")
_MOST_UNNAMED = 1_000_000

Arrays = Mapping[str, npt.NDArray[Any]]


def read_arrays(
    path: str,
    known_as: str,
    *,
    task: str | None = None,
    inputs: str | None = None,
    ignore: int | None = None,
    test_split: str | None = None,
    test_share: float = TEST_SHARE,
) -> Dataset:
    """Return the data set of an .npz file, or of the only one in a folder; see `sources.npz` for the arrays.

    known_as: name of the data set, in results and errors. Raises ConfigError for a bad file.
    """
    check_share(test_share)
    check_test_split(test_split)
    file = Path(path).expanduser()
    if file.is_dir():
        files = sorted(file.glob("*.npz"))
        if len(files) != 1:
            raise ConfigError(f"{known_as}: the folder holds {len(files)} .npz files; give the path of one file")
        file = files[0]
    try:
        arrays: Arrays = read_npz(file)
        about, inferred = "", None
        if is_medmnist(arrays):
            arrays, about, inferred = from_medmnist(arrays)
        n_classes = int(arrays["n_classes"]) if "n_classes" in arrays else None
    except (ConfigError, TypeError, ValueError) as error:
        raise ConfigError(f"{known_as}: {error}") from error
    _check_names(known_as, file, arrays)
    train_x, train_y = arrays["train_x"], arrays["train_y"]
    validation = Split(arrays["validation_x"], arrays["validation_y"]) if "validation_x" in arrays else None
    own = _of_training(known_as, arrays)
    own_names, test_owners = _names(arrays.get("train_owners")), arrays.get("test_owners")
    if _are_sparse(arrays.get("train_owners")):
        values, own["train_owners"] = np.unique(arrays["train_owners"], return_inverse=True)
        own_names = tuple(map(str, values.tolist()))
        test_owners = _numbers_among(values, test_owners)
    test = Split(arrays.get("test_x"), arrays.get("test_y"), test_owners)
    if test_split != "validation" and (test.x is None or test_split == "train"):
        held = _held_out(known_as, train_y, own, test_share, own_names)
        owners = own.get("train_owners")
        test = Split(train_x[held], train_y[held], None if owners is None else owners[held])
        train_x, train_y = train_x[~held], train_y[~held]
        own = {name: values[~held] for name, values in own.items()}
        test_split = None
    else:
        must_not_be_asked(test_share, "set test_split = 'train'")
    related: dict[str, Any] = {name: own[name] for name in ("train_groups", "train_times") if name in own}
    return from_arrays(
        known_as,
        train_x,
        train_y,
        test.x,
        test.y,
        n_classes,
        own.get("train_owners"),
        test.owners,
        task=task or inferred,
        inputs=inputs,
        ignore=ignore,
        about=about,
        owner_names=own_names,
        validation=validation,
        test_split=test_split,
        **related,
    )


def _check_names(known_as: str, file: Path, arrays: Arrays) -> None:
    """Raise ConfigError unless the file holds the needed arrays, no others, and inputs and labels of each split."""
    names = set(arrays)
    if not names.issuperset(_NEEDED) or not names <= {*_NEEDED, *_OPTIONAL}:
        raise ConfigError(
            f"{known_as}: {file} holds the arrays {', '.join(sorted(arrays)) or 'none'}; it must hold "
            f"{', '.join(sorted(_NEEDED))} and may hold {', '.join(sorted(_OPTIONAL))}"
        )
    for pair in _PAIRS:
        if len(names.intersection(pair)) == 1:
            raise ConfigError(
                f"{known_as}: {file} holds {min(names.intersection(pair))} alone; give {' and '.join(pair)}"
            )


def _of_training(known_as: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """Return owners, groups and times of the training examples, checked, groups by number and times as numbers."""
    n = len(arrays["train_y"])
    for name in _OF_TRAINING:
        if name in arrays and arrays[name].shape != (n,):
            raise ConfigError(f"{known_as}: {name} has shape {arrays[name].shape}; must be {(n,)}")
    if "train_groups" in arrays and "train_times" in arrays:
        raise ConfigError(f"{known_as}: train_groups, train_times: give one of them")
    own: dict[str, npt.NDArray[Any]] = {}
    if "train_owners" in arrays:
        own["train_owners"] = arrays["train_owners"]
    if "train_groups" in arrays:
        own["train_groups"] = numbered(arrays["train_groups"])
    if "train_times" in arrays:
        values = arrays["train_times"]
        if values.dtype.kind == "M":
            values = values.astype("datetime64[us]").astype(np.float64) / 1e6
        own["train_times"] = as_times(
            values.tolist(), lambda row, what: ConfigError(f"{known_as}: train_times: example {row} {what}")
        )
    return own


def _held_out(
    known_as: str, y: npt.NDArray[Any], own: Arrays, share: float, names: Sequence[str]
) -> npt.NDArray[np.bool_]:
    """Return a mask of the training examples to test on. names: of owners by number, if there are any."""
    owners = own.get("train_owners")
    numbers = None if owners is None else numbered(owners)
    held = held_out_rows(
        share,
        len(y),
        [*([] if numbers is None else [numbers]), strata_of(y)],
        numbers,
        groups=own.get("train_groups"),
        times=own.get("train_times"),
        name_of=str if owners is None else lambda number: _name(np.unique(owners)[number], names),
    )
    both(held, known_as, share)
    return held


def _names(owners: npt.NDArray[Any] | None) -> tuple[str, ...]:
    """Return the names of owners that are numbers other than 0, 1, ...: these numbers, so that a client has its own."""
    if owners is None or owners.dtype.kind not in "iu" or owners.ndim != 1 or not len(owners) or _are_sparse(owners):
        return ()
    high = int(owners.max())
    return () if len(np.unique(owners)) == high + 1 else tuple(map(str, range(high + 1)))


def _name(owner: Any, names: Sequence[str]) -> str:
    return names[owner] if names else str(owner)


def _are_sparse(owners: npt.NDArray[Any] | None) -> bool:
    """Return whether owners are numbers that cannot serve as positions in a list of names: negative or very large."""
    if owners is None or owners.dtype.kind not in "iu" or owners.ndim != 1 or not len(owners):
        return False
    return bool(owners.min() < 0 or owners.max() >= _MOST_UNNAMED)


def _numbers_among(values: npt.NDArray[Any], owners: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
    """Return the position of each owner in the ascending `values`, -1 if it is none there."""
    if owners is None or owners.dtype.kind not in "iu":
        return owners
    at = np.searchsorted(values, owners).clip(max=len(values) - 1)
    return np.where(values[at] == owners, at, -1)

"""Data sets of the papers by name, from the Hugging Face hub: repository, columns and splits of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.cache_dir import data_folder
from fedtempo.data.dataset import Dataset, from_arrays, stacked
from fedtempo.data.hub import from_hub
from fedtempo.data.hub_columns import need_columns
from fedtempo.data.hub_library import hub_files, hub_splits
from fedtempo.data.idx import read_idx, read_idx_folder
from fedtempo.data.splitting import TEST_SHARE, check_share, drawn
from fedtempo.errors import ConfigError

REPOSITORIES = {
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "femnist": "flwrlabs/femnist",
    "ham10000": "marmal88/skin_cancer",
    "mnist": "ylecun/mnist",
}
"""Repository of each data set that the datasets library loads, by name."""

_EMNIST_FILES = [
    f"emnist-balanced-{split}-{what}-ubyte.gz" for split in ("train", "test") for what in ("images-idx3", "labels-idx1")
]


def mnist() -> Dataset:
    """MNIST (LeCun et al., 1998), `ylecun/mnist`: 60,000 and 10,000 digits, 28 by 28, in 10 classes."""
    return from_hub("mnist", REPOSITORIES["mnist"], None, "image", "label")


def cifar10() -> Dataset:
    """CIFAR-10 (Krizhevsky, 2009), `uoft-cs/cifar10`: 50,000 and 10,000 colour images, 32 by 32, 10 classes."""
    return from_hub("cifar10", REPOSITORIES["cifar10"], None, "img", "label")


def cifar100(labels: str = "fine") -> Dataset:
    """CIFAR-100 (Krizhevsky, 2009), `uoft-cs/cifar100`: 50,000 and 10,000 colour images, 32 by 32.

    labels: "fine" for 100 classes, "coarse" for 20.
    """
    if labels not in ("fine", "coarse"):
        raise ConfigError(f"labels = {labels!r}: must be 'fine' (100 classes) or 'coarse' (20)")
    return from_hub("cifar100", REPOSITORIES["cifar100"], None, "img", f"{labels}_label")


def emnist() -> Dataset:
    """EMNIST balanced (Cohen et al., 2017): 112,800 and 18,800 digits and letters, 28 by 28, in 47 classes.

    Read from the four IDX files in $FEDTEMPO_DATA/emnist, or in `Royc30ne/emnist-balanced` if that folder does not
    exist. The files have rows and columns exchanged; the images returned are upright, as in MNIST.
    """
    if (folder := data_folder("emnist")).is_dir():
        data = read_idx_folder(folder, "emnist")
    else:
        offline = f"put the four IDX files into {folder}; set $FEDTEMPO_DATA for another folder"
        x, y, more_x, more_y = hub_files("Royc30ne/emnist-balanced", _EMNIST_FILES, offline)
        arrays = (read_idx(x, 3), read_idx(y, 1), read_idx(more_x, 3), read_idx(more_y, 1))
        data = from_arrays("emnist", *arrays, task="classes")
    train_x, test_x = (np.ascontiguousarray(x.swapaxes(-1, -2)) for x in (data.train_x, data.test_x))
    return replace(data, train_x=train_x, test_x=test_x)


def femnist(digits: bool = False, writers: int | None = None, test_share: float = 0.1) -> Dataset:
    """FEMNIST (Caldas et al., 2018), `flwrlabs/femnist`: 814,000 digits and letters, 3,600 writers, 62 classes.

    The repository has one split: test_share (rounded) of each writer's images, drawn without replacement, are for
    testing. Writers are numbered in the order of their names. digits: only the ten digits. writers: only
    this number of writers, the first; all writers and classes take 2.6 GB.
    """
    repository = REPOSITORIES["femnist"]
    if not isinstance(digits, bool):
        raise ConfigError(f"digits = {digits!r}: must be true or false")
    if writers is not None and (not isinstance(writers, int) or isinstance(writers, bool) or writers < 1):
        raise ConfigError(f"writers = {writers!r}: must be a whole number, 1 or more")
    check_share(test_share)
    split = hub_splits(repository, needed=["train"])["train"]
    need_columns(repository, split.features, ("image", "writer_id", "character"))
    labels = np.asarray(list(split["character"]))
    names, writer = np.unique(np.asarray(list(split["writer_id"])), return_inverse=True)
    wanted = np.flatnonzero((labels < (10 if digits else 62)) & (writer < (len(names) if writers is None else writers)))
    labels, writer = labels[wanted], writer[wanted]
    test = drawn(writer, test_share, "femnist: train and test")
    x = stacked(f"hf:{repository}", split.select(wanted.tolist())["image"])
    return from_arrays(
        "femnist",
        x[~test],
        labels[~test],
        x[test],
        labels[test],
        10 if digits else 62,
        train_owners=writer[~test],
        test_owners=writer[test],
    )


def ham10000(side: int = 32, test_share: float = TEST_SHARE) -> Dataset:
    """HAM10000 (Tschandl et al., 2018), `marmal88/skin_cancer`: 10,015 pictures of skin lesions in 7 diagnoses.

    Pictures, 600 by 450, are scaled to `side` by `side` (bilinear). The repository's splits share pictures, so they are
    merged, each picture once; test_share (rounded) of the lesions of each diagnosis, with all their pictures, are for
    testing. Classes are the diagnoses in alphabetical order.
    """
    repository = REPOSITORIES["ham10000"]
    if not isinstance(side, int) or isinstance(side, bool) or side < 1:
        raise ConfigError(f"side = {side!r}: must be a whole number of pixels, 1 or more")
    check_share(test_share)
    pictures, lesions, diagnoses = [], [], []
    seen: set[str] = set()
    for split in hub_splits(repository, needed=["train"]).values():
        need_columns(repository, split.features, ("image", "image_id", "lesion_id", "dx"))
        rows = {name: row for row, name in enumerate(split["image_id"]) if name not in seen}
        seen |= rows.keys()
        fresh = split.select(list(rows.values()))
        pictures += [_scaled(picture, side) for picture in fresh["image"]]
        lesions += list(fresh["lesion_id"])
        diagnoses += list(fresh["dx"])
    x = stacked(f"hf:{repository}", pictures)
    _, labels = np.unique(np.asarray(diagnoses), return_inverse=True)
    _, first, lesion = np.unique(np.asarray(lesions), return_index=True, return_inverse=True)
    test = drawn(labels[first], test_share, "ham10000: train and test")[lesion]
    return from_arrays("ham10000", x[~test], labels[~test], x[test], labels[test])


def _scaled(picture: Any, side: int) -> npt.NDArray[np.uint8]:
    """Return a PIL picture as bytes, shape (side, side, 3)."""
    from PIL.Image import Resampling  # comes with the library that the picture is from

    return np.asarray(picture.convert("RGB").resize((side, side), Resampling.BILINEAR))

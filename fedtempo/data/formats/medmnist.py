"""The .npz files of MedMNIST (Yang et al., 2023): train_images, train_labels, val_images, ... in other shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]

_NEEDED = {"train_images", "train_labels", "test_images", "test_labels"}
_OPTIONAL = {"val_images", "val_labels"}
_SPLITS = {"train": "train", "val": "validation", "test": "test"}


def is_medmnist(content: Arrays) -> bool:
    """Return whether an archive holds the arrays of a MedMNIST file, and no others."""
    return content.keys() == _NEEDED or content.keys() == _NEEDED | _OPTIONAL


class Converted(NamedTuple):
    """Arrays under the names of `npz:`, a description, and "multilabel" if each image has several labels."""

    arrays: Arrays
    about: str
    task: str | None


def from_medmnist(content: Arrays) -> Converted:
    """Return the arrays of a MedMNIST file in the shapes of `npz:`.

    Images (n, height, width, 3) become (n, 3, height, width); volumes (n, depth, height, width) get one channel. Labels
    (n, 1) become (n,). Raises ValueError for arrays of other shapes.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    about = ""
    for split, name in _SPLITS.items():
        if f"{split}_images" in content:
            images, labels = content[f"{split}_images"], content[f"{split}_labels"]
            arrays[f"{name}_x"], about = _images(f"{split}_images", images)
            arrays[f"{name}_y"] = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    several = arrays["train_y"].ndim == 2 and bool(np.isin(arrays["train_y"], (0, 1)).all())
    return Converted(arrays, about, "multilabel" if several else None)


def _images(name: str, images: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str]:
    shape = " x ".join(map(str, images.shape[1:4]))
    if images.dtype != np.uint8 or images.ndim not in (3, 4, 5):
        raise ValueError(f"{name} is {images.dtype} of shape {images.shape}; must be bytes of 3 to 5 dimensions")
    if images.ndim == 3:
        return images[:, np.newaxis], f"MedMNIST: grey images of {shape}, bytes divided by 255"
    if images.shape[-1] == 3:
        flat = " x ".join(map(str, images.shape[1:-1]))
        kind = "images" if images.ndim == 4 else "volumes"
        return np.moveaxis(images, -1, 1), f"MedMNIST: colour {kind} of {flat}, bytes divided by 255"
    if images.ndim == 5:
        raise ValueError(f"{name} has shape {images.shape}; the last of 5 dimensions must be 3 colours")
    return images[:, np.newaxis], f"MedMNIST: volumes of {shape}, bytes divided by 255"

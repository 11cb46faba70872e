"""Data sets of the Hugging Face hub, through its `datasets` library. The only source that uses the network."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.errors import ConfigError

_FEATURES = ("Image", "Array2D", "Array3D", "Sequence", "List", "LargeList")


def load_hub(name: str, subset: str | None = None, feature: str | None = None, label: str | None = None) -> Dataset:
    """The data set `name` of the hub, or of a local folder that `datasets` reads; it must have splits train and test.

    subset: its configuration, where it has several. feature, label: columns; found by their type without them: one of
    images, arrays or sequences, and one of class labels or else integers.

    Raises ConfigError where the library is missing, it cannot load the data set, or the columns cannot be told.
    """
    return from_hub(f"hf:{name}", name, subset, feature, label)


def from_hub(known_as: str, name: str, subset: str | None, feature: str | None, label: str | None) -> Dataset:
    """As `load_hub`; known_as: what the data set is called from then on."""
    splits = hub_splits(name, subset, needed=("train", "test"))
    train, test = splits["train"], splits["test"]
    features: Mapping[str, Any] = train.features
    feature = feature or _only(name, "feature", [c for c, kind in features.items() if _kind(kind) in _FEATURES])
    labels = [column for column, kind in features.items() if _kind(kind) == "ClassLabel"]
    integers = [c for c, kind in features.items() if _kind(kind) == "Value" and str(kind.dtype).startswith("int")]
    label = label or _only(name, "label", labels or integers)
    need_columns(name, features, (feature, label))
    return from_arrays(
        known_as,
        stacked(name, train[feature]),
        np.asarray(list(train[label])),
        stacked(name, test[feature]),
        np.asarray(list(test[label])),
        getattr(features[label], "num_classes", None),
    )


def hub_splits(name: str, subset: str | None = None, *, needed: Iterable[str]) -> Mapping[str, Any]:
    """The splits of a data set as the library has them. Raises ConfigError where one is missing."""
    splits: Mapping[str, Any] = _asked(name, lambda library: library.load_dataset(name, subset))
    for split in needed:
        if split not in splits:
            raise ConfigError(f"hf:{name}: has no split {split!r}, only {', '.join(map(str, splits))}")
    return splits


def hub_files(name: str, files: Iterable[str]) -> list[Path]:
    """Files of a repository as they are, where the library keeps them."""
    urls = [f"hf://datasets/{name}/{file}" for file in files]
    return [Path(path) for path in _asked(name, lambda library: library.DownloadManager().download(urls))]


def need_columns(name: str, features: Iterable[str], needed: Iterable[str]) -> None:
    """Raises ConfigError for a column that is not there."""
    for column in needed:
        if column not in features:
            raise ConfigError(f"hf:{name}: has no column {column!r}, only {', '.join(features)}")


def stacked(name: str, column: Iterable[Any]) -> npt.NDArray[Any]:
    """A column as one array; images with channels come as (height, width, channels) and leave channels first."""
    rows = [np.asarray(row) for row in column]
    shapes = {row.shape for row in rows}
    if len(shapes) != 1:
        raise ConfigError(f"hf:{name}: examples have {len(shapes)} different shapes; they must have one")
    values = np.stack(rows)
    is_colour = values.dtype == np.uint8 and values.ndim == 4
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2)) if is_colour else values


def _asked(name: str, ask: Callable[[Any], Any]) -> Any:
    """What the library answers. Raises ConfigError where it is missing or fails."""
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise ConfigError(f"hf:{name}: needs the datasets library: pip install 'fedtempo[hf]'") from error
    try:
        return ask(library)
    except Exception as error:  # errors of the library, the network and files
        reason = " ".join(str(error).split())
        raise ConfigError(f"hf:{name}: could not be loaded: {type(error).__name__}: {reason}") from error


def _kind(feature: object) -> str:
    """Name of a column's type; a plain Python list stands for a sequence."""
    return "List" if isinstance(feature, list) else type(feature).__name__


def _only(name: str, option: str, columns: list[str]) -> str:
    if len(columns) != 1:
        found = f"columns {', '.join(columns)} could each be it" if columns else "no column looks like one"
        raise ConfigError(f"hf:{name}: {found}; name it with {option} = ...")
    return columns[0]

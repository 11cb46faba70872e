"""FedScale's client-data mappings (Lai et al., 2022): a CSV of samples with their clients, beside the samples."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.data.audio import SUFFIXES as SOUNDS
from fedtempo.data.audio import Spectrograms, read_sounds
from fedtempo.data.dataset import Dataset
from fedtempo.data.formats.by_client import Examples, check_clients, from_clients
from fedtempo.data.images import SUFFIXES as IMAGES
from fedtempo.data.images import inside, read_images
from fedtempo.data.labels import must_be_trained
from fedtempo.data.pictures import check_form
from fedtempo.data.splitting import TEST_SHARE, check_share
from fedtempo.data.validation import NAMES as VALIDATION_NAMES
from fedtempo.data.validation import check_test_split
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, natural
from fedtempo.parts.text_files import read_csv

_MAPPINGS = "client_data_mapping"
_NEEDED = ("client_id", "sample_path")


class _Sample(NamedTuple):
    """A line of a mapping. label: the class, as text; name: of the class."""

    client: str
    path: str
    label: str
    name: str


def fedscale(
    path: str,
    clients: int | None = None,
    side: int | None = None,
    channels: int | None = None,
    rate: int | None = None,
    seconds: float | None = None,
    mels: int | None = None,
    test_share: float = TEST_SHARE,
    test_split: str | None = None,
) -> Dataset:
    """Images or WAV files with FedScale's mappings `client_data_mapping/train.csv`, and perhaps test.csv and val.csv.

    The columns of a mapping are client_id, sample_path, and label_id (and label_name) or, last, the class. A path is
    relative to the folder, or to its subfolder train, test or data. Clients of each mapping are numbered apart, so test
    examples belong to no client; without test.csv, or with test_split = "train", test_share of the examples of each
    client and class are for testing; test_split = "validation" tests on the samples of val.csv. clients: use only this
    number of clients of train.csv, the first in natural order (default: all). side, channels: as for `folder:`. rate,
    seconds, mels: as for `audio:`.

    Raises ConfigError naming the file and the line that cannot be used.
    """
    check_share(test_share)
    check_form(side, channels)
    check_clients(clients)
    check_test_split(test_split)
    form = Spectrograms(rate, seconds, mels=mels)
    root = Path(path).expanduser()
    splits = {"train": _mapping(root / _MAPPINGS / "train.csv")}
    if clients is not None:
        chosen = set(islice(sorted({sample.client for sample in splits["train"]}, key=natural), clients))
        splits["train"] = [sample for sample in splits["train"] if sample.client in chosen]
    for split in (*(["test"] if test_split != "train" else []), *VALIDATION_NAMES):
        if (file := root / _MAPPINGS / f"{split}.csv").is_file():
            splits[split] = _mapping(file)
    kinds, names = _classes(samples := [sample for split in splits.values() for sample in split])
    number = {kind: i for i, kind in enumerate(kinds)}
    y = np.array([number[sample.label] for sample in samples], dtype=np.int64)
    ends = np.cumsum([len(rows) for rows in splits.values()])[:-1]
    try:
        must_be_trained(y[: len(splits["train"])], y, names)
    except ValueError as error:
        raise ConfigError(f"{root}: {error}") from None
    files = [file for split, rows in splits.items() for file in _files(root, split, rows)]
    x, about = _read(root, files, side, channels, form)
    parts = {
        split: Examples(x_part, y_part, [sample.client for sample in rows])
        for (split, rows), x_part, y_part in zip(splits.items(), np.split(x, ends), np.split(y, ends))
    }
    return from_clients(
        f"fedscale:{path}",
        parts["train"],
        parts.get("test"),
        test_share,
        validation=next((parts[name] for name in VALIDATION_NAMES if name in parts), None),
        test_split=test_split,
        about=f"FedScale: {about}, classes {listed(names)}",
        same_clients="test" not in splits,
        n_classes=len(kinds),
        class_names=names,
    )


def _mapping(file: Path) -> list[_Sample]:
    """Return the samples of a mapping. Raises ConfigError naming a line that is none."""
    samples = []
    try:
        reader = read_csv(file, skipinitialspace=True)
        columns = list(reader.fieldnames or ())
        if len(columns) < 3 or not set(_NEEDED) <= set(columns):
            raise ConfigError(
                f"{file}: has the columns {listed(columns) or 'none'}; must have client_id, sample_path, label_id"
            )
        label = "label_id" if "label_id" in columns else columns[-1]
        name = "label_name" if "label_name" in columns else label
        for row in reader:
            sample = _Sample(row["client_id"], row["sample_path"], row[label], row[name])
            if not all(sample) or None in row:
                raise ConfigError(f"{file} line {reader.line_num}: must have a value in each of {listed(columns)}")
            samples.append(sample)
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not samples:
        raise ConfigError(f"{file}: no samples")
    return samples


def _classes(samples: Sequence[_Sample]) -> tuple[list[str], tuple[str, ...]]:
    """Return the classes of all samples in natural order, and their names, unless one class has several names."""
    names: dict[str, set[str]] = {}
    for sample in samples:
        names.setdefault(sample.label, set()).add(sample.name)
    kinds = sorted(names, key=natural)
    single = [next(iter(names[kind])) for kind in kinds if len(names[kind]) == 1]
    return kinds, tuple(single if len(set(single)) == len(kinds) else kinds)


def _files(root: Path, split: str, samples: Sequence[_Sample]) -> list[Path]:
    """Return the files of samples. Raises ConfigError naming one that does not exist or lies outside of the folder."""
    bases = [root, root / split, root / "data" / split, root / "data"]
    base = next((base for base in bases if inside(base, samples[0].path).is_file()), root)
    files = [inside(base, sample.path) for sample in samples]
    missing = next((file for file in files if not file.is_file()), None)
    if missing is not None:
        raise ConfigError(f"{missing}: no such file, but {_MAPPINGS}/{split}.csv names it")
    return files


def _read(
    root: Path, files: Sequence[Path], side: int | None, channels: int | None, form: Spectrograms
) -> tuple[npt.NDArray[Any], str]:
    suffixes = {file.suffix.lower() for file in files}
    others = (
        {"side": side, "channels": channels}
        if suffixes <= SOUNDS
        else {"rate": form.rate, "seconds": form.seconds, "mels": form.mels}
    )
    for option, value in others.items():
        if value is not None:
            kinds = ("images", "sounds") if suffixes <= SOUNDS else ("sounds", "images")
            raise ConfigError(f"{option} = {value!r}: applies to {kinds[0]}, but samples are {kinds[1]}; remove it")
    if suffixes <= IMAGES:
        return read_images(files, side, channels)
    if suffixes <= SOUNDS:
        return read_sounds(files, form)
    raise ConfigError(f"{root}: samples are files {listed(sorted(suffixes))}; must be all images, or all WAV files")

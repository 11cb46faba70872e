"""The papers' data sets by name: columns, splits and classes, with small fakes of the hub's schemas."""

from __future__ import annotations

import gzip
import struct
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedtempo.data.dataset import Dataset
from fedtempo.data.partitions import ByOwner
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError

Columns = dict[str, list[Any]]


class Kind:
    """A column's type with the attributes of the library's types that are used."""

    def __init__(self, n_classes: int | None = None) -> None:
        if n_classes is not None:
            self.num_classes = n_classes


class Split:
    def __init__(self, columns: Columns, classes: dict[str, int]) -> None:
        self.columns, self.classes = columns, classes
        self.features = {name: Kind(classes.get(name)) for name in columns}

    def __getitem__(self, column: str) -> list[Any]:
        return self.columns[column]

    def select(self, rows: list[int]) -> Split:
        return Split({name: [values[row] for row in rows] for name, values in self.columns.items()}, self.classes)


def fake_hub(monkeypatch: pytest.MonkeyPatch, name: str, splits: dict[str, Columns], **classes: int) -> None:
    """Install a fake `datasets` library that holds one data set."""

    def load_dataset(requested: str, subset: str | None) -> dict[str, Split]:
        assert (requested, subset) == (name, None)
        return {split: Split(columns, classes) for split, columns in splits.items()}

    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)


def gray(side: int, *levels: int) -> list[np.ndarray]:
    return [np.full((side, side), level, dtype=np.uint8) for level in levels]


def colour(side: int, *levels: int) -> list[np.ndarray]:
    return [np.stack([image, 0 * image, 0 * image], axis=-1) for image in gray(side, *levels)]


def first_pixels(data: Dataset) -> list[int]:
    return [round(255 * value) for value in data.train_x.reshape(len(data.train_x), -1)[:, 0].tolist()]


def test_mnist_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"image": gray(28, 0, 255, 51), "label": [7, 0, 9]}
    fake_hub(monkeypatch, "ylecun/mnist", {"train": columns, "test": columns}, label=10)
    data = load("mnist")
    assert (data.name, data.n_classes, data.train_x.shape) == ("mnist", 10, (3, 1, 28, 28))
    assert (first_pixels(data), data.train_y.tolist()) == ([0, 255, 51], [7, 0, 9])


def test_cifar10_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"img": colour(32, 10, 20), "label": [3, 8]}
    fake_hub(monkeypatch, "uoft-cs/cifar10", {"train": columns, "test": columns}, label=10)
    data = load("cifar10")
    assert (data.n_classes, data.train_x.shape, data.test_y.tolist()) == (10, (2, 3, 32, 32), [3, 8])
    assert (first_pixels(data), data.train_x[:, 1:].max()) == ([10, 20], 0.0)


def test_cifar100_has_fine_and_coarse_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"img": colour(32, 1, 2), "fine_label": [99, 0], "coarse_label": [19, 4]}
    fake_hub(monkeypatch, "uoft-cs/cifar100", {"train": columns, "test": columns}, fine_label=100, coarse_label=20)
    fine, coarse = load("cifar100"), load("cifar100", labels="coarse")
    assert (fine.n_classes, fine.train_y.tolist()) == (100, [99, 0])
    assert (coarse.n_classes, coarse.train_y.tolist()) == (20, [19, 4])
    with pytest.raises(ConfigError, match="labels = 'middle': must be 'fine'"):
        load("cifar100", labels="middle")


def idx(array: np.ndarray) -> bytes:
    return gzip.compress(struct.pack(f">{1 + array.ndim}I", 0x800 | array.ndim, *array.shape) + array.tobytes())


@pytest.fixture
def emnist_files(tmp_path: Path) -> Path:
    folder = tmp_path / "emnist"
    folder.mkdir()
    images = np.arange(2 * 28 * 28).reshape(2, 28, 28).astype(np.uint8)
    for split in ("train", "test"):
        (folder / f"emnist-balanced-{split}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (folder / f"emnist-balanced-{split}-labels-idx1-ubyte.gz").write_bytes(idx(np.array([46, 0], dtype=np.uint8)))
    return folder


def test_emnist_from_a_folder_equals_emnist_from_the_hub_and_is_upright(
    emnist_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDTEMPO_DATA", str(emnist_files.parent))
    data = load("emnist")
    assert (data.n_classes, data.train_x.shape, data.train_y.tolist()) == (47, (2, 1, 28, 28), [46, 0])
    assert data.train_x.flags.c_contiguous
    assert [round(255 * value) for value in data.train_x[0, 0, :3, 0].tolist()] == [0, 1, 2]

    class DownloadManager:
        def download(self, urls: list[str]) -> list[str]:
            assert all(url.startswith("hf://datasets/Royc30ne/emnist-balanced/") for url in urls)
            return [str(emnist_files / url.rpartition("/")[2]) for url in urls]

    module = types.ModuleType("datasets")
    module.DownloadManager = DownloadManager  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.delenv("FEDTEMPO_DATA")
    assert load("emnist").sha256 == data.sha256


def test_femnist_is_split_by_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    writers = np.repeat(["f0002_01", "f0000_14", "f0001_41"], [50, 30, 20])[rng.permutation(100)].tolist()
    columns = {
        "image": [np.full((28, 28), number, dtype=np.uint8) for number in range(100)],
        "writer_id": writers,
        "hsf_id": [0] * 100,
        "character": [number % 62 for number in range(100)],
    }
    fake_hub(monkeypatch, "flwrlabs/femnist", {"train": columns}, character=62)
    data = load("femnist")
    assert data.train_owners is not None
    assert (data.n_classes, len(data.train_y), len(data.test_y)) == (62, 90, 10)
    assert np.bincount(data.train_owners).tolist() == [27, 18, 45]
    for pixel, label, owner in zip(first_pixels(data), data.train_y, data.train_owners):
        assert label == pixel % 62
        assert sorted(set(writers))[owner] == writers[pixel]
    assert load("femnist").sha256 == data.sha256
    parts = ByOwner().assign(data.train_y, 62, 3, None, rng, data.train_owners)
    assert [len(part) for part in parts] == [27, 18, 45]

    digits = load("femnist", digits=True, writers=2, test_share=0.4)
    assert digits.n_classes == 10
    wanted = [n for n in range(100) if n % 62 < 10 and writers[n] != "f0002_01"]
    assert len(digits.train_y) + len(digits.test_y) == len(wanted)
    assert set(first_pixels(digits)) <= set(wanted)


@pytest.mark.parametrize("options", [{"digits": 1}, {"writers": 0}, {"writers": True}, {"test_share": 1}])
def test_invalid_options_of_femnist_are_rejected(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=f"{name} = "):
        load("femnist", **options)


def test_ham10000_takes_each_picture_once_and_keeps_lesions_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def columns(pictures: list[int]) -> Columns:
        return {
            "image": [Image.new("RGB", (60, 45), (picture, 0, 0)) for picture in pictures],
            "image_id": [f"ISIC_{picture}" for picture in pictures],
            "lesion_id": [f"HAM_{picture // 2}" for picture in pictures],
            "dx": ["nevus" if picture < 160 else "melanoma" for picture in pictures],
        }

    splits = {"train": columns(list(range(180))), "validation": columns(list(range(100, 200))), "test": columns([3, 4])}
    fake_hub(monkeypatch, "marmal88/skin_cancer", splits)
    data = load("ham10000", side=16, test_share=0.25)
    assert (data.n_classes, data.train_x.shape) == (2, (150, 3, 16, 16))
    train, test = first_pixels(data), [round(255 * value) for value in data.test_x[:, 0, 0, 0].tolist()]
    assert sorted(train + test) == list(range(200))
    assert {picture // 2 for picture in train}.isdisjoint({picture // 2 for picture in test})
    assert [label == 0 for label in data.train_y] == [picture >= 160 for picture in train]  # in alphabetical order
    assert np.bincount(data.test_y).tolist() == [10, 40]
    with pytest.raises(ConfigError, match="side = 0"):
        load("ham10000", side=0)


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100", "emnist", "femnist", "ham10000"])
def test_without_the_library_or_the_network_the_error_is_a_single_line(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDTEMPO_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"hf:\S+: needs the datasets library: pip install 'fedtempo\[hf\]'"):
        load(name)

    def offline(*_: Any) -> Any:
        raise ConnectionError("no route\nto the hub")

    module = types.ModuleType("datasets")
    module.load_dataset = offline  # type: ignore[attr-defined]
    module.DownloadManager = offline  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    way_out = (
        "put the four IDX files into" if name == "emnist" else r"run `fedtempo fetch hf:\S+/\S+` where there is one"
    )
    with pytest.raises(ConfigError, match=rf"^hf:\S+: not in the cache .*\(no route to the hub\); {way_out}[^\n]*$"):
        load(name)


@pytest.mark.parametrize(("name", "column"), [("femnist", "image"), ("ham10000", "image"), ("mnist", "label")])
def test_a_missing_column_is_named(name: str, column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = {"femnist": "flwrlabs/femnist", "ham10000": "marmal88/skin_cancer", "mnist": "ylecun/mnist"}[name]
    columns: Columns = {"other": [], "image": []} if column != "image" else {"other": []}
    fake_hub(monkeypatch, repository, {"train": columns, "test": columns})
    with pytest.raises(ConfigError, match=f"no column '{column}'; its columns are other"):
        load(name)

"""The .npz files of MedMNIST."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedtempo.data.sources import load
from fedtempo.errors import ConfigError


def written(tmp_path: Path, image: np.ndarray, label: list[int]) -> str:
    """Write a file whose images are 0, 1, 2, ... times `image`."""
    arrays = {}
    for split, n in (("train", 4), ("val", 2), ("test", 3)):
        arrays[f"{split}_images"] = np.stack([(i * image).astype(np.uint8) for i in range(n)])
        arrays[f"{split}_labels"] = np.array([np.roll(label, i) for i in range(n)], np.uint8)
    np.savez(tmp_path / "mnist.npz", **arrays)
    return f"npz:{tmp_path / 'mnist.npz'}"


def test_grey_images_get_a_channel_and_labels_lose_their_axis(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "breastmnist.npz",
        train_images=np.full((4, 3, 2), 51, np.uint8),
        train_labels=np.array([[0], [1], [1], [0]], np.uint8),
        test_images=np.full((2, 3, 2), 255, np.uint8),
        test_labels=np.array([[1], [0]], np.uint8),
    )
    data = load(f"npz:{tmp_path / 'breastmnist.npz'}")
    assert data.train_x.shape == (4, 1, 3, 2)
    assert data.train_x == pytest.approx(0.2)
    assert (data.train_y.tolist(), data.test_y.tolist(), data.n_classes) == ([0, 1, 1, 0], [1, 0], 2)
    assert data.about.startswith("MedMNIST: grey images of 3 x 2, bytes divided by 255")
    assert load(f"folder:{tmp_path}").sha256 == data.sha256  # the only .npz file of the folder


def test_colours_come_first_and_several_labels_are_multilabel(tmp_path: Path) -> None:
    pixel = np.broadcast_to(np.array([1, 2, 3]), (4, 5, 3))
    data = load(written(tmp_path, pixel, [1, 1, 0]))
    assert data.train_x.shape == (4, 3, 4, 5)
    assert np.round(255 * data.train_x[3, :, 0, 0]).tolist() == [3, 6, 9]
    assert data.task == "multilabel"
    assert data.validation_x is not None
    assert (data.validation_x.shape, len(data.test_y)) == ((2, 3, 4, 5), 3)
    assert len(load(data.name, test_split="validation").test_y) == 2
    assert data.train_y.tolist() == [[True, True, False], [False, True, True], [True, False, True], [True, True, False]]


def test_volumes_get_a_channel_unless_they_are_in_colour(tmp_path: Path) -> None:
    data = load(written(tmp_path, np.ones((2, 5, 4)), [0, 1]))
    assert data.train_x.shape == (4, 1, 2, 5, 4)
    assert "volumes of 2 x 5 x 4" in data.about
    colour = load(written(tmp_path, np.ones((2, 5, 4, 3)), [0, 1]))
    assert colour.train_x.shape == (4, 3, 2, 5, 4)
    arrays = {f"{split}_images": np.zeros((2, 3, 3)) for split in ("train", "test")}
    labels = {f"{split}_labels": np.array([[0], [1]]) for split in ("train", "test")}
    np.savez(tmp_path / "bad.npz", **arrays, **labels)
    with pytest.raises(ConfigError, match="train_images is float64 of shape"):
        load(f"npz:{tmp_path / 'bad.npz'}")

"""Folders of images: classes, clients, splits, and files that do not belong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedtempo.data.sources import load
from fedtempo.errors import ConfigError


def put(root: Path, name: str, value: int, size: tuple[int, int] = (4, 3), mode: str = "L") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = value if mode == "L" else (value, 0, 255)
    Image.new(mode, size, colour).save(path)
    return path


def test_each_folder_is_a_class(tmp_path: Path) -> None:
    for i in range(10):
        put(tmp_path, f"cat/{i}.png", 10 + i)
        put(tmp_path, f"dog/{i}.png", 100 + i)
    put(tmp_path, ".thumbnails/0.png", 1)
    put(tmp_path, "cat/._0.png", 1)
    data = load(f"folder:{tmp_path}")
    assert data.train_x.shape == (16, 1, 3, 4)
    assert data.class_names == ("cat", "dog")
    assert data.train_owners is None
    assert np.bincount(data.test_y).tolist() == [2, 2]
    assert ((data.train_x[:, 0, 0, 0] * 255 >= 99.5) == (data.train_y == 1)).all()
    seen = np.round(255 * np.concatenate([data.train_x, data.test_x])[:, 0, 0, 0]).astype(int)
    assert sorted(seen.tolist()) == [*range(10, 20), *range(100, 110)]


def test_outer_folders_are_clients(tmp_path: Path) -> None:
    for client, size in (("anna", 8), ("bob", 16)):
        for i in range(size):
            put(tmp_path, f"{client}/{'ab'[i % 2]}/{i}.png", i, mode="RGB")
    data = load(f"folder:{tmp_path}", test_share=0.25)
    assert data.train_x.shape == (18, 3, 3, 4)
    assert data.owner_names == ("anna", "bob")
    assert np.bincount(data.train_owners).tolist() == [6, 12]
    assert (data.train_x[:, 2] == 1.0).all()
    assert "a folder for each of 2 clients" in data.about


def test_classes_that_only_the_test_images_have_are_a_warning(tmp_path: Path) -> None:
    for i in range(4):
        put(tmp_path, f"anna/{'aaab'[i]}/{i}.png", i)
    assert load(f"folder:{tmp_path}", test_share=0.75).warnings == (
        "classes with test examples but no training examples: b (1)",
    )
    for i in range(4, 8):
        put(tmp_path, f"anna/b/{i}.png", i)
    assert load(f"folder:{tmp_path}", test_share=0.25).warnings == ()


def test_train_and_test_folders_are_kept_as_given(tmp_path: Path) -> None:
    for i in range(3):
        put(tmp_path, f"train/anna/a/{i}.png", i)
        put(tmp_path, f"train/bob/b/{i}.png", 50 + i)
    put(tmp_path, "test/a/1.png", 200)
    put(tmp_path, "test/b/1.png", 201)
    data = load(f"folder:{tmp_path}")
    assert data.owner_names == ("anna", "bob")
    assert data.train_owners is not None
    assert data.train_owners.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.round(255 * data.test_x[:, 0, 0, 0]).tolist() == [200, 201]
    assert data.test_y.tolist() == [0, 1]


def test_classes_found_only_in_the_test_folder_are_named(tmp_path: Path) -> None:
    for name in ("train/a/1.png", "train/b/1.png", "test/a/1.png", "test/B/1.png"):
        put(tmp_path, name, 1)
    with pytest.raises(
        ConfigError, match=r"test labels not among the training labels: 'B' \(1\); known labels: 'a', 'b'"
    ):
        load(f"folder:{tmp_path}")


def test_clients_are_in_natural_order(tmp_path: Path) -> None:
    for client in range(1, 12):
        for i in range(5):
            put(tmp_path, f"site{client}/a/{i}.png", client)
    data = load(f"folder:{tmp_path}")
    assert data.owner_names == tuple(f"site{client}" for client in range(1, 12))
    assert data.train_owners is not None
    assert np.round(255 * data.train_x[data.train_owners == 9, 0, 0, 0]).tolist() == [10] * 4


def test_images_of_unequal_size_need_a_side(tmp_path: Path) -> None:
    for i in range(6):
        put(tmp_path, f"a/{i}.png", 128)
    odd = put(tmp_path, "b/odd.png", 128, (5, 5))
    with pytest.raises(ConfigError, match=rf"{odd}: is 5 x 5, .* is 4 x 3; set side"):
        load(f"folder:{tmp_path}")
    data = load(f"folder:{tmp_path}", side=2)
    assert data.train_x.shape[1:] == (1, 2, 2)
    assert data.train_x == pytest.approx(128 / 255, abs=1e-6)


def test_misplaced_and_unreadable_files_are_named(tmp_path: Path) -> None:
    put(tmp_path, "a/1.png", 1)
    for number in range(3, 9):
        put(tmp_path, f"a/{number}.png", 1)
    deep = put(tmp_path, "a/b/2.png", 1)
    with pytest.raises(ConfigError, match=rf"{deep}: not at the same depth as"):
        load(f"folder:{tmp_path}")
    deep.unlink()
    loose = put(tmp_path, "loose.png", 1)
    with pytest.raises(ConfigError, match=rf"{loose}: images must lie in <class>/ or <client>/<class>/"):
        load(f"folder:{tmp_path}")
    loose.unlink()
    damaged = tmp_path / "a" / "2.png"
    damaged.write_bytes((tmp_path / "a" / "1.png").read_bytes()[:40])
    with pytest.raises(ConfigError, match=rf"{damaged}: cannot be read as an image"):
        load(f"folder:{tmp_path}")
    damaged.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")  # a program, judging by its content
    with pytest.raises(ConfigError, match=rf"{damaged}: cannot be read as an image"):
        load(f"folder:{tmp_path}")
    with pytest.raises(ConfigError, match="no such folder"):
        load(f"folder:{tmp_path / 'none'}")
    with pytest.raises(ConfigError, match="side = 0"):
        load(f"folder:{tmp_path}", side=0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"no images .* and no \.npz file in it"):
        load(f"folder:{tmp_path / 'empty'}")


@pytest.mark.parametrize("name", ["validation", "val"])
def test_a_validation_folder_is_no_client(name: str, tmp_path: Path) -> None:
    for split, start, count in (("train", 0, 10), (name, 100, 2), ("test", 200, 3)):
        for i in range(count):
            put(tmp_path, f"{split}/a/{i}.png", start + i)
            put(tmp_path, f"{split}/b/{i}.png", start + 20 + i)
    source = f"folder:{tmp_path}"

    def values(x: np.ndarray) -> list[int]:
        return sorted(np.round(255 * x[:, 0, 0, 0]).astype(int).tolist())

    data = load(source)
    assert data.train_owners is None
    assert data.validation_x is not None
    assert values(data.validation_x) == [100, 101, 120, 121]
    assert values(data.test_x) == [200, 201, 202, 220, 221, 222]
    data = load(source, test_split="validation")
    assert values(data.test_x) == [100, 101, 120, 121]
    assert data.validation_x is None
    data = load(source, test_split="train")
    assert (len(data.test_y), len(data.train_y)) == (4, 16)
    assert max(values(data.test_x)) < 30
    for file in (tmp_path / "test").rglob("*.png"):
        file.unlink()
    data = load(source)  # test images are then held out of the training images
    assert (len(data.test_y), len(data.train_y)) == (4, 16)
    with pytest.raises(ConfigError, match="test_split = 'dev'"):
        load(source, test_split="dev")
    put(tmp_path, f"{name}/c/0.png", 1)
    with pytest.raises(ConfigError, match=r"validation: test labels not among the training labels: 'c' \(1\)"):
        load(source)


def test_folders_without_training_images_are_rejected(tmp_path: Path) -> None:
    put(tmp_path, "test/a/0.png", 1)
    with pytest.raises(ConfigError, match=r"no training images; put them into .*train"):
        load(f"folder:{tmp_path}")

"""Pictures of any mode and depth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedtempo.data.sources import load
from fedtempo.errors import ConfigError


def saved(root: Path, name: str, image: Image.Image) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path


def test_grey_of_16_bits_is_divided_by_65535(tmp_path: Path) -> None:
    for i, kind in enumerate("ab"):
        for number in range(5):
            saved(tmp_path, f"{kind}/{number}.png", Image.fromarray(np.full((2, 3), 13107 * (1 + i), np.uint16)))
    data = load(f"folder:{tmp_path}")
    assert data.train_x.shape == (8, 1, 2, 3)
    assert sorted(set(data.train_x.ravel().tolist())) == pytest.approx([0.2, 0.4])
    assert data.about.startswith("grey images of 2 x 3, 16 bits divided by 65535, classes by folder: a, b")
    saved(tmp_path, "a/0.png", Image.new("RGB", (3, 2), (255, 0, 51)))
    colours = load(f"folder:{tmp_path}", side=2)
    values = np.concatenate([colours.train_x, colours.test_x])
    assert values.shape == (10, 3, 2, 2)
    assert {tuple(np.round(65535 * x[:, 0, 0]).tolist()) for x in values} == {
        (13107, 13107, 13107),
        (26214, 26214, 26214),
        (65535, 0, 13107),
    }


@pytest.mark.parametrize("suffix", ["png", "pgm", "tif"])
def test_16_bits_are_read_from_every_format_that_has_them(tmp_path: Path, suffix: str) -> None:
    for number in range(4):
        saved(tmp_path, f"a/{number}.{suffix}", Image.fromarray(np.full((2, 2), 65535 - number, np.uint16)))
    data = load(f"folder:{tmp_path}", test_share=0.5)
    values = np.concatenate([data.train_x, data.test_x])[:, 0, 0, 0]
    assert sorted(np.round(65535 * values).tolist()) == [65532, 65533, 65534, 65535]


def test_transparency_is_said_to_be_ignored_or_kept_as_a_channel(tmp_path: Path) -> None:
    for number in range(5):
        saved(tmp_path, f"a/{number}.png", Image.new("LA", (2, 2), (102, 0)))
    grey = load(f"folder:{tmp_path}")
    assert grey.train_x.shape[1] == 1
    assert "grey images of 2 x 2, transparency of 5 ignored" in grey.about
    for number in range(4):
        saved(tmp_path, f"a/{number}.png", Image.new("RGBA", (2, 2), (255, 0, 0, 51)))
    data = load(f"folder:{tmp_path}", test_share=0.4)
    assert data.train_x.shape[1] == 3
    assert "colour images of 2 x 2, transparency of 5 ignored (channels = 4 keeps it)" in data.about
    four = load(f"folder:{tmp_path}", test_share=0.4, channels=4)
    seen = {tuple(np.round(255 * x[:, 0, 0]).tolist()) for x in np.concatenate([four.train_x, four.test_x])}
    assert seen == {(255, 0, 0, 51), (102, 102, 102, 0)}
    assert "colour, with transparency, images of 2 x 2, classes" in four.about
    for channels in (2, [1]):
        with pytest.raises(ConfigError, match=r"channels = .*: must be 1 \(grey\), 3 \(colour\) or 4"):
            load(f"folder:{tmp_path}", channels=channels)


def test_palettes_and_cmyk_become_colours_and_one_channel_is_grey(tmp_path: Path) -> None:
    for number in range(3):
        saved(tmp_path, f"a/{number}.tif", Image.new("CMYK", (2, 2), (0, 255, 255, 0)))
        saved(tmp_path, f"b/{number}.gif", Image.new("RGB", (2, 2), (0, 255, 0)).quantize(2))
        saved(tmp_path, f"c/{number}.png", Image.new("1", (2, 2), 1))
    data = load(f"folder:{tmp_path}", test_share=0.34)
    assert data.about.startswith("colour images of 2 x 2, classes")
    colour = {label: tuple(x[:, 0, 0].tolist()) for x, label in zip(data.train_x, data.train_y.tolist())}
    assert colour == {0: (1.0, 0.0, 0.0), 1: (0.0, 1.0, 0.0), 2: (1.0, 1.0, 1.0)}
    grey = load(f"folder:{tmp_path}", test_share=0.34, channels=1)
    luma = {label: float(x[0, 0, 0]) for x, label in zip(grey.train_x, grey.train_y.tolist())}
    # ITU-R 601-2: L = 0.299 R + 0.587 G + 0.114 B, in whole steps of 1 / 255
    assert luma == pytest.approx({0: 76 / 255, 1: 150 / 255, 2: 1.0}, abs=1e-6)


def test_floats_are_numbers_and_do_not_mix(tmp_path: Path) -> None:
    for number in range(4):
        saved(tmp_path, f"a/{number}.tif", Image.fromarray(np.full((2, 2), number - 1.5, np.float32)))
    data = load(f"folder:{tmp_path}", test_share=0.5)
    values = np.concatenate([data.train_x, data.test_x])[:, 0, 0, 0]
    assert sorted(values.tolist()) == [-1.5, -0.5, 0.5, 1.5]
    assert "numbers not scaled" in data.about
    odd = saved(tmp_path, "a/5.png", Image.new("L", (2, 2), 7))
    with pytest.raises(ConfigError, match=r"0\.tif: pixels of mode F, whose range is unknown, cannot be combined"):
        load(f"folder:{tmp_path}", test_share=0.5)
    odd.unlink()
    lab = saved(tmp_path, "a/6.tif", Image.new("LAB", (2, 2)))
    with pytest.raises(ConfigError, match=rf"{lab}: .*pixels of mode LAB are not supported; convert it to RGB"):
        load(f"folder:{tmp_path}", test_share=0.5)


def test_colours_of_16_bits_read_with_8_are_said(tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / "a" / f"{number}.ppm"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"P6\n1 1\n65535\n" + np.array([65535, 0, 32767], ">u2").tobytes())
    data = load(f"folder:{tmp_path}", test_share=0.5)
    assert "colour images of 1 x 1, 4 with 16 bits for each colour read with 8" in data.about

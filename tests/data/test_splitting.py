"""A share of examples to test on, beside test examples that the data have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedtempo.data.sources import load
from fedtempo.data.splitting import must_not_be_asked
from fedtempo.errors import ConfigError


def a_table(folder: Path) -> tuple[str, dict[str, str]]:
    for name in ("train.csv", "test.csv"):
        (folder / name).write_text("x,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(10)))
    return f"table:{folder / 'train.csv'}", {"test": "test.csv"}


def arrays(folder: Path) -> tuple[str, dict[str, str]]:
    x, y = np.zeros((10, 2)), np.arange(10) % 2
    np.savez(folder / "arrays.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    return f"npz:{folder / 'arrays.npz'}", {}


def images(folder: Path) -> tuple[str, dict[str, str]]:
    for split in ("train", "test"):
        for kind in "ab":
            (folder / split / kind).mkdir(parents=True)
            for i in range(2):
                Image.new("L", (2, 2), i).save(folder / split / kind / f"{i}.png")
    return f"folder:{folder}", {}


def users(folder: Path) -> tuple[str, dict[str, str]]:
    content = {
        "users": ["u"],
        "num_samples": [4],
        "user_data": {"u": {"x": [[0.0], [1.0], [2.0], [3.0]], "y": [0, 1, 0, 1]}},
    }
    for split in ("train", "test"):
        (folder / split).mkdir()
        (folder / split / "all.json").write_text(json.dumps(content))
    return f"leaf:{folder}", {}


@pytest.mark.parametrize("source", [a_table, arrays, images, users])
def test_a_share_without_effect_is_rejected(
    source: Callable[[Path], tuple[str, dict[str, str]]], tmp_path: Path
) -> None:
    name, options = source(tmp_path)
    assert len(load(name, **options, test_share=0.2).test_y)
    with pytest.raises(ConfigError, match=r"test_share = 0.4: the data have test examples already; remove it, or "):
        load(name, **options, test_share=0.4)


def test_the_default_and_no_share_ask_for_nothing() -> None:
    must_not_be_asked(0.2, "")
    must_not_be_asked(None, "")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"length": 64}, r"length = 64: needs tokenizer, for the number of tokens; set it, or remove length$"),
        ({"tokenizer": "t", "standardize": True}, r"standardize = true: tokens are not scaled"),
    ],
)
def test_options_of_tables_without_effect_are_rejected(options: dict[str, object], says: str, tmp_path: Path) -> None:
    name, _ = a_table(tmp_path)
    with pytest.raises(ConfigError, match=says):
        load(name, **options)

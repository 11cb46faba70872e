"""A share of examples to test on, beside test examples that the data have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedtempo.data.sources import load
from fedtempo.data.splitting import must_not_be_asked
from fedtempo.errors import ConfigError
from fedtempo.runs.config import parse
from fedtempo.runs.world import build_world


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
    for share in (0.2, None, 0, 0.0):
        must_not_be_asked(share, "")


def rows(folder: Path) -> tuple[str, dict[str, Any], int]:
    lines = [f"{i},{i % 3},{'ab'[i % 2]},{'pq'[i % 2]},{i}" for i in range(100)]
    (folder / "rows.csv").write_text("\n".join(["x,z,label,who,day", *lines]) + "\n")
    return f"table:{folder / 'rows.csv'}", {}, 100


def rows_by_owner(folder: Path) -> tuple[str, dict[str, Any], int]:
    return rows(folder)[0], {"client": "who", "standardize": True, "fit": "client"}, 100


def rows_by_time(folder: Path) -> tuple[str, dict[str, Any], int]:
    return rows(folder)[0], {"client": "who", "time": "day"}, 100


def rows_by_group(folder: Path) -> tuple[str, dict[str, Any], int]:
    return rows(folder)[0], {"group": "z"}, 100


def one_row(folder: Path) -> tuple[str, dict[str, Any], int]:
    (folder / "one.csv").write_text("x,label\n1,a\n")
    return f"table:{folder / 'one.csv'}", {}, 1


def windows(folder: Path) -> tuple[str, dict[str, Any], int]:
    options = {"time": "day", "window": 4, "label": "x", "features": ["x", "z"], "task": "numbers", "standardize": True}
    return rows(folder)[0], options, 96


def bare_arrays(folder: Path) -> tuple[str, dict[str, Any], int]:
    np.savez(folder / "bare.npz", train_x=np.zeros((10, 2)), train_y=np.arange(10) % 2, train_owners=np.arange(10) % 2)
    return f"npz:{folder / 'bare.npz'}", {}, 10


def named_arrays(folder: Path) -> tuple[str, dict[str, Any], int]:
    np.savez(folder / "named.npz", train_x=np.zeros((10, 2), np.uint8), train_y=np.array(["a", "b"] * 5))
    return f"folder:{folder / 'named.npz'}", {}, 10


def token_arrays(folder: Path) -> tuple[str, dict[str, Any], int]:
    np.savez(folder / "tokens.npz", train_x=np.ones((10, 4), np.int64), train_y=np.ones((10, 4), np.int64))
    return f"npz:{folder / 'tokens.npz'}", {"task": "tokens"}, 10


def mask_arrays(folder: Path) -> tuple[str, dict[str, Any], int]:
    masks = np.tile(np.arange(4).reshape(2, 2) % 2, (10, 1, 1))
    np.savez(folder / "masks.npz", train_x=np.zeros((10, 1, 2, 2), np.float32), train_y=masks)
    return f"npz:{folder / 'masks.npz'}", {}, 10


def bare_images(folder: Path) -> tuple[str, dict[str, Any], int]:
    images(folder)
    return f"folder:{folder / 'train'}", {}, 4


def texts(folder: Path) -> tuple[str, dict[str, Any], int]:
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text("x" * 41)
    return f"text:{folder}", {"length": 10}, 8


def bare_users(folder: Path) -> tuple[str, dict[str, Any], int]:
    users(folder)
    return f"leaf:{folder / 'train'}", {}, 4


ALONE = [
    rows,
    rows_by_owner,
    rows_by_time,
    rows_by_group,
    one_row,
    windows,
    bare_arrays,
    named_arrays,
    token_arrays,
    mask_arrays,
    bare_images,
    texts,
    bare_users,
]


@pytest.mark.parametrize("source", ALONE)
def test_all_examples_of_files_are_for_training_if_none_are_held_out(
    source: Callable[[Path], tuple[str, dict[str, Any], int]], tmp_path: Path
) -> None:
    name, options, n = source(tmp_path)
    data = load(name, **options, test_share=0)
    assert (len(data.train_y), len(data.test_y)) == (n, 0)
    doubled = data.transformed(_doubled, "double")
    assert (len(doubled.train_x), len(doubled.test_x)) == (n, 0)
    np.testing.assert_array_equal(doubled.train_x, 2 * data.train_x)
    assert len(data.sha256) == 64


def _doubled(x: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    assert len(x), "a function of the user's is not called without examples"
    return 2 * x


def test_a_run_needs_test_examples(tmp_path: Path) -> None:
    name, _, _ = rows(tmp_path)
    fleet = {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"}
    tables = {"run": {"horizon": 1.0}, "strategy": {"name": "fedavg"}, "fleet": fleet}
    data = {"source": name, "clients": 2, "options": {"test_share": 0}}
    with pytest.raises(ConfigError, match=r"no test examples, but .* remove data.options.test_share$"):
        build_world(parse({**tables, "data": data}))
    world = build_world(parse({**tables, "data": {**data, "clients": 5, "partition": "iid", "test_clients": 0.2}}))
    assert sum(map(len, world.owned)) == 80
    assert len(world.test) == 20


@pytest.mark.parametrize("share", [1, -0.1, True, "0", float("nan")])
def test_a_share_that_is_none_is_rejected(share: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"test_share = .*: must be 0 \(train on all examples\) or more, and below 1"):
        load(rows(tmp_path)[0], test_share=share)


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

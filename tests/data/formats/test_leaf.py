"""LEAF's JSON files: numbers, characters, texts, images, and users without examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedtempo.data.formats import leaf_files
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError
from tests.docs.blocks import ROOT, blocks_of


def put(path: Path, given: dict[str, tuple[list[Any], list[Any]]], **changes: Any) -> Path:
    """Write users, with their inputs and labels, as LEAF does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "users": list(given),
        "num_samples": [len(y) for _, y in given.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in given.items()},
    }
    path.write_text(json.dumps(content | changes))
    return path


def test_users_are_clients_in_natural_order_and_idle_ones_are_reported(tmp_path: Path) -> None:
    numbers = {f"f{u}": ([[u + 0.5, float(i)] for i in range(2)], [0, 1]) for u in (10, 2, 1)}
    put(tmp_path / "train" / "a.json", numbers)
    put(tmp_path / "train" / "b.json", {"f3": ([[3.5, 0.0]], [1]), "f4": ([], [])})
    put(tmp_path / "test" / "a.json", {"f2": ([[2.5, 9.0]], [1]), "f4": ([[4.5, 9.0]], [0])})
    data = load(f"leaf:{tmp_path}")
    assert data.owner_names == ("f1", "f2", "f3", "f10")
    assert data.train_x.dtype == np.float32
    assert data.train_owners is not None
    assert data.test_owners is not None
    rows = sorted(zip(data.train_owners.tolist(), data.train_x.tolist(), data.train_y.tolist()))
    assert rows == [
        (0, [1.5, 0.0], 0),
        (0, [1.5, 1.0], 1),
        (1, [2.5, 0.0], 0),
        (1, [2.5, 1.0], 1),
        (2, [3.5, 0.0], 1),
        (3, [10.5, 0.0], 0),
        (3, [10.5, 1.0], 1),
    ]
    assert (data.test_x.tolist(), data.test_y.tolist()) == ([[2.5, 9.0], [4.5, 9.0]], [1, 0])
    assert data.test_owners.tolist() == [1, -1]
    assert data.warnings == ("1 of 5 clients have no training examples, so they take no part: f4",)
    assert data.about.startswith("LEAF: numbers, not scaled, of shape 2, 4 clients: f1, f2, f3, f10")


def test_secret_test_labels_say_a_way_out_that_works(tmp_path: Path) -> None:
    put(tmp_path / "train" / "a.json", {"a": ([[float(i)] * 2 for i in range(10)], [0, 1] * 5)})
    put(tmp_path / "test" / "a.json", {"a": ([[1.0, 2.0]] * 3, [-1] * 3)})
    with pytest.raises(ConfigError, match=r"all 3 test labels are -1.*set data.options.test_split = 'train'"):
        load(f"leaf:{tmp_path}")
    data = load(f"leaf:{tmp_path}", test_split="train")
    assert (len(data.train_y), len(data.test_y)) == (8, 2)
    with pytest.raises(ConfigError, match="test_split = 'validation': the data have no validation examples"):
        load(f"leaf:{tmp_path}", test_split="validation")


def test_without_a_split_each_user_keeps_a_share_for_testing(tmp_path: Path) -> None:
    users = {"a": ([[float(i)] * 4 for i in range(10)], [0, 1] * 5), "b": ([[7.0] * 4], [1])}
    put(tmp_path / "data" / "all_data" / "all.json", users)
    data = load(f"leaf:{tmp_path}", shape=[1, 2, 2])
    assert data.train_x.shape == (9, 1, 2, 2)
    assert sorted(data.test_y.tolist()) == [0, 1]
    assert data.train_owners is not None
    assert np.bincount(data.train_owners).tolist() == [8, 1]  # a client with one example trains on it
    assert load(f"leaf:{tmp_path / 'data' / 'all_data' / 'all.json'}", shape=[1, 2, 2]).sha256 == data.sha256
    with pytest.raises(ConfigError, match=r"shape = \[True, 4\]: must be a list of whole numbers"):
        load(f"leaf:{tmp_path}", shape=[True, 4])
    with pytest.raises(ConfigError, match=r"shape = \[28, 28\]: an example of .* has 4 numbers, not 784"):
        load(f"leaf:{tmp_path}", shape=[28, 28])


def test_the_next_character_is_predicted(tmp_path: Path) -> None:
    put(tmp_path / "train" / "a.json", {"lear": (["abb", "bbé"], ["b", "a"]), "fool": (["baa"], ["é"])})
    put(tmp_path / "test" / "a.json", {"lear": (["aab"], ["c"])})
    data = load(f"leaf:{tmp_path}")
    assert data.class_names == ("a", "b", "c", "é")
    assert data.owner_names == ("fool", "lear")
    assert data.train_x.tolist() == [[0, 1, 1], [1, 1, 3], [1, 0, 0]]
    assert data.train_x.dtype == np.int64
    assert data.train_y.tolist() == [1, 0, 3]
    assert (data.test_x.tolist(), data.test_y.tolist(), data.n_classes) == ([[0, 0, 1]], [2], 4)
    assert "the next character after 3, 4 different characters" in data.about


def test_a_text_among_several_is_chosen_by_its_position(tmp_path: Path) -> None:
    rows = [["1", "Mon", "NO_QUERY", "ann", "hi"], ["2", "Tue", "NO_QUERY", "ann", "no way"]]
    put(tmp_path / "all.json", {"ann": (rows * 3, [1, 0] * 3)})
    data = load(f"leaf:{tmp_path}", field=4, length=4, test_share=0.4)
    assert {bytes(x.tolist()): y for x, y in zip(data.train_x, data.train_y.tolist())} == {b"hi\0\0": 1, b"no w": 0}
    with pytest.raises(ConfigError, match=r"a list of 5 texts, such as \['1', 'Mon', .*; set field to .*, 0 to 4"):
        load(f"leaf:{tmp_path}")
    with pytest.raises(ConfigError, match="field = -1: must be a whole number, 0 or more"):
        load(f"leaf:{tmp_path}", field=-1)


def test_inputs_that_name_images_are_read_from_their_folder(tmp_path: Path) -> None:
    for i in range(4):
        Image.new("L", (2, 3), 51 * i).save(tmp_path / f"{i}.png")
    put(tmp_path / "data" / "train" / "a.json", {"7": (["3.png", "1.png"], [1, 0]), "12": (["0.png"], [0])})
    put(tmp_path / "data" / "test" / "a.json", {"7": (["2.png"], [1])})
    data = load(f"leaf:{tmp_path}", images=".")
    assert (data.train_x.shape, data.owner_names) == ((3, 1, 3, 2), ("7", "12"))
    assert np.round(data.train_x[:, 0, 0, 0], 3).tolist() == pytest.approx([0.6, 0.2, 0.0])
    assert data.test_x == pytest.approx(0.4)
    with pytest.raises(ConfigError, match=r"inputs name images, such as '3\.png'; set images to their folder"):
        load(f"leaf:{tmp_path}")
    put(tmp_path / "data" / "test" / "a.json", {"7": (["../2.png"], [1])})
    with pytest.raises(ConfigError, match=r"'\.\./2\.png': lies outside of"):
        load(f"leaf:{tmp_path}", images=".")


@pytest.mark.parametrize(
    ("users", "changes", "says"),
    [
        ({"a": ([[1.0]], [0, 1])}, {}, "user 'a': 1 inputs and 2 labels, num_samples says 2"),
        ({"a": ([[1.0]], [0])}, {"num_samples": [3]}, "1 inputs and 1 labels, num_samples says 3"),
        ({"a": ([[1.0]], [0])}, {"num_samples": []}, "num_samples must be a list as long as users"),
        ({"a": ([[1.0]], [0])}, {"users": ["b"], "num_samples": [0]}, "user_data has 'a', which users does not list"),
        ({"a": ([[1.0], [1.0, 2.0]], [0, 1])}, {}, "user 'a': x has rows of different shapes"),
        ({"a": ([[1.0]], [0]), "b": ([[1.0, 2.0]], [0])}, {}, r"x differs between users: \(1,\), \(2,\)"),
        ({"a": ([[1.0]], [0]), "b": (["text"], [0])}, {}, "x differs between users: numbers and texts"),
        ({"a": ([[None]], [0])}, {}, "user 'a': x must hold numbers or texts only"),
        ({"a": ([["t", 1.0]], [0])}, {}, "user 'a': x must hold numbers or texts only"),
        ({"a": ([[["<BOS>"]]], [0])}, {}, "nested lists of text are not supported, such as those of Reddit"),
        ({"a": ([1.0], [0])}, {}, "x must hold lists of numbers, or texts"),
        ({"a": ([], [])}, {}, "no user has examples"),
        ({}, {"user_data": 3}, "must hold an object with users and user_data"),
        ({}, {"user_data": {"a": {"x": [], "y": {}}}, "users": ["a"], "num_samples": [0]}, "LEAF's Reddit is not"),
    ],
)
def test_unusable_files_are_named(
    tmp_path: Path, users: dict[str, tuple[list[Any], list[Any]]], changes: dict[str, Any], says: str
) -> None:
    put(tmp_path / "a.json", users, **changes)
    with pytest.raises(ConfigError, match=says):
        load(f"leaf:{tmp_path}")


def test_missing_files_and_duplicate_users_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no \.json files, and no folders train and test"):
        load(f"leaf:{tmp_path}")
    for name in "ab":
        put(tmp_path / f"{name}.json", {"u": ([[1.0]], [0])})
    with pytest.raises(ConfigError, match=r"b\.json: user 'u' is in .*a\.json, too; remove one"):
        load(f"leaf:{tmp_path}")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ConfigError, match=r"a\.json: not a JSON file"):
        load(f"leaf:{tmp_path}")


def test_large_files_are_read_once_until_their_content_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(leaf_files, "_WORTH_KEEPING_BYTES", 1)
    folder = tmp_path / "leaf"
    put(folder / "all.json", {"a": (["ab", "ba", "", "x y"], [0, 1, 0, 1])})
    first = load(f"leaf:{folder}", test_share=0.5, length=3)
    with monkeypatch.context() as without:
        without.setattr(leaf_files, "_users", lambda *_: pytest.fail("read again"))
        again = load(f"leaf:{folder.rename(tmp_path / 'moved')}", test_share=0.5, length=3)
    assert again.sha256 == first.sha256
    put(tmp_path / "moved" / "all.json", {"a": (["ab", "ba", "", "x z"], [0, 1, 0, 1])})
    assert load(f"leaf:{tmp_path / 'moved'}", test_share=0.5, length=3).sha256 != first.sha256


def test_the_smallest_files_of_the_documentation_are_read(tmp_path: Path) -> None:
    for block in blocks_of(ROOT / "docs" / "own-data.md"):
        if block.title is not None and block.title.startswith("femnist/"):
            (tmp_path / block.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.title).write_text(block.text)
    data = load(f"leaf:{tmp_path / 'femnist'}", shape=[1, 2, 2])
    assert (data.train_x.shape, data.owner_names, data.n_classes) == ((4, 1, 2, 2), ("f1", "f2"), 4)
    assert data.warnings == ("1 of 3 clients have no training examples, so they take no part: f3",)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({}, np.int64, "symbols of shape 4"),
        ({"inputs": "numbers"}, np.float32, "numbers, not scaled, of shape 4"),
        ({"shape": [1, 2, 2]}, np.float32, "numbers, not scaled, of shape 1 x 2 x 2"),
    ],
)
def test_whole_numbers_are_symbols_unless_they_have_the_shape_of_an_image(
    tmp_path: Path, options: dict[str, Any], kind: type, says: str
) -> None:
    put(tmp_path / "a.json", {"a": ([[0, 255, 3, 9]] * 4, [0, 1] * 2)})
    data = load(f"leaf:{tmp_path}", test_share=0.5, **options)
    assert (data.train_x.dtype, data.train_x.max()) == (kind, 255)
    assert says in data.about


def test_options_without_use_are_rejected(tmp_path: Path) -> None:
    put(tmp_path / "n.json", {"a": ([[0.5, 1.0]] * 4, [0, 1] * 2)})
    put(tmp_path / "t.json", {"a": (["some text"] * 4, [0, 1] * 2)})
    for name, option, says in (
        ("n", {"side": 3}, "side = 3: the inputs of .* are no names of images; remove it"),
        ("n", {"field": 1}, "field = 1: an input of user 'a' in .* is no list of texts; remove it"),
        ("t", {"shape": [3]}, r"shape = \[3\]: the inputs of .* are no numbers; remove it"),
    ):
        with pytest.raises(ConfigError, match=says):
            load(f"leaf:{tmp_path / name}.json", test_share=0.5, **option)

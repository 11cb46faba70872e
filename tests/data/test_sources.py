from __future__ import annotations

import contextlib
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.data import cache_dir
from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.data.hub import from_hub
from fedtempo.data.partitions import OneLabel
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError
from tests.data.test_idx import DOTTED, write_folder


def test_digits_are_split_by_class() -> None:
    data = load("digits")
    assert data.train_x.shape[1:] == (1, 8, 8)
    assert len(data.train_x) + len(data.test_x) == 1797
    assert data.train_x.min() == 0.0
    assert data.train_x.max() == 1.0
    assert data.n_classes == 10
    assert data.sha256 == load("digits").sha256
    per_class = np.bincount(data.train_y)
    assert per_class.min() >= 125
    together = np.bincount(data.train_y) + np.bincount(data.test_y)
    assert np.bincount(data.test_y).tolist() == np.round(0.2 * together).astype(int).tolist()


def test_digits_suffice_for_fifty_clients_of_one_label() -> None:
    data = load("digits")
    parts = OneLabel().assign(data.train_y, 10, 50, 25, np.random.default_rng(1))
    assert [len(part) for part in parts] == [25] * 50


def test_the_parts_of_digits_are_disjoint() -> None:
    from sklearn.datasets import load_digits

    data = load("digits", test_share=0.5)
    both = np.concatenate((data.train_x, data.test_x)).reshape(1797, 64)
    images, _ = load_digits(return_X_y=True)
    assert sorted(map(tuple, both.tolist())) == sorted(map(tuple, (images / 16).tolist()))


@pytest.mark.parametrize("share", [1, 0.001, 0.999, "half"])
def test_an_invalid_test_share_of_digits_is_rejected(share: Any) -> None:
    with pytest.raises(ConfigError, match="test_share"):
        load("digits", test_share=share)


def test_fashion_mnist_is_found_in_the_data_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    write_folder(folder, DOTTED, compress=True)
    monkeypatch.setattr(cache_dir, "SYSTEM_DATA", tmp_path)
    monkeypatch.delenv("FEDTEMPO_DATA", raising=False)
    system = load("fashion-mnist")
    assert system.name == "fashion-mnist"
    assert system.sha256 == load(f"idx:{folder}").sha256
    monkeypatch.setattr(cache_dir, "SYSTEM_DATA", tmp_path / "none")
    with pytest.raises(ConfigError, match=r"none/fashion-mnist; run `apt-get install dataset-fashion-mnist`"):
        load("fashion-mnist")
    monkeypatch.setenv("FEDTEMPO_DATA", str(tmp_path))
    assert load("fashion-mnist").sha256 == system.sha256


def test_the_users_data_folder_takes_precedence_over_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "system" / "fashion-mnist"
    folder.mkdir(parents=True)
    write_folder(folder, DOTTED, compress=True)
    monkeypatch.setattr(cache_dir, "SYSTEM_DATA", folder.parent)
    monkeypatch.setenv("FEDTEMPO_DATA", str(tmp_path))  # set to a folder without the data set
    with pytest.raises(ConfigError, match=f"no folder {tmp_path}/fashion-mnist; unset FEDTEMPO_DATA and run"):
        load("fashion-mnist")
    monkeypatch.setenv("FEDTEMPO_DATA", "")  # same as unset
    assert load("fashion-mnist").name == "fashion-mnist"


@pytest.mark.fashion_mnist
def test_fashion_mnist_is_the_published_data_set() -> None:
    data = load("fashion-mnist")
    assert data.train_x.shape == (60_000, 1, 28, 28)
    assert np.bincount(data.train_y).tolist() == [6000] * 10
    assert np.bincount(data.test_y).tolist() == [1000] * 10
    assert data.train_x.max() == 1.0


def arrays() -> dict[str, Any]:
    return {
        "train_x": np.zeros((4, 3), dtype=np.float32),
        "train_y": np.array([0, 1, 2, 0]),
        "test_x": np.ones((2, 3), dtype=np.float32),
        "test_y": np.array([1, 2]),
    }


def test_an_npz_file_or_folder_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **arrays(), n_classes=5, train_owners=np.array([3, 3, 1, 1]))
    data = load(f"folder:{tmp_path}")
    assert data.n_classes == 5
    assert data.train_owners is not None
    assert data.train_owners.tolist() == [3, 3, 1, 1]
    assert load(f"folder:{tmp_path / 'data.npz'}").sha256 == data.sha256
    np.savez(tmp_path / "more.npz", **arrays())
    with pytest.raises(ConfigError, match=r"the folder holds 2 \.npz files"):
        load(f"folder:{tmp_path}")


def test_malformed_npz_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    with pytest.raises(ConfigError, match=r"not an \.npz file"):
        load(f"folder:{path}")
    path.write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(ConfigError, match=r"not an \.npz file"):
        load(f"folder:{path}")
    np.savez(path, **{**arrays(), "train_x": np.array([{"a": 1}] * 4, dtype=object)})
    with pytest.raises(ConfigError, match="allow_pickle=False"):
        load(f"folder:{path}")
    np.savez(path, train_x=np.zeros((2, 2)))
    with pytest.raises(
        ConfigError, match="it must hold train_x, train_y and may hold n_classes, test_owners, test_x, test_y, "
    ):
        load(f"folder:{path}")
    np.savez(path, **arrays(), weights=np.ones(4))
    with pytest.raises(ConfigError, match=r"holds .*weights"):
        load(f"folder:{path}")
    np.savez(path, **{**arrays(), "test_y": np.array([1, 7])}, n_classes=3)
    with pytest.raises(ConfigError, match="test_y holds 1 to 7"):
        load(f"folder:{path}")
    with path.with_suffix(".npy").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ConfigError, match=r"not an \.npz file"):
        load(f"folder:{path.with_suffix('.npy')}")


def test_a_damaged_npz_file_is_rejected_or_read(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, **arrays())
    good = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(150):
        bad = bytearray(good)
        bad[rng.integers(len(bad))] = rng.integers(256)
        path.write_bytes(bytes(bad[: rng.integers(1, len(bad) + 1)]) if rng.random() < 0.3 else bytes(bad))
        with contextlib.suppress(ConfigError):
            assert isinstance(load(f"folder:{path}"), Dataset)


def test_a_users_function_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_data")
    module.whole = lambda scale=1.0: from_arrays("mine", **{**arrays(), "test_x": scale * np.ones((2, 3))})  # type: ignore[attr-defined]
    module.four = lambda: tuple(arrays().values())  # type: ignore[attr-defined]
    module.five = lambda: (1, 2, 3, 4, 5)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_data", module)
    assert load("my_data:whole", scale=2.0).test_x.max() == 2.0
    assert load("my_data:four").n_classes == 3
    with pytest.raises(ConfigError, match="returned tuple; must return"):
        load("my_data:five")
    for target, says in (("my_data:none", "has no 'none'"), ("no_such_module:f", "cannot import 'no_such_module'")):
        with pytest.raises(ConfigError, match=says):
            load(target)


def test_unknown_sources_and_options_are_rejected() -> None:
    with pytest.raises(ConfigError, match="did you mean 'digits'"):
        load("digit")
    with pytest.raises(ConfigError, match="unknown"):
        load("idx:")
    with pytest.raises(ConfigError, match=r"digits has no option 'share' \(it has test_share\)"):
        load("digits", share=0.1)
    with pytest.raises(ConfigError, match=r"has no option 'x' \(it has none\)"):
        load("fashion-mnist", x=1)


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ("hf:mine", "client"),
        ("hf:mine", "test_split"),
        ("leaf:mine", "images"),
        ("npz:mine", "task"),
        ("table:a.csv", "dates"),
    ],
)
@pytest.mark.parametrize("value", [3, ["who"], {"name": "who"}])
def test_options_that_must_be_text_are_named(source: str, option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^{option} = .*: must be text$"):
        load(source, **{option: value})


def test_the_hub_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"pip install 'fedtempo\[hf\]'"):
        load("hf:mnist")


class Image:
    dtype = "PIL.Image.Image"


class ClassLabel:
    dtype = "int64"
    num_classes = 4


class Value:
    def __init__(self, dtype: str) -> None:
        self.dtype = dtype


class Split:
    def __init__(self, features: dict[str, object], columns: dict[str, list[Any]]) -> None:
        self.features = features
        self._columns = columns

    def __getitem__(self, column: str) -> list[Any]:
        return self._columns[column]


def fake_hub(monkeypatch: pytest.MonkeyPatch, features: dict[str, object], columns: dict[str, list[Any]]) -> None:
    def load_dataset(name: str, subset: str | None) -> dict[str, Split]:
        if name != "there":
            raise FileNotFoundError(name)
        split = Split(features, columns)
        return {"train": split} if subset == "train only" else {"train": split, "test": split}

    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_the_hub_source_finds_columns_by_type(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = [np.full((4, 5, 3), n, dtype=np.uint8) for n in (0, 255)]
    features: dict[str, object] = {"id": Value("int64"), "img": Image(), "kind": ClassLabel()}
    fake_hub(monkeypatch, features, {"id": [7, 8], "img": colour, "kind": [3, 0]})
    data = load("hf:there")
    assert data.train_x.shape == (2, 3, 4, 5)
    assert data.train_x[1].min() == 1.0
    assert data.train_y.tolist() == [3, 0]
    assert data.n_classes == 4
    assert load("hf:there", label="id", feature="img").n_classes == 9
    with pytest.raises(ConfigError, match="no column 'y'; its columns are id, img, kind"):
        load("hf:there", label="y")
    halved = load("hf:there", subset="train only", test_share=0.5)
    assert (len(halved.train_y), len(halved.test_y)) == (1, 1)
    with pytest.raises(ConfigError, match="no split 'test'; its splits are train"):
        from_hub("mnist", "there", "train only", "img", "kind")
    with pytest.raises(ConfigError, match="could not be loaded: FileNotFoundError"):
        load("hf:elsewhere")


def test_ambiguous_hub_columns_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    gray = [np.zeros((2, 2), dtype=np.uint8), np.zeros((2, 3), dtype=np.uint8)]
    fake_hub(monkeypatch, {"a": Image(), "b": Image(), "y": Value("int8")}, {"a": gray[:1] * 2, "b": gray, "y": [0, 1]})
    with pytest.raises(ConfigError, match=r"the feature is unclear \(could be any of a, b\); set feature"):
        load("hf:there")
    assert load("hf:there", feature="a").train_x.shape == (2, 1, 2, 2)
    with pytest.raises(ConfigError, match="2 different shapes"):
        load("hf:there", feature="b")
    fake_hub(monkeypatch, {"a": Image(), "name": Value("string")}, {})
    with pytest.raises(ConfigError, match=r"the label is unclear \(not found\); set label"):
        load("hf:there")


def test_the_hub_source_reads_a_local_folder(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"x": datasets.Array2D((2, 2), "uint8"), "y": datasets.ClassLabel(num_classes=3)})
    rows = {"x": np.zeros((3, 2, 2), dtype=np.uint8).tolist(), "y": [0, 2, 1]}
    for split in ("train", "test"):
        datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / f"{split}.parquet")
    data = load(f"hf:{tmp_path}")
    assert data.train_y.tolist() == [0, 2, 1]


def test_hub_text_with_labels_and_clients_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    features: dict[str, object] = {"text": Value("string"), "mood": ClassLabel(), "author": Value("string")}
    rows = {"text": ["good", "bad", "fine!!", ""], "mood": [1, 0, 1, 0], "author": ["b", "a", "b", "a"]}
    fake_hub(monkeypatch, features, rows)
    data = load("hf:there", feature="text", client="author", length=4)
    assert data.train_x.tolist() == [[103, 111, 111, 100], [98, 97, 100, 0], [102, 105, 110, 101], [0, 0, 0, 0]]
    assert data.owner_names == ("a", "b")
    assert data.train_owners is not None
    assert data.train_owners.tolist() == [1, 0, 1, 0]
    assert data.about == "text of 'text', ClassLabel of 'mood', 2 clients by 'author': a, b"


def test_hub_text_without_labels_is_learned_as_tokens_and_floats_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_hub(monkeypatch, {"text": Value("string")}, {"text": ["abcdefgh", "ijkl"]})
    data = load("hf:there", length=3)
    assert data.task == "tokens"
    assert bytes(data.train_x[0].tolist()) == b"abc"
    assert bytes(data.train_y[0].tolist()) == b"bcd"
    with pytest.raises(ConfigError, match="13 bytes of text are too few for examples of 128"):
        load("hf:there")
    column = [np.ones(2, dtype=np.float32)] * 3
    fake_hub(monkeypatch, {"x": [Value("float32")], "y": Value("float64")}, {"x": column, "y": [0.5, 1.5, 2.5]})
    assert load("hf:there").task == "numbers"


def test_the_hub_source_uses_the_column_named_label_and_ignores_identifiers(monkeypatch: pytest.MonkeyPatch) -> None:
    people = [i // 4 for i in range(40)]
    features: dict[str, object] = {
        "text": Value("string"),
        "title": Value("string"),
        "id": Value("int64"),
        "user": Value("string"),
        "Label": Value("string"),
    }
    rows: dict[str, list[Any]] = {
        "text": [f"text {i}" for i in range(40)],
        "title": ["t"] * 40,
        "id": list(range(40)),
        "user": [f"user{i}" for i in people],
        "Label": ["good" if i % 2 else "bad" for i in range(40)],
    }
    fake_hub(monkeypatch, features, rows)
    data = load("hf:there", subset="train only", feature="text", length=4)
    assert (data.class_names, data.about) == (("bad", "good"), "text of 'text', Value of 'Label'; classes: bad, good")
    (warning,) = data.warnings
    assert "of 10 values of 'user' have both training and test rows" in warning
    assert "set data.options.group = 'user' to keep" in warning
    apart = load("hf:there", subset="train only", feature="text", length=8, group="user")
    assert (len(apart.test_y), apart.warnings) == (8, ())
    sides = [{bytes(row.tolist()).rstrip(b"\0") for row in x} for x in (apart.train_x, apart.test_x)]
    people_of = [{int(text.split()[1]) // 4 for text in side} for side in sides]
    assert not people_of[0] & people_of[1]
    (warning,) = load("hf:there", feature="text").warnings  # its test split has the same rows
    assert warning.endswith("(the data set comes with this split)")
    with pytest.raises(ConfigError, match="group = 'user': hf:there has a split test already"):
        load("hf:there", feature="text", group="user")
    numbers = [{**features, "Label": Value("float64")}, {**rows, "Label": [float(i % 3) for i in range(40)]}]
    fake_hub(monkeypatch, *numbers)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="floats with only 3 values, all whole"):
        load("hf:there", feature="text")
    assert load("hf:there", feature="text", task="classes").n_classes == 3
    del features["Label"]
    fake_hub(monkeypatch, features, rows)
    assert load("hf:there", feature="text", length=4).task == "tokens"  # the identifier is not used as label
    with pytest.raises(ConfigError, match="40 distinct values in 40 rows, like an identifier"):
        load("hf:there", feature="text", label="id")


def test_hub_clients_are_in_natural_order(monkeypatch: pytest.MonkeyPatch) -> None:
    features: dict[str, object] = {"img": Image(), "label": ClassLabel(), "client": Value("int64")}
    images = [np.full((2, 2), n, dtype=np.uint8) for n in range(24)]
    rows = {"img": images, "label": [n % 4 for n in range(24)], "client": [n % 12 for n in range(24)]}
    fake_hub(monkeypatch, features, rows)
    data = load("hf:there", client="client")
    assert data.owner_names == tuple(map(str, range(12)))
    assert data.train_owners is not None
    assert data.train_owners.tolist() == rows["client"]


def test_missing_hub_labels_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [np.full((2, 2), n, dtype=np.uint8) for n in range(4)]
    fake_hub(monkeypatch, {"img": Image(), "label": ClassLabel()}, {"img": images, "label": [0, 1, -1, -1]})
    with pytest.raises(ConfigError, match=r"label -1 in 4 of 8 rows .*; classes must be 0 to 3"):
        load("hf:there")


def splits_of(monkeypatch: pytest.MonkeyPatch, features: dict[str, object], **splits: dict[str, list[Any]]) -> None:
    """Offer a data set "there" with these splits and columns."""
    module = types.ModuleType("datasets")
    made = {name: Split({column: features[column] for column in columns}, columns) for name, columns in splits.items()}
    module.load_dataset = lambda name, subset: made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)


def reviews(n: int, label: int | None = None) -> dict[str, list[Any]]:
    return {"text": [f"{i:04}" for i in range(n)], "label": [i % 2 if label is None else label for i in range(n)]}


TEXT: dict[str, object] = {"text": Value("string"), "label": ClassLabel(), "day": Value("int64")}


def texts(x: Any) -> list[int]:
    return [int(bytes(row).decode()) for row in x.astype(np.uint8)]


def test_secret_test_labels_of_the_hub_are_named_and_the_validation_split_takes_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    splits_of(monkeypatch, TEXT, train=reviews(20), validation=reviews(5), test=reviews(6, -1))
    with pytest.raises(ConfigError, match=r"hf:there: all 6 test labels are -1.*test_split = 'validation'"):
        load("hf:there", length=4)
    data = load("hf:there", length=4, test_split="validation")
    assert (len(data.train_y), data.test_y.tolist(), data.validation_y) == (20, [0, 1, 0, 1, 0], None)
    data = load("hf:there", length=4, test_split="train", test_share=0.25)
    assert (len(data.train_y), len(data.test_y)) == (15, 5)
    assert data.validation_y is not None
    assert data.validation_y.tolist() == [0, 1, 0, 1, 0]
    splits_of(monkeypatch, TEXT, train=reviews(20), test=reviews(6, -1))
    with pytest.raises(ConfigError, match=r"all 6 test labels are -1.*test_split = 'train'"):
        load("hf:there", length=4)


def test_the_validation_split_of_the_hub_stands_beside_the_test_split(monkeypatch: pytest.MonkeyPatch) -> None:
    dated = {**reviews(20), "day": [1] * 20}
    parts = {"train": dated, "validation_matched": reviews(3), "dev": reviews(4), "test": reviews(6)}
    splits_of(monkeypatch, TEXT, **parts)
    data = load("hf:there", length=4)
    assert data.validation_x is not None
    assert texts(data.validation_x) == [0, 1, 2, 3]
    about = "text of 'text', ClassLabel of 'label'; splits not used: validation_matched; 4 validation examples"
    assert data.about == about
    data = load("hf:there", length=4, validation_split="validation_matched")
    assert data.validation_x is not None
    assert texts(data.validation_x) == [0, 1, 2]
    for options, says in (
        (
            {"test_split": "tset"},
            "test_split = 'tset': hf:there has no such split; its splits are train, validation_mat",
        ),
        ({"validation_split": "train"}, "validation_split = 'train': used for another purpose already"),
        ({"validation_split": "dev", "test_split": "dev"}, "validation_split = 'dev': used for another purpose"),
        ({"group": "day"}, "group = 'day': hf:there has a split test already; remove group, or set test_split = 'tra"),
    ):
        with pytest.raises(ConfigError, match=says):
            load("hf:there", length=4, **options)
    splits_of(monkeypatch, TEXT, train=reviews(20), test={"text": ["a"]})
    with pytest.raises(ConfigError, match="no column 'label'; its columns are text"):
        load("hf:there", length=4)


def test_the_latest_examples_of_the_hub_are_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    splits_of(monkeypatch, TEXT, train={**reviews(20), "day": [(7 * i) % 20 for i in range(20)]})
    data = load("hf:there", length=4, time="day", test_share=0.1)
    assert [(7 * i) % 20 for i in texts(data.test_x)] == [18, 19]
    assert data.train_times is not None
    assert data.train_times.max() == 17.0
    assert data.about.endswith("the latest rows by 'day' held out")
    splits_of(monkeypatch, TEXT, train={**reviews(4), "day": [1, 2, 3, "x"]})
    with pytest.raises(ConfigError, match="hf:there: example 3: 'day' is 'x', neither a number nor a date"):
        load("hf:there", length=4, time="day")
    splits_of(monkeypatch, TEXT, train={"text": ["abcdefgh"] * 9, "day": [1] * 9})
    with pytest.raises(ConfigError, match="time = 'day': hf:there has no label; set label, or remove time"):
        load("hf:there", length=4, time="day")


def test_a_users_function_may_return_validation_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_data")
    four = tuple(arrays().values())
    module.six = lambda: (*four, four[0][:2], four[1][:2])  # type: ignore[attr-defined]
    pairs = [(np.zeros(3, np.float32), 0), (np.ones(3, np.float32), 1)]
    module.three = lambda: (pairs, pairs, pairs[:1])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_data", module)
    six = load("my_data:six")
    assert six.validation_y is not None
    assert np.array_equal(six.validation_y, six.train_y[:2])
    three = load("my_data:three")
    assert three.validation_y is not None
    assert three.validation_y.tolist() == [0]

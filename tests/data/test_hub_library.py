"""Data sets on disk, read with the real `datasets` library and no network; skipped if it is missing (extra `hf`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

datasets = pytest.importorskip("datasets")

from fedtempo.api.fetching import fetch  # noqa: E402
from fedtempo.data.hub import from_hub  # noqa: E402
from fedtempo.data.settings import located  # noqa: E402
from fedtempo.data.sources import load  # noqa: E402
from fedtempo.errors import ConfigError  # noqa: E402
from fedtempo.runs.config import parse  # noqa: E402
from fedtempo.runs.run import run  # noqa: E402


@pytest.fixture(autouse=True)
def _on_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the network and use a cache that is deleted with the test."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def pictures(folder: Path, mode: str = "RGB", splits: tuple[str, ...] = ("train", "test")) -> Path:
    """Write two classes of twelve small pictures each, dark and light."""
    rng = np.random.default_rng(1)
    for split in splits:
        for name, low in (("cat", 0), ("dog", 200)):
            class_folder = folder / split / name
            class_folder.mkdir(parents=True)
            for number in range(12):
                shape = (8, 8, 3) if mode == "RGB" else (8, 8)
                pixels = rng.integers(low, low + 50, shape, dtype=np.uint8)
                Image.fromarray(pixels, mode).save(class_folder / f"{number}.png")
    return folder


def written(
    folder: Path, rows: dict[str, list[Any]], features: Any = None, splits: tuple[str, ...] = ("train",)
) -> Path:
    folder.mkdir()
    for split in splits:
        datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / f"{split}.parquet")
    return folder


@pytest.mark.parametrize(("mode", "channels"), [("RGB", 3), ("L", 1)])
def test_a_folder_of_pictures_is_read(mode: str, channels: int, tmp_path: Path) -> None:
    data = load(f"hf:{pictures(tmp_path / 'photos', mode)}")
    assert data.train_x.shape == (24, channels, 8, 8)
    assert (data.train_x.dtype, data.train_x.max() <= 1.0) == (np.float32, True)
    colours = "colour" if mode == "RGB" else "grey"
    assert data.about == f"Image of 'image' ({colours} images of 8 x 8), ClassLabel of 'label'"
    assert (data.n_classes, sorted(set(data.test_y.tolist()))) == (2, [0, 1])
    assert data.train_x[data.train_y == 0].max() < 0.2
    assert data.train_x[data.train_y == 1].min() > 0.7


def test_a_model_trains_on_pictures_from_disk(tmp_path: Path) -> None:
    config = parse(
        {
            "run": {"max_commits": 20, "evaluate": "commit"},
            "data": {"source": f"hf:{pictures(tmp_path / 'photos', splits=('train',))}", "clients": 3},
            "model": {"network": "logistic"},
            "training": {"lr": 0.1},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
            "strategy": {"name": "fedavg"},
            "executor": {"kind": "inline"},
        }
    )
    summary, _, _ = run(config)
    assert summary["data"]["test"] == 4  # a fifth of each class if the test split is missing
    assert summary["final_accuracy"] == 1.0


def test_parquet_of_text_with_classes_and_clients_is_read(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "mood": datasets.ClassLabel(names=["bad", "good"]),
            "author": datasets.Value("string"),
        }
    )
    rows = {
        "text": ["good", "bad", "fine", "no"] * 5,
        "mood": [1, 0, 1, 0] * 5,
        "author": ["ann", "bob", "bob", "ann"] * 5,
    }
    folder = written(tmp_path / "reviews", rows, features)
    data = load(f"hf:{folder}", feature="text", client="author", length=6)
    assert data.train_x.shape[1:] == (6,)
    assert bytes(data.train_x[0].tolist()).rstrip(b"\0").decode() in rows["text"]
    assert (data.owner_names, data.n_classes) == (("ann", "bob"), 2)
    assert data.about == "text of 'text', ClassLabel of 'mood', 2 clients by 'author': ann, bob"
    assert len(data.train_y) + len(data.test_y) == 20
    with pytest.raises(ConfigError, match="no column 'name'; its columns are text, mood, author"):
        load(f"hf:{folder}", client="name")
    with pytest.raises(ConfigError, match=r"the feature is unclear \(could be any of text, author\); set feature"):
        load(f"hf:{folder}")


def test_parquet_of_vectors_with_numeric_labels_is_read(tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((30, 4)).astype(np.float32)
    folder = written(tmp_path / "sensors", {"x": x.tolist(), "y": x.sum(axis=1).tolist()}, splits=("train", "test"))
    data = load(f"hf:{folder}")
    assert data.task == "numbers"
    np.testing.assert_allclose(data.train_x, x, rtol=1e-6)
    np.testing.assert_allclose(data.train_y, x.sum(axis=1), rtol=1e-6)


def test_missing_values_in_a_row_are_named(tmp_path: Path) -> None:
    rows = {"x": [[1.0, 2.0], [1.0, None], [3.0, 4.0]], "y": [0, 1, 0]}
    features = datasets.Features({"x": [datasets.Value("int32")], "y": datasets.Value("int64")})
    with pytest.raises(ConfigError, match="example 1 of 'x' is not an array of int32"):
        load(f"hf:{written(tmp_path / 'gaps', rows, features, ('train', 'test'))}")
    hidden = datasets.Features({"x": [datasets.Value("float32")], "y": datasets.ClassLabel(num_classes=2)})
    rows = {"x": [[1.0, 2.0]] * 3, "y": [0, 1, -1]}
    with pytest.raises(ConfigError, match="label -1 in 2 of 6 rows"):
        load(f"hf:{written(tmp_path / 'hidden', rows, hidden, ('train', 'test'))}")


def test_pictures_of_several_modes_are_read(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "photos", "L")
    Image.new("RGBA", (8, 8), (255, 0, 0, 255)).save(folder / "train/cat/0.png")
    Image.new("P", (8, 8)).save(folder / "test/dog/0.png")
    data = load(f"hf:{folder}")
    assert data.train_x.shape[1] == data.test_x.shape[1] == 3
    assert [1.0, 0.0, 0.0] in data.train_x[:, :, 0, 0].tolist()


def test_arrays_of_two_dimensions_are_read(tmp_path: Path) -> None:
    features = datasets.Features({"x": datasets.Array2D((2, 3), "uint8"), "y": datasets.ClassLabel(num_classes=3)})
    rows = {"x": np.full((6, 2, 3), 255, np.uint8).tolist(), "y": [0, 2, 1] * 2}
    data = load(f"hf:{written(tmp_path / 'arrays', rows, features, ('train', 'test'))}")
    assert data.train_x.shape == (6, 1, 2, 3)
    assert (data.train_x.max(), data.n_classes) == (1.0, 3)


def test_text_without_labels_is_learned_as_tokens(tmp_path: Path) -> None:
    data = load(
        f"hf:{written(tmp_path / 'plays', {'line': ['to be or not to be', 'that is the question'] * 9})}", length=8
    )
    assert data.task == "tokens"
    assert data.train_y[0, :-1].tolist() == data.train_x[0, 1:].tolist()
    assert data.about.startswith("each next byte of 8 of the text of 'line'")


@pytest.mark.parametrize("both", [True, False])
def test_a_data_set_saved_to_disk_is_read(both: bool, tmp_path: Path) -> None:
    """`Dataset.save_to_disk` writes what `load_dataset` refuses."""
    features = datasets.Features({"x": datasets.Array2D((2, 2), "uint8"), "y": datasets.ClassLabel(num_classes=2)})
    part = datasets.Dataset.from_dict(
        {"x": np.zeros((10, 2, 2), np.uint8).tolist(), "y": [0, 1] * 5}, features=features
    )
    (datasets.DatasetDict({"train": part, "test": part}) if both else part).save_to_disk(tmp_path / "saved")
    data = load(f"hf:{tmp_path / 'saved'}")
    assert (len(data.train_y), len(data.test_y)) == ((10, 10) if both else (8, 2))


def test_a_data_set_of_several_configurations_needs_a_subset(tmp_path: Path) -> None:
    for name, label in (("first", 0), ("second", 1)):
        written(tmp_path / name, {"x": [[1.0, 2.0]] * 6, "y": [label] * 3 + [2] * 3}, splits=("train",))
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: first\n  data_files: first/train.parquet\n"
        "- config_name: second\n  data_files: second/train.parquet\n---\n"
    )
    assert 1 in load(f"hf:{tmp_path}", subset="second").train_y
    with pytest.raises(ConfigError, match=r"could not be loaded: .*first.*second"):
        load(f"hf:{tmp_path}")


def test_missing_data_sets_and_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hf:.*/nowhere: could not be loaded: "):
        load(f"hf:{tmp_path}/nowhere")
    with pytest.raises(ConfigError, match="no split 'test'; its splits are train"):
        from_hub("mine", str(pictures(tmp_path / "photos", splits=("train",))), None, None, None)


def test_a_folder_beside_the_configuration_is_read(tmp_path: Path) -> None:
    pictures(tmp_path / "photos")
    assert located("hf:photos", tmp_path) == f"hf:{tmp_path.resolve()}/photos"
    assert located("hf:someone/else", tmp_path) == "hf:someone/else"


def test_the_row_of_ids_text_and_labels_by_name_is_read(tmp_path: Path) -> None:
    """The column named label is predicted, with its texts as classes, and the identifiers are no features."""
    rows = {"id": list(range(20)), "text": [f"it is {i % 2}" for i in range(20)], "label": ["bad", "good"] * 10}
    data = load(f"hf:{written(tmp_path / 'reviews', rows)}", feature="text", length=7)
    assert (data.task, data.class_names) == ("classes", ("bad", "good"))
    assert data.train_x.shape == (16, 7)
    assert [chr(x[6]) for x in data.train_x.tolist()] == [str(y) for y in data.train_y.tolist()]
    saved = datasets.Dataset.from_dict(rows)
    datasets.DatasetDict({"train": saved, "test": saved}).save_to_disk(tmp_path / "saved")
    data = load(f"hf:{tmp_path / 'saved'}", length=7)  # the only column of text
    assert (len(data.train_y), len(data.test_y), data.class_names) == (20, 20, ("bad", "good"))


def test_the_names_of_class_labels_are_kept(tmp_path: Path) -> None:
    features = datasets.Features(
        {"x": datasets.Sequence(datasets.Value("float32")), "y": datasets.ClassLabel(names=["b", "a"])}
    )
    folder = written(tmp_path / "named", {"x": [[1.0]] * 10, "y": [0, 1] * 5}, features)
    assert load(f"hf:{folder}").class_names == ("b", "a")
    assert load(f"hf:{folder}", task="numbers").class_names == ()


def test_a_share_of_examples_with_several_labels_or_masks_is_held_out(tmp_path: Path) -> None:
    rows = {
        "x": [[float(i), 1.0] for i in range(20)],
        "labels": [[i % 2, 1, 0] for i in range(20)],
        "who": ["a", "b"] * 10,
    }
    folder = written(tmp_path / "several", rows, splits=("train",))
    for options in ({}, {"client": "who"}):
        data = load(f"hf:{folder}", label="labels", task="multilabel", **options)
        assert (data.train_y.shape, data.test_y.shape) == ((16, 3), (4, 3))
        seen = np.concatenate([data.train_x, data.test_x])[:, 0]
        assert sorted(seen.tolist()) == list(range(20))
    scans = [Image.fromarray(np.full((4, 4), 10 * i, np.uint8)) for i in range(10)]
    masks = [Image.fromarray(np.eye(4, dtype=np.uint8)) for _ in scans]
    kinds = datasets.Features({"image": datasets.Image(), "mask": datasets.Image()})
    datasets.Dataset.from_dict({"image": scans, "mask": masks}, features=kinds).save_to_disk(tmp_path / "masks")
    data = load(f"hf:{tmp_path / 'masks'}", feature="image", label="mask")
    assert (data.task, len(data.train_y), len(data.test_y)) == ("segmentation", 8, 2)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"label": ["bad", None] * 5}, r"5 of 10 train examples have no 'label', such as example 1; remove such"),
        ({"text": [None, *"abcdefghi"]}, r"1 of 10 train examples have no 'text', such as example 0; remove such"),
        ({"who": ["u"] * 9 + [None]}, r"1 of 10 train examples have no 'who', such as example 9"),
    ],
)
def test_missing_values_are_named(tmp_path: Path, changes: Any, error: str) -> None:
    rows = {"text": list("abcdefghij"), "label": ["bad", "good"] * 5, "who": ["u", "v"] * 5, **changes}
    with pytest.raises(ConfigError, match=error):
        load(f"hf:{written(tmp_path / 'holes', rows, splits=('train',))}", client="who")


def test_secret_test_labels_that_are_missing_say_the_way_out(tmp_path: Path) -> None:
    part = datasets.Dataset.from_dict({"text": list("abcdefghij"), "label": ["bad", "good"] * 5})
    secret = datasets.Dataset.from_dict({"text": ["a"], "label": [None]}).cast(part.features)
    datasets.DatasetDict({"train": part, "dev": part, "test": secret}).save_to_disk(tmp_path / "saved")
    with pytest.raises(
        ConfigError, match=r"1 of 1 test examples have no 'label', .*; set data.options.test_split = 'dev'"
    ):
        load(f"hf:{tmp_path / 'saved'}")
    data = load(f"hf:{tmp_path / 'saved'}", test_split="dev")
    assert data.about.startswith("text of 'text', Value of 'label'; splits not used: test; classes: bad, good")
    numbers = datasets.Dataset.from_dict({"text": list("abcdefghij"), "label": [0, 1] * 5})
    unlabelled = datasets.Dataset.from_dict({"text": ["a"], "label": [-1]})
    datasets.DatasetDict({"train": numbers, "dev": numbers, "test": unlabelled}).save_to_disk(tmp_path / "numbers")
    with pytest.raises(ConfigError, match=r"all 1 test labels are -1, .*; set data.options.test_split = 'dev' to test"):
        load(f"hf:{tmp_path / 'numbers'}")


def test_pictures_of_several_sizes_and_16_bits_are_read(tmp_path: Path) -> None:
    for number in range(4):
        folder = tmp_path / "scans" / "train" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((2 + number, 3), 13107, np.uint16)).save(folder / f"{number}.png")
    with pytest.raises(ConfigError, match=r"example . of train: is 3 x ., .* is 3 x .; set side to scale images"):
        load(f"hf:{tmp_path / 'scans'}", test_share=0.5)
    data = load(f"hf:{tmp_path / 'scans'}", test_share=0.5, side=2)
    assert data.train_x.shape == (2, 1, 2, 2)
    assert data.train_x == pytest.approx(0.2)
    assert "(grey images of 2 x 2, 16 bits divided by 65535)" in data.about
    with pytest.raises(ConfigError, match=r"side = 2: .* has no images; remove it"):
        load(f"hf:{written(tmp_path / 'plain', {'x': [[1.0]] * 6, 'y': [0, 1] * 3})}", side=2)


def test_a_table_of_numbers_is_referred_to_its_source(tmp_path: Path) -> None:
    folder = written(tmp_path / "plain", {"height": [1.5, 2.5] * 4, "width": [1, 2] * 4, "label": [0, 1] * 4})
    with pytest.raises(ConfigError, match=r"no column of images, arrays or text; .* source = 'table:FILE\.parquet'"):
        load(f"hf:{folder}")
    assert load(f"table:{folder / 'train.parquet'}").train_x.shape[1] == 2


def test_a_data_set_that_is_not_cached_says_how_to_fetch_it() -> None:
    with pytest.raises(ConfigError, match=r"hf:someone/reviews: not in the cache .*; run `fedtempo fetch hf:someone/"):
        load("hf:someone/reviews")


def test_a_fetched_data_set_is_saved_for_machines_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = datasets.Dataset.from_dict({"x": [[1.0, 2.0]] * 6, "y": [0, 1] * 3})
    monkeypatch.setattr(datasets, "load_dataset", lambda name, subset: datasets.DatasetDict({name: part, "test": part}))
    assert fetch("hf:train", out=tmp_path / "copy") == {"train": 6, "test": 6}
    assert len(load(f"hf:{tmp_path / 'copy'}").train_y) == 6
    with pytest.raises(ConfigError, match="copy already exists; choose another folder"):
        fetch("hf:train", out=tmp_path / "copy")
    assert fetch("mnist") == {"ylecun/mnist": 6, "test": 6}
    with pytest.raises(ConfigError, match="digits: nothing to fetch; must be hf:NAME, or one of cifar10, cifar100"):
        fetch("digits")

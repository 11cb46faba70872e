"""Labels of tables: missing ones, names that only the test file has, floats, booleans and other names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedtempo.data.sources import load
from fedtempo.errors import ConfigError


def source(folder: Path, labels: list[str], name: str = "people.csv") -> str:
    rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
    (folder / name).write_text("x,label\n" + rows, encoding="utf-8")
    return f"table:{folder / name}"


@pytest.mark.parametrize("mark", ["NA", "?", "n/a", "null", ""])
def test_labels_that_mark_missing_values_are_asked_for(tmp_path: Path, mark: str) -> None:
    rows = source(tmp_path, ["p", "q", mark, "q"] * 10)
    with pytest.raises(
        ConfigError, match=r"row 4: 'label' is missing.*, and in 9 more rows; set data\.options\.missing"
    ):
        load(rows)
    data = load(rows, missing={"label": "drop"})
    assert data.class_names == ("p", "q")
    assert data.about == "classes of 'label': p, q, from 1 features; 10 of 40 rows left out (10 without 'label')"
    assert len(data.train_y) + len(data.test_y) == 30
    with pytest.raises(ConfigError, match=r"set data\.options\.missing = { 'label' = 'drop' }"):
        load(rows, missing="median")
    if mark:
        assert load(rows, missing_values=[""]).class_names == tuple(sorted(("p", "q", mark)))


@pytest.mark.parametrize("floats", [["0.0", "1.0"], ["0.0", "1.0", "2.0", "9.0"]])
def test_whole_floats_are_asked_for(tmp_path: Path, floats: list[str]) -> None:
    rows = source(tmp_path, floats * 12)
    says = rf"holds floats with only {len(floats)} values, all whole, 0 to {floats[-1][0]}; set data\.options\.task ="
    with pytest.raises(ConfigError, match=says + " 'classes' or 'numbers'"):
        load(rows)
    assert load(rows, task="classes").class_names == tuple(value[0] for value in floats)
    assert load(rows, task="numbers").task == "numbers"
    decimals = source(tmp_path, [f'"{value.replace(".", ",")}"' for value in floats * 12])
    with pytest.raises(ConfigError, match=says):
        load(decimals)


def test_text_labels_are_in_natural_order(tmp_path: Path) -> None:
    assert load(source(tmp_path, ["class2", "class10", "class1"] * 9)).class_names == ("class1", "class2", "class10")


def test_texts_of_parquet_that_are_numbers_are_classes_and_categories(tmp_path: Path) -> None:
    table = pa.table({"x": ["1,5", "2,5"] * 4, "code": ["7", "8"] * 4, "label": ["9", "10"] * 4})
    parquet.write_table(table, tmp_path / "people.parquet")
    source = f"table:{tmp_path / 'people.parquet'}"
    with pytest.raises(
        ConfigError, match=r"'x' holds texts that may be numbers; set data\.options\.decimal = ',' if '1,5'"
    ):
        load(source)
    data = load(source, drop=["x"])
    assert (data.class_names, data.train_x.shape[1]) == (("9", "10"), 2)
    assert set(load(source, features=["x"], decimal=",").train_x.ravel().tolist()) == {1.5, 2.5}


def test_labels_that_the_test_file_spells_otherwise_can_be_named(tmp_path: Path) -> None:
    rows = source(tmp_path, ["<=50K", ">50K"] * 10)
    source(tmp_path, ["<=50K.", ">50K.", ">50K."], "te.csv")
    says = r"if these are the same, set data\.options\.relabel = { '<=50K\.' = '<=50K', '>50K\.' = '>50K' }"
    with pytest.raises(ConfigError, match=says):
        load(rows, test="te.csv")
    data = load(rows, test="te.csv", relabel={"<=50K.": "<=50K", ">50K.": ">50K"})
    assert data.class_names == ("<=50K", ">50K")
    assert data.test_y.tolist() == [0, 1, 1]
    source(tmp_path, ["<=50K", "rich"], "te.csv")
    with pytest.raises(
        ConfigError, match=r"not among the training labels: 'rich' \(1\); known labels: '<=50K', '>50K'$"
    ):
        load(rows, test="te.csv")


def test_relabelling_may_join_classes_and_name_numbers(tmp_path: Path) -> None:
    rows = source(tmp_path, ["0", "1", "2", "3"] * 10)
    data = load(rows, relabel={"0": "healthy", "1": "ill", "2": "ill", "3": "ill"})
    assert data.class_names == ("healthy", "ill")
    assert (data.train_y == (data.train_x[:, 0].astype(int) % 4 > 0)).all()
    with pytest.raises(ConfigError, match=r"relabel: no row has the label '4'"):
        load(rows, relabel={"4": "ill"})
    with pytest.raises(ConfigError, match=r"relabel = \['0'\]: must be a table of texts, such as"):
        load(rows, relabel=["0"])
    with pytest.raises(ConfigError, match=r"relabel: gives labels of 'label' names; remove it, or task = 'numbers'"):
        load(rows, relabel={"0": "healthy"}, task="numbers")


def test_clients_may_be_missing_too(tmp_path: Path) -> None:
    lines = "".join(f"{i},{('a', 'NA', 'b')[i % 3]},{'pq'[i % 2]}\n" for i in range(30))
    (tmp_path / "t.csv").write_text("x,ward,label\n" + lines)
    rows = f"table:{tmp_path / 't.csv'}"
    with pytest.raises(
        ConfigError, match=r"row 3: 'ward' is missing \('NA' counts as missing unless data\.options\.miss"
    ):
        load(rows, client="ward")
    assert load(rows, client="ward", missing={"ward": "drop"}).owner_names == ("a", "b")
    assert load(rows, client="ward", missing_values=[]).owner_names == ("NA", "a", "b")
    with pytest.raises(ConfigError, match=r"row 3: 'ward' is missing"):
        load(rows, group="ward", features=["x"])

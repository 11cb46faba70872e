"""Tables: recognised columns, the rows of each client, and errors that name file, row and column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from fedtempo.data.sources import load
from fedtempo.errors import ConfigError

HEADER = "age,sex,ward,label"


def written(folder: Path, rows: Sequence[str], header: str = HEADER, name: str = "people.csv") -> str:
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return f"table:{path}"


def people(n: int = 40) -> list[str]:
    return [f"{20 + i},{'fm'[i % 2]},{'xyz'[i % 3]},{'yes' if i % 4 else 'no'}" for i in range(n)]


def test_columns_are_recognised_and_described(tmp_path: Path) -> None:
    data = load(written(tmp_path, people()), client="ward")
    assert data.task == "classes"
    assert data.class_names == ("no", "yes")
    assert data.owner_names == ("x", "y", "z")
    assert data.train_x.shape == (32, 3)  # age, and one column per sex
    assert set(data.train_x[:, 1:].ravel()) == {0.0, 1.0}
    assert (
        data.about
        == "classes of 'label': no, yes, from 2 features, 3 clients by 'ward': x, y, z; texts as categories: 2 of 'sex'"
    )
    ages = np.concatenate([data.train_x[:, 0], data.test_x[:, 0]])
    assert sorted(ages.tolist()) == [20.0 + i for i in range(40)]
    assert data.sha256 == load(written(tmp_path, people()), client="ward").sha256


def test_each_row_keeps_its_label_and_its_client(tmp_path: Path) -> None:
    data = load(written(tmp_path, people()), client="ward")
    assert data.train_owners is not None
    for x, y, owner in zip(data.train_x, data.train_y, data.train_owners):
        i = round(float(x[0])) - 20
        assert data.class_names[y] == ("yes" if i % 4 else "no")
        assert data.owner_names[owner] == "xyz"[i % 3]


def test_each_client_and_class_gives_its_share_to_the_test_set(tmp_path: Path) -> None:
    data = load(written(tmp_path, people(120)), client="ward", test_share=0.25)
    assert len(data.test_y) == 30
    assert np.bincount(data.train_owners).tolist() == [30, 30, 30]
    assert data.test_owners is not None
    for owner in range(3):  # of the 40 rows of each, 10 are of the first class
        assert abs(int((data.test_y[data.test_owners == owner] == 0).sum()) - 0.25 * 10) < 1


def test_classes_with_one_row_at_each_client_are_not_all_held_out(tmp_path: Path) -> None:
    """Ten clients with the same ten classes: not the same two classes of each are for testing."""
    rows = [f"u{user},{kind}.5,c{kind}" for user in range(10) for kind in range(10)]
    data = load(written(tmp_path, rows, "user,x,label"), client="user", label="label")
    assert np.bincount(data.test_owners).tolist() == [2] * 10
    assert np.count_nonzero(np.bincount(data.test_y, minlength=10)) > 5


def test_a_parquet_file_gives_the_same_table(tmp_path: Path) -> None:
    rows = [row.split(",") for row in people()]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(HEADER.split(","))}
    table = pa.table({**columns, "age": [int(age) for age in columns["age"]]})
    parquet.write_table(table, tmp_path / "people.parquet")
    assert load(f"table:{tmp_path / 'people.parquet'}").sha256 == load(written(tmp_path, people())).sha256
    broken = table.set_column(0, "age", pa.array([1, None] + [3] * 38))
    parquet.write_table(broken, tmp_path / "people.parquet")
    with pytest.raises(ConfigError, match=r"people.parquet: row 2: 'age' is missing"):
        load(f"table:{tmp_path / 'people.parquet'}")


def test_numeric_labels_are_read(tmp_path: Path) -> None:
    rows = [f"{i},{i / 7:.3f}" for i in range(100)]
    data = load(written(tmp_path, rows, "x,y"))
    assert data.task == "numbers"
    assert data.train_y.dtype == np.float32
    assert data.n_classes == 1
    assert data.about == "numbers of 'y', from 1 features"
    labels, parts = data.strata
    assert parts == 10
    assert np.bincount(labels).tolist() == [8] * 10
    assert (np.diff(labels[np.argsort(data.train_y)]) >= 0).all()


def test_few_distinct_integers_are_classes_and_many_are_numbers(tmp_path: Path) -> None:
    few = written(tmp_path, [f"{i},{5 * (i % 3)}" for i in range(60)], "x,label")
    assert load(few).class_names == ("0", "5", "10")
    assert load(few, task="numbers").task == "numbers"
    many = written(tmp_path, [f"{i},{7 * i}" for i in range(60)], "x,label", "many.csv")
    assert load(many).task == "numbers"
    assert load(many, task="classes").n_classes == 60


def test_features_drop_and_standardize_are_applied(tmp_path: Path) -> None:
    source = written(tmp_path, people(), HEADER)
    assert load(source, features=["age"]).train_x.shape[1] == 1
    assert load(source, drop=["sex", "ward"]).train_x.shape[1] == 1
    scaled = load(source, client="ward", standardize=True)
    assert scaled.train_x.mean(axis=0) == pytest.approx(0.0, abs=1e-6)
    assert scaled.train_x.std(axis=0) == pytest.approx(1.0, abs=1e-5)


def test_a_separate_test_file_is_read(tmp_path: Path) -> None:
    written(tmp_path, people(5), name="later.csv")
    data = load(written(tmp_path, people()), client="ward", test="later.csv")
    assert len(data.train_y) == 40
    assert data.test_x[:, 0].tolist() == [20.0, 21.0, 22.0, 23.0, 24.0]


@pytest.mark.parametrize(
    ("row", "options", "says"),
    [
        ("n/k,f,x,yes", {}, r"people.csv: row 12: 'age' is 'n/k', not a number"),
        (",f,x,yes", {}, r"people.csv: row 12: 'age' is missing"),
        ("1,,x,yes", {}, r"people.csv: row 12: 'sex' is missing"),
        ("1e60,f,x,yes", {}, r"people.csv: row 12: 'age' is 1e\+60, not a finite number"),
        ("inf,f,x,yes", {}, r"people.csv: row 12: 'age' is inf, not a finite number"),
        ("1,f,x,", {}, r"people.csv: row 12: 'label' is missing"),
        ("1,f,x", {}, r"people.csv: cannot be read: CSV parse error: (Row #12: )?Expected 4 columns, got 3"),
        ("1,f,x,yes", {"label": "lable"}, r"people.csv: no column 'lable'; did you mean 'label'"),
        ("1,f,x,yes", {"client": "hospital"}, r"people.csv: no column 'hospital'"),
        ("1,f,x,yes", {"features": "age"}, r"features = 'age': must be a list of column names"),
        ("1,f,x,yes", {"features": []}, r"no features to predict 'label' from"),
        ("1,f,only once,yes", {"client": "ward", "test_share": 0.99}, r"client '.*' has too few rows"),
        ("1,f,x,yes", {"task": "regression"}, r"task = 'regression': must be 'classes' or 'numbers'"),
        ("1,f,x,yes", {"task": "numbers"}, r"people.csv: row 2: 'label' is 'no', not a number"),
        ("1,f,x,yes", {"test_share": 1}, r"test_share = 1: must be 0 .* or more, and below 1"),
        ("1,f,x,yes", {"test": "none.csv"}, r"none.csv: cannot be read"),
    ],
)
def test_errors_name_file_row_and_column(tmp_path: Path, row: str, options: dict[str, Any], says: str) -> None:
    source = written(tmp_path, [*people(10), row, *people(3)])
    with pytest.raises(ConfigError, match=says):
        load(source, **options)


def test_files_that_are_not_usable_tables_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the column to predict is unclear; set label to one of a, b"):
        load(written(tmp_path, ["1,2"], "a,b"))
    with pytest.raises(ConfigError, match="duplicate column 'a'"):
        load(written(tmp_path, ["1,2"], "a,a"))
    with pytest.raises(ConfigError, match="no rows below the header"):
        load(written(tmp_path, [], "a,label"))
    with pytest.raises(ConfigError, match=r"must be a \.csv, \.tsv or \.parquet file"):
        load(written(tmp_path, ["1,2"], name="people.txt"))
    with pytest.raises(ConfigError, match="distinct texts, more than 50"):
        load(written(tmp_path, [f"name {i},{i % 2}" for i in range(60)], "a,label"))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(ConfigError, match=r"bad\.parquet: cannot be read"):
        load(f"table:{tmp_path / 'bad.parquet'}")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(4, 40), min_size=1, max_size=6),
    share=st.floats(0.05, 0.5),
    n_classes=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_every_row_is_used_once_for_training_or_testing(
    tmp_path: Path, sizes: list[int], share: float, n_classes: int, seed: int
) -> None:
    clients = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    source = written(tmp_path, [f"{i},{c},{i % n_classes}" for i, c in enumerate(clients)], "x,client,label")
    try:
        data = load(source, client="client", test_share=share)
    except ConfigError as error:
        if "too few" not in str(error) and "for testing" not in str(error):
            raise
        return
    seen = np.concatenate([data.train_x[:, 0], data.test_x[:, 0]])
    assert sorted(seen.tolist()) == list(range(len(clients)))
    left = np.bincount(data.train_owners, minlength=len(sizes))
    assert (np.abs(np.array(sizes) * (1 - share) - left) <= 1 + 1e-9).all()


def test_labels_found_only_in_the_test_file_are_named(tmp_path: Path) -> None:
    train = written(tmp_path, [f"{i},{'<=50K' if i < 50 else '>50K'}" for i in range(100)], "a,label")
    written(tmp_path, [f"{i},{'<=50K' if i < 50 else '>50K'}." for i in range(100)], "a,label", "te.csv")
    says = (
        r"te.csv: column 'label': test labels not among the training labels: '<=50K\.' \(50\), '>50K\.' \(50\); known"
    )
    with pytest.raises(ConfigError, match=says):
        load(train, test="te.csv")


def test_ambiguous_labels_need_an_explicit_task(tmp_path: Path) -> None:
    def rejected_source(labels: Sequence[Any], says: str, name: str = "label") -> str:
        source = written(tmp_path, [f"{i},{label}" for i, label in enumerate(labels)], f"x,{name}", f"{name}.csv")
        with pytest.raises(ConfigError, match=says):
            load(source, label=name)
        return source

    source = rejected_source(
        [f"{i % 3}.0" for i in range(60)], r"'label' holds floats with only 3 values, all whole, 0 to 2; set"
    )
    assert load(source, task="classes").class_names == ("0", "1", "2")
    assert load(source, task="numbers").task == "numbers"
    source = rejected_source(
        [-1 if i % 5 == 0 else i % 5 for i in range(60)], r"label -1 in 12 of 60 rows .*; set data.options"
    )
    assert load(source, task="classes").class_names == ("-1", "1", "2", "3", "4")
    ids = [17 + (31 * i) % 60 for i in range(60)]
    source = rejected_source(
        ids, r"'label' has 60 distinct values in 60 rows, like an identifier; set data.options.task = 'numbers'"
    )
    assert load(source, task="numbers").task == "numbers"
    rejected_source([2 * i for i in range(60)], r"'patient_id' has 60 distinct values in 60 rows", "patient_id")
    rejected_source([f"name{i}" for i in range(60)], r"'label' has 60 distinct values .*task = 'classes'")
    signs = written(tmp_path, [f"{i},{2 * (i % 2) - 1}" for i in range(60)], "x,label", "signs.csv")
    assert load(signs).class_names == ("-1", "1")


def patients(first: int, last: int) -> list[str]:
    """Write twenty rows of each patient, whose label is a coin toss."""
    rng = np.random.default_rng(first)
    return [
        f"{'ABC'[p % 3]},{p},{p % 7},{p + rng.normal():.3f},{(p // 3) % 2}"
        for p in range(first, last)
        for _ in range(20)
    ]


WARDS = "hospital,patient,batch,a,label"


@pytest.mark.parametrize("options", [{"drop": ["patient"]}, {}, {"features": ["a"]}])
def test_rows_of_one_patient_in_both_sets_give_a_warning(tmp_path: Path, options: dict[str, Any]) -> None:
    source = written(tmp_path, patients(0, 30), WARDS)
    (warning,) = load(source, client="hospital", **options).warnings
    assert warning == (
        "30 of 30 values of 'patient' have both training and test rows; results say little about new values; "
        "set data.options.group = 'patient' to keep each value on one side"
    )
    written(tmp_path, patients(25, 60), WARDS, "new.csv")
    (warning,) = load(source, client="hospital", test="new.csv", **options).warnings
    assert warning.startswith("5 of 60 values of 'patient' have")
    assert warning.endswith("; split the rows into the two files by this column")
    written(tmp_path, patients(30, 60), WARDS, "others.csv")
    assert load(source, client="hospital", test="others.csv", **options).warnings == ()
    assert load(source, client="patient").warnings == ()


def test_a_dropped_column_with_many_values_gives_a_warning_whatever_its_name(tmp_path: Path) -> None:
    source = written(tmp_path, patients(0, 30), WARDS.replace("patient", "nr"))
    assert load(source).warnings == ()
    (warning,) = load(source, drop=["nr", "batch"]).warnings
    assert "values of 'nr'" in warning


@pytest.mark.parametrize("column", ["sex", "idle", "video", "paid", "grid", "width", "usage", "income", "casement"])
def test_ordinary_columns_are_not_identifiers(column: str, tmp_path: Path) -> None:
    assert load(written(tmp_path, patients(0, 30), WARDS.replace("patient", column))).warnings == ()


@pytest.mark.parametrize(
    "column", ["id", "ID", "user_id", "UserId", "SubjectNumber", "patients", "case no", "person.id"]
)
def test_identifier_columns_are_recognised_by_name(column: str, tmp_path: Path) -> None:
    (warning,) = load(written(tmp_path, patients(0, 30), WARDS.replace("patient", column))).warnings
    assert f"values of {column!r}" in warning


def test_each_group_is_in_one_set(tmp_path: Path) -> None:
    source = written(tmp_path, patients(0, 30), WARDS)
    data = load(source, client="hospital", group="patient", features=["patient"])
    train, test = set(data.train_x[:, 0].tolist()), set(data.test_x[:, 0].tolist())
    assert (len(train), len(test), train & test) == (24, 6, set())
    assert (len(data.train_y), data.warnings) == (480, ())
    assert sorted(int(p) % 3 for p in test) == [0, 0, 1, 1, 2, 2]  # each hospital's share
    assert data.about.endswith("3 clients by 'hospital': A, B, C, rows of one 'patient' kept together")
    assert load(source, client="hospital", group="patient").train_x.shape[1] == 2
    assert load(source, client="hospital", group="patient", features=["patient"]).sha256 == data.sha256
    with pytest.raises(ConfigError, match=r"no column 'patients'; did you mean 'patient'"):
        load(source, group="patients")
    written(tmp_path, patients(29, 60), WARDS, "new.csv")
    with pytest.raises(ConfigError, match=r"group = 'patient': .* have 1 values in common: 29"):
        load(source, group="patient", test="new.csv")


def test_clients_are_in_natural_order(tmp_path: Path) -> None:
    rows = [f"site{1 + i % 12},{i},{i // 12 % 2}" for i in range(240)]
    data = load(written(tmp_path, rows, "client,a,label"), client="client")
    assert data.owner_names == tuple(f"site{i}" for i in range(1, 13))
    assert "12 clients by 'client': site1, site2, site3, site4, site5, ... (12)" in data.about
    assert data.train_owners is not None
    assert {int(a) % 12 for a in data.train_x[data.train_owners == 9, 0]} == {9}  # site10


def test_the_last_rows_of_each_client_are_held_out_by_time(tmp_path: Path) -> None:
    """Of each client's ten rows, two are for testing: those of its last days, whatever their order in the file."""
    rows = [f"2024-01-{1 + (7 * i) % 10:02},{i},{'xy'[i // 10]},{'yes' if i % 2 else 'no'}" for i in range(20)]
    source = written(tmp_path, rows, "day,age,ward,label")
    data = load(source, client="ward", time="day")
    assert sorted(data.test_x.ravel().tolist()) == [4.0, 7.0, 14.0, 17.0]  # of days 9 and 10
    assert data.train_times is not None
    assert data.train_times.max() == 1_704_672_000  # 8 January 2024, 00:00 UTC
    assert data.about.endswith("2 clients by 'ward': x, y, the latest rows by 'day' held out")
    assert data.train_x.shape == (16, 1)  # the day is no feature
    assert load(source, client="ward", time="day", features=["age"], test_share=0.5).test_x.shape == (10, 1)
    with pytest.raises(ConfigError, match="group = 'age', time = 'day': give one of them"):
        load(source, time="day", group="age")
    with pytest.raises(ConfigError, match=r"people\.csv: row 2: 'ward' is 'x', neither a number nor a date"):
        load(source, time="ward", features=["age"])


def test_later_test_rows_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    header = "day,age,ward,label"
    source = written(tmp_path, [f"{i},{i},{'xy'[i % 2]},{'yes' if i % 4 else 'no'}" for i in range(10)], header)
    written(tmp_path, ["10,1,x,yes", "11,1,y,no"], header, "later.csv")
    written(tmp_path, ["9,1,x,yes", "8,1,y,no"], header, "early.csv")
    assert len(load(source, client="ward", time="day", test="later.csv").test_y) == 2
    assert len(load(source, client="ward", time="day", test="later.csv", validation="later.csv").test_y) == 2
    with pytest.raises(ConfigError, match=r"early.csv: 1 of 2 test rows are not later than .* of their client"):
        load(source, client="ward", time="day", test="early.csv")


def test_validation_rows_are_read_from_their_file(tmp_path: Path) -> None:
    """Categories and classes are those of all files; the scaling is that of the training rows."""
    source = written(tmp_path, people())
    written(tmp_path, ["30,f,x,yes", "50,m,z,no"], name="held.csv")
    data = load(source, client="ward", validation="held.csv", standardize=True)
    plain = load(source, client="ward", standardize=True)
    assert data.validation_x is not None
    assert data.validation_y is not None
    assert data.validation_y.tolist() == [1, 0]
    assert np.array_equal(data.train_x, plain.train_x)
    ages = load(source, client="ward").train_x[:, 0]
    assert data.validation_x[:, 0].tolist() == pytest.approx(((np.array([30, 50]) - ages.mean()) / ages.std()).tolist())
    assert data.about.endswith("; 2 validation examples")
    written(tmp_path, ["30,f,x,perhaps"], name="held.csv")
    with pytest.raises(
        ConfigError, match=r"held.csv: column 'label': test labels not among the training labels: 'perh"
    ):
        load(source, validation="held.csv")
    rows = [f"{i // 4},{i},{'yes' if i % 2 else 'no'}" for i in range(40)]
    grouped = written(tmp_path, rows, "patient,age,label")
    written(tmp_path, ["3,30,yes"], "patient,age,label", "held.csv")
    trained = load(grouped, group="patient", test_share=0.5)
    assert trained.train_groups is not None
    for patient in range(10):
        written(tmp_path, [f"{patient},30,yes"], "patient,age,label", "held.csv")
        if patient in trained.train_groups:
            with pytest.raises(ConfigError, match=f"held.csv have 1 values in common: {patient}"):
                load(grouped, group="patient", test_share=0.5, validation="held.csv")
        else:
            assert load(grouped, group="patient", test_share=0.5, validation="held.csv").validation_y is not None


def test_a_class_that_begins_late_is_said(tmp_path: Path) -> None:
    rows = [f"{i},{i},{'new' if i > 8 else 'old'}" for i in range(10)]
    data = load(written(tmp_path, rows, "day,age,label"), time="day", test_share=0.1)
    assert data.warnings == ("classes with test examples but no training examples: new (1)",)


@pytest.mark.parametrize("secret", ["-1", "-1.0"])
def test_secret_labels_of_a_file_are_named(secret: str, tmp_path: Path) -> None:
    rows = [f"{i},{i % 2}" for i in range(20)]
    source = written(tmp_path, rows, "age,label")
    written(tmp_path, [f"{i},{secret}" for i in range(5)], "age,label", "held.csv")
    for task in (None, "classes", "numbers"):
        with pytest.raises(ConfigError, match=r"held\.csv: all 5 labels are -1, .* remove data\.options\.test, and a "):
            load(source, test="held.csv", task=task)
        with pytest.raises(ConfigError, match=r"unlabelled; remove data\.options\.validation$"):
            load(source, validation="held.csv", task=task)
    signs = written(tmp_path, [f"{i},{1 - 2 * (i % 2)}" for i in range(20)], "age,label")
    assert load(signs, test="held.csv", task="classes").test_y.tolist() == [0] * 5


def test_row_numbers_that_pandas_writes_are_no_features(tmp_path: Path) -> None:
    for name in ("", "Unnamed: 0", "index"):
        rows = [f"{i},{row}" for i, row in enumerate(people())]
        data = load(written(tmp_path, rows, f"{name},{HEADER}"))
        assert data.about.startswith(f"classes of 'label': no, yes, from 3 features without the identifiers {name!r}")
        assert np.unique(data.train_x[:, 0]).min() == 20
        few = [f"{i % 4},{row}" for i, row in enumerate(people())]
        assert "identifiers" not in load(written(tmp_path, few, f"{name},{HEADER}")).about


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"features": ["age", "label"]}, "features: 'label' would be predicted from itself; leave it out"),
        ({"features": ["age", "sex"], "drop": ["sex"]}, "features, drop: both name 'sex'; remove it from one of them"),
        ({"standardize": "false"}, "standardize = 'false': must be true or false"),
    ],
)
def test_options_that_mislead_are_rejected(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(written(tmp_path, people()), **options)


def test_names_of_columns_are_on_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\(choose from age in years, label, sex, ward\)$"):
        load(written(tmp_path, people(), '"age\nin years",sex,ward,label'), label="ages")
    table = pa.table({"age\r\nin years": list(range(40)), "label": ["yes", "no"] * 20})
    parquet.write_table(table, tmp_path / "people.parquet")
    assert load(f"table:{tmp_path / 'people.parquet'}", features=["age in years"]).train_x.shape == (32, 1)


def test_lines_above_the_header_are_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="if lines stand above the header, remove them"):
        load(written(tmp_path, [HEADER, *people()], "Report of 2024"))


def test_whole_numbers_name_clients_however_they_are_stored(tmp_path: Path) -> None:
    for name, client in (("train", [1.0, 2.0, 10.0, None] * 10), ("test", ["1", "10"] * 20)):
        table = pa.table({"a": list(range(40)), "client": client, "label": ["yes", "yes", "no", "no"] * 10})
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    options = {"client": "client", "test": "test.parquet", "missing": {"client": "drop"}}
    data = load(f"table:{tmp_path / 'train.parquet'}", **options)
    assert data.owner_names == ("1", "2", "10")
    assert data.test_owners is not None
    assert data.test_owners.tolist() == [0, 2] * 20

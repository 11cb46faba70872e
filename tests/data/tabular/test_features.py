"""Missing values, statistics of training rows, dates, identifiers and categories, with numbers worked out by hand."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedtempo.data.sources import load
from fedtempo.errors import ConfigError

TRAIN = """age,job,ward,label
1,nurse,a,yes
3,cook,a,no
,cook,a,yes
9,NA,b,no
11,nurse,b,yes
100,nurse,b,no
"""
TEST = """age,job,ward,label
,cook,a,yes
7,?,b,no
,nurse,c,yes
"""


def source(folder: Path, train: str = TRAIN, test: str | None = TEST) -> str:
    (folder / "people.csv").write_text(train, encoding="utf-8")
    if test is not None:
        (folder / "later.csv").write_text(test, encoding="utf-8")
    return f"table:{folder / 'people.csv'}"


def table(folder: Path, **columns: list[Any]) -> str:
    parquet.write_table(pa.table(columns), folder / "people.parquet")
    return f"table:{folder / 'people.parquet'}"


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (",nurse,a,yes", r"row 8: 'age' is missing, and in 2 more rows; set data\.options\.missing = 'median', 'cat"),
        ("5,?,a,yes", r"row 8: 'job' is missing \('\?' counts as missing unless data\.options\.missing_values leaves"),
        (
            "5,nurse,a,NA",
            r"row 8: 'label' is missing \('NA' counts .*missing = { 'label' = 'drop' } to leave such rows",
        ),
        ("5,nurse,,yes", r"row 8: 'ward' is missing; set data\.options\.missing = { 'ward' = 'drop' } to leave such"),
    ],
)
def test_missing_values_are_an_error_that_says_what_to_set(tmp_path: Path, cells: str, says: str) -> None:
    whole = TRAIN.replace("\n,", "\n5,").replace("NA", "cook")
    rows = source(tmp_path, whole + cells + "\n" + (2 * "\n,cook,b,no" + "\n" if cells.startswith(",") else ""), None)
    with pytest.raises(ConfigError, match=says):
        load(rows, client="ward")


def test_medians_and_most_frequent_texts_come_from_training_rows(tmp_path: Path) -> None:
    data = load(source(tmp_path), client="ward", test="later.csv", missing="median")
    # Ages 1, 3, 9, 11, 100 have the median 9; of the jobs, nurse (3 of 5) is the most frequent.
    assert data.train_x.tolist() == [[1, 0, 1], [3, 1, 0], [9, 1, 0], [9, 0, 1], [11, 0, 1], [100, 0, 1]]
    assert data.test_x.tolist() == [[9, 1, 0], [7, 0, 1], [9, 0, 1]]
    assert data.about.endswith("; missing values filled: 3 of 'age' (median), 2 of 'job' (median)")


def test_statistics_of_each_client_come_from_its_training_rows(tmp_path: Path) -> None:
    data = load(source(tmp_path), client="ward", test="later.csv", missing="median", fit="client")
    # Ward a: median of 1 and 3, most often cook. Ward b: median of 9, 11 and 100, most often nurse. Ward c has no
    # training row, so it takes those of all.
    assert data.train_x.tolist() == [[1, 0, 1], [3, 1, 0], [2, 1, 0], [9, 0, 1], [11, 0, 1], [100, 0, 1]]
    assert data.test_x.tolist() == [[2, 1, 0], [7, 0, 1], [9, 0, 1]]
    assert data.test_owners is not None
    assert data.test_owners.tolist() == [0, 1, -1]


def test_missing_may_be_a_category_of_its_own(tmp_path: Path) -> None:
    data = load(source(tmp_path), client="ward", test="later.csv", missing="category")
    # age, whether it was missing, cook, nurse, missing.
    assert data.train_x.tolist() == [
        *([1, 0, 0, 1, 0], [3, 0, 1, 0, 0], [9, 1, 1, 0, 0]),
        *([9, 0, 0, 0, 1], [11, 0, 0, 1, 0], [100, 0, 0, 1, 0]),
    ]
    assert data.test_x.tolist() == [[9, 1, 1, 0, 0], [7, 0, 0, 0, 1], [9, 1, 0, 1, 0]]


def test_rows_with_missing_values_may_be_left_out(tmp_path: Path) -> None:
    data = load(source(tmp_path, test=TEST + "8,cook,b,no\n"), client="ward", test="later.csv", missing="drop")
    assert data.train_x.tolist() == [[1, 0, 1], [3, 1, 0], [11, 0, 1], [100, 0, 1]]
    assert data.test_x.tolist() == [[8, 1, 0]]
    assert data.about.endswith(
        "; people.csv: 2 of 6 rows left out (1 without 'age', 1 without 'job')"
        "; later.csv: 3 of 4 rows left out (2 without 'age', 1 without 'job')"
    )


def test_each_column_may_have_its_way(tmp_path: Path) -> None:
    ways = {"age": "drop", "job": "category", "label": "drop"}
    data = load(source(tmp_path, TRAIN + "4,cook,a,NA\n"), client="ward", test="later.csv", missing=ways)
    assert data.train_x.tolist() == [[1, 0, 1, 0], [3, 1, 0, 0], [9, 0, 0, 1], [11, 0, 1, 0], [100, 0, 1, 0]]
    assert data.test_x.tolist() == [[7, 0, 0, 1]]
    says = "people.csv: 2 of 7 rows left out (1 without 'label', 1 without 'age'); later.csv: 2 of 3 rows left out"
    assert says in data.about
    with pytest.raises(ConfigError, match=r"row 4: 'age' is missing; set data.options.missing.'age' = 'median', 'cat"):
        load(source(tmp_path), client="ward", test="later.csv", missing={"job": "drop"})
    with pytest.raises(ConfigError, match=r"missing\.jobs: 'jobs' is no column that is used; did you mean 'job'"):
        load(source(tmp_path), missing={"jobs": "drop"})
    with pytest.raises(ConfigError, match="missing = 'mean': must be 'median', 'category' or 'drop'"):
        load(source(tmp_path), missing="mean")


def test_rows_keep_their_numbers_in_errors_after_others_were_left_out(tmp_path: Path) -> None:
    rows = source(tmp_path, TRAIN + "1e60,cook,a,no\n", None)
    with pytest.raises(ConfigError, match=r"row 8: 'age' is 1e\+60, not a finite number"):
        load(rows, missing="drop", test_share=0.5)
    rows = source(tmp_path, "a,label\n,x\n,y\n", None)
    with pytest.raises(ConfigError, match="'a' has no values; exclude it with drop"):
        load(rows, missing="median")
    with pytest.raises(ConfigError, match="missing = 'drop' leaves no row: 2 without 'a' of 2 rows"):
        load(rows, missing="drop")


def test_missing_values_can_be_named(tmp_path: Path) -> None:
    rows = source(tmp_path, "a,b,label\n" + "1,x,NA\n2,-,EU\n-,y,NA\n4,x,EU\n" * 5, None)
    with pytest.raises(ConfigError, match=r"row 4: 'a' is '-', not a number; .* add it to data\.options\.missing_val"):
        load(rows, missing_values=[])
    data = load(rows, missing_values=["-"], missing="drop")
    assert data.class_names == ("EU", "NA")
    assert len(data.train_y) + len(data.test_y) == 10


def test_missing_values_of_parquet_are_nulls_nan_and_marks(tmp_path: Path) -> None:
    columns = {"a": [1.0, None, float("nan"), 4.0], "b": ["x", "y", " ? ", ""], "label": ["p", "q", "p", "q"]}
    rows = table(tmp_path, **{name: 3 * values for name, values in columns.items()})
    with pytest.raises(ConfigError, match=r"row 2: 'a' is missing, and in 5 more rows"):
        load(rows, test_share=0.5)
    with pytest.raises(ConfigError, match=r"row 3: 'b' is missing \(' \? ' counts as missing"):
        load(rows, test_share=0.5, drop=["a"])
    data = load(rows, test_share=0.5, missing={"a": "median", "b": "category"})
    assert data.train_x.shape == (6, 4)
    with pytest.raises(ConfigError, match="row 2: 'a' is missing"):
        load(table(tmp_path, a=[1.0, float("nan"), 3.0], label=["p", "q", "p"]), test_share=0.5)


def test_scaling_uses_training_rows_only(tmp_path: Path) -> None:
    rows = source(tmp_path, "x,ward,label\n0,a,p\n2,a,q\n10,b,p\n14,b,q\n", "x,ward,label\n4,a,p\n12,b,q\n32,c,q\n")
    over_all = load(rows, client="ward", test="later.csv", standardize=True)
    # Mean 6.5, variance (42.25 + 20.25 + 12.25 + 56.25) / 4 = 32.75.
    assert over_all.test_x.ravel() == pytest.approx([-2.5 / 32.75**0.5, 5.5 / 32.75**0.5, 25.5 / 32.75**0.5])
    by_client = load(rows, client="ward", test="later.csv", standardize=True, fit="client")
    # Ward a: mean 1, deviation 1. Ward b: mean 12, deviation 2.
    assert by_client.train_x.ravel().tolist() == [-1, 1, -1, 1]
    assert by_client.test_x.ravel() == pytest.approx([3, 0, 25.5 / 32.75**0.5])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fit": "clients"}, "fit = 'clients': must be 'all' or 'client'"),
        ({"fit": "client"}, "fit = 'client': needs client, the column that names"),
        ({"fit": "client", "client": "ward"}, "fit = 'client': has no effect; set standardize or missing"),
        (
            {"fit": "client", "client": "ward", "missing": "median", "test": "later.csv"},
            r"fit = 'client': .*later\.csv has no column that names the client of a row; set fit = 'all'",
        ),
    ],
)
def test_statistics_of_unknown_clients_are_rejected(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load(source(tmp_path, test="age,job,label\n1,cook,yes\n"), **options)


def test_categories_of_the_test_file_alone_are_said(tmp_path: Path) -> None:
    train = "job,label\ncook,p\nnurse,q\ncook,q\n"
    data = load(source(tmp_path, train, "job,label\npilot,p\nnurse,q\npilot,q\nspy,q\n"), test="later.csv")
    assert data.train_x.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert data.test_x.tolist() == [[0, 0], [0, 1], [0, 0], [0, 0]]
    (warning,) = data.warnings
    assert warning.startswith("3 rows of ")
    assert warning.endswith(
        "later.csv have a 'job' that no row of the training file has (pilot, spy); for the model they are of none of "
        "its categories"
    )
    with pytest.raises(ConfigError, match=r"people\.csv: row 2: 'job' is 'cook', not a number"):
        load(source(tmp_path, train, "job,label\n1,p\n"), test="later.csv")


def date_rows(*dates: str) -> str:
    return "when,label\n" + "".join(f"{date},{'pq'[i % 2]}\n" for i, date in enumerate(dates * 4))


@pytest.mark.parametrize(
    ("dates", "options", "note", "days"),
    [
        (["1970-01-02", "2000-01-01"], {}, "", [1, 10957]),
        (["1970-01-02 12:00", "2000-01-01 06:00"], {}, "", [1.5, 10957.25]),
        (["1970-01-02T00:00:00+12:00", "2000-01-01T00:00:00Z"], {}, "", [0.5, 10957]),
        (["02.01.1970", "31.01.2000"], {}, " (%d.%m.%Y)", [1, 10987]),
        (["1/2/1970", "1/31/2000"], {}, " (%m/%d/%Y)", [1, 10987]),
        (["2/1/1970 12:00", "31/1/2000 06:00"], {}, " (%d/%m/%Y %H:%M)", [1.5, 10987.25]),
        (["1970/1/2", "2000/1/31"], {}, " (%Y/%m/%d)", [1, 10987]),
        (["01/02/1970", "01/01/2000"], {"dates": "%m/%d/%Y"}, " (%m/%d/%Y)", [1, 10957]),
        (["02.01.70", "01.01.00"], {"dates": "%d.%m.%y"}, " (%d.%m.%y)", [1, 10957]),
        (["2 Jan 1970", "1 Jan 2000"], {"dates": "%d %b %Y"}, " (%d %b %Y)", [1, 10957]),
    ],
)
def test_dates_are_days(
    tmp_path: Path, dates: list[str], options: dict[str, str], note: str, days: list[float]
) -> None:
    data = load(source(tmp_path, date_rows(*dates), None), **options)
    assert set(data.train_x.ravel().tolist()) == set(days)
    assert data.about.endswith(f"; dates of 'when' as days since 1970-01-01{note}")


@pytest.mark.parametrize(
    ("dates", "says"),
    [
        (["01/02/2000", "03/04/2000"], r"'when' holds dates such as '01/02/2000'; set .*dates = '%d/%m/%Y' or '%m/%d"),
        ([f"2024-02-{day:02}" for day in range(10, 20)] + ["2024-02-30"], r"'2024-02-10', and '2024-02-30'; if this "),
        (["31.12.99", "01.01.00"], r"'when' holds dates such as '31\.12\.99'; set data\.options\.dates = '%d\.%m\.%y'"),
    ],
)
def test_dates_that_may_be_several_are_asked_for(tmp_path: Path, dates: list[str], says: str) -> None:
    rows = source(tmp_path, date_rows(*dates), None)
    with pytest.raises(ConfigError, match=says):
        load(rows)
    assert load(rows, dates="").train_x.shape[1] == len(dates)


def test_a_format_of_dates_may_be_that_of_no_column(tmp_path: Path) -> None:
    assert load(source(tmp_path, "age,label\n" + "1,p\n2,q\n" * 4, None), dates="%d.%m.%Y").train_x.shape[1] == 1


@pytest.mark.parametrize("option", ["day", "%Q"])
def test_formats_that_are_none_are_rejected(tmp_path: Path, option: Any) -> None:
    with pytest.raises(ConfigError, match=r"dates = .*must be a format such as '%d.%m.%Y'"):
        load(source(tmp_path), dates=option)


def test_times_of_day_are_hours_and_durations_days(tmp_path: Path) -> None:
    times = "at,label\n" + "".join(f"{i:02d}:30,{'pq'[i % 2]}\n" for i in range(10))
    data = load(source(tmp_path, times, None))
    assert sorted(data.train_x.ravel().tolist() + data.test_x.ravel().tolist()) == [i + 0.5 for i in range(10)]
    assert data.about.endswith("; times of 'at' as hours")
    spans = [datetime.timedelta(hours=6 * i) for i in range(8)]
    data = load(table(tmp_path, span=spans, label=["p", "q"] * 4))
    assert sorted(data.train_x.ravel().tolist() + data.test_x.ravel().tolist()) == [i / 4 for i in range(8)]
    with pytest.raises(ConfigError, match="label column 'label' holds dates; must be classes or numbers"):
        load(table(tmp_path, a=[1, 2], label=[datetime.date(2000, 1, 1)] * 2))


def test_identifiers_are_left_out_and_named(tmp_path: Path) -> None:
    rows = "id,patient,a,label\n" + "".join(f"p{i},{i % 4},{i},{'pq'[i % 2]}\n" for i in range(60))
    data = load(source(tmp_path, rows, None))
    assert data.train_x.shape[1] == 2
    assert data.about == "classes of 'label': p, q, from 2 features without the identifiers 'id'"
    with pytest.raises(ConfigError, match="'id' has 60 distinct texts, more than 50"):
        load(source(tmp_path, rows, None), features=["id", "a"])
    with pytest.raises(ConfigError, match="no features to predict 'label' from but the identifiers 'id'; add columns"):
        load(source(tmp_path, rows, None), drop=["patient", "a"])


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (pa.array([1, 2, 3, 4] * 3, pa.uint64()), [1, 2, 3, 4]),
        (pa.array([1.5, 2, 3, 4] * 3, pa.float16()), [1.5, 2, 3, 4]),
        (pa.array([True, False] * 6), [0, 1]),
        (pa.array(["1.5", "2"] * 6).dictionary_encode(), [0, 1]),
        (pa.array([1, 7] * 6).dictionary_encode(), [1, 7]),
    ],
)
def test_types_of_parquet_are_numbers(tmp_path: Path, values: Any, numbers: list[float]) -> None:
    data = load(table(tmp_path, a=values, label=["p", "q", "q", "p"] * 3), test_share=0.34)
    assert set(data.train_x.ravel().tolist()) == set(numbers)


@pytest.mark.parametrize("values", [[[1], [2]], [{"a": 1}, {"a": 2}], [b"x", b"y"]])
def test_other_types_of_parquet_are_rejected_by_name(tmp_path: Path, values: list[Any]) -> None:
    rows = table(tmp_path, a=values * 4, b=range(8), label=["p", "q"] * 4)
    with pytest.raises(
        ConfigError, match=r"people\.parquet: 'a' holds .*, which is neither numbers, text nor dates; ex"
    ):
        load(rows)
    assert load(rows, drop=["a"]).train_x.shape[1] == 1
    with pytest.raises(ConfigError, match=r"'a' holds .*, which is neither"):
        load(rows, label="a")
    with pytest.raises(ConfigError, match=r"'a' holds .*, which is neither"):
        load(rows, client="a", features=["b"])


def test_large_files_are_read_like_small_ones(tmp_path: Path) -> None:
    """The types of a large file's beginning are tried first; columns that change further down are read again."""
    n = 130_000
    rows = [f"{i % 200},{i / 8},{'ab'[i % 2]},{i % 7},{'pq'[i % 3 % 2]}" for i in range(n)]
    data = load(source(tmp_path, "\n".join(["byte,x,kind,k,label", *rows]) + "\n", None), test_share=0.5)
    i = np.round(data.train_x[:, 1] * 8)
    assert data.train_x.tolist() == np.stack([i % 200, i / 8, i % 2 == 0, i % 2 == 1, i % 7], axis=1).tolist()
    rows[-1] = "300,0.5,a,0.5,q"
    data = load(source(tmp_path, "\n".join(["byte,x,kind,k,label", *rows]) + "\n", None), test_share=0.5)
    both = np.concatenate([data.train_x, data.test_x])
    assert (both[:, 0].max(), np.unique(both[:, 4]).tolist()) == (300, [0, 0.5, 1, 2, 3, 4, 5, 6])
    rows[-1] = "n/k,0.5,a,0.5,q"
    with pytest.raises(ConfigError, match=r"row 130001: 'byte' is 'n/k', not a number"):
        load(source(tmp_path, "\n".join(["byte,x,kind,k,label", *rows]) + "\n", None))
    rows[-1] = "1,0.5"
    with pytest.raises(ConfigError, match=r"Row #130001: Expected 5 columns, got 2"):
        load(source(tmp_path, "\n".join(["byte,x,kind,k,label", *rows]) + "\n", None))

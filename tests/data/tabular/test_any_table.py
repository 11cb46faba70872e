"""Tables of any dialect, with holes, of any types and with any options: read, or rejected in one line."""

from __future__ import annotations

import csv
import datetime
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from fedtempo.data.dataset import Dataset
from fedtempo.data.sources import load
from fedtempo.errors import FedtempoError

ANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

NAMES = ["age", "id", "job", "when", "price", "ward", "größe", "", " x", "1", "a,b"]
HOLES = ["", "NA", "?", "nan", "NULL", " ", "-", "n.d.", "None", "inf"]
CELLS = {
    "whole": st.integers(-(10**6), 10**20).map(str),
    "byte": st.integers(0, 255).map(str),
    "float": st.floats(-1e6, 1e40).map(repr),
    "comma": st.floats(-1e4, 1e4).map(lambda x: f"{x:.2f}".replace(".", ",")),
    "german": st.floats(-1e7, 1e7).map(lambda x: f"{x:,.2f}".translate(str.maketrans(",.", ".,"))),
    "english": st.floats(-1e7, 1e7).map(lambda x: f"{x:,.2f}"),
    "grouped": st.integers(1000, 9_999_999).map(lambda x: f"{x:,}"),
    "spaced": st.integers(1000, 9_999_999).map(lambda x: f"{x:,}".replace(",", "\u202f")),
    "class": st.sampled_from(["yes", "no", "class10", "class9"]),
    "whole float": st.sampled_from(["0.0", "1.0", "2.0"]),
    "truth": st.sampled_from(["true", "False", "TRUE"]),
    "iso": st.dates().map(str),
    "instant": st.datetimes().map(str),
    "day first": st.dates(datetime.date(1000, 1, 1)).map(lambda day: f"{day:%d.%m.%Y}"),
    "month first": st.dates(datetime.date(1000, 1, 1)).map(lambda day: f"{day:%m/%d/%Y}"),
    "short year": st.dates(datetime.date(1970, 1, 1), datetime.date(2060, 1, 1)).map(lambda day: f"{day:%d/%m/%y}"),
    "time": st.times().map(lambda time: f"{time:%H:%M}"),
    "text": st.text(max_size=5),
    "odd": st.text("0123456789.,;:'\"\\\t\n -+eENAna?€é\u00a0\ufeff\x00", max_size=6),
}


@st.composite
def columns(draw: st.DrawFn) -> dict[str, list[str]]:
    """Return columns of text, with holes, whose rows are some distinct ones again and again."""
    size = draw(st.integers(1, 8))
    found: dict[str, list[str]] = {}
    for name in ["label", *draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))]:
        kind = draw(st.sampled_from(["class", "byte"] if name == "label" else sorted(CELLS)))
        cell = CELLS[kind]
        if draw(st.integers(0, 2)) == 0:
            cell = st.one_of(cell, cell, cell, st.sampled_from(HOLES))
        if draw(st.integers(0, 15)) == 0:
            cell = st.one_of(cell, CELLS[draw(st.sampled_from(sorted(CELLS)))])
        found[name] = draw(st.lists(cell, min_size=size, max_size=size)) * 4
    return found


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Return the content of a file, in any dialect; some are cut or have one line more."""
    table = draw(columns())
    file = io.StringIO()
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    writer = csv.writer(
        file,
        delimiter=draw(st.sampled_from(",,;;\t| ")),
        quotechar=draw(st.sampled_from('""\'')),
        quoting=quoting,
        lineterminator=draw(st.sampled_from(["\n", "\r\n"])),
    )
    if draw(st.integers(0, 9)):
        writer.writerow(table)
    writer.writerows(zip(*table.values()))
    text = file.getvalue()
    if draw(st.integers(0, 9)) == 0:
        text = text[: draw(st.integers(0, len(text)))] + draw(st.sampled_from(["", "1\n", '"', "\x00", ",,,\n"]))
    encoding = draw(
        st.sampled_from(["utf-8"] * 4 + ["utf-8-sig", "utf-16", "utf-16-le", "cp1252", "utf-32", "latin-1"])
    )
    return text.encode(encoding, errors="replace")


COLUMN = st.sampled_from([*NAMES, "label", "nothing"])
WAY = st.sampled_from(["median", "category", "drop", "mean"])
OPTION = {
    "label": COLUMN | st.just(5),
    "client": COLUMN,
    "group": COLUMN,
    "features": st.lists(COLUMN, max_size=3) | st.just("age"),
    "drop": st.lists(COLUMN, max_size=3),
    "task": st.sampled_from(["classes", "numbers"]),
    "test": st.just("test.csv"),
    "test_share": st.floats(-0.1, 1.1),
    "standardize": st.booleans(),
    "missing": WAY | st.dictionaries(COLUMN, WAY, max_size=3),
    "fit": st.sampled_from(["all", "client"]),
    "relabel": st.dictionaries(st.sampled_from(["yes", "no", "1.0"]), st.sampled_from(["yes", "x", ""]), max_size=2),
    "dates": st.sampled_from(["%d.%m.%Y", "%m/%d/%Y", "", "%", "%z", "%Y%Y", "%%"]),
    "encoding": st.sampled_from(["utf-8", "utf-16", "cp1252", "latin-1", "ascii", "idna", "punycode", "hex"]),
    "separator": st.sampled_from([",", ";", "\t", " ", "ab", '"', "1", "."]),
    "quote": st.sampled_from(['"', "'", ","]),
    "decimal": st.sampled_from([".", ",", ";"]),
    "thousands": st.sampled_from([".", ",", " ", "\u202f", "", "1"]),
    "missing_values": st.lists(st.sampled_from([*HOLES, "yes", "0", "\\E", "(", "0.0"]), max_size=4),
    "columns": st.lists(COLUMN, min_size=1, max_size=6),
}


@st.composite
def options_of_tables(draw: st.DrawFn) -> dict[str, Any]:
    """Return up to four options; mostly, missing values are no error."""
    names = draw(st.lists(st.sampled_from(sorted(OPTION)), max_size=3, unique=True))
    usual = {"missing": draw(st.sampled_from(["median", "category", "drop"])), "task": "classes"}
    return {**(usual if draw(st.integers(0, 3)) else {}), **{name: draw(OPTION[name]) for name in names}}


def check(source: str, options: dict[str, Any]) -> Dataset | None:
    """Return the data, or None if they are rejected in one line."""
    error = ""
    try:
        data = load(source, **options)
    except FedtempoError as raised:
        error = str(raised)
    if error:
        assert "\n" not in error
        return None
    assert np.isfinite(data.train_x).all()
    assert np.isfinite(data.test_x).all()
    assert len(data.train_x) == len(data.train_y)
    return data


@ANY
@given(content=files(), options=options_of_tables())
def test_any_table_with_any_options_is_read_or_rejected(
    tmp_path: Path, content: bytes, options: dict[str, Any]
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "test.csv").write_bytes(content)
    check(f"table:{tmp_path / 't.csv'}", options)


@ANY
@given(
    content=files(),
    tests=files(),
    label=st.sampled_from(["label", "job"]),
    missing=st.sampled_from(["median", "category", "drop"]),
    standardize=st.booleans(),
)
def test_any_two_tables_are_read_or_rejected(
    tmp_path: Path, content: bytes, tests: bytes, label: str, missing: str, standardize: bool
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    (tmp_path / "test.csv").write_bytes(tests)
    options = {"label": label, "missing": missing, "standardize": standardize, "task": "classes"}
    check(f"table:{tmp_path / 't.csv'}", options)
    check(f"table:{tmp_path / 't.csv'}", {**options, "test": "test.csv"})


TYPES = st.sampled_from(
    [
        *(pa.int8(), pa.uint64(), pa.int64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string()),
        *(pa.large_string(), pa.binary(), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns", "UTC")),
        *(pa.time32("s"), pa.time64("us"), pa.duration("ms"), pa.null(), pa.decimal128(22, 3), pa.list_(pa.int64())),
        *(pa.dictionary(pa.int8(), pa.string()), pa.struct({"a": pa.int64()}), pa.string_view()),
    ]
)


@st.composite
def arrow_tables(draw: st.DrawFn) -> pa.Table:
    size = draw(st.integers(2, 12))
    label = draw(st.sampled_from([pa.int8(), pa.string(), pa.dictionary(pa.int8(), pa.string())]))
    found = {"label": pa.array([str(i % 2) for i in range(4 * size)]).cast(label)}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
        kind, cell = draw(TYPES), st.integers(0, 100)
        values = draw(st.lists(cell | st.none() if draw(st.booleans()) else cell, min_size=size, max_size=size)) * 4
        if pa.types.is_list(kind):
            found[name] = pa.array([None if value is None else [value] for value in values], kind)
        elif pa.types.is_struct(kind):
            found[name] = pa.array([None if value is None else {"a": value} for value in values], kind)
        elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
            found[name] = pa.array(values, pa.int32()).cast(kind)
        elif pa.types.is_null(kind):
            found[name] = pa.nulls(4 * size)
        elif pa.types.is_dictionary(kind) or pa.types.is_binary(kind):
            found[name] = pa.array(values, pa.int64()).cast("string").cast(kind)
        else:
            found[name] = pa.array(values, pa.int64()).cast(kind)
    return pa.table(found)


@ANY
@given(table=arrow_tables(), options=options_of_tables())
def test_any_parquet_table_is_read_or_rejected(tmp_path: Path, table: pa.Table, options: dict[str, Any]) -> None:
    parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "test.csv").write_text("age,label\n1,2\n")
    check(f"table:{tmp_path / 't.parquet'}", options)


@st.composite
def dialects(draw: st.DrawFn) -> dict[str, str]:
    decimal = draw(st.sampled_from([".", ","]))
    return {
        "separator": draw(st.sampled_from([",", ";", "\t", "|"])),
        "quote": draw(st.sampled_from(['"', "'"])),
        "encoding": draw(st.sampled_from(["utf-8", "utf-16", "cp1252"])),
        "decimal": decimal,
        "thousands": draw(st.sampled_from(["", " ", ".,".replace(decimal, "")])),
    }


@ANY
@given(
    values=st.lists(st.integers(-(10**9), 10**9).map(lambda n: n / 100), min_size=8, max_size=8),
    kinds=st.lists(st.sampled_from(["a", "b, c", "d;'e'", 'f "g"', "é\nh"]), min_size=8, max_size=8),
    dialect=dialects(),
    named=st.booleans(),
)
def test_what_is_written_in_a_named_dialect_is_read(
    tmp_path: Path, values: list[float], kinds: list[str], dialect: dict[str, str], named: bool
) -> None:
    """Unnamed, a dialect is found, or asked for; numbers that are read are never others than those written."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=dialect["separator"], quotechar=dialect["quote"], lineterminator="\n")
    writer.writerow(["price", "kind", "label"])
    for value, kind in zip(values, kinds):
        text = f"{value:,.2f}".translate(str.maketrans({",": dialect["thousands"], ".": dialect["decimal"]}))
        writer.writerow([text, kind, "p"])
    path = tmp_path / "t.csv"
    path.write_bytes(file.getvalue().encode(dialect["encoding"]))
    options = {"task": "classes", "test_share": 0.5, **(dialect if named else {})}
    data = check(f"table:{path}", options)
    assert data is not None or not named
    if data is not None and data.train_x.shape[1] == 1 + len(set(kinds)):
        both = np.concatenate([data.train_x, data.test_x])
        assert sorted(both[:, 0].tolist()) == sorted(np.float32(values).tolist())

"""Encodings, separators, quotes, and marks of decimals and thousands: found and said, or asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.data.dataset import Dataset
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError

PRICES = [0.5, 1.25, 2.0, 12.75, 100.0, 6.5, 7.5, 8.25]


def read(folder: Path, content: str | bytes, name: str = "p.csv", **options: Any) -> Dataset:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(f"table:{path}", **options)


def features(data: Dataset) -> list[list[float]]:
    """Return the features of all rows, the rows sorted by their last feature."""
    rows = np.concatenate([data.train_x, data.test_x]).tolist()
    return sorted(rows, key=lambda row: row[-1])


def table(separator: str = ",", number: str = "{}", header: str = "price,größe,label") -> str:
    lines = [header.replace(",", separator)]
    for i, price in enumerate(PRICES):
        lines.append(separator.join([number.format(price), str(i), "no" if i % 2 else "yes"]))
    return "\n".join(lines) + "\n"


WANTED = [[price, float(i)] for i, price in enumerate(PRICES)]


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", "encoding utf-16"),
        ("utf-16-le", "encoding utf-16-le"),
        ("utf-16-be", "encoding utf-16-be"),
        ("utf-32", "encoding utf-32"),
        ("cp1252", "encoding cp1252"),
    ],
)
def test_encodings_are_found_and_said(tmp_path: Path, encoding: str, said: str | None) -> None:
    data = read(tmp_path, table().encode(encoding), features=["price", "größe"])
    assert features(data) == WANTED
    assert data.about.partition("; read with ")[2] == (said or "")
    named = read(tmp_path, table().encode(encoding), encoding=encoding)
    assert (features(named), "read with" in named.about) == (WANTED, False)


def test_bytes_of_other_encodings_are_asked_for(tmp_path: Path) -> None:
    content = table().encode("cp1252") + b"1,2,\x81\n"
    with pytest.raises(
        ConfigError, match=r"byte \d+ is neither UTF-8 nor cp1252; set data\.options\.encoding, such as"
    ):
        read(tmp_path, content)
    with pytest.raises(ConfigError, match=r"p\.csv: byte 8 is not ascii; set data\.options\.encoding"):
        read(tmp_path, table().encode("cp1252"), encoding="ascii")
    for encoding in ("utf-99", "zip", "undefined"):
        with pytest.raises(ConfigError, match=r"encoding = .*: unknown encoding; must be one such as 'utf-8'"):
            read(tmp_path, table(), encoding=encoding)


def test_letters_of_cp1252_after_the_sample_are_found(tmp_path: Path) -> None:
    content = ("a,label\n" + "1,x\n2,y\n" * 140_000 + "3,é\n" * 2).encode("cp1252")
    data = read(tmp_path, content, test_share=0.5)
    assert data.class_names == ("x", "y", "é")
    assert data.about.endswith("; read with encoding cp1252")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " "])
def test_separators_are_found_and_said(tmp_path: Path, separator: str) -> None:
    data = read(tmp_path, table(separator))
    assert features(data) == WANTED
    assert ("read with separator" in data.about) == (separator != ",")
    assert features(read(tmp_path, table(separator), separator=separator)) == WANTED
    assert "read with" not in read(tmp_path, table("\t"), name="p.tsv").about


def test_a_separator_that_may_be_two_is_asked_for(tmp_path: Path) -> None:
    content = "a;b;c,label\n" + "".join(f"{i};{i};{i},{'xy'[i % 2]}\n" for i in range(8))
    with pytest.raises(
        ConfigError, match=r"may be ',' \(2 columns\) or ';' \(3 columns\); set data\.options\.separator"
    ):
        read(tmp_path, content)
    assert read(tmp_path, content, separator=",").train_x.shape[1] == 8
    with pytest.raises(ConfigError, match="separator = ';;': must be one character"):
        read(tmp_path, content, separator=";;")


def test_other_suffixes_need_a_separator(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"or set data\.options\.separator to what separates the cells"):
        read(tmp_path, table(), name="p.data")
    assert features(read(tmp_path, table(), name="p.data", separator=",")) == WANTED


def test_quotes_protect_separators_and_lines(tmp_path: Path) -> None:
    lines = "".join(f'"{"ab"[i % 2]}, or\n""x""",{i},{"pq"[i % 2]}\n' for i in range(20))
    data = read(tmp_path, "kind,i,label\n" + lines)
    assert features(data) == [[float(i % 2 == 0), float(i % 2), float(i)] for i in range(20)]
    data = read(tmp_path, "'kind','label'\n" + "".join(f"'it, {'ab'[i % 2]}',{'pq'[i % 2]}\n" for i in range(20)))
    assert data.train_x.shape[1] == 2
    assert data.about.endswith('read with quote "\'"')


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (["0,5", "1,25", "2", "12,75", "100,0"], "decimal ','"),
        (["1.000,5", "1,25", "2", "12.345.678", "-100,0"], "decimal ',', thousands '.'"),
        (["1 000,5", "1,25", "2", "12 345 678", "-100,0"], "decimal ',', thousands ' '"),
        (["1\u202f000,5", "1,25", "2", "12\u202f345\u202f678", "-100,0"], "decimal ',', thousands '\\u202f'"),
        (["1'000.5", "1.25", "2", "12'345'678", "-100.0"], 'thousands "\'"'),
        (["1,000.5", "1.25", "2", "12,345,678", "-100.0"], "thousands ','"),
        (["+1e3", "1.5E-2", ".5", "7.", "-2"], ""),
    ],
)
@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_marks_of_numbers_are_found_and_said(tmp_path: Path, numbers: list[str], said: str, separator: str) -> None:
    values = {"1e3": 1e3}
    for text in numbers:
        plain = text.replace(" ", "").replace("\u202f", "").replace("'", "")
        if "decimal" in said:
            plain = plain.replace(".", "").replace(",", ".")
        values[text] = float(plain.replace(",", ""))
    rows = "".join(f'"{text}"{separator}{i}{separator}{"pq"[i % 2]}\n' for i, text in enumerate(numbers * 2))
    data = read(tmp_path, separator.join(["a", "i", "label"]) + "\n" + rows)
    assert features(data) == [[np.float32(values[text]), float(i)] for i, text in enumerate(numbers * 2)]
    assert data.about.partition("read with ")[2].removeprefix(f"separator {separator!r}").removeprefix(", ") == said


@pytest.mark.parametrize(
    ("separator", "text", "options"),
    [
        (",", "1,234", {"thousands": ","}),
        (",", "1,234", {"decimal": ","}),
        (";", "1,234", {"decimal": ","}),
        (";", "1.234", {"decimal": "."}),
        (";", "1.234", {"thousands": "."}),
    ],
)
def test_a_mark_that_may_be_either_is_asked_for(
    tmp_path: Path, separator: str, text: str, options: dict[str, str]
) -> None:
    content = f"a{separator}label\n" + "".join(f'"{text}"{separator}{"pq"[i % 2]}\n' for i in range(8))
    says = rf"'{text}' may be two different numbers; set data.options.decimal = '[,.]' \(then it is 1.234\) or "
    with pytest.raises(ConfigError, match=says + r"data.options.thousands = '[,.]' \(then it is 1234\)"):
        read(tmp_path, content)
    data = read(tmp_path, content, **options)
    assert data.train_x[0, 0] == np.float32(1234 if "thousands" in options else 1.234)


def test_numbers_with_two_kinds_of_marks_are_asked_for(tmp_path: Path) -> None:
    content = "a;b;label\n" + "".join(f"1,{i};1.{i};{'pq'[i % 2]}\n" for i in range(8))
    says = r"p\.csv: 'a' holds texts that may be numbers; set data\.options\.decimal = ',' if '1,0' is 1, or .* as text"
    with pytest.raises(ConfigError, match=says):
        read(tmp_path, content)
    assert read(tmp_path, content, decimal=".").train_x.shape[1] == 9
    late = "a;label\n" + "".join(f"{i};{'pq'[i % 2]}\n" for i in range(300))
    with pytest.raises(ConfigError, match=r"row 302: 'a' is '1,5', not a number; set data\.options\.decimal = ',' if "):
        read(tmp_path, late + "1,5;p\n")
    both = r"decimal = ',' if '1,234' is 1.234, or data\.options\.thousands = ',' if it is 1234$"
    with pytest.raises(ConfigError, match=rf"row 302: 'a' is '1,234', not a number; set data\.options\.{both}"):
        read(tmp_path, late + "1,234;p\n")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"decimal": ";"}, r"decimal = ';': must be '\.' or ','"),
        ({"thousands": "x"}, r"thousands = 'x': must be one of '\.', ',', ' '"),
        ({"thousands": ",", "decimal": ","}, r"thousands = ',': is the decimal mark too"),
        ({"quote": ","}, r"p\.csv: ',' cannot also separate cells; set data\.options\.separator"),
        ({"separator": "§"}, r"separator = '§': must be an ASCII character"),
        ({"quote": ",", "separator": ","}, r"separator = ',': is the quote too"),
        ({"columns": "a"}, r"columns = 'a': must be a list of column names"),
        ({"missing_values": "a"}, r"missing_values = 'a': must be a list of texts"),
    ],
)
def test_options_that_cannot_be_are_rejected(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(tmp_path, table(), **options)


def test_a_file_without_a_header_needs_names(tmp_path: Path) -> None:
    content = table().partition("\n")[2]
    with pytest.raises(ConfigError, match=r"unclear.*; if the first row is no header, set data.options.columns"):
        read(tmp_path, content)
    with pytest.raises(ConfigError, match=r"no column 'label'.*; if the first row is no header"):
        read(tmp_path, content, label="label")
    assert features(read(tmp_path, content, columns=["price", "i", "label"])) == WANTED
    broken = content.replace("\n2.0,", "\nabc,")
    with pytest.raises(ConfigError, match=r"row 3: 'price' is 'abc', not a number"):
        read(tmp_path, broken, columns=["price", "i", "label"])
    with pytest.raises(ConfigError, match=r"Expected 2 columns, got 3: .*\(encoding utf-8, separator ',', quote"):
        read(tmp_path, content, columns=["price", "label"])


def test_spaces_around_cells_do_not_count(tmp_path: Path) -> None:
    content = "job, age, label\n" + "".join(f" {'ab'[i % 2]} , {i}, {'no' if i % 2 else 'yes'}\n" for i in range(8))
    data = read(tmp_path, content)
    assert data.class_names == ("no", "yes")
    assert features(data) == [[float(i % 2 == 0), float(i % 2), float(i)] for i in range(8)]

"""Read text, JSON, TOML and CSV of any origin: what the parsed values take in memory is estimated before parsing.

Each function raises ValueError (or OSError) for what cannot be read; callers name the file.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedtempo.parts.sizes import most_bytes, must_hold

# What Python's values take, bytes, by the character that introduces them; measured with CPython 3.11 to 3.13.
_VALUE, _LIST, _TABLE, _ENTRY = 32, 64, 128, 96
_STATEMENT, _PART = 1200, 1200
"""A line `key = value` or `[key]` of TOML, and a further part of a dotted key: a table, and what the parser notes."""
_ROW, _CELL = 200, 32

_BLOCK_BYTES = 2**16

_MOST_PARTS = 50
_KEY = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"""(?<![\w"'.\\-]){_KEY}(?:[ \t]*+\.[ \t]*+{_KEY}){{{_MOST_PARTS},}}+""")
_FLOAT = re.compile(r"(?<![\w.-])[+-]?\d++\.\d++(?![\w.-])")
_HEADER = re.compile(r"^[ \t]*+\[", re.MULTILINE)


def read_text(path: Path, most: int | None = None, encoding: str = "utf-8") -> str:
    """Return the content of a text file, of which no more than `most` bytes are read (default: as memory allows)."""
    return read_plain(path, most).decode(encoding)


def read_plain(path: Path, most: int | None = None) -> bytes:
    """Return the content of a file, of which no more than `most` bytes are read (default: as memory allows)."""
    most = most_bytes() if most is None else min(most, most_bytes())
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            content = file.read(min(most, status.st_size) + 1)
        else:  # a pipe, whose size is not known
            content = b""
            while len(content) <= most and (block := file.read(_BLOCK_BYTES)):
                content += block
    if len(content) > most:
        raise ValueError(f"it is larger than {most:,} bytes")
    return content


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text."""
    if isinstance(text, bytes):
        text = text.decode()
    size = len(text) + _VALUE * text.count(",") + _LIST * text.count("[")
    size += _TABLE * text.count("{") + _ENTRY * text.count(":")
    must_hold("its values would take", size)
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("too many lists and objects within each other (maximum recursion depth exceeded)") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text. The parser's memory grows with the square of a key's dotted parts."""
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {_MOST_PARTS} parts with dots between them")
    statements = text.count("=") + len(_HEADER.findall(text))
    dots = text.count(".") - len(_FLOAT.findall(text))
    size = len(text) + _STATEMENT * statements + _PART * dots + _VALUE * text.count(",")
    must_hold("its values would take", size + _LIST * text.count("[") + 3 * _TABLE * text.count("{"))
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("too many lists and tables within each other (maximum recursion depth exceeded)") from None


def read_csv(path: Path, **options: Any) -> csv.DictReader[str]:
    """Return a reader of a CSV file with a header. options: of csv.DictReader."""
    text = read_text(path, encoding="utf-8-sig")
    must_hold("its rows would take", len(text) + _ROW * (text.count("\n") + text.count("\r")) + _CELL * text.count(","))
    return csv.DictReader(io.StringIO(text, newline=""), **options)


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text file that are not empty, without spaces around them."""
    return filter(None, map(str.strip, read_text(path).splitlines()))

"""How a text file writes a table: encoding, separator, quotes, decimal mark. What is not named is found in the file."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from fedtempo.data.tabular.numerals import USUAL, Numerals, disputed, feasible, ways_of
from fedtempo.errors import ConfigError

MISSING = (
    *("", "NA", "N/A", "#N/A", "#N/A N/A", "#NA", "<NA>", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "?"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""Cells that count as missing by default."""

SAMPLE_BYTES = 1 << 20
"""Size of the beginning of a file in which dialect and types are found."""

_SEPARATORS = (",", ";", "\t", "|")
_QUOTES = "\"'"
_ROWS = 200
_SCANNED_BYTES = 1 << 18
_WITH_ASCII = ("utf-8", "utf-8-sig", "cp1252", "latin-1", "ascii")
"""Encodings in which the bytes of ASCII are those of no other character."""
_FEWEST_EQUAL = 0.9


@dataclass(frozen=True)
class Dialect:
    """How tables are written; None: to be found in the file.

    encoding: a codec of Python's. separator, quote, decimal: one character. thousands: one character, or empty if
    there is none. columns: the names of the columns of a file without a header. missing_values: cells that count as
    missing. Raises ConfigError for values that cannot be.
    """

    encoding: str | None = None
    separator: str | None = None
    quote: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    columns: tuple[str, ...] | None = None
    missing_values: tuple[str, ...] = MISSING

    def __post_init__(self) -> None:
        if self.encoding is not None and not _is_text_codec(self.encoding):
            raise ConfigError(
                f"encoding = {self.encoding!r}: unknown encoding; must be one such as 'utf-8', 'utf-16' or 'cp1252'"
            )
        for option, value in (("separator", self.separator), ("quote", self.quote)):
            if value is not None and (not isinstance(value, str) or len(value) != 1 or ord(value) in (0, 10, 13)):
                raise ConfigError(f"{option} = {value!r}: must be one character")
            if value is not None and ord(value) > 127:
                raise ConfigError(f"{option} = {value!r}: must be an ASCII character")
        if self.decimal not in (None, ".", ","):
            raise ConfigError(f"decimal = {self.decimal!r}: must be '.' or ','")
        if self.thousands is not None and self.thousands not in (*Numerals.THOUSANDS, ""):
            marks = ", ".join(map(repr, Numerals.THOUSANDS))
            raise ConfigError(f"thousands = {self.thousands!r}: must be one of {marks}, or '' for none")
        if self.decimal is not None and self.decimal == self.thousands:
            raise ConfigError(f"thousands = {self.thousands!r}: is the decimal mark too; change one of them")
        if self.separator is not None and self.separator == self.quote:
            raise ConfigError(f"separator = {self.separator!r}: is the quote too; change one of them")

    @property
    def numerals(self) -> Numerals:
        """How numbers are written; a point before decimals and no mark of thousands if nothing else is known."""
        return Numerals(self.decimal or ".", self.thousands or "")

    @property
    def names_numerals(self) -> bool:
        """Whether decimal or thousands is known."""
        return self.decimal is not None or self.thousands is not None

    @property
    def null_values(self) -> list[str]:
        """Cells that count as missing, also after a space, as in `age, ?, sex`."""
        return [space + value for value in self.missing_values for space in ("", " ") if space + value != " "]


def names_in(option: str, values: Any, what: str = "column names") -> tuple[str, ...]:
    """Return a list of texts as a tuple. Raises ConfigError for anything else. what: the texts are."""
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise ConfigError(f"{option} = {values!r}: must be a list of {what}")
    return tuple(values)


def named_dialect(
    encoding: str | None,
    separator: str | None,
    quote: str | None,
    decimal: str | None,
    thousands: str | None,
    missing_values: list[str] | None,
    columns: list[str] | None,
) -> Dialect:
    """Return what options say about how tables are written. Raises ConfigError for values that cannot be."""
    return Dialect(
        encoding=encoding,
        separator=separator,
        quote=quote,
        decimal=decimal,
        thousands=thousands,
        missing_values=MISSING if missing_values is None else names_in("missing_values", missing_values, "texts"),
        columns=None if columns is None else names_in("columns", columns),
    )


def find_dialect(file: Path, named: Dialect) -> tuple[Dialect, tuple[str, ...], bool]:
    """Return the dialect of a text file, what was found to be unusual about it, in words, and whether it may have
    quoted cells, which may hold line breaks.

    Raises ConfigError, which offers the option that decides, if the file can be read in several ways. Raises OSError,
    UnicodeError or csv.Error for a file that is no text.
    """
    quotes = _QUOTES if named.quote is None else named.quote
    scanned = _encoding(file, quotes) if named.encoding is None else _scan(file, named.encoding, quotes)
    encoding = scanned.encoding
    text = _beginning(file, encoding)
    quote = named.quote or _quote(text)
    usual = "\t" if file.suffix in (".tsv", ".tab") else ","
    separator = named.separator or _separator(file, text, quote, usual)
    if separator == quote:
        raise ConfigError(f"{file}: {separator!r} cannot also separate cells; set data.options.separator")
    dialect = replace(named, encoding=encoding, separator=separator, quote=quote)
    decimal, thousands = _numerals(file, text, dialect)
    found = [
        (named.encoding is None and encoding != "utf-8", f"encoding {encoding}"),
        (named.separator is None and separator != usual, f"separator {separator!r}"),
        (named.quote is None and quote != '"', f"quote {quote!r}"),
        (named.decimal is None and decimal == ",", "decimal ','"),
        (named.thousands is None and bool(thousands), f"thousands {thousands!r}"),
    ]
    said = tuple(words for is_unusual, words in found if is_unusual)
    known = named.names_numerals or decimal != "." or bool(thousands)
    dialect = replace(dialect, decimal=decimal, thousands=thousands) if known else dialect
    return dialect, said, quote in scanned.quotes


def _is_text_codec(name: object) -> bool:
    """Return whether an encoding is one of Python's own that decodes bytes to text; packages may register others."""
    try:
        codec = codecs.lookup(name)  # type: ignore[arg-type]
        is_python = find_spec(f"encodings.{codec.name.replace('-', '_')}") is not None
    except (LookupError, TypeError, ValueError, ImportError):
        return False
    return is_python and bool(getattr(codec, "_is_text_encoding", True)) and codec.name != "undefined"


class _Scan(NamedTuple):
    """What a whole file says about an encoding.

    undecodable: the position of the first byte, from 0, near which the file cannot be decoded; None if it can be.
    quotes: the quotes that the file may have.
    """

    encoding: str
    undecodable: int | None
    quotes: str


def _encoding(file: Path, quotes: str) -> _Scan:
    """Return the encoding of a file: by its byte order mark, else UTF-8 if it can be, else cp1252.

    quotes: those to look for.
    """
    with open(file, "rb") as content:
        head = content.read(4096)
    marks = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"))
    for mark, name in (*marks, (codecs.BOM_UTF16_BE, "utf-16")):
        if head.startswith(mark):
            return _Scan(name, None, quotes)
    for name, zeros, others in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        if zeros and zeros.count(0) > 0.9 * len(zeros) and not others.count(0):
            return _Scan(name, None, quotes)
    for name in ("utf-8", "cp1252"):
        scanned = _scan(file, name, quotes)
        if scanned.undecodable is None:
            return scanned
    raise ConfigError(
        f"{file}: byte {scanned.undecodable} is neither UTF-8 nor cp1252; set data.options.encoding, such as 'cp1250' "
        "or 'shift_jis'"
    )


def _scan(file: Path, encoding: str, quotes: str) -> _Scan:
    """Read a file once to find where it cannot be decoded, and which of these quotes it has."""
    if encoding not in _WITH_ASCII:
        return _Scan(encoding, None, quotes)
    decoder, position, found = codecs.getincrementaldecoder(encoding)(), 0, set[str]()
    with open(file, "rb", buffering=0) as content:
        while True:
            block = content.read(_SCANNED_BYTES)
            try:
                if not block.isascii() or not block or decoder.getstate()[0]:
                    decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                return _Scan(encoding, position + error.start, quotes)
            if not block:
                return _Scan(encoding, None, "".join(found))
            found.update(quote for quote in quotes if quote not in found and quote.encode() in block)
            position += len(block)


def _beginning(file: Path, encoding: str) -> str:
    """Return the whole lines at the beginning of a file, without a byte order mark."""
    with open(file, "rb") as content:
        head = content.read(SAMPLE_BYTES)
        is_whole = not content.read(1)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head, final=is_whole)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: byte {error.start} is not {encoding}; set data.options.encoding to the file's encoding"
        ) from error
    text = text.removeprefix("\ufeff")
    return text if is_whole else text[: max(text.rfind("\n"), text.rfind("\r")) + 1]


def _rows(text: str, separator: str, quote: str) -> list[list[str]]:
    """Return the first rows that are not empty, the header included."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, quotechar=quote)
    return list(islice((row for row in reader if row), _ROWS))


def _quote(text: str) -> str:
    """Return the quote: an apostrophe if every name of the header is between two of them."""
    line = text.lstrip("\r\n").partition("\n")[0].rstrip("\r")
    return "'" if any(_are_quoted(line.split(separator)) for separator in _SEPARATORS) else '"'


def _are_quoted(cells: Sequence[str]) -> bool:
    cells = [cell.strip() for cell in cells]
    return len(cells) > 1 and all(len(cell) > 2 and cell[0] == cell[-1] == "'" for cell in cells)


def _separator(file: Path, text: str, quote: str, usual: str) -> str:
    """Return what separates the cells: what gives (nearly) all rows as many cells as the first row."""
    widths = {}
    for separator in (*_SEPARATORS, " "):
        try:
            lengths = [len(row) for row in _rows(text, separator, quote)]
        except csv.Error:
            continue
        if lengths and lengths[0] > 1 and lengths.count(lengths[0]) >= _FEWEST_EQUAL * len(lengths):
            widths[separator] = lengths[0]
    if len(widths) > 1:
        widths.pop(" ", None)
    if not widths or (usual in widths and widths[usual] == max(widths.values())):
        return usual
    if len(widths) == 1:
        return next(iter(widths))
    ways = " or ".join(f"{separator!r} ({width} columns)" for separator, width in widths.items())
    raise ConfigError(f"{file}: the separator may be {ways}; set data.options.separator")


def _numerals(file: Path, text: str, dialect: Dialect) -> tuple[str, str]:
    """Return decimal mark and mark of thousands, as all columns of numbers at the beginning of a file have them."""
    assert dialect.separator is not None
    assert dialect.quote is not None
    try:
        rows = _rows(text, dialect.separator, dialect.quote)
    except csv.Error:
        rows = []
    first = 0 if dialect.columns is not None else 1
    missing = {value.strip() for value in dialect.missing_values}
    columns = [
        list(dict.fromkeys(value for cell in column if (value := cell.strip()) not in missing))
        for column in zip(*(row for row in rows[first:] if len(row) == len(rows[0])))
    ]
    columns = [values for values in columns if values]
    ways = feasible(columns, ways_of(dialect.decimal, dialect.thousands))
    if not ways:
        return dialect.decimal or ".", dialect.thousands or ""
    if ways[0] == USUAL and dialect.separator != ";":
        ways = ways[:1]  # a comma between cells goes with a point before decimals
    if (dispute := disputed(columns, ways)) is not None:
        value, other = dispute
        options = " or ".join(f"{way.option} (then it is {way.number(value):g})" for way in (ways[0], other))
        raise ConfigError(f"{file}: {value!r} may be two different numbers; set {options}")
    return ways[0].decimal, ways[0].thousands

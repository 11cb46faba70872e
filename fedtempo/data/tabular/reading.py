"""Read tables from CSV, TSV, other text and Parquet files."""

from __future__ import annotations

import contextlib
import csv as python_csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedtempo.data.tabular.dialect import SAMPLE_BYTES, Dialect, find_dialect
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.parquet_pages import unpacked
from fedtempo.errors import ConfigError
from fedtempo.parts.sizes import LARGEST_BYTES, most_bytes, must_fit

_LARGEST_CHUNK_BYTES = 2**30
_ROWS_AT_ONCE = 2**16
_COLUMN_BYTES = 16_000
_TEXTS = ("string", "large_string")
_TEXT = (".csv", ".tsv")


def read_table(file: Path, named: Dialect) -> TableFile:
    """Return the table in a file. Raises ConfigError if it cannot be read or holds no rows."""
    from pyarrow import ArrowException  # a tenth of a second

    try:
        size = file.stat().st_size
        must_fit(file, size, "split it", LARGEST_BYTES)
        if file.suffix == ".parquet":
            table = _parquet(file, named)
        elif file.suffix in _TEXT or named.separator is not None:
            table = _text(file, named, size)
        else:
            raise ConfigError(
                f"{file}: unknown kind of table; must be a .csv, .tsv or .parquet file, or set data.options.separator "
                "to what separates the cells of a text file"
            )
        names = table.names
        table.columns.validate(full=True)
    except (OSError, ArrowException, ValueError, python_csv.Error) as error:
        raise ConfigError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{file}: duplicate column {duplicate!r}{table.header_hint}")
    if not len(table):
        raise ConfigError(f"{file}: no rows{' below the header' if table.has_header else ''}")
    return table


def _parquet(file: Path, named: Dialect) -> TableFile:
    from pyarrow import parquet

    columns = _unpacked(file, parquet.ParquetFile(file))
    columns = columns.rename_columns([" ".join(name.splitlines()) for name in columns.column_names])
    for i, kind in enumerate(columns.schema.types):
        if str(kind) == "string_view":  # which few functions of pyarrow take
            columns = columns.set_column(i, columns.field(i).name, columns.column(i).cast("large_string"))

    def raw(row: int, name: str) -> str:
        value = columns[name][row].as_py()
        return "" if value is None else str(value)

    return TableFile(file, columns, named, named, (), 1, raw)


def columns_must_fit(file: Path, columns: int) -> None:
    """Raise ConfigError if a table has so many columns that what pyarrow keeps for each of them does not fit."""
    must_fit(f"{file}: {columns:,} columns", _COLUMN_BYTES * columns, "keep fewer columns")


def _unpacked(file: Path, content: Any) -> Any:
    """Return the columns of a Parquet file. content: a pyarrow.parquet.ParquetFile of it.

    Sizes are checked first. Texts that occur again and again take little in the file, but are as long in the table.
    """
    from pyarrow import Table, parquet, types

    columns_must_fit(file, content.metadata.num_columns)
    sizes = unpacked(file, content.metadata)
    must_fit(file, sizes.least, "split it", LARGEST_BYTES)
    if sizes.most <= min(LARGEST_BYTES, most_bytes()):
        return content.read()
    names = [] if sizes.repeats else [field.name for field in content.schema_arrow if str(field.type) in _TEXTS]
    content = parquet.ParquetFile(file, read_dictionary=names)
    rows = max(1, min(LARGEST_BYTES, most_bytes()) // (8 + 8 * sizes.largest)) if sizes.repeats else _ROWS_AT_ONCE
    batches, size = [], 0
    for batch in content.iter_batches(rows, use_threads=False):
        size += sum(_text_bytes(column) if types.is_dictionary(column.type) else column.nbytes for column in batch)
        must_fit(file, size, "split it", LARGEST_BYTES)
        batches.append(batch)
    columns = Table.from_batches(batches, content.schema_arrow)
    for i, field in enumerate(content.schema_arrow):
        if field.name in names:
            text = "large_string" if size > _LARGEST_CHUNK_BYTES else "string"
            columns = columns.set_column(i, field.name, columns.column(i).cast(text))
    return columns


def _text_bytes(column: Any) -> int:
    """Return how many bytes the values of a dictionary array take if each is stored as often as it occurs."""
    from pyarrow import compute, types

    if not (types.is_string(column.type.value_type) or types.is_large_string(column.type.value_type)):
        return 0
    lengths = compute.binary_length(column.dictionary).take(column.indices)
    return int(compute.sum(lengths.cast("int64")).as_py() or 0)


def _text(file: Path, named: Dialect, size: int) -> TableFile:
    from pyarrow import ArrowInvalid, csv

    dialect, found, has_quotes = find_dialect(file, named)
    names = None if dialect.columns is None else list(dialect.columns)
    with file.open("rb") as content:
        header = content.read(2 * SAMPLE_BYTES).decode(str(dialect.encoding), errors="replace").partition("\n")[0]
    columns_must_fit(file, header.count(str(dialect.separator)) + 1)

    def reading(use_threads: bool) -> Any:
        return csv.ReadOptions(
            use_threads=use_threads, block_size=2 * SAMPLE_BYTES, encoding=dialect.encoding, column_names=names
        )

    parsing = csv.ParseOptions(delimiter=dialect.separator, quote_char=dialect.quote, newlines_in_values=has_quotes)

    def converting(null_values: Sequence[str], **types: Any) -> Any:
        return csv.ConvertOptions(
            null_values=null_values,
            strings_can_be_null=True,
            decimal_point=dialect.numerals.decimal,
            **types,
        )

    columns = None
    try:
        if size > SAMPLE_BYTES:
            beginning = next(iter(csv.open_csv(file, reading(False), parsing, converting(dialect.null_values))))
            types = _types(beginning)
            with contextlib.suppress(ArrowInvalid):  # further down is something else
                pool = _pool()
                usual = converting(dialect.missing_values, column_types=types)  # fewer to compare with
                columns = csv.read_csv(file, reading(True), parsing, usual, pool)
                pool.release_unused()
        if columns is None:  # errors name the row if one thread reads
            columns = csv.read_csv(file, reading(False), parsing, converting(dialect.null_values))
    except ArrowInvalid as error:
        ways = f"encoding {dialect.encoding}, separator {dialect.separator!r}, quote {dialect.quote!r}"
        text = " ".join(str(error).split())
        above = "; if lines stand above the header, remove them" if "Expected 1 columns" in text else ""
        raise ConfigError(f"{file}: cannot be read: {text} ({ways}; data.options can set them){above}") from error
    spelled = columns.column_names
    trimmed = [_on_one_line(name) for name in spelled]

    def raw(row: int, name: str) -> str:
        column = spelled[trimmed.index(name)]
        one = csv.ConvertOptions(include_columns=[column], column_types={column: "string"})
        for batch in csv.open_csv(file, reading(False), parsing, one):
            if row < len(batch):
                return str(batch[0][row])
            row -= len(batch)
        return ""

    return TableFile(file, columns.rename_columns(trimmed), named, dialect, found, 2 if names is None else 1, raw)


def _pool() -> Any:
    """Return where large tables are kept: jemalloc, where pyarrow has it, takes less time for fresh memory."""
    from pyarrow import default_memory_pool, jemalloc_memory_pool

    try:
        return jemalloc_memory_pool()
    except NotImplementedError:
        return default_memory_pool()


def _on_one_line(name: str) -> str:
    """Return a column's name without spaces around it, and with a space for each line break."""
    return " ".join(name.strip().splitlines())


def _types(batch: Any) -> dict[str, Any]:
    """Return types for the columns of a file that begins with a batch of rows.

    Given types, pyarrow needs less memory: it does not keep a column's text until it has seen all of it, small integers
    take one byte, and repeated texts four.
    """
    import pyarrow
    from pyarrow import compute

    chosen = {}
    for name, column in zip(batch.schema.names, batch.columns):
        kind = column.type
        if pyarrow.types.is_int64(kind):
            least, most = compute.min_max(column).as_py().values()
            kind = pyarrow.uint8() if least >= 0 and most < 256 else pyarrow.int64()
        elif pyarrow.types.is_string(kind) and 2 * compute.count_distinct(column).as_py() < len(column):
            kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        if not pyarrow.types.is_null(kind):
            chosen[name] = kind
    return chosen

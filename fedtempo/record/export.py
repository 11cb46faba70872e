"""Export a run's tables as Parquet or CSV, for pandas, DuckDB or R."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError, RunError
from fedtempo.record.run import Records, Table
from fedtempo.record.strict_json import to_json

FORMATS = ("parquet", "csv")


def export(run: Records, to: str, out: Path | str) -> list[Path]:
    """Write visits, commits, evaluations, notes and facts to one file each in the folder `out`; return the files.

    So are the tables of `schema.FURTHER_TABLES` that the run has. For a run without rows (`Records.has_rows`) visits
    and commits are left out; its totals are a fact. to: one of FORMATS. Missing values are null (an empty field in
    CSV); values of notes and facts are JSON. Raises ConfigError for an unknown format, RunError if the files cannot be
    written.
    """
    if to not in FORMATS:
        raise ConfigError(f"to = {to!r}: must be {' or '.join(FORMATS)}")
    import pyarrow.csv
    import pyarrow.parquet

    out = Path(out)
    rows = {"visits": _arrow(run.visits), "commits": _arrow(run.commits)} if run.has_rows else {}
    tables = {
        **rows,
        "evaluations": _arrow(run.evaluations),
        **{name: _arrow(table) for name, table in run.further.items() if table["time"].size},
        "notes": _named(run.notes),
        "facts": _named(run.facts.items()),
    }
    write = pyarrow.parquet.write_table if to == "parquet" else pyarrow.csv.write_csv
    paths = [out / f"{name}.{to}" for name in tables]
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path, table in zip(paths, tables.values()):
            path.unlink(missing_ok=True)  # otherwise a link would be followed
            write(table, path)
    except OSError as error:
        raise RunError(f"{out} could not be written: {error}") from error
    return paths


def _arrow(table: Table) -> Any:
    import pyarrow as pa

    return pa.table({name: pa.array(column, mask=_absent(column)) for name, column in table.items()})


def _absent(column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    absent: npt.NDArray[np.bool_] = np.zeros(column.shape, np.bool_)
    if column.dtype.kind == "f":
        absent = np.isnan(column)
    elif column.dtype.kind == "i":
        absent = column == -1
    return absent


def _named(items: Any) -> Any:
    import pyarrow as pa

    pairs = [(name, to_json(value)) for name, value in items]
    names, values = [name for name, _ in pairs], [value for _, value in pairs]
    return pa.table({"name": pa.array(names, pa.string()), "value": pa.array(values, pa.string())})

"""The tables of a data set: one of training rows, and perhaps files of test and of validation rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedtempo.data.tabular.dialect import Dialect
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.missing import Missing, without_dropped
from fedtempo.data.tabular.reading import read_table
from fedtempo.data.tabular.roles import Asked, Roles, roles_of


@dataclass(frozen=True, eq=False)
class TableSet:
    """Tables without the rows that are dropped.

    training: has the test rows as well if there is no table of test rows. notes: how files were read and which rows
    were left out.
    """

    training: TableFile
    test: TableFile | None
    validation: TableFile | None
    notes: Sequence[str]

    @property
    def all(self) -> list[TableFile]:
        """The tables in the order in which their rows follow each other."""
        return [self.training, *self.others]

    @property
    def others(self) -> list[TableFile]:
        """The tables of test and of validation rows, if there are any."""
        return [part for part in (self.test, self.validation) if part is not None]


def read_tables(
    path: str, test: str | None, validation: str | None, dialect: Dialect, asked: Asked, holes: Missing
) -> tuple[TableSet, Roles]:
    """Return the tables in files, and what their columns are for. test, validation: relative to the table's folder.

    Raises ConfigError for a file that cannot be read, and for a column that is missing or cannot be used.
    """
    rows = read_table(Path(path).expanduser(), dialect)
    roles = roles_of(rows, asked)
    tests, held = (
        None if file is None else read_table(rows.file.parent / Path(file).expanduser(), dialect)
        for file in (test, validation)
    )
    tables = [part for part in (rows, tests, held) if part is not None]
    for other in tables[1:]:
        for name in roles.needed:
            other.must_have(name)
    used = roles.used
    holes.must_name(used)
    for part in tables:
        for name in used:
            if name in part.names:
                part.must_be_usable(name)
    reduced = [without_dropped(part, [name for name in used if name in part.names], holes) for part in tables]
    tables = [part for part, _ in reduced]
    return TableSet(
        tables[0],
        None if tests is None else tables[1],
        None if held is None else tables[-1],
        _said(tables, reduced),
    ), roles


def _said(tables: Sequence[TableFile], reduced: Sequence[tuple[TableFile, str]]) -> list[str]:
    """Return how files were read and which rows were left out, one note for each."""
    notes = []
    for part, (_, dropped) in zip(tables, reduced):
        file = f"{part.file.name}: " if len(tables) > 1 else ""
        read = f"read with {', '.join(part.found)}" if part.found else ""
        notes += [f"{file}{note}" for note in (dropped, read) if note]
    return notes

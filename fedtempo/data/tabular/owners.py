"""Which client each row of the tables belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedtempo.data.dataset import IntArray
from fedtempo.data.splitting import BoolArray
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.labels import numbered, numbered_as
from fedtempo.data.tabular.table_set import TableSet
from fedtempo.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Owners:
    """The clients of the table of training rows, by number, and the owners of the rows of all tables.

    training: the client of each row of that table, (rows,); None if no column names it. others: the same for each other
    table, -1 for other clients; None if that table has no such column. names: of the clients.
    """

    training: IntArray | None
    others: Sequence[IntArray | None]
    names: tuple[str, ...]

    def of_training(self, rows: BoolArray | IntArray) -> IntArray | None:
        """Return the owners of some rows of the table of training rows."""
        return None if self.training is None else self.training[rows]


def owners_of(tables: TableSet, client: str | None) -> Owners:
    """Return the owners of rows. Raises ConfigError if one is missing. client: column that names them."""
    if client is None:
        return Owners(None, [None] * len(tables.others), ())
    owners, names = numbered(tables.training, client)
    return Owners(owners, [numbered_as(part, client, names) for part in tables.others], names)


def owners_of_all(owners: Owners, tables: Sequence[TableFile]) -> IntArray:
    """Return the owner of each row of all tables. Raises ConfigError if those of a table are unknown."""
    known = [owners.training, *owners.others]
    for part, table in zip(known, tables):
        if part is None:
            raise ConfigError(
                f"fit = 'client': {table.file} has no column that names the client of a row; set fit = 'all'"
            )
    return np.concatenate([part for part in known if part is not None])

"""Windows of the rows of tables: which rows they may have, and the examples that they become."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from fedtempo.data.tabular.columns import instants
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.labels import numbered
from fedtempo.data.windows import Windows, check_times
from fedtempo.errors import ConfigError


class WindowShape(NamedTuple):
    """Rows in a window, rows after it that are predicted, and rows from its beginning to that of the next."""

    window: int
    horizon: int
    stride: int


def windows_of(
    tables: Sequence[TableFile], client: str | None, time: str, form: str | None, shape: WindowShape
) -> Windows:
    """Return how windows are cut from the rows of all tables; windows within each table have rows of one client."""
    series, times = [], []
    for part in tables:
        if client is not None:
            part.must_have(client)
        own = np.zeros(len(part), dtype=np.int64) if client is None else numbered(part, client)[0]
        part_times = instants(part, time, form)
        check_times(own, part_times, time, partial(_failure, part, time))
        series.append(own)
        times.append(part_times)
    return Windows(*shape, np.concatenate(series), np.concatenate(times))


def _failure(rows: TableFile, column: str, row: int, what: str) -> ConfigError:
    return rows.error(row, column, what)

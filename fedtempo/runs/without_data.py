"""Clients without examples, for schedules on fleets that are larger than any data set."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from annotated_types import MinLen
from pydantic.dataclasses import dataclass

from fedtempo.data.dataset import Dataset
from fedtempo.data.dealing import wanted_sizes
from fedtempo.data.sources import NOTHING
from fedtempo.errors import ConfigError, nearest
from fedtempo.fleet.distributions import Distribution, distribution, drawn
from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Doc
from fedtempo.parts.text_files import read_csv
from fedtempo.runs.config import Config
from fedtempo.runtime.keyed import keyed_generator

Counts = npt.NDArray[np.int64]
_KEY = "data.examples_per_client"
_MOST = 10**12


@dataclass(frozen=True, config=STRICT)
class Column:
    """A column of a CSV file with one row per client, in the order of the clients."""

    file: Annotated[str, MinLen(1), Doc("path of the CSV, which has a header")]
    column: Annotated[str, MinLen(1), Doc("name of the column with the numbers of examples")]

    def read(self) -> list[float]:
        """Return the column. Raises ConfigError, naming file and row, if it cannot be read or holds anything else."""
        try:
            reader = read_csv(Path(self.file))
            if self.column not in (names := list(reader.fieldnames or ())):
                raise ConfigError(f"{_KEY}: {self.file} has no column {self.column!r}{nearest(self.column, names)}")
            return [self._number(row[self.column], reader.line_num) for row in reader]
        except (OSError, ValueError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{_KEY}: {self.file} cannot be read: {reason}") from error

    def _number(self, text: str | None, line: int) -> float:
        try:
            return float(text or "")
        except ValueError:
            raise ConfigError(f"{_KEY}: {self.file}, line {line}: {text!r} is no number") from None


def sizes_from(table: Mapping[str, Any]) -> Distribution | Column:
    """Return what a table in `data.examples_per_client` describes. Raises ConfigError."""
    try:
        if "file" in table or "column" in table:
            return made(Column, table, "column")  # type: ignore[no-any-return]
        return distribution(table)
    except ValueError as error:
        raise ConfigError(f"{_KEY}: {error}") from error


def examples_without_data(config: Config, n_clients: int) -> Counts | None:
    """Return how many examples each client counts, shape (clients,); None if clients hold examples of the data.

    They hold none if there are no data (`data.source = "none"`), or if numbers of examples come from a distribution or
    a column. Raises ConfigError if a run that trains asks for this, or if nothing says how many examples clients count.
    """
    asked, nothing = config.data.examples_per_client, config.data.source == NOTHING
    if not nothing and not isinstance(asked, Mapping):
        return None
    if config.executor.kind != "none":
        if nothing:
            raise ConfigError("data.source = 'none': nothing to train on; it is for executor.kind = 'none' and plans")
        raise ConfigError(
            f"{_KEY}: a distribution or a column is for executor.kind = 'none' and plans; give a number or "
            "[smallest, largest] for a run that trains"
        )
    rng = keyed_generator(config.run.seed, "partition")
    if asked is None:
        raise ConfigError(f"{_KEY} is missing: without data, say how many examples clients have")
    if isinstance(asked, Mapping):
        return _counted(sizes_from(asked), n_clients, rng)
    return wanted_sizes(n_clients, asked, rng)


def examples_beyond_data(config: Config, dataset: Dataset, n_clients: int, error: ConfigError) -> Counts:
    """Return how many examples each client counts if the data cannot be dealt out for want of examples.

    Raises `error`, the reason why they cannot, if the run trains or the data have enough of them, or asks for the
    number of each client's examples.
    """
    asked, available = config.data.examples_per_client, len(dataset.train_y)
    if config.executor.kind != "none" or isinstance(asked, Mapping):
        raise error
    if asked is None:
        if n_clients <= available:
            raise error
        raise ConfigError(f"{error}; or set {_KEY} to plan without examples") from error
    counts = wanted_sizes(n_clients, asked, keyed_generator(config.run.seed, "partition"))
    if counts.sum() <= available:
        raise error
    return counts


def clients_of_column(config: Config) -> int | None:
    """Return the number of clients in the column that `data.examples_per_client` names; None without such a column."""
    asked = config.data.examples_per_client
    sizes = sizes_from(asked) if isinstance(asked, Mapping) else None
    return len(sizes.read()) if isinstance(sizes, Column) else None


def described(dataset: Dataset, counts: Counts) -> Dataset:
    """Return the data with a description that says that clients hold none of them."""
    low, high = int(counts.min()), int(counts.max())
    each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return replace(dataset, about=f"none: {len(counts):,} clients that count {each} examples each")


def _counted(sizes: Distribution | Column, n_clients: int, rng: np.random.Generator) -> Counts:
    """Return numbers of examples, at least 1, rounded. Raises ConfigError for a number that cannot be one."""
    if isinstance(sizes, Column):
        values = np.array(sizes.read())
        if len(values) != n_clients:
            raise ConfigError(
                f"{_KEY}: {sizes.file} has {len(values)} rows for {n_clients} clients; give one row per client"
            )
    else:
        values = drawn(_KEY, sizes, rng, n_clients)
    bad = np.flatnonzero(~((values >= 0) & (values <= _MOST)))
    if bad.size:
        raise ConfigError(f"{_KEY}: client {bad[0]} has {values[bad[0]]:g}; it must lie in 0 to {_MOST:.0e}")
    counts: Counts = np.maximum(1, np.rint(values)).astype(np.int64)
    return counts

"""Recorded availability."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.fleet.presence import Availability, Scheduled, merged, parts_of_window
from fedtempo.parts.fields import STRICT, Doc, Positive
from fedtempo.parts.natural_order import listed, natural
from fedtempo.parts.text_files import read_csv

Interval = Annotated[tuple[int, float, float], Field(strict=False)]


@dataclass(frozen=True, config=STRICT)
class Trace:
    """Clients come and go as recorded in a file or inline."""

    file: Annotated[
        str | None,
        Doc(
            "CSV with a header and the columns client (a name, or a number from 0 unless all are names), begin_s, "
            "end_s, and optionally period_s, the client's own period; with a period, an interval may last over its end "
            "(22 h to 6 h); with `sample` the names are arbitrary"
        ),
    ] = None
    intervals: Annotated[
        tuple[Interval, ...], Field(strict=False), Doc("inline: [client, begin, end] in seconds, clients from 0")
    ] = ()
    sample: Annotated[
        bool,
        Doc(
            "let each client follow a randomly drawn recorded client, without repetition if there are enough; "
            "otherwise clients are matched by number or name, and one that is not recorded is never available"
        ),
    ] = False
    period_s: Annotated[
        Positive | None, Doc("period after which the trace repeats, seconds (default: it does not)")
    ] = None

    def __post_init__(self) -> None:
        if (self.file is None) == (not self.intervals):
            raise ValueError("file, intervals: give one of them")

    def for_clients(self, names: Sequence[str]) -> NamedTrace:
        """Return the trace for clients with these names."""
        return NamedTrace(self, tuple(names))

    def build(self, n_clients: int, rng: np.random.Generator, names: Sequence[str] = ()) -> Availability:
        """Return when clients are available. names: names that may identify clients in the trace instead of numbers.

        Raises ConfigError for an unusable file or interval, or a client that is not in the fleet.
        """
        rows: Iterable[TraceRow]
        if self.file is not None:
            where, rows = f"fleet.availability: {self.file}", _csv_rows(self.file)
        else:
            where = "fleet.availability: intervals"
            rows = (TraceRow(f"number {i}", str(c), begin, end) for i, (c, begin, end) in enumerate(self.intervals))
        recorded: dict[str, list[tuple[float, float]]] = {}
        periods: dict[str, float | None] = {}
        for position, client, begin, end, clients_period_s in rows:
            if clients_period_s is not None and self.period_s is not None:
                raise ConfigError(f"{where} {position}: the file sets period_s; remove period_s = {self.period_s}")
            period_s = self.period_s if clients_period_s is None else clients_period_s
            try:
                parts = parts_of_window(begin, end, period_s)
            except ValueError as error:
                raise ConfigError(f"{where} {position}: {error}") from None
            if periods.setdefault(client, period_s) != period_s:
                raise ConfigError(
                    f"{where} {position}: period_s = {period_s}, but {periods[client]} before; give one per client"
                )
            recorded.setdefault(client, []).extend(parts)
        if self.sample:
            known_names = sorted(recorded)
            drawn = rng.choice(len(known_names), n_clients, replace=len(known_names) < n_clients)
            followed = [known_names[i] for i in drawn.tolist()]
        else:
            followed = [str(client) for client in range(n_clients)]
            are_names = self.file is not None and recorded.keys() <= set(names)
            if are_names or (not recorded.keys() <= set(followed) and not recorded.keys().isdisjoint(names)):
                followed = list(names)
            if strange := sorted(recorded.keys() - set(followed), key=natural):
                fleet_names = f"0 to {n_clients - 1}" if followed[0] == "0" else listed(followed)
                raise ConfigError(
                    f"{where}: client {strange[0]!r} is not in the fleet, {fleet_names}; "
                    "set sample = true to let its clients follow recorded ones"
                )
        return Scheduled(
            [merged(recorded.get(client, [])) for client in followed], [periods.get(client) for client in followed]
        )


@dataclasses.dataclass(frozen=True)
class NamedTrace:
    """A trace and the names of the clients."""

    trace: Trace
    names: tuple[str, ...]

    def build(self, n_clients: int, rng: np.random.Generator) -> Availability:
        """Return `Trace.build` with the clients' names."""
        return self.trace.build(n_clients, rng, self.names)


class TraceRow(NamedTuple):
    """An interval of a client. position: its line or number, for errors. period_s: the client's period if any."""

    position: str
    client: str
    begin_s: float
    end_s: float
    period_s: float | None = None


def _csv_rows(file: str) -> Iterator[TraceRow]:
    """Yield the rows of a trace. Raises ConfigError if the file is not a trace."""
    where = f"fleet.availability: {file}"
    empty = True
    try:
        reader = read_csv(Path(file).expanduser())
        if missing := {"client", "begin_s", "end_s"} - set(reader.fieldnames or ()):
            raise ConfigError(f"{where} has no column {min(missing)!r}; a trace has client, begin_s and end_s")
        for row in reader:
            empty = False
            try:
                client, begin, end = row["client"].strip(), float(row["begin_s"]), float(row["end_s"])
                text = (row.get("period_s") or "").strip()
                period_s = float(text) if text else None
            except (AttributeError, TypeError, ValueError):
                line = f"line {reader.line_num}"
                raise ConfigError(f"{where} {line}: give a client, and begin_s and end_s in seconds") from None
            yield TraceRow(f"line {reader.line_num}", client, begin, end, period_s)
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{where} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if empty:
        raise ConfigError(f"{where} has no intervals")

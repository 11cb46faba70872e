"""Availability as it was recorded."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.fleet.presence import Availability, Scheduled, merged
from fedtempo.parts.fields import STRICT, Doc, Positive
from fedtempo.parts.natural_order import listed, natural

Interval = Annotated[tuple[int, float, float], Field(strict=False)]


@dataclass(frozen=True, config=STRICT)
class Trace:
    """Clients come and go as was recorded, in a file or inline."""

    file: Annotated[
        str | None,
        Doc(
            "CSV with a header and the columns client (a number or a name), begin_s, end_s, and period_s where clients "
            "repeat after times of their own; any names with `sample`"
        ),
    ] = None
    intervals: Annotated[
        tuple[Interval, ...], Field(strict=False), Doc("inline: [client, begin, end] in seconds, clients from 0")
    ] = ()
    sample: Annotated[
        bool,
        Doc(
            "each client follows a recorded one that is drawn, each once where there are enough; else those with its "
            "own number, and one that is not recorded never comes"
        ),
    ] = False
    period_s: Annotated[Positive | None, Doc("the trace repeats after so many seconds; once without it")] = None

    def __post_init__(self) -> None:
        if (self.file is None) == (not self.intervals):
            raise ValueError("file, intervals: give one of them")

    def for_clients(self, names: Sequence[str]) -> NamedTrace:
        """The trace of clients that have names."""
        return NamedTrace(self, tuple(names))

    def build(self, n_clients: int, rng: np.random.Generator, names: Sequence[str] = ()) -> Availability:
        """When clients are there. names: theirs, by which they may be recorded instead of by number.

        Raises ConfigError for an unusable file or interval, or a client that the fleet does not have.
        """
        rows: Iterable[Row]
        if self.file is not None:
            where, rows = f"fleet.availability: {self.file}", _csv_rows(self.file)
        else:
            where = "fleet.availability: intervals"
            rows = ((f"number {i}", str(c), begin, end, None) for i, (c, begin, end) in enumerate(self.intervals))
        recorded: dict[str, list[tuple[float, float]]] = {}
        periods: dict[str, float | None] = {}
        for place, client, begin, end, own_s in rows:
            if own_s is not None and self.period_s is not None:
                raise ConfigError(f"{where} {place}: has a period_s of its own; leave period_s = {self.period_s} out")
            period_s = self.period_s if own_s is None else own_s
            latest = math.inf if period_s is None else period_s
            if not 0 <= begin < end <= latest:
                most = "" if period_s is None else f" <= period_s = {latest}"
                raise ConfigError(f"{where} {place}: [{begin}, {end}] must have 0 <= begin < end{most}")
            if periods.setdefault(client, period_s) != period_s:
                raise ConfigError(
                    f"{where} {place}: period_s = {period_s}, and before {periods[client]}; a client has one"
                )
            recorded.setdefault(client, []).append((begin, end))
        if self.sample:
            known_names = sorted(recorded)
            drawn = rng.choice(len(known_names), n_clients, replace=len(known_names) < n_clients)
            followed = [known_names[i] for i in drawn.tolist()]
        else:
            followed = [str(client) for client in range(n_clients)]
            if not recorded.keys() <= set(followed) and not recorded.keys().isdisjoint(names):
                followed = list(names)
            if strange := sorted(recorded.keys() - set(followed), key=natural):
                known = f"0 to {n_clients - 1}" if followed[0] == "0" else listed(followed)
                raise ConfigError(
                    f"{where}: client {strange[0]!r} is none of the fleet's, {known}; "
                    "set sample = true to let its clients follow recorded ones"
                )
        return Scheduled(
            [merged(recorded.get(client, [])) for client in followed], [periods.get(client) for client in followed]
        )


@dataclasses.dataclass(frozen=True)
class NamedTrace:
    """A trace, and the names of the clients that it may be of."""

    trace: Trace
    names: tuple[str, ...]

    def build(self, n_clients: int, rng: np.random.Generator) -> Availability:
        """As `Trace.build`."""
        return self.trace.build(n_clients, rng, self.names)


Row = tuple[str, str, float, float, float | None]
"""Where it stands, client, begin, end, and the client's own period where it has one."""


def _csv_rows(file: str) -> Iterator[Row]:
    """Each line of a trace. Raises ConfigError where it is no trace."""
    where = f"fleet.availability: {file}"
    empty = True
    try:
        with Path(file).expanduser().open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines)
            if missing := {"client", "begin_s", "end_s"} - set(reader.fieldnames or ()):
                raise ConfigError(f"{where} has no column {min(missing)!r}; a trace has client, begin_s and end_s")
            for row in reader:
                empty = False
                try:
                    client, begin, end = row["client"].strip(), float(row["begin_s"]), float(row["end_s"])
                    own = (row.get("period_s") or "").strip()
                    period_s = float(own) if own else None
                except (AttributeError, TypeError, ValueError):
                    line = f"line {reader.line_num}"
                    raise ConfigError(f"{where} {line}: give a client, and begin_s and end_s in seconds") from None
                yield f"line {reader.line_num}", client, begin, end, period_s
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{where} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if empty:
        raise ConfigError(f"{where} holds no interval")

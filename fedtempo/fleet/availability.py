"""When clients are available, and when a visit fails.

`AVAILABILITY` maps the name used in a configuration to the class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.fleet.by_name import in_order
from fedtempo.fleet.presence import Availability as Availability
from fedtempo.fleet.presence import Present, Scheduled, Switching, merged, parts_of_window
from fedtempo.fleet.streams import Streams
from fedtempo.fleet.traces import Trace
from fedtempo.parts.fields import STRICT, Doc, Gt, Le, Positive, Share


@runtime_checkable
class AvailabilityKind(Protocol):
    """A kind of availability in a configuration."""

    def build(self, n_clients: int, rng: np.random.Generator) -> Availability: ...


@dataclass(frozen=True, config=STRICT)
class Always:
    """All clients are always available, and no visit fails."""

    def build(self, n_clients: int, rng: np.random.Generator) -> Availability:
        return Present()


@dataclass(frozen=True, config=STRICT)
class Dropout:
    """All clients are always available; a visit fails with some probability, at a uniform point of its computation."""

    probability: Annotated[Share, Doc("probability that a visit fails")]

    def build(self, n_clients: int, rng: np.random.Generator) -> Availability:
        return Present(self.probability)


@dataclass(frozen=True, config=STRICT)
class OnOff:
    """Clients come and go independently; the times they stay and stay away are exponentially distributed."""

    mean_on_s: Annotated[Positive, Doc("mean time that a client is available, seconds")]
    mean_off_s: Annotated[Positive, Doc("mean time that it is away, seconds")]
    starting_share: Annotated[
        Share | None,
        Doc("probability that a client is available at the start (default: mean_on / (mean_on + mean_off))"),
    ] = None

    def build(self, n_clients: int, rng: np.random.Generator) -> Availability:
        share = self.starting_share
        if share is None:
            share = self.mean_on_s / (self.mean_on_s + self.mean_off_s)
        on_at_start: list[bool] = (rng.random(n_clients) < share).tolist()
        return Switching(on_at_start, self.mean_on_s, self.mean_off_s, Streams(rng, n_clients))


Window = Annotated[tuple[float, float], Field(strict=False)]
ClientWindows = Annotated[tuple[Window, ...], Field(strict=False)]


@dataclass(frozen=True, config=STRICT)
class Windows:
    """Each client is available in given time windows, once or periodically."""

    windows: Annotated[
        Annotated[tuple[ClientWindows, ...], Field(strict=False)] | dict[str, ClientWindows],
        Doc(
            "for each client, in order or by name, a list of [begin, end], seconds; touching windows are merged; with "
            "a period, a window may last over its end, such as [79200, 21600] from 22 h to 6 h"
        ),
    ]
    period_s: Annotated[
        Positive | None, Doc("period after which the windows repeat, seconds (default: they do not)")
    ] = None

    def __post_init__(self) -> None:
        for client, windows in self._named().items():
            try:
                self._parts(windows)
            except ValueError as error:
                raise ValueError(f"windows of client {client}: {error}") from None

    def _named(self) -> Mapping[Any, ClientWindows]:
        return self.windows if isinstance(self.windows, dict) else dict(enumerate(self.windows))

    def _parts(self, windows: ClientWindows) -> list[tuple[float, float]]:
        return merged(part for window in windows for part in parts_of_window(*window, self.period_s))

    def for_clients(self, names: Sequence[str]) -> Windows:
        """Return the same in the order of the clients. Raises ConfigError unless exactly these clients are named."""
        if not isinstance(self.windows, dict):
            return self
        return replace(self, windows=tuple(in_order(self.windows, names)))

    def build(self, n_clients: int, rng: np.random.Generator) -> Availability:
        """Return the fleet's availability. Raises ConfigError if the number of lists differs from that of clients."""
        if isinstance(self.windows, dict):
            return self.for_clients([str(client) for client in range(n_clients)]).build(n_clients, rng)
        if len(self.windows) != n_clients:
            raise ConfigError(f"windows: {len(self.windows)} clients are listed, the fleet has {n_clients}")
        return Scheduled([self._parts(windows) for windows in self.windows], self.period_s)


@dataclass(frozen=True, config=STRICT)
class Diurnal:
    """Each client is available once a day, for the same share of the day, at its own time of day."""

    share: Annotated[float, Gt(0), Le(1), Doc("share of the day that a client is available")]
    period_s: Annotated[Positive, Doc("length of a day, seconds")] = 86_400.0
    spread: Annotated[
        Share,
        Doc("share of the day over which clients' starting times are uniform; 0: all together, 1: around the clock"),
    ] = 1.0

    def build(self, n_clients: int, rng: np.random.Generator) -> Availability:
        day = self.period_s
        if self.share == 1:
            return Present()
        windows = []
        for begin in (self.spread * day * rng.random(n_clients)).tolist():
            end = begin + self.share * day
            windows.append([(begin, end)] if end <= day else [(0.0, end - day), (begin, day)])
        return Scheduled(windows, day)


AVAILABILITY: dict[str, type] = {
    "always": Always,
    "diurnal": Diurnal,
    "dropout": Dropout,
    "on-off": OnOff,
    "trace": Trace,
    "windows": Windows,
}

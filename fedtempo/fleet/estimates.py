"""The server's estimates of the duration of clients' visits.

`ESTIMATES` maps the name used in a configuration to the class. Estimates are (download, compute, upload) in seconds.
There is no default: a configuration must say what the server knows.
"""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np
from annotated_types import Len
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from fedtempo.fleet.streams import Streams
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Gt, Lt, NonNegative

Times = tuple[float, float, float]


class Estimator(Protocol):
    """A server's estimates of the clients of a fleet."""

    def estimate(self, client: int, true_download_s: float, true_compute_s: float, true_upload_s: float) -> Times:
        """Return the server's estimate; the arguments are the client's true means, which it may partly know."""
        ...

    def observe(self, client: int, download_s: float, compute_s: float, upload_s: float) -> None:
        """Learn that a visit of the client took these times."""
        ...


@runtime_checkable
class EstimatorKind(Protocol):
    """A kind of estimates in a configuration."""

    def build(self, n_clients: int, rng: np.random.Generator) -> Estimator: ...


class _Exact:
    def estimate(self, client: int, true_download_s: float, true_compute_s: float, true_upload_s: float) -> Times:
        return true_download_s, true_compute_s, true_upload_s

    def observe(self, client: int, download_s: float, compute_s: float, upload_s: float) -> None:
        pass


class _Observed:
    def __init__(self, prior: Times, window: int | None) -> None:
        self._prior = prior
        self._window = window
        self._means: dict[int, Times] = {}
        self._counts: dict[int, int] = {}
        self._seen: dict[int, deque[Times]] = {}

    def estimate(self, client: int, true_download_s: float, true_compute_s: float, true_upload_s: float) -> Times:
        return self._means.get(client, self._prior)

    def observe(self, client: int, download_s: float, compute_s: float, upload_s: float) -> None:
        times = (download_s, compute_s, upload_s)
        if self._window is None:
            count = self._counts[client] = self._counts.get(client, 0) + 1
            d, c, u = self._means.get(client, times)
            self._means[client] = (
                d + (download_s - d) / count,
                c + (compute_s - c) / count,
                u + (upload_s - u) / count,
            )
        else:
            seen = self._seen.setdefault(client, deque(maxlen=self._window))
            seen.append(times)
            d, c, u = (sum(part) / len(seen) for part in zip(*seen, strict=True))
            self._means[client] = (d, c, u)


class _Noisy:
    def __init__(self, error: float, bias: float, fixed: bool, streams: Streams) -> None:
        self._error = error
        self._bias = bias
        self._fixed = fixed
        self._streams = streams
        self._factors: dict[int, float] = {}

    def estimate(self, client: int, true_download_s: float, true_compute_s: float, true_upload_s: float) -> Times:
        if client not in self._factors:
            deviation = self._streams[client].uniform(-self._error, self._error)
            self._factors[client] = (1 + self._bias) * (1 + deviation)
        factor = self._factors[client]
        return factor * true_download_s, factor * true_compute_s, factor * true_upload_s

    def observe(self, client: int, download_s: float, compute_s: float, upload_s: float) -> None:
        if not self._fixed:
            self._factors.pop(client, None)


@dataclass(frozen=True, config=STRICT)
class Exact:
    """The server knows every client's true mean times, the best that estimates can be."""

    def build(self, n_clients: int, rng: np.random.Generator) -> Estimator:
        return _Exact()


def _parts(value: Any) -> Any:
    """Turn one number into a visit that consists of computing only."""
    return (0.0, value, 0.0) if isinstance(value, int | float) else value


@dataclass(frozen=True, config=STRICT)
class Observed:
    """The mean of a client's observed visits; a prior before the first."""

    prior_s: Annotated[
        tuple[NonNegative, NonNegative, NonNegative],
        Field(strict=False),
        Len(3, 3),
        BeforeValidator(_parts),
        Doc("estimate before the first visit: [download, compute, upload] or one number for the whole visit, seconds"),
    ]
    window: Annotated[Count | None, Doc("number of latest visits to average (default: all)")] = None

    def build(self, n_clients: int, rng: np.random.Generator) -> Estimator:
        return _Observed(self.prior_s, self.window)


@dataclass(frozen=True, config=STRICT)
class Noisy:
    """The true mean times, with all parts of a visit multiplied by one random factor."""

    error: Annotated[float, Ge(0), Lt(1), Doc("largest relative error: a factor uniform in [1 - error, 1 + error]")]
    bias: Annotated[float, Gt(-1), Doc("relative error shared by all clients: a further factor 1 + bias")] = 0.0
    per: Annotated[
        Literal["client", "visit"], Doc("draw one factor per client for the whole run, or a new one after each visit")
    ] = "visit"

    def build(self, n_clients: int, rng: np.random.Generator) -> Estimator:
        return _Noisy(self.error, self.bias, self.per == "client", Streams(rng, n_clients))


ESTIMATES: dict[str, type] = {"exact": Exact, "noisy": Noisy, "observed": Observed}

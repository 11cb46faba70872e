"""Pipelined uploads: clients in clusters by computing time, one frame of the sub-channels for each cluster.

Keçeci et al., Clustered Scheduling and Communication Pipelining for Efficient Resource Management of Wireless Federated
Learning, IEEE Internet of Things Journal 2023. While slow clients compute, fast ones send. The paper's tau_m is a
client's `compute_s`, tau_com `upload_s`, Delta_global `extra_s`, K the number of clusters, theta_k the instant at which
the frame of cluster k opens, pi_k the number of clients that are done by then, delta_k a cluster's size before it is
rounded. Clusters are numbered from 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike

from fedtempo.errors import ConfigError

_SLACK = 1e-10
"""Share of the last opening by which times may be off: rounding must not decide whether a client is done in time."""


def openings(last_s: float, n_clusters: int, upload_s: float) -> list[float]:
    """When each cluster's frame opens (Eq. 20), frame after frame without a gap; last_s: the last, tau_max + Delta."""
    return [last_s - (n_clusters - 1 - k) * upload_s for k in range(n_clusters)]


def largest_n_clusters(compute_s: ArrayLike, upload_s: float, extra_s: float = 0.0) -> int | None:
    """Most clusters for which the first frame opens no sooner than the fastest client is done (Eq. 21).

    The paper's practical value (Eq. 22) is one less: with equality only one client can be in the first cluster. None
    where sending takes no time, so that any number will do.
    """
    times = np.asarray(compute_s, float)
    last_s = float(times.max()) + extra_s
    if upload_s == 0:
        return None
    return math.floor((last_s * (1 + _SLACK) - float(times.min())) / upload_s) + 1


@dataclass(frozen=True)
class Clusters:
    """Clients in clusters of sizes as equal as their computing times allow.

    opens_s: theta_k, when each cluster's frame opens. done: pi_k, how many clients are done by then. hull: vertices
    (k, pi_k) of the lower convex hull, from (0, 0) on. relaxed: delta_k, sizes before rounding. members: ascending ids.
    """

    opens_s: tuple[float, ...]
    done: tuple[int, ...]
    hull: tuple[tuple[int, int], ...]
    relaxed: tuple[Fraction, ...]
    members: tuple[tuple[int, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.members))


def cluster_by_time(compute_s: ArrayLike, n_clusters: int, upload_s: float, extra_s: float = 0.0) -> Clusters:
    """The clusters with the least variance of sizes, each client done when its frame opens (problem 23, Algorithm 2).

    compute_s: (n_clients,). Clients are sorted by (time, id) and cut at the sums of relaxed sizes, rounded half up.
    Raises ConfigError for more clusters than `largest_n_clusters`. A cluster may remain empty.
    """
    times = np.asarray(compute_s, float)
    largest = largest_n_clusters(times, upload_s, extra_s)
    if largest is not None and n_clusters > largest:
        raise ConfigError(
            f"n_clusters = {n_clusters}: the first frame would open before the fastest client is done; with computing "
            f"times of {times.min():g} to {times.max():g} s, {extra_s:g} s of extra time and uploads of {upload_s:g} s "
            f"the largest number is {largest}"
        )
    last_s = float(times.max()) + extra_s
    opens_s = openings(last_s, n_clusters, upload_s)
    order = np.argsort(times, kind="stable")
    done = np.searchsorted(times[order], np.array(opens_s) + _SLACK * last_s, side="right").tolist()
    hull = lower_hull(done)
    relaxed = relaxed_sizes(hull)
    ends = [0, *(_half_up(total) for total in accumulate(relaxed))]
    members = tuple(tuple(sorted(order[start:end].tolist())) for start, end in pairwise(ends))
    return Clusters(tuple(opens_s), tuple(done), tuple(hull), tuple(relaxed), members)


def lower_hull(done: Sequence[int]) -> list[tuple[int, int]]:
    """Vertices of the lower convex hull of (0, 0), (1, done[0]), (2, done[1]), ...: Algorithm 2's walk.

    From each vertex the walk goes on to the point with the least slope, of equal slopes the farthest.
    """
    points = [(0, 0), *enumerate(done, start=1)]
    hull = points[:1]
    while hull[-1] != points[-1]:
        k, count = hull[-1]
        hull.append(min(points[k + 1 :], key=lambda point: (Fraction(point[1] - count, point[0] - k), -point[0])))
    return hull


def relaxed_sizes(hull: Sequence[tuple[int, int]]) -> list[Fraction]:
    """The hull's slope over each cluster: the real sizes that solve problem 23."""
    return [Fraction(d - c, b - a) for (a, c), (b, d) in pairwise(hull) for _ in range(b - a)]


def _half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


@dataclass(frozen=True)
class Sending:
    """A client's part in a round: it computes from 0 to `computed_s`, waits, and sends from `opens_s` to `ends_s`."""

    client: int
    cluster: int
    channel: int
    computed_s: float
    opens_s: float
    ends_s: float

    @property
    def wait_s(self) -> float:
        return self.opens_s - self.computed_s


@dataclass(frozen=True)
class Timeline:
    """A round. sent_s: when the last frame ends, whether or not it is used. round_s: with the server's time after it.

    channel_use: busy time of the sub-channels over all there is of it.
    """

    sendings: tuple[Sending, ...]
    sent_s: float
    round_s: float
    channel_use: float


def timeline(
    compute_s: ArrayLike,
    chosen: Sequence[Sequence[int]],
    opens_s: Sequence[float],
    n_channels: int,
    upload_s: float,
    server_s: float = 0.0,
) -> Timeline:
    """A round in which the clients `chosen[k]` of cluster k, at most `n_channels`, send in the frame from opens_s[k].

    They take the sub-channels 0, 1, ... in the order given. compute_s: (n_clients,); server_s: tau_server.
    """
    times = np.asarray(compute_s, float)
    sendings = tuple(
        Sending(client, k, channel, float(times[client]), opens, opens + upload_s)
        for k, opens in enumerate(opens_s)
        for channel, client in enumerate(chosen[k])
    )
    sent_s = opens_s[-1] + upload_s
    round_s = sent_s + server_s
    return Timeline(sendings, sent_s, round_s, len(sendings) * upload_s / (n_channels * round_s))


def last_opening(compute_s: ArrayLike, chosen: Sequence[Sequence[int]], upload_s: float) -> float:
    """The soonest last opening with which all of `chosen` are done in time, frame after frame; at least one is chosen.

    With one cluster it is the time of the slowest chosen client, as in Eq. 6.
    """
    times = np.asarray(compute_s, float)
    after = len(chosen) - 1
    return max(
        float(times[list(clients)].max()) + (after - k) * upload_s for k, clients in enumerate(chosen) if len(clients)
    )


def utilisation(n_clusters: int, upload_s: float, slowest_s: float, server_s: float, extra_s: float = 0.0) -> float:
    """Share of the sub-channels' time that is used if every frame is full.

    Eq. 8 with one cluster and no extra time, Eq. 9 with more clusters, Eq. 19 with extra time. 0 where nothing takes
    time.
    """
    round_s = upload_s + server_s + slowest_s + extra_s
    return n_clusters * upload_s / round_s if round_s else 0.0

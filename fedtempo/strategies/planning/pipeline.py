"""Pipelined uploads: clients clustered by computing time, with one frame of the sub-channels for each cluster.

Keçeci et al., Clustered Scheduling and Communication Pipelining for Efficient Resource Management of Wireless Federated
Learning, IEEE Internet of Things Journal 2023. Fast clients send while slow ones compute. The paper's tau_m is a
client's `compute_s`, tau_com `upload_s`, Delta_global `extra_s`, K the number of clusters, theta_k when the frame of
cluster k opens, pi_k the number of clients that have computed by then, delta_k a cluster's size before
rounding. Clusters are numbered from 0.
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
"""Tolerance for times, as a share of the last opening, so that rounding errors do not decide who is in time."""


def openings(last_s: float, n_clusters: int, upload_s: float) -> list[float]:
    """Return when each cluster's frame opens (Eq. 20), one right after the other; last_s: the last opening."""
    return [last_s - (n_clusters - 1 - k) * upload_s for k in range(n_clusters)]


def largest_n_clusters(compute_s: ArrayLike, upload_s: float, extra_s: float = 0.0) -> int | None:
    """Return the largest number of clusters whose first frame opens after the fastest client has computed (Eq. 21).

    The paper's practical value (Eq. 22) is one less: with equality only one client can be in the first cluster. None if
    uploads take no time, since any number is feasible then.
    """
    times = np.asarray(compute_s, float)
    last_s = float(times.max()) + extra_s
    if upload_s == 0:
        return None
    return math.floor((last_s * (1 + _SLACK) - float(times.min())) / upload_s) + 1


@dataclass(frozen=True)
class Clusters:
    """Clusters of clients, with sizes as equal as the computing times allow.

    opens_s: theta_k, when each cluster's frame opens. done: pi_k, how many clients have computed by then. hull: the
    vertices (k, pi_k) of the lower convex hull, starting at (0, 0). relaxed: delta_k, sizes before rounding. members:
    each cluster's client ids, ascending.
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
    """Cluster clients with the least variance of sizes such that each is done when its frame opens (Algorithm 2).

    This solves problem 23. compute_s: (n_clients,). Clients are sorted by (time, id) and cut at the cumulative relaxed
    sizes, rounded half up. A cluster may be empty. Raises ConfigError for more clusters than `largest_n_clusters`.
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
    """Return the vertices of the lower convex hull of (0, 0), (1, done[0]), (2, done[1]), ... as Algorithm 2 does.

    From each vertex the walk continues to the point with the smallest slope, the farthest of several.
    """
    points = [(0, 0), *enumerate(done, start=1)]
    hull = points[:1]
    while hull[-1] != points[-1]:
        k, count = hull[-1]
        hull.append(min(points[k + 1 :], key=lambda point: (Fraction(point[1] - count, point[0] - k), -point[0])))
    return hull


def relaxed_sizes(hull: Sequence[tuple[int, int]]) -> list[Fraction]:
    """Return the hull's slope over each cluster: the real-valued sizes that solve problem 23."""
    return [Fraction(d - c, b - a) for (a, c), (b, d) in pairwise(hull) for _ in range(b - a)]


def _half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


def last_opening(compute_s: ArrayLike, chosen: Sequence[Sequence[int]], upload_s: float) -> float:
    """Return the earliest last opening for which all `chosen` clients are done when their frames open.

    chosen: the clients of each cluster; at least one in all. With one cluster this is the time of the slowest chosen
    client, as in Eq. 6.
    """
    times = np.asarray(compute_s, float)
    after = len(chosen) - 1
    return max(
        float(times[list(clients)].max()) + (after - k) * upload_s for k, clients in enumerate(chosen) if len(clients)
    )


def utilisation(n_clusters: int, upload_s: float, slowest_s: float, server_s: float, extra_s: float = 0.0) -> float:
    """Return the share of the sub-channels' time that is used if every frame is full.

    Eq. 8 with one cluster and no extra time, Eq. 9 with more clusters, Eq. 19 with extra time. 0 if nothing takes time.
    """
    round_s = upload_s + server_s + slowest_s + extra_s
    return n_clusters * upload_s / round_s if round_s else 0.0

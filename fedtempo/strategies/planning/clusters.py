"""Clusters of clients with similar models, balanced in size (FedHusky, Section III-A) and, as an option, in speed.

Models have many more parameters than there are clients, so everything works on the clients' coordinates in the space
spanned by their models, computed from the matrix of inner products. This is exact and needs N - 1 numbers per client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedtempo.errors import ConfigError

if TYPE_CHECKING:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


class Move(NamedTuple):
    """A client moved by rebalancing. rule: 1 is the paper's, 2 and 3 complete it; see `rebalance`."""

    client: int
    source: int
    target: int
    rule: int


@dataclass(frozen=True, eq=False)
class GapStatistic:
    """The gap curve of Tibshirani, Walther, Hastie (2001) and the numbers of clusters it suggests.

    gap, standard_error: for 1, 2, ... clusters. by_standard_error: the smallest k with gap(k) >= gap(k+1) - s(k+1), the
    authors' rule. by_first_maximum: the first local maximum from 2 clusters on. by_largest_jump: the k >= 2 with the
    largest gap(k) - gap(k-1). On model weights, whose clusters are about equally far apart, the first splits hardly
    lower the spread, so that the authors' rule tends to give 1; the other two find the last split that matters.
    """

    gap: Floats
    standard_error: Floats
    by_standard_error: int
    by_first_maximum: int
    by_largest_jump: int


@dataclass(frozen=True, eq=False)
class Clustering:
    """Clusters whose sizes are N / n_clusters rounded down or up.

    labels: (n_clients,), in 0..n_clusters - 1. gap: None if the number of clusters was given. sizes_before: sizes after
    k-means. moves: the moves that balanced them, in order.
    """

    labels: Labels
    n_clusters: int
    gap: GapStatistic | None
    sizes_before: tuple[int, ...]
    moves: tuple[Move, ...]


def points_from_gram(gram: ArrayLike) -> Floats:
    """Return the coordinates, (n, n - 1), of n centred vectors with inner products `gram`, (n, n), on principal axes.

    Distances are those of the vectors. Raises ConfigError unless gram is square, finite and symmetric.
    """
    products = np.asarray(gram, float)
    if products.ndim != 2 or products.shape[0] != products.shape[1]:
        raise ConfigError(f"gram has shape {products.shape}; inner products of n vectors have shape (n, n)")
    if not np.isfinite(products).all() or not np.allclose(products, products.T, rtol=1e-6):
        raise ConfigError("gram must be finite and symmetric; a model may have diverged")
    centred = products - products.mean(axis=0)
    centred -= centred.mean(axis=1, keepdims=True)
    with _one_thread():
        variances, axes = np.linalg.eigh((centred + centred.T) / 2)
    points: Floats = axes[:, :0:-1] * np.sqrt(np.maximum(variances[:0:-1], 0))
    return points


def points_from_vectors(vectors: ArrayLike) -> Floats:
    """Return the coordinates, (n, min(n, dimensions)), of n short vectors, centred, on their principal axes.

    Like `points_from_gram`, for vectors of few dimensions: time and memory are linear in n, not cubic and quadratic.
    """
    data = np.asarray(vectors, float)
    with _one_thread():
        left, lengths, _ = np.linalg.svd(data - data.mean(axis=0), full_matrices=False)
    points: Floats = left * lengths
    return points


def gap_statistic(
    points: ArrayLike, max_clusters: int, rng: np.random.Generator, n_references: int = 10
) -> GapStatistic:
    """Return the gap curve for 1..max_clusters clusters of `points`, (n, dimensions).

    The references are uniform in the box around the points along their principal axes (the authors' choice b). If
    max_clusters is n, or points coincide, a cluster's spread is taken to be at least 1e-12 of that of all points.
    Raises ConfigError unless 2 <= max_clusters <= n and there are at least 2 references.
    """
    data = np.asarray(points, float)
    if not 2 <= max_clusters <= len(data):
        raise ConfigError(f"max_clusters = {max_clusters} must lie in 2..{len(data)}, the number of points")
    if n_references < 2:
        raise ConfigError(f"n_references = {n_references} must be at least 2, to estimate how much they vary")
    data = data - data.mean(axis=0)
    _, _, axes = np.linalg.svd(data, full_matrices=False)
    data = data @ axes.T
    low, high = data.min(axis=0), data.max(axis=0)

    def log_spreads(sample: Floats) -> Floats:
        spreads = np.array([_k_means(sample, k, rng, 3).inertia_ for k in range(1, max_clusters + 1)])
        logs: Floats = np.log(np.maximum(spreads, max(1e-12 * spreads[0], np.finfo(float).tiny)))
        return logs

    with _one_thread():
        observed = log_spreads(data)
        references = np.array([log_spreads(rng.uniform(low, high, data.shape)) for _ in range(n_references)])
    gap = references.mean(axis=0) - observed
    error = references.std(axis=0) * np.sqrt(1 + 1 / n_references)
    jumps = np.diff(gap)
    enough = gap[:-1] >= gap[1:] - error[1:]
    return GapStatistic(
        gap,
        error,
        by_standard_error=_first(enough) + 1,
        by_first_maximum=_first((jumps[:-1] >= 0) & (jumps[1:] <= 0)) + 2,
        by_largest_jump=int(jumps.argmax()) + 2,
    )


def rebalance(
    points: ArrayLike, labels: ArrayLike, centroids: ArrayLike, n_clusters: int
) -> tuple[Labels, tuple[Move, ...]]:
    """Balance clusters to sizes n / n_clusters rounded down (lo) or up (hi); return the labels and the moves made.

    Rule 1, the paper's: clusters larger than hi, in order of index, give away the members farthest from their centroid,
    farthest first, each to the nearest cluster smaller than lo. It gets stuck if n_clusters does not divide n: with
    sizes 4, 2, 2 no cluster is below lo, with sizes 3, 3, 1 none is above hi. Hence rule 2: if no cluster is below lo,
    move to the nearest one below hi. Rule 3: while a cluster is below lo, of all clients in clusters above lo the one
    farthest from its centroid moves to the nearest cluster below lo. Ties go to the smallest id or index; centroids are
    not updated.

    points: (n, dimensions). labels: (n,). centroids: (n_clusters, dimensions).
    """
    distance = _distances(points, np.asarray(centroids, float))
    cluster = np.array(labels, np.int64)
    size = np.bincount(cluster, minlength=n_clusters)
    low, high = len(cluster) // n_clusters, -(-len(cluster) // n_clusters)
    moves: list[Move] = []

    def farthest_of(clients: NDArray[np.intp]) -> int:
        return int(clients[distance[clients, cluster[clients]].argmax()])

    def move(client: int, below: int, rule: int) -> None:
        source, open_to = int(cluster[client]), np.flatnonzero(size < below)
        target = int(open_to[distance[client, open_to].argmin()])
        cluster[client] = target
        size[source] -= 1
        size[target] += 1
        moves.append(Move(client, source, target, rule))

    for source in range(n_clusters):
        while size[source] > high:
            client = farthest_of(np.flatnonzero(cluster == source))
            if (size < low).any():
                move(client, low, rule=1)
            else:
                move(client, high, rule=2)
    while (size < low).any():
        move(farthest_of(np.flatnonzero(size[cluster] > low)), low, rule=3)
    return cluster, tuple(moves)


def even_out_speeds(points: ArrayLike, labels: ArrayLike, speeds: ArrayLike, within: float = 0.05) -> Labels:
    """Swap clients between clusters, whose sizes do not change, so that their sums of speeds differ less.

    With groups of one client of every cluster, the slowest cluster limits the number of groups. While its sum of speeds
    is more than `within` below the clusters' mean, one of its clients is swapped with a faster client elsewhere: the
    pair that adds the least squared distance to centroids per gain, where the gain is how much nearer both sums get to
    the mean. It also ends when no swap helps. Ties go to the smallest ids; centroids are not updated.

    points: (n, dimensions). labels: (n,), in 0..n_clusters - 1, none empty. speeds: (n,), visits per second.
    """
    where, speed = np.asarray(points, float), np.asarray(speeds, float)
    cluster = np.array(labels, np.int64)
    total = np.bincount(cluster, speed)
    mean = total.mean()
    distance = _distances(where, np.stack([where[cluster == c].mean(axis=0) for c in range(len(total))]))
    while total.min() < (1 - within) * mean:
        slowest = int(total.argmin())
        own, others = np.flatnonzero(cluster == slowest), np.flatnonzero(cluster != slowest)
        theirs = cluster[others]
        gain = speed[others] - speed[own][:, None]
        off = abs(total[slowest] - mean) + np.abs(total[theirs] - mean)
        nearer = off - np.abs(total[slowest] + gain - mean) - np.abs(total[theirs] - gain - mean)
        useful = (gain > 0) & (nearer > 1e-9 * mean)
        if not useful.any():
            break
        farther = distance[own][:, theirs] + distance[others, slowest]
        farther -= distance[own, slowest][:, None] + distance[others, theirs]
        price = np.full(gain.shape, np.inf)
        np.divide(farther, nearer, out=price, where=useful)
        i, j = np.unravel_index(price.argmin(), price.shape)
        total[slowest] += gain[i, j]
        total[theirs[j]] -= gain[i, j]
        cluster[own[i]], cluster[others[j]] = theirs[j], slowest
    return cluster


def _distances(points: ArrayLike, centres: Floats) -> Floats:
    """Return the squared distance of each point, (n, dimensions), to each centre, (n, n_centres)."""
    return np.array([((centres - point) ** 2).sum(axis=1) for point in np.asarray(points, float)])


def cluster_clients(
    points: Floats,
    n_clusters: int | None,
    rng: np.random.Generator,
    *,
    max_clusters: int | None = None,
    n_references: int = 10,
) -> Clustering:
    """Cluster clients at `points` (`points_from_gram` or `points_from_vectors`) into sizes that differ by at most one.

    n_clusters: None to take the largest jump of the gap statistic. max_clusters: largest number that is considered
    then (default: half the clients, at most 50). Raises ConfigError if they do not fit the number of clients.
    """
    n_clients = len(points)
    gap = None
    if n_clusters is None:
        if n_clients < 4 and max_clusters is None:
            raise ConfigError(f"{n_clients} clients are too few to determine the number of clusters; give n_clusters")
        gap = gap_statistic(points, max_clusters or min(n_clients // 2, 50), rng, n_references)
        n_clusters = gap.by_largest_jump
    elif not 1 <= n_clusters <= n_clients:
        raise ConfigError(f"n_clusters = {n_clusters} must lie in 1..{n_clients}, the number of clients")
    with _one_thread():
        fit = _k_means(points, n_clusters, rng, 10)
    sizes = np.bincount(fit.labels_, minlength=n_clusters)
    labels, moves = rebalance(points, fit.labels_, fit.cluster_centers_, n_clusters)
    return Clustering(labels, n_clusters, gap, tuple(sizes.tolist()), moves)


def _k_means(points: Floats, n_clusters: int, rng: np.random.Generator, starts: int) -> KMeans:
    from sklearn.cluster import KMeans  # slow to import, and most strategies do not need it

    return KMeans(n_clusters, n_init=starts, random_state=int(rng.integers(2**31))).fit(points)


def _one_thread() -> threadpool_limits:
    """Limit BLAS to one thread: several would change the order of sums, and are slower on so few points."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def _first(condition: NDArray[np.bool_]) -> int:
    """Return the position of the first true condition, or their number if none is true."""
    return int(condition.argmax()) if condition.any() else len(condition)

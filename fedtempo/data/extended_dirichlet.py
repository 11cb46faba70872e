"""Deal classes to their owners by Dirichlet shares, and choose the owners as ExDir (Li and Lyu, NeurIPS 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from itertools import accumulate, pairwise

import numpy as np

from fedtempo.data.dataset import IntArray
from fedtempo.errors import ConfigError


def minimum_owners(n_clients: int, n_classes: int, classes_per_client: int) -> int:
    """Return the number of clients that must own each class: max(floor(floor(C * N / L) / 5), 1)."""
    return max(classes_per_client * n_clients // n_classes // 5, 1)


def owners_fit(n_clients: int, n_classes: int, classes_per_client: int) -> bool:
    """Return whether every class can have `minimum_owners` if each client owns `classes_per_client` classes."""
    needed = n_classes * minimum_owners(n_clients, n_classes, classes_per_client)
    return classes_per_client <= n_classes and n_clients * classes_per_client >= needed


def draw_owners(
    n_clients: int, n_classes: int, classes_per_client: int, max_redraws: int, rng: np.random.Generator
) -> IntArray:
    """Draw the classes that each client owns, shape (n_clients, classes_per_client), ascending.

    Draws are uniform, and repeated until every class has `minimum_owners`. Raises ConfigError if that is impossible or
    does not happen within `max_redraws` redraws.
    """
    needed = minimum_owners(n_clients, n_classes, classes_per_client)
    if not owners_fit(n_clients, n_classes, classes_per_client):
        raise ConfigError(
            f"classes_per_client = {classes_per_client}: {n_clients} clients cannot give each of {n_classes} classes "
            f"{needed} owners; must be {-(-n_classes // n_clients)} to {n_classes}"
        )
    most = 0
    for _ in range(max_redraws + 1):
        owned = rng.permuted(np.tile(np.arange(n_classes), (n_clients, 1)), axis=1)[:, :classes_per_client]
        owners = int(np.bincount(owned.ravel(), minlength=n_classes).min())
        if owners >= needed:
            return np.sort(owned, axis=1)
        most = max(most, owners)
    raise ConfigError(
        f"classes_per_client = {classes_per_client}: in {max_redraws} redraws the rarest class had at most {most} "
        f"owners, but needs {needed}; raise max_redraws, clients or classes_per_client"
    )


def cut(n_examples: int, shares: Sequence[float]) -> list[int]:
    """Return `n_examples` cut at the floors of its cumulative `shares`; the last part gets what rounding leaves.

    The shares need not sum to 1. They are taken as the decimal numbers that they print as, so that 0.7 + 0.1 is 0.8.
    """
    with localcontext() as context:
        context.prec = 100
        exact = [Decimal(repr(float(share))) for share in shares]
        total = sum(exact)
        ends = [int(passed * n_examples // total) for passed in accumulate(exact[:-1])]
    return [end - begin for begin, end in pairwise([0, *ends, n_examples])]


def cut_among_owners(
    n_examples: int, shares: Sequence[float], sizes_before: Sequence[int], full_at: float
) -> list[int] | None:
    """Return the number of a class's examples that each of its owners gets.

    shares: Dirichlet shares of the owners. sizes_before: number of examples that each holds already; an owner with
    `full_at` or more gets no share, but the last owner, full or not, gets what rounding leaves.

    None if the shares do not decide it: every owner is full, or the others have no share.
    """
    masked = [share if size < full_at else 0.0 for share, size in zip(shares, sizes_before, strict=True)]
    return cut(n_examples, masked) if any(masked) else None


def deal_classes(
    class_sizes: Sequence[int], owners: Sequence[IntArray], alpha: float, n_clients: int, rng: np.random.Generator
) -> IntArray:
    """Draw the number of examples of each class that each client gets, shape (n_clients, classes), dealing all out.

    owners[c]: the clients that own class c. Each class is cut by Dirichlet(alpha) shares over its owners. A client that
    holds one n-th of all examples, n the number of clients, is full and gets no more; if all owners of a class are
    full, the shares count unchanged.
    """
    counts = np.zeros((n_clients, len(class_sizes)), dtype=np.int64)
    full_at = sum(class_sizes) / n_clients
    sizes = np.zeros(n_clients, dtype=np.int64)
    for label, (n_examples, members) in enumerate(zip(class_sizes, owners, strict=True)):
        shares = rng.dirichlet(np.full(len(members), alpha)).tolist()
        dealt = cut_among_owners(n_examples, shares, sizes[members].tolist(), full_at)
        counts[members, label] = cut(n_examples, shares) if dealt is None else dealt
        sizes[members] += counts[members, label]
    return counts

"""Partitions: which client holds which examples.

`PARTITIONS` maps the name used in a configuration to the class. Every class has

    assign(labels, n_classes, n_clients, examples_per_client, rng, owners=None) -> list of index arrays

labels: classes of the examples, int64 (n,). examples_per_client: a number, (low, high) for uniform whole numbers, or
None to deal out all examples, in sizes that the partition chooses. owners: the owner of each example, int64 (n,), if
known. The result has one ascending int64 array of indices per client. No example is dealt twice, except by `Classes`
with share = true, and requested sizes are met exactly. Raises ConfigError if that is impossible.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.data.dataset import IntArray
from fedtempo.data.dealing import Pool, Sizes, draw_sizes, fill, wanted_sizes
from fedtempo.data.dirichlet import Dirichlet, ExtendedDirichlet, OneLabel
from fedtempo.data.shares import FloatArray, class_share, largest_remainder, long_tail_counts
from fedtempo.errors import ConfigError
from fedtempo.parts.fields import STRICT, Count, Doc, Gt, Le, Share


@runtime_checkable
class Partition(Protocol):
    """A way to deal examples to clients; the module's docstring describes the arguments of `assign`."""

    def assign(
        self,
        labels: IntArray,
        n_classes: int,
        n_clients: int,
        examples_per_client: Sizes,
        rng: np.random.Generator,
        owners: IntArray | None = None,
    ) -> list[IntArray]: ...


@dataclass(frozen=True, config=STRICT)
class Iid:
    """Independent and identically distributed: clients get parts of the shuffled examples."""

    def assign(
        self,
        labels: IntArray,
        n_classes: int,
        n_clients: int,
        examples_per_client: Sizes,
        rng: np.random.Generator,
        owners: IntArray | None = None,
    ) -> list[IntArray]:
        sizes = draw_sizes(len(labels), n_clients, examples_per_client, rng)
        ends = np.cumsum(sizes)
        return [np.sort(part) for part in np.split(rng.permutation(len(labels))[: ends[-1]], ends[:-1])]


@dataclass(frozen=True, config=STRICT)
class LongTail:
    """A share of the clients holds a long tail of classes; the others hold all classes equally (FCH-FL, Sec. 4.1).

    In a long tail, class c has imbalance^(c / (L - 1)) times the examples of class 0, up to rounding. Without
    `examples_per_client` all clients get the same number of examples, the largest for which no class runs out.
    """

    imbalance: Annotated[float, Gt(0), Le(1), Doc("size of the smallest class over that of the largest, IF")] = 0.5
    clients_share: Annotated[
        Share, Doc("share of clients with a long tail, mu; rounded to a whole number of clients")
    ] = 0.5
    order: Annotated[
        Literal["shared", "own"],
        Doc("'shared': class 0 is the most frequent for all; 'own': each client has a random order"),
    ] = "shared"

    def assign(
        self,
        labels: IntArray,
        n_classes: int,
        n_clients: int,
        examples_per_client: Sizes,
        rng: np.random.Generator,
        owners: IntArray | None = None,
    ) -> list[IntArray]:
        pool = Pool(labels, n_classes, rng)
        shares = np.ones((n_clients, n_classes))
        tail = long_tail_counts(len(labels), self.imbalance, n_classes)
        for client in rng.permutation(n_clients)[: round(self.clients_share * n_clients)]:
            classes = rng.permutation(n_classes) if self.order == "own" else np.arange(n_classes)
            shares[client, classes] = tail
        if examples_per_client is None:
            counts = self._largest(shares, pool.left)
        else:
            sizes = draw_sizes(len(labels), n_clients, examples_per_client, rng)
            counts = np.array([largest_remainder(int(n), row) for n, row in zip(sizes, shares, strict=True)])
        short = np.flatnonzero(counts.sum(axis=0) > pool.left)
        if short.size:
            label = short[0]
            raise ConfigError(
                f"examples_per_client = {examples_per_client}: long-tail needs {counts[:, label].sum()} examples of "
                f"class {label}, but the data have {pool.left[label]}; lower examples_per_client or clients"
            )
        return [pool.take(row) for row in counts]

    @staticmethod
    def _largest(shares: FloatArray, available: IntArray) -> IntArray:
        """Return counts for the largest common size at which no class runs out, shape (clients, classes)."""
        kinds, kind_of = np.unique(shares, axis=0, return_inverse=True)
        for size in range(int(available.sum()) // len(shares), 0, -1):
            counts = np.array([largest_remainder(size, kind) for kind in kinds])[kind_of.ravel()]
            if (counts.sum(axis=0) <= available).all():
                return counts
        raise ConfigError(f"long-tail: {available.sum()} examples are too few for {len(shares)} clients")


@dataclass(frozen=True, config=STRICT)
class Classes:
    """Clients hold different numbers of random classes, with equally many examples of each (Hybrid-FL, Eqs. 2-4).

    The number l of classes follows a normal distribution truncated to [0.5, L + 0.5] (`class_share`). The paper gives
    1,000 clients 100 to 1,000 images each, out of 50,000, so clients share images. Without `share`, no two clients hold
    the same example.
    """

    mean: Annotated[float, Doc("mean number of classes before truncation, mu, in 0.5..L + 0.5")]
    std: Annotated[
        float, Field(ge=0, allow_inf_nan=True), Doc("its standard deviation, sigma; 0 and inf are the limits")
    ] = 0.7
    share: Annotated[bool, Doc("draw each client's examples from all, so that clients may hold the same ones")] = False

    def __post_init__(self) -> None:
        if math.isnan(self.std):
            raise ValueError("std = nan: must be 0 or more")

    def assign(
        self,
        labels: IntArray,
        n_classes: int,
        n_clients: int,
        examples_per_client: Sizes,
        rng: np.random.Generator,
        owners: IntArray | None = None,
    ) -> list[IntArray]:
        if examples_per_client is None:
            raise ConfigError(
                "classes: needs examples_per_client, a number or [low, high], such as [100, 1000] in the paper"
            )
        try:
            with_l_classes = largest_remainder(n_clients, class_share(self.mean, self.std, n_classes))
        except ValueError as error:
            raise ConfigError(f"classes: {error}") from error
        if self.share:
            sizes = wanted_sizes(n_clients, examples_per_client, rng)
        else:
            sizes = draw_sizes(len(labels), n_clients, examples_per_client, rng)
        numbers = rng.permutation(np.repeat(np.arange(1, n_classes + 1), with_l_classes))
        pool = Pool(labels, n_classes, rng)
        dealt = []
        for client, (size, number) in enumerate(zip(sizes.tolist(), numbers.tolist(), strict=True)):
            chosen = np.zeros(n_classes, dtype=np.int64)
            chosen[rng.permutation(n_classes)[:number]] = 1
            left = chosen * pool.left
            if left.sum() < size:
                raise ConfigError(
                    f"classes: client {client} needs {size} examples of classes {np.flatnonzero(chosen).tolist()}, but "
                    f"{left.sum()} are left; lower examples_per_client, or set share = true"
                )
            counts = fill(size, chosen, left)
            dealt.append(pool.sample(counts, rng) if self.share else pool.take(counts))
        return dealt


@dataclass(frozen=True, config=STRICT)
class ByOwner:
    """The natural partition: each client holds the examples of one owner (person, device, place) named in the data.

    With fewer clients than owners, a random choice of the owners with enough examples. With `examples_per_client`, each
    client keeps a random choice of that many examples.
    """

    min_examples: Annotated[Count, Doc("owners with fewer examples are left out")] = 1

    def assign(
        self,
        labels: IntArray,
        n_classes: int,
        n_clients: int,
        examples_per_client: Sizes,
        rng: np.random.Generator,
        owners: IntArray | None = None,
    ) -> list[IntArray]:
        if owners is None:
            raise ConfigError("by-owner: the data name no owners of examples; choose another partition")
        sizes = None if examples_per_client is None else wanted_sizes(n_clients, examples_per_client, rng)
        needed = max(self.min_examples, 1 if sizes is None else int(sizes.max()))
        ids, counts = np.unique(owners, return_counts=True)
        ids = ids[counts >= needed]
        if len(ids) < n_clients:
            raise ConfigError(
                f"clients = {n_clients}: only {len(ids)} owners have {needed} or more examples; lower clients"
            )
        parts = [np.flatnonzero(owners == owner) for owner in np.sort(rng.permutation(ids)[:n_clients])]
        if sizes is None:
            return parts
        return [np.sort(rng.permutation(part)[:size]) for part, size in zip(parts, sizes, strict=True)]


PARTITIONS: dict[str, type] = {
    "by-owner": ByOwner,
    "classes": Classes,
    "dirichlet": Dirichlet,
    "ex-dirichlet": ExtendedDirichlet,
    "iid": Iid,
    "long-tail": LongTail,
    "one-label": OneLabel,
}

"""Partitions with Dirichlet shares: of labels for each client, or of clients for each label."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.data.dataset import IntArray
from fedtempo.data.dealing import Pool, Sizes, draw_sizes, fill, wanted_sizes
from fedtempo.data.extended_dirichlet import deal_classes, draw_owners
from fedtempo.errors import ConfigError
from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative, Positive


@dataclass(frozen=True, config=STRICT)
class OneLabel:
    """Client i holds label i mod L only: the limit of Dirichlet shares for alpha = 0 (FedHusky, epsilon = 0)."""

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
        label_of = np.arange(n_clients) % n_classes
        sizes = np.empty(n_clients, dtype=np.int64)
        requested = None if examples_per_client is None else wanted_sizes(n_clients, examples_per_client, rng)
        for label in range(min(n_classes, n_clients)):
            clients, available = np.flatnonzero(label_of == label), int(pool.left[label])
            sizes[clients] = draw_sizes(available, len(clients), None, rng) if requested is None else requested[clients]
            if sizes[clients].sum() > available:
                raise ConfigError(
                    f"examples_per_client = {examples_per_client}: the {len(clients)} clients of label {label} need "
                    f"{sizes[clients].sum()} examples, but the data have {available}; lower "
                    "examples_per_client or clients"
                )
        return [pool.take(n * (np.arange(n_classes) == label)) for n, label in zip(sizes, label_of, strict=True)]


@dataclass(frozen=True, config=STRICT)
class Dirichlet:
    """Skewed labels. With alpha near 0 each client holds few labels; with a large alpha nearly the same as all data.

    by = "client" (Hsu et al., 2019; FedHusky): each client draws its shares of labels, and sizes are as requested. If a
    label runs out, the client's other labels make up for it. alpha = 0 is `OneLabel`.
    by = "class" (Yurochkin et al., 2019; PSFL, FCH-FL): each class draws its shares of clients; a client that holds one
    N-th of all examples takes no more; and everything is drawn again until the smallest client has `min_examples`. All
    examples are dealt out, and sizes follow from the draw.
    """

    alpha: Annotated[NonNegative, Doc("concentration of the shares")]
    by: Annotated[Literal["client", "class"], Doc("each client draws over labels, or each class over clients")] = (
        "client"
    )
    min_examples: Annotated[Count, Doc("by class: smallest number of examples of a client")] = 10
    max_redraws: Annotated[Count, Doc("by class: number of redraws before giving up")] = 1000

    def __post_init__(self) -> None:
        if self.by == "class" and self.alpha == 0:
            raise ValueError('alpha = 0: must be positive with by = "class"')

    def assign(
        self,
        labels: IntArray,
        n_classes: int,
        n_clients: int,
        examples_per_client: Sizes,
        rng: np.random.Generator,
        owners: IntArray | None = None,
    ) -> list[IntArray]:
        if self.by == "class":
            _refuse_sizes("dirichlet by class", examples_per_client)
            everyone = [np.arange(n_clients)] * n_classes
            return _deal_until(labels, everyone, self.alpha, n_clients, self.min_examples, self.max_redraws, rng)
        if self.alpha == 0:
            return OneLabel().assign(labels, n_classes, n_clients, examples_per_client, rng)
        sizes = draw_sizes(len(labels), n_clients, examples_per_client, rng)
        pool = Pool(labels, n_classes, rng)
        shares = rng.dirichlet(np.full(n_classes, self.alpha), n_clients)
        return [pool.take(fill(int(n), row, pool.left)) for n, row in zip(sizes, shares, strict=True)]


@dataclass(frozen=True, config=STRICT)
class ExtendedDirichlet:
    """ExDir(C, alpha) (Li and Lyu, NeurIPS 2023; PSFL): each client owns C random classes, each class is dealt to its
    owners by Dirichlet shares. All examples are dealt out, and sizes follow from the draw.
    """

    classes_per_client: Annotated[Count, Doc("classes that each client owns, C")]
    alpha: Annotated[Positive, Doc("concentration of a class's shares over its owners")]
    min_examples: Annotated[Count, Doc("smallest number of examples of a client")] = 10
    max_redraws: Annotated[Count, Doc("number of redraws before giving up")] = 1000

    def assign(
        self,
        labels: IntArray,
        n_classes: int,
        n_clients: int,
        examples_per_client: Sizes,
        rng: np.random.Generator,
        owners: IntArray | None = None,
    ) -> list[IntArray]:
        _refuse_sizes("ex-dirichlet", examples_per_client)
        owned = draw_owners(n_clients, n_classes, self.classes_per_client, self.max_redraws, rng)
        owners_of = [np.flatnonzero((owned == label).any(axis=1)) for label in range(n_classes)]
        return _deal_until(labels, owners_of, self.alpha, n_clients, self.min_examples, self.max_redraws, rng)


def _refuse_sizes(partition: str, sizes: Sizes) -> None:
    if sizes is not None:
        raise ConfigError(f"examples_per_client = {sizes}: {partition} draws the sizes itself; remove it")


def _deal_until(
    labels: IntArray,
    owners: list[IntArray],
    alpha: float,
    n_clients: int,
    min_examples: int,
    max_redraws: int,
    rng: np.random.Generator,
) -> list[IntArray]:
    """Deal every example to an owner of its class, redrawing until the smallest client has `min_examples`."""
    pool = Pool(labels, len(owners), rng)
    class_sizes = pool.left.tolist()
    if sum(class_sizes) < n_clients * min_examples:
        raise ConfigError(
            f"min_examples = {min_examples}: {n_clients} clients need {n_clients * min_examples} examples, "
            f"but the data have {sum(class_sizes)}; lower min_examples or clients"
        )
    best = 0
    for _ in range(max_redraws + 1):
        counts = deal_classes(class_sizes, owners, alpha, n_clients, rng)
        smallest = int(counts.sum(axis=1).min())
        if smallest >= min_examples:
            return [pool.take(row) for row in counts]
        best = max(best, smallest)
    raise ConfigError(
        f"min_examples = {min_examples}: in {max_redraws} redraws the smallest client had at most {best} examples; "
        "raise max_redraws or alpha, or lower min_examples or clients"
    )

"""Noise of clients' examples: options of `[data.partition]` for every kind of partition.

`label_noise` and `feature_noise` are applied before a run. `drift` (`fedtempo.data.drift`) happens during it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.data.dataset import Dataset, IntArray
from fedtempo.data.drift import Drift, must_be_numbers
from fedtempo.data.members import Members, MembersKey, drawn_members, in_words, one_or_range, range_of
from fedtempo.data.settings import pair
from fedtempo.errors import ConfigError
from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Doc, NonNegative, Share

T = TypeVar("T")
Rng = Callable[..., np.random.Generator]


@dataclass(frozen=True, config=STRICT)
class LabelNoise:
    """Wrong labels: at each of these clients, a share of the training examples has the label of another class.

    As in FedCorr (Xu et al., CVPR 2022), clients and, from [low, high], their rates are drawn. Test examples keep their
    labels, also those of clients' own test sets.
    """

    rate: Annotated[
        Share | tuple[Share, Share],
        BeforeValidator(pair),
        Doc("share of a client's training examples with a wrong label, rounded; [low, high]: drawn for each client"),
    ]
    clients: MembersKey = 1.0
    kind: Annotated[
        Literal["symmetric", "pair"],
        Doc("'symmetric': any other class, equally often; 'pair': the next class, as if two were confused"),
    ] = "symmetric"

    def __post_init__(self) -> None:
        one_or_range("rate", self.rate)


@dataclass(frozen=True, config=STRICT)
class FeatureNoise:
    """Bad sensors: the inputs of these clients have normal noise, in training and in own test sets of these examples.

    Noise is added to inputs as networks get them: pixels are in [0, 1], and may leave it.
    """

    std: Annotated[
        NonNegative | tuple[NonNegative, NonNegative],
        BeforeValidator(pair),
        Doc("standard deviation of the noise, in units of the inputs; [low, high]: drawn for each client"),
    ]
    clients: MembersKey = 1.0

    def __post_init__(self) -> None:
        one_or_range("std", self.std)


def _each(part: Callable[..., T], name: str) -> Callable[[Any], Any]:
    """Return a function that makes parts of a table, or of a list of tables."""

    def parts(value: Any) -> Any:
        entries = value if isinstance(value, list | tuple) else [value]
        wrong = next((entry for entry in entries if not isinstance(entry, Mapping | part)), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} is no table; give {{ ... }}, or a list of such tables")
        return tuple(made(part, entry, name) if isinstance(entry, Mapping) else entry for entry in entries)

    return parts


@dataclass(frozen=True, config=STRICT)
class Quality:
    """Keys of `[data.partition]` for every kind of partition: how good clients' examples are, and how they change."""

    label_noise: Annotated[
        tuple[LabelNoise, ...],
        BeforeValidator(_each(LabelNoise, "label_noise")),
        Doc("wrong labels: a table {rate, clients, kind}, or a list of them"),
    ] = ()
    feature_noise: Annotated[
        tuple[FeatureNoise, ...],
        BeforeValidator(_each(FeatureNoise, "feature_noise")),
        Doc("noise of the inputs: a table {std, clients}, or a list of them"),
    ] = ()
    drift: Annotated[
        tuple[Drift, ...],
        BeforeValidator(_each(Drift, "drift")),
        Doc("changes during the run: a table {at, clients, ...}, or a list of them"),
    ] = ()

    @property
    def given(self) -> list[str]:
        """The keys that are set."""
        return [name for name in KEYS if getattr(self, name)]

    def applied(
        self, dataset: Dataset, owned: Sequence[IntArray], own_tests: Sequence[IntArray], names: Sequence[str], rng: Rng
    ) -> tuple[Dataset, list[str]]:
        """Return the data set with the noise of the clients' examples, and what it is, for people.

        owned: rows of each client's training examples, none of them in two. own_tests: rows of its own test set, among
        the training examples. names: of the clients. rng: returns the generator for a purpose and keys. Raises
        ConfigError for data that cannot have such noise.
        """
        lines: list[str] = []
        for i, noise in enumerate(self.label_noise):
            dataset = _with_wrong_labels(dataset, noise, i, owned, names, rng, lines)
        for i, bad in enumerate(self.feature_noise):
            dataset = _with_noisy_inputs(dataset, bad, i, owned, own_tests, names, rng, lines)
        return dataset, lines


KEYS = tuple(field.name for field in dataclasses.fields(Quality))
"""Keys of `[data.partition]` that are no settings of the partition."""


def must_not_share(owned: Sequence[IntArray], n_examples: int) -> None:
    """Raise ConfigError if two clients hold the same example."""
    counts = np.bincount(np.concatenate(owned), minlength=n_examples)
    if (counts > 1).any():
        raise ConfigError(
            "data.partition: clients share examples, so these cannot differ between clients; remove share, or "
            f"{' and '.join(KEYS)}"
        )


def _with_wrong_labels(
    dataset: Dataset,
    noise: LabelNoise,
    i: int,
    owned: Sequence[IntArray],
    names: Sequence[str],
    rng: Rng,
    lines: list[str],
) -> Dataset:
    where, n_classes = "data.partition.label_noise", dataset.n_classes
    if dataset.task != "classes" or n_classes < 2:
        raise ConfigError(f"{where}: needs classes, two or more, and {dataset.name} has {dataset.task}")
    members = drawn_members(noise.clients, names, rng("noisy labels: clients", i), where)
    labels, rates = dataset.train_y.copy(), []
    for client in members:
        draw = rng("noisy labels", i, client)
        rate, rows = range_of(noise.rate, draw), owned[client]
        wrong = draw.permutation(rows)[: round(rate * len(rows))]
        steps = draw.integers(1, n_classes, len(wrong)) if noise.kind == "symmetric" else 1
        labels[wrong] = (labels[wrong] + steps) % n_classes
        rates.append(rate)
    lines.append(_told(f"wrong labels ({noise.kind})", rates, members, names))
    return replace(dataset, train_y=labels)


def _with_noisy_inputs(
    dataset: Dataset,
    noise: FeatureNoise,
    i: int,
    owned: Sequence[IntArray],
    own_tests: Sequence[IntArray],
    names: Sequence[str],
    rng: Rng,
    lines: list[str],
) -> Dataset:
    where = "data.partition.feature_noise"
    must_be_numbers(dataset.train_x, dataset.name, where)
    members = drawn_members(noise.clients, names, rng("noisy inputs: clients", i), where)
    x, deviations = dataset.train_x.copy(), []
    for client in members:
        draw = rng("noisy inputs", i, client)
        std, rows = (
            range_of(noise.std, draw),
            np.unique(np.concatenate([owned[client], *own_tests[client : client + 1]])),
        )
        x[rows] += (std * draw.standard_normal((len(rows), *x.shape[1:]))).astype(np.float32)
        deviations.append(std)
    lines.append(_told("noise of the inputs", deviations, members, names))
    return replace(dataset, train_x=x)


def _told(what: str, values: Sequence[float], members: Members, names: Sequence[str]) -> str:
    if not members:
        return f"{what}: no client"
    low, high = min(values), max(values)
    amount = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return f"{what}, {amount}, at {in_words(members, names)}"

"""Noise of clients' examples: wrong labels and bad sensors, the same during the whole run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fedtempo.data.dataset import Dataset, IntArray
from fedtempo.data.drift import must_be_numbers
from fedtempo.data.members import Members, drawn_members, in_words, range_of
from fedtempo.data.quality import KEYS, FeatureNoise, LabelNoise, Quality
from fedtempo.errors import ConfigError

Rng = Callable[..., np.random.Generator]


def with_noise(
    quality: Quality,
    dataset: Dataset,
    owned: Sequence[IntArray],
    own_tests: Sequence[IntArray],
    names: Sequence[str],
    rng: Rng,
) -> tuple[Dataset, list[str]]:
    """Return the data set with the noise of the clients' examples, and what it is, for people.

    owned: rows of each client's training examples, none of them in two. own_tests: rows of its own test set, among the
    training examples. names: of the clients. rng: returns the generator for a purpose and keys. Raises ConfigError for
    data that cannot have such noise.
    """
    lines: list[str] = []
    for i, noise in enumerate(quality.label_noise):
        dataset = _with_wrong_labels(dataset, noise, i, owned, names, rng, lines)
    for i, bad in enumerate(quality.feature_noise):
        dataset = _with_noisy_inputs(dataset, bad, i, owned, own_tests, names, rng, lines)
    return dataset, lines


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

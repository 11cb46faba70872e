"""Shares of classes that losses are adjusted or weighted by. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from fedtempo.errors import ConfigError


def label_prior(counts: Sequence[float], pseudo_count: float = 1.0) -> tuple[float, ...]:
    """Share of each class from counts of examples, each raised by `pseudo_count` (FCH-FL: no class may have none)."""
    total = sum(counts) + pseudo_count * len(counts)
    if total <= 0:
        raise ConfigError(f"prior: counts of classes sum to {total:g}; there must be an example, or a pseudo count > 0")
    return tuple((count + pseudo_count) / total for count in counts)


def balanced_weights(prior: Sequence[float]) -> tuple[float, ...]:
    """A weight for each class that makes all count alike: one over the share and the number of classes."""
    return tuple(1 / (share * len(prior)) for share in prior)

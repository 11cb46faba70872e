"""Shares of classes for adjusting or weighting losses. Does not need PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from fedtempo.errors import ConfigError


def label_prior(counts: Sequence[float], pseudo_count: float = 1.0) -> tuple[float, ...]:
    """Return the share of each class from counts of examples plus `pseudo_count` each (FCH-FL: no share may be 0).

    Raises ConfigError if there are neither examples nor a pseudo count.
    """
    total = sum(counts) + pseudo_count * len(counts)
    if total <= 0:
        raise ConfigError(f"prior: the counts of classes sum to {total:g}; add examples, or use a pseudo count above 0")
    return tuple((count + pseudo_count) / total for count in counts)


def balanced_weights(prior: Sequence[float]) -> tuple[float, ...]:
    """Return weights under which all classes count equally: 1 / (share * number of classes)."""
    return tuple(1 / (share * len(prior)) for share in prior)

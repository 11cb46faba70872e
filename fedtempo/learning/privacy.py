"""Client-level differential privacy: clipped changes, their unweighted mean, Gaussian noise, and privacy spent.

McMahan, Ramage, Talwar and Zhang, Learning Differentially Private Recurrent Language Models, ICLR 2018, with equal
weights for all clients. Two runs are neighbours if one client's changes are all zero in one of them (zero-out: Kairouz
et al., Practical and Private (Deep) Learning without Sampling or Shuffling, ICML 2021): participation is public, and
sampling does not amplify privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from annotated_types import Gt, Lt
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.learning.robust import Vector, clipped
from fedtempo.parts.fields import STRICT, Doc, Positive


@dataclass(frozen=True, config=STRICT)
class Privacy:
    """The `[server.privacy]` table."""

    clip_norm: Annotated[Positive, Doc("largest L2 norm of a client's change of the model; S in the paper")]
    noise_multiplier: Annotated[
        Positive, Doc("standard deviation of the noise on a sum of changes, in units of clip_norm; z in the paper")
    ]
    delta: Annotated[float, Gt(0), Lt(1), Doc("delta of the guarantee (epsilon, delta); well below 1 / clients")] = 1e-5


def private_mean(
    models: Sequence[Vector], base: Vector, *, clip_norm: float, noise_multiplier: float, rng: np.random.Generator
) -> Vector:
    """Return base + (sum of clipped changes + noise) / number of models.

    noise: normal with standard deviation noise_multiplier * clip_norm in each coordinate.
    """
    total = np.zeros(base.shape, dtype=np.float64)
    for model in models:
        total += clipped(model, base, clip_norm).astype(np.float64) - base
    total += noise_multiplier * clip_norm * rng.standard_normal(base.shape)
    return np.asarray(base + total / len(models), dtype=base.dtype)


def epsilon(noise_multiplier: float, averages: int, delta: float) -> float:
    """Return the epsilon at `delta` of a client that took part in this number of averages.

    k averages are as private as one average with sqrt(k) times less noise (Dong, Roth and Su, Gaussian Differential
    Privacy, 2019, Corollary 3.3), whose exact epsilon dp-accounting computes (Balle and Wang, 2018). Raises ConfigError
    if that library is missing.
    """
    try:
        from dp_accounting import get_epsilon_gaussian
    except ImportError as error:
        raise ConfigError("server.privacy: needs the dp-accounting library: pip install 'fedtempo[privacy]'") from error
    return float(get_epsilon_gaussian(noise_multiplier / math.sqrt(averages), delta)) if averages else 0.0

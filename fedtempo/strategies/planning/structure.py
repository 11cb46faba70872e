"""PSFL's training structure: the number of parallel sequences and their length (Zhou et al., Section V).

With W sequences of S clients each, N0 = S W clients participate in a round. With more sequences rounds are shorter, but
more of them are needed. `Constants` determines both effects: sigma^2 is `gradient_variance`, B `gradient_spread`, t-bar
`visit_s`, kappa^2 `visit_variance`. The paper bounds the number of rounds by (alpha W + beta) up to a factor (Eqs. 8,
16), and the expected duration of a round by S t-bar + sqrt(2 kappa^2 S ln W) (Eq. 11).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from pydantic.dataclasses import dataclass as component

from fedtempo.parts.fields import STRICT, Doc, NonNegative, Positive

Floats = NDArray[np.float64]
Rounding = Literal["best", "nearest"]


@component(frozen=True, config=STRICT)
class Constants:
    """The constants that the best structure depends on; only the ratios B to sigma^2 and t-bar to kappa matter."""

    gradient_variance: Annotated[
        NonNegative, Doc("mean squared distance of a client's stochastic gradients from its mean, sigma^2")
    ]
    gradient_spread: Annotated[NonNegative, Doc("mean squared distance of clients' gradients from their mean, B")]
    visit_s: Annotated[Positive, Doc("mean duration of a visit, seconds, t-bar")]
    visit_variance: Annotated[NonNegative, Doc("variance of a client's visit times about their mean, s^2, kappa^2")]


def measured_constants(gradient_variances: ArrayLike, gradient_spreads: ArrayLike, visit_s: ArrayLike) -> Constants:
    """Return the constants of Eqs. 24-26, means over the rounds and clients of a warm-up.

    gradient_variances, visit_s: (rounds, clients), NaN if a client did not report; gradient_spreads: (rounds,). The
    variance of visits is the population variance over each client's rounds, averaged over the clients that reported.
    """
    variances, spreads, times = (
        np.asarray(values, float) for values in (gradient_variances, gradient_spreads, visit_s)
    )
    times = times[:, ~np.isnan(times).all(axis=0)]
    return Constants(
        gradient_variance=float(np.nanmean(variances)),
        gradient_spread=float(spreads.mean()),
        visit_s=float(np.nanmean(times)),
        visit_variance=float(np.nanvar(times, axis=0).mean()),
    )


class Structure(NamedTuple):
    """W sequences (`width`) of S clients (`length`)."""

    width: int
    length: int


@dataclass(frozen=True)
class Optimum:
    """The best real-valued width, and the stationary points of the objective inside (1, N0), if any."""

    width: float
    length: float
    objective: float
    local_maximum: float | None
    local_minimum: float | None


@dataclass(frozen=True)
class StructureProblem:
    """Problem P2 with N0 = `clients_per_round` clients per round. c0: see `Psfl.c0`, in (0, 1/5)."""

    constants: Constants
    clients_per_round: int
    c0: float = 0.1

    def coefficients(self, clients: float) -> tuple[float, float]:
        """Return alpha and beta for this number of clients per round (Eq. 17)."""
        variance, spread = self.constants.gradient_variance, self.constants.gradient_spread
        alpha = 4 * self.c0 * (1 + 2 * self.c0) * (variance + spread) / (1 - 2 * self.c0**2) + 4 * spread
        return alpha / clients, 4 * variance / clients

    def objective(self, width: ArrayLike) -> Floats:
        """Return Eq. 21: the time to a given precision for real widths in [1, N0], up to a factor and a constant."""
        w = np.asarray(width, float)
        clients, log = self.clients_per_round, np.log(w)
        alpha, beta = self.coefficients(clients)
        spread = self._spread
        value: Floats = alpha * spread * np.sqrt(w * log) + beta * (
            clients * self.constants.visit_s / w + spread * np.sqrt(log / w)
        )
        return value

    def time_bound(self, structure: Structure) -> float:
        """Return (alpha W + beta)(S t-bar + sqrt(2 kappa^2 S ln W)) for S W clients: Eqs. 15 and 16."""
        width, length = structure
        alpha, beta = self.coefficients(width * length)
        waiting = math.sqrt(2 * self.constants.visit_variance * length * math.log(width))
        return (alpha * width + beta) * (length * self.constants.visit_s + waiting)

    def optimum(self) -> Optimum:
        """Return the global minimum of `objective` on [1, N0]; ties go to the smallest width.

        The objective is not unimodal: if times vary, its slope at W = 1 is infinite, so W = 1 is always a local
        minimum. With u = sqrt(ln W) the slope has the sign of `slope(u)` below, which is concave for small u, convex
        for larger u (the ratio of its two parts' second derivatives grows with u) and decreasing at 0. So it falls,
        then rises, and has at most two zeros: first a maximum of the objective, then a minimum.
        """
        alpha, beta = self.coefficients(self.clients_per_round)
        spread, total_s = self._spread, self.clients_per_round * self.constants.visit_s

        def slope(u: float) -> float:
            grows = alpha * spread * math.exp(1.5 * u * u) * (1 + u * u)
            return grows + beta * spread * math.exp(0.5 * u * u) * (1 - u * u) - 2 * beta * total_s * u

        def change_of_slope(u: float) -> float:
            grows = alpha * spread * math.exp(1.5 * u * u) * (5 * u + 3 * u**3)
            return grows - beta * spread * math.exp(0.5 * u * u) * (u + u**3) - 2 * beta * total_s

        end = math.sqrt(math.log(self.clients_per_round))
        lowest = float(scipy.optimize.brentq(change_of_slope, 0.0, end)) if change_of_slope(end) > 0 else end
        maximum = minimum = None
        if slope(0.0) > 0 > slope(lowest):
            maximum = math.exp(float(scipy.optimize.brentq(slope, 0.0, lowest)) ** 2)
            if slope(end) > 0:
                minimum = math.exp(float(scipy.optimize.brentq(slope, lowest, end)) ** 2)
        candidates = [1.0, *([] if minimum is None else [minimum]), float(self.clients_per_round)]
        best = min(candidates, key=lambda width: float(self.objective(width)))
        return Optimum(best, self.clients_per_round / best, float(self.objective(best)), maximum, minimum)

    def structure(self, rounding: Rounding = "best") -> Structure:
        """Return the optimum in whole numbers with S W <= N0.

        "best": of width and length rounded down or up, the pair with the smallest `time_bound`, then the smallest
        width. "nearest": both rounded to the nearest, halves up, and the width then cut to N0 / S (the paper does not
        cut).
        """
        optimum = self.optimum()
        if rounding == "nearest":
            length = math.floor(optimum.length + 0.5)
            return Structure(max(1, min(math.floor(optimum.width + 0.5), self.clients_per_round // length)), length)
        pairs = [
            Structure(width, length)
            for width in _neighbours(optimum.width)
            for length in _neighbours(optimum.length)
            if width * length <= self.clients_per_round
        ]
        return min(pairs, key=lambda pair: (self.time_bound(pair), pair))

    @property
    def _spread(self) -> float:
        """sqrt(2 kappa^2 N0), seconds."""
        return math.sqrt(2 * self.constants.visit_variance * self.clients_per_round)


def _neighbours(value: float) -> list[int]:
    """Return `value` rounded down and up; one number if it is whole."""
    return sorted({math.floor(value), math.ceil(value)})

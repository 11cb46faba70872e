"""Distributions over clients, for speeds, rates and times. Each draws by inverting its cumulative distribution.

`DISTRIBUTIONS` maps the name used in a configuration to the class. Every class has `draw(rng, size)`, which returns
`size` values (float64), and `expectation`, the mean of a draw; most have `inverse_cdf(uniforms)`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from annotated_types import MinLen
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.fleet.by_name import in_order
from fedtempo.fleet.skewed import SKEWED
from fedtempo.fleet.truncation import FloatArray, TruncatedNormal, open_uniforms
from fedtempo.parts.component import component, made
from fedtempo.parts.fields import STRICT, Doc, Floats, NonNegative, Positive


@runtime_checkable
class Distribution(Protocol):
    """One value per client. Drawing advances `rng` by the same amount whatever the values."""

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray: ...
    @property
    def expectation(self) -> float: ...


def drawn(key: str, values: Distribution, rng: np.random.Generator, size: int) -> FloatArray:
    """Draw values. Raises ConfigError, with their key in the configuration, if they cannot be drawn."""
    try:
        return values.draw(rng, size)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error


@dataclass(frozen=True, config=STRICT)
class Constant:
    """The same value for every client."""

    value: Annotated[NonNegative, Doc("the value, in the unit of the quantity")]

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return np.full(size, self.value)

    @property
    def expectation(self) -> float:
        return self.value


@dataclass(frozen=True, config=STRICT)
class Listed:
    """Given values, one per client, in the order of the clients."""

    values: Annotated[Floats, MinLen(1), Doc("the values, one per client")]

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Return the values. Raises ConfigError if their number differs from that of the clients."""
        if size != len(self.values):
            raise ConfigError(f"{len(self.values)} values are listed for {size} clients; give one value per client")
        return np.array(self.values, dtype=np.float64)

    @property
    def expectation(self) -> float:
        return math.fsum(self.values) / len(self.values)


@dataclass(frozen=True, config=STRICT)
class Named:
    """Given values by client name, {site1 = 1.0, site2 = 2.5}; clients without names are called by number, from 0."""

    values: Annotated[dict[str, float], MinLen(1), Doc("the values by name, one per client")]

    def for_clients(self, names: Sequence[str]) -> Listed:
        """Return the values in the order of the clients. Raises ConfigError unless exactly these clients are named."""
        return Listed(tuple(in_order(self.values, names)))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Return the values of clients without names, which are called by number, from 0."""
        return self.for_clients([str(client) for client in range(size)]).draw(rng, size)

    @property
    def expectation(self) -> float:
        return math.fsum(self.values.values()) / len(self.values)


@dataclass(frozen=True, config=STRICT)
class Uniform:
    """Uniform distribution between two values."""

    low: Annotated[NonNegative, Doc("smallest value")]
    high: Annotated[Positive, Doc("largest value")]

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low = {self.low} must not be above high = {self.high}")

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        return self.low + (self.high - self.low) * np.asarray(uniforms, dtype=np.float64)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.inverse_cdf(open_uniforms(rng, size))

    @property
    def expectation(self) -> float:
        return (self.low + self.high) / 2


@dataclass(frozen=True, config=STRICT)
class Exponential:
    """Exponential distribution."""

    mean: Annotated[Positive, Doc("mean value")]

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        return -self.mean * np.log1p(-np.asarray(uniforms, dtype=np.float64))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.inverse_cdf(open_uniforms(rng, size))

    @property
    def expectation(self) -> float:
        return self.mean


@dataclass(frozen=True, config=STRICT)
class Normal:
    """Normal distribution truncated at a small positive value, so that all times are positive, and optionally above."""

    mean: Annotated[float, Doc("mean before truncation")]
    std: Annotated[NonNegative, Doc("standard deviation before truncation")]
    low: Annotated[Positive, Doc("smallest value")] = 0.05
    high: Annotated[Positive | None, Doc("largest value (default: unlimited)")] = None

    def __post_init__(self) -> None:
        if self.high is not None and self.low > self.high:
            raise ValueError(f"low = {self.low} must not be above high = {self.high}")

    @property
    def _law(self) -> TruncatedNormal:
        return TruncatedNormal(self.mean, self.std, self.low, math.inf if self.high is None else self.high)

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        return self._law.inverse_cdf(uniforms)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self._law.draw(rng, size)

    @property
    def expectation(self) -> float:
        """Mean after truncation."""
        return self._law.moments()[0]


class _Table:
    """A distribution on finitely many values, with its inverse."""

    def __init__(self, values: FloatArray, weights: FloatArray) -> None:
        self.values = values
        self.probabilities = weights / math.fsum(weights)
        self._cdf = np.cumsum(self.probabilities)

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        """Return the first value whose cumulative probability exceeds each of `uniforms`."""
        position = np.searchsorted(self._cdf, np.asarray(uniforms, dtype=np.float64), side="right")
        last = np.flatnonzero(self.probabilities)[-1]  # the sum may end a rounding error below 1
        return np.asarray(self.values[np.minimum(position, last)], dtype=np.float64)

    @property
    def mean(self) -> float:
        return math.fsum(self.probabilities * self.values)


@dataclass(frozen=True, config=STRICT)
class Discrete:
    """One of a few values, equally likely or weighted."""

    values: Annotated[Floats, MinLen(1), Doc("the values")]
    weights: Annotated[Floats | None, Doc("relative probabilities, on any scale (default: equal)")] = None

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        if len(self.weights) != len(self.values):
            raise ValueError(f"weights: {len(self.weights)} for {len(self.values)} values; give one per value")
        if min(self.weights) < 0 or sum(self.weights) <= 0:
            raise ValueError(f"weights = {self.weights}: none may be negative, and one must be positive")

    @cached_property
    def _table(self) -> _Table:
        weights = np.ones(len(self.values)) if self.weights is None else np.array(self.weights)
        return _Table(np.array(self.values, dtype=np.float64), weights)

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        return self._table.inverse_cdf(uniforms)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.inverse_cdf(open_uniforms(rng, size))

    @property
    def expectation(self) -> float:
        return self._table.mean


@dataclass(frozen=True, config=STRICT)
class Zipf:
    """Zipf's distribution on the integers low..high: P(k) is proportional to k^-exponent.

    It is bounded, since otherwise its mean is infinite for exponents up to 2 (FCH-FL uses 1.2 for latency).
    """

    exponent: Annotated[NonNegative, Doc("how fast the probability falls; 0 makes all values equally likely")]
    low: Annotated[int, Field(ge=1), Doc("smallest value")] = 1
    high: Annotated[int, Field(ge=1, le=10_000_000), Doc("largest value")] = 60

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low = {self.low} must not be above high = {self.high}")

    @cached_property
    def _table(self) -> _Table:
        values = np.arange(self.low, self.high + 1, dtype=np.float64)
        return _Table(values, values**-self.exponent)

    @property
    def pmf(self) -> FloatArray:
        """Probabilities of low..high."""
        return self._table.probabilities

    @property
    def normaliser(self) -> float:
        """Sum of k^-exponent over low..high."""
        return math.fsum(self._table.values**-self.exponent)

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        """Return for each u the smallest k with u < P(1) + .. + P(k)."""
        return self._table.inverse_cdf(uniforms)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.inverse_cdf(open_uniforms(rng, size))

    @property
    def expectation(self) -> float:
        return self._table.mean


DISTRIBUTIONS: dict[str, type] = {
    "constant": Constant,
    "discrete": Discrete,
    "exponential": Exponential,
    "list": Listed,
    "named": Named,
    "normal": Normal,
    "uniform": Uniform,
    "zipf": Zipf,
    **SKEWED,
}


def distribution(value: object) -> Distribution:
    """Return the distribution that a configuration gives as a number, a list (one value per client) or a table.

    A table with `kind` is a distribution of that kind; any other table gives the clients' values by name.

    Raises ValueError for anything else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Constant(value)
    if isinstance(value, list | tuple | np.ndarray):
        return Listed(tuple(float(v) for v in value))
    if isinstance(value, Mapping) and _is_by_name(value):
        value = made(Named, {"values": dict(value)}, "values by name")
    elif isinstance(value, Mapping):
        value = component(value, DISTRIBUTIONS, "distributions", "distribution")
    if isinstance(value, Distribution):
        return value
    raise ValueError(f"{value!r} is not a number, a list of numbers or a table with a kind")


def _is_by_name(table: Mapping[str, object]) -> bool:
    """Return whether a table gives numbers by name: no kind, and not all words in it are fields of distributions.

    A shape such as `a` is no word, because clients may be called so, and never stands alone.
    """
    fields = {field.name for part in DISTRIBUTIONS.values() for field in dataclasses.fields(part)}
    words = {key for key in table if len(key) > 1}
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in table.values())
    return bool(table) and "kind" not in table and numbers and not (words and words <= fields)


PerClient = Annotated[Distribution, BeforeValidator(distribution)]

"""Distributions over clients: how fast, how near, how often. Each draws by inverting its cumulative distribution.

`DISTRIBUTIONS` maps the name used in a configuration to the class. Every class has `draw(rng, size)`, an array of
`size` values (float64), `inverse_cdf(uniforms)`, and `expectation`, the mean of a draw.
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
from fedtempo.fleet.truncation import FloatArray, TruncatedNormal, open_uniforms
from fedtempo.parts.component import component, made
from fedtempo.parts.fields import STRICT, Doc, Floats, NonNegative, Positive


@runtime_checkable
class Distribution(Protocol):
    """One value a client. `rng` is used up by the same amount whatever the values."""

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray: ...
    @property
    def expectation(self) -> float: ...


def drawn(key: str, values: Distribution, rng: np.random.Generator, size: int) -> FloatArray:
    """A draw. Raises ConfigError, with the key that the values have in a configuration, where they cannot be drawn."""
    try:
        return values.draw(rng, size)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error


@dataclass(frozen=True, config=STRICT)
class Constant:
    """The same value for every client."""

    value: Annotated[NonNegative, Doc("the value, in the unit of what is described")]

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return np.full(size, self.value)

    @property
    def expectation(self) -> float:
        return self.value


@dataclass(frozen=True, config=STRICT)
class Listed:
    """One given value for each client, in the order of the clients."""

    values: Annotated[Floats, MinLen(1), Doc("the values, one a client")]

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Raises ConfigError where there are not as many values as clients."""
        if size != len(self.values):
            raise ConfigError(f"{len(self.values)} values are listed for {size} clients; give one a client")
        return np.array(self.values, dtype=np.float64)

    @property
    def expectation(self) -> float:
        return math.fsum(self.values) / len(self.values)


@dataclass(frozen=True, config=STRICT)
class Named:
    """One given value for each client, by its name: {site1 = 1.0, site2 = 2.5}; clients without names have numbers."""

    values: Annotated[dict[str, float], MinLen(1), Doc("the values by name, one for each client")]

    def for_clients(self, names: Sequence[str]) -> Listed:
        """The values in the order of the clients. Raises ConfigError unless each is named and no other is."""
        return Listed(tuple(in_order(self.values, names)))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Takes clients for nameless ones: their names are their numbers, from 0."""
        return self.for_clients([str(client) for client in range(size)]).draw(rng, size)

    @property
    def expectation(self) -> float:
        return math.fsum(self.values.values()) / len(self.values)


@dataclass(frozen=True, config=STRICT)
class Uniform:
    """Equal density between two values."""

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
    """Normal distribution, cut off at a small positive value so that nothing takes no time, and above if asked."""

    mean: Annotated[float, Doc("mean before the cut")]
    std: Annotated[NonNegative, Doc("standard deviation before the cut")]
    low: Annotated[Positive, Doc("smallest value")] = 0.05
    high: Annotated[Positive | None, Doc("largest value; none without it")] = None

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
        """Mean after the cut."""
        return self._law.moments()[0]


class _Table:
    """Inverse of a distribution on finitely many values."""

    def __init__(self, values: FloatArray, weights: FloatArray) -> None:
        self.values = values
        self.probabilities = weights / math.fsum(weights)
        self._cdf = np.cumsum(self.probabilities)

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        """The first value whose cumulative probability exceeds each of `uniforms`."""
        position = np.searchsorted(self._cdf, np.asarray(uniforms, dtype=np.float64), side="right")
        last = np.flatnonzero(self.probabilities)[-1]  # the sum may end a rounding error below 1
        return np.asarray(self.values[np.minimum(position, last)], dtype=np.float64)

    @property
    def mean(self) -> float:
        return math.fsum(self.probabilities * self.values)


@dataclass(frozen=True, config=STRICT)
class Discrete:
    """One of a few values, equally likely or by weight."""

    values: Annotated[Floats, MinLen(1), Doc("the values")]
    weights: Annotated[Floats | None, Doc("how likely each is, in any scale; equal without it")] = None

    def __post_init__(self) -> None:
        if self.weights is None:
            return
        if len(self.weights) != len(self.values):
            raise ValueError(f"weights: {len(self.weights)} for {len(self.values)} values; give one a value")
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
    """Zipf's distribution on the whole numbers low..high: P(k) is proportional to k^-exponent.

    Bounded, because the mean is infinite without bounds for exponents up to 2 (FCH-FL uses 1.2 for latency).
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
        """Probability of each of low..high."""
        return self._table.probabilities

    @property
    def normaliser(self) -> float:
        """Sum of k^-exponent over low..high."""
        return math.fsum(self._table.values**-self.exponent)

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        """The smallest k with u < P(1) + .. + P(k), for each u."""
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
}


def distribution(value: object) -> Distribution:
    """A distribution as a configuration writes it: a number, a list (one value a client), or a table.

    A table with `kind` is a distribution of that kind, another has the clients' values by name.

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
    raise ValueError(f"{value!r} is no number, no list of numbers and no table with a kind")


def _is_by_name(table: Mapping[str, object]) -> bool:
    """Whether a table gives numbers by name: it has no kind, and its keys are not all fields of distributions."""
    fields = {field.name for part in DISTRIBUTIONS.values() for field in dataclasses.fields(part)}
    numbers = all(isinstance(item, int | float) and not isinstance(item, bool) for item in table.values())
    return bool(table) and "kind" not in table and numbers and not table.keys() <= fields


PerClient = Annotated[Distribution, BeforeValidator(distribution)]

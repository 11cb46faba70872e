"""Computing speed of the clients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.fleet.distributions import PerClient, drawn
from fedtempo.fleet.truncation import FloatArray
from fedtempo.fleet.variation import Variation
from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Doc, Ge, Lt, NonNegative

Unit = Literal["s/visit", "s/example", "example/s"]


@dataclasses.dataclass(frozen=True, eq=False)
class ClientSpeed:
    """Mean computing speed of each client of a fleet. values: one per client, in `unit`."""

    values: FloatArray
    unit: Unit
    variation: Variation = dataclasses.field(default_factory=Variation)

    def __post_init__(self) -> None:
        bad = np.flatnonzero(~(np.isfinite(self.values) & (self.values > 0)))
        if bad.size:
            client = bad[0]
            raise ConfigError(
                f"fleet.compute: client {client} has {self.values[client]} {self.unit}; it must be positive and finite"
            )

    def mean_s(self, examples_processed: npt.ArrayLike) -> FloatArray:
        """Return the mean computing time of each client's visit, seconds.

        examples_processed: examples times epochs, one number or one per client; ignored for "s/visit", which is the
        time of one configured visit.
        """
        examples = np.asarray(examples_processed, dtype=np.float64)
        if self.unit == "s/example":
            return self.values * examples
        if self.unit == "example/s":
            return examples / self.values
        return np.broadcast_to(self.values, np.broadcast_shapes(self.values.shape, examples.shape)).copy()

    def client_mean_s(self, client: int, examples_processed: float) -> float:
        """Return the mean computing time of one client's visit, seconds."""
        value = float(self.values[client])
        if self.unit == "s/example":
            return value * examples_processed
        return examples_processed / value if self.unit == "example/s" else value


@dataclass(frozen=True, config=STRICT)
class Compute:
    """Computing speed of the clients and its variation from visit to visit."""

    speed: Annotated[PerClient, Doc("distribution over clients: a number, a list (one per client) or {kind, ...}")]
    unit: Annotated[
        Unit,
        Doc(
            "unit of speed; s/visit is the time of one visit as configured; visits with more or fewer examples take "
            "proportionally longer or shorter"
        ),
    ]
    variation: Annotated[
        NonNegative, Doc("relative standard deviation of a visit's time, normal truncated at 0 (PSFL: 0.2)")
    ] = 0.0
    fluctuation: Annotated[
        float, Ge(0), Lt(1), Doc("largest relative change of speed from visit to visit (Hybrid-FL, r_var)")
    ] = 0.0
    fluctuation_std: Annotated[
        NonNegative | None, Doc("relative standard deviation before truncation at r_var (default: r_var)")
    ] = None
    ignore_work: Annotated[
        bool,
        Doc(
            "use these times for all competitors of a comparison even if their visits do different work (epochs, "
            "steps, examples, network); otherwise such a comparison is rejected, and a run of several epochs "
            "in s/visit warns"
        ),
    ] = False
    watts: Annotated[
        PerClient | None, Doc("power of a client while it computes, watts: a number, a list or {kind, ...}")
    ] = None

    def __post_init__(self) -> None:
        if self.variation > 0 and self.fluctuation > 0:
            raise ValueError("variation and fluctuation both describe how visits vary: set one of them")

    def build(self, n_clients: int, rng: np.random.Generator) -> ClientSpeed:
        """Return the speeds of `n_clients` clients. Raises ConfigError for a speed that is not positive."""
        if self.fluctuation > 0:
            variation = Variation.bounded(self.fluctuation, self.fluctuation_std, of_speed=self.unit == "example/s")
        else:
            variation = Variation.of_time(self.variation)
        return ClientSpeed(drawn("fleet.compute", self.speed, rng, n_clients), self.unit, variation)


def compute_from(value: object) -> object:
    """Make `Compute` from its table in a configuration, with a nested or a flat distribution.

    {unit, speed = {kind = "uniform", low, high}} and {unit, kind = "uniform", low, high} are equivalent. Anything but a
    table is returned unchanged. Raises ValueError for fields that do not fit.
    """
    if not isinstance(value, Mapping):
        return value
    fields: dict[str, Any] = dict(value)
    if "kind" in fields and "speed" not in fields:
        names = {field.name for field in dataclasses.fields(Compute)}
        fields = {key: item for key, item in value.items() if key in names}
        fields["speed"] = {key: item for key, item in value.items() if key not in names}
    return made(Compute, fields, "compute")

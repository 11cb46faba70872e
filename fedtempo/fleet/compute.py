"""How fast the clients compute."""

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
    """How fast each client of a fleet computes, on average. values: one a client, in `unit`."""

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
        """Mean seconds of each client's visit.

        examples_processed: examples times epochs, one number or one a client. In "s/visit" it has no influence: the
        time is that of one configured visit.
        """
        examples = np.asarray(examples_processed, dtype=np.float64)
        if self.unit == "s/example":
            return self.values * examples
        if self.unit == "example/s":
            return examples / self.values
        return np.broadcast_to(self.values, np.broadcast_shapes(self.values.shape, examples.shape)).copy()

    def client_mean_s(self, client: int, examples_processed: float) -> float:
        """Mean seconds of one client's visit."""
        value = float(self.values[client])
        if self.unit == "s/example":
            return value * examples_processed
        return examples_processed / value if self.unit == "example/s" else value


@dataclass(frozen=True, config=STRICT)
class Compute:
    """How fast the clients compute, and how much that varies from visit to visit."""

    speed: Annotated[PerClient, Doc("distribution over clients: a number, a list (one a client) or {kind, ...}")]
    unit: Annotated[
        Unit,
        Doc(
            "unit of speed; s/visit is the time of one visit as configured, and visits of more or fewer examples than "
            "configured take proportionally longer or shorter"
        ),
    ]
    variation: Annotated[
        NonNegative, Doc("relative standard deviation of a visit's seconds, normal cut off at 0 (PSFL: 0.2)")
    ] = 0.0
    fluctuation: Annotated[
        float, Ge(0), Lt(1), Doc("largest relative change of speed from visit to visit (Hybrid-FL, r_var)")
    ] = 0.0
    fluctuation_std: Annotated[
        NonNegative | None, Doc("relative standard deviation before the cut at r_var; r_var itself without it")
    ] = None
    ignore_work: Annotated[
        bool,
        Doc(
            "competitors of a comparison take these times even if their visits do different work (epochs, steps, "
            "examples, network); without it such a comparison is refused"
        ),
    ] = False
    watts: Annotated[
        PerClient | None, Doc("power that a client draws while it computes, watts: a number, a list or {kind, ...}")
    ] = None

    def __post_init__(self) -> None:
        if self.variation > 0 and self.fluctuation > 0:
            raise ValueError("variation and fluctuation both describe how visits vary: set one of them")

    def build(self, n_clients: int, rng: np.random.Generator) -> ClientSpeed:
        """Speeds of `n_clients` clients. Raises ConfigError for one that is not positive."""
        if self.fluctuation > 0:
            variation = Variation.bounded(self.fluctuation, self.fluctuation_std, of_speed=self.unit == "example/s")
        else:
            variation = Variation.of_time(self.variation)
        return ClientSpeed(drawn("fleet.compute", self.speed, rng, n_clients), self.unit, variation)


def compute_from(value: object) -> object:
    """`Compute` from the table that a configuration writes for it, the distribution nested or flat.

    {unit, speed = {kind = "uniform", low, high}} and {unit, kind = "uniform", low, high} are the same. What is no table
    is returned as it is. Raises ValueError for fields that do not fit.
    """
    if not isinstance(value, Mapping):
        return value
    fields: dict[str, Any] = dict(value)
    if "kind" in fields and "speed" not in fields:
        own = {field.name for field in dataclasses.fields(Compute)}
        fields = {key: item for key, item in value.items() if key in own}
        fields["speed"] = {key: item for key, item in value.items() if key not in own}
    return made(Compute, fields, "compute")

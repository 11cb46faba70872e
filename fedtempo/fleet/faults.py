"""Faults of visits whose client stays: it is late, never answers, or sends an invalid update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.fleet.by_name import must_be_clients
from fedtempo.parts.fields import STRICT, Doc, Ge, Share

Fault = Literal["nan", "infinite", "shape", "count", "scaled", "late", "hang"]
Vector = np.ndarray[Any, np.dtype[np.float32]]

REFUSED: frozenset[str] = frozenset({"nan", "infinite", "shape", "count"})
"""Faults that make an update invalid for any check."""


@dataclass(frozen=True, config=STRICT)
class Faults:
    """The `[fleet.faults]` table: probabilities of the faults; a visit has at most one."""

    nan: Annotated[Share, Doc("probability that one of the returned parameters is NaN")] = 0.0
    infinite: Annotated[Share, Doc("probability that one of the returned parameters is infinite")] = 0.0
    shape: Annotated[Share, Doc("probability that the last parameter is missing")] = 0.0
    count: Annotated[Share, Doc("probability that the client reports a thousand times the examples it holds")] = 0.0
    scaled: Annotated[Share, Doc("probability that all parameters are multiplied by scale_factor: an attack")] = 0.0
    late: Annotated[Share, Doc("probability that computing takes late_factor times as long")] = 0.0
    hang: Annotated[Share, Doc("probability that the client never answers; needs server.deadline")] = 0.0
    late_factor: Annotated[float, Ge(1), Doc("factor on the computing time of a late visit")] = 10.0
    scale_factor: Annotated[float, Doc("factor on the parameters of a scaled update")] = 1e6
    clients: Annotated[
        tuple[Annotated[int, Ge(0)] | str, ...],
        Field(strict=False),
        Doc("clients whose visits can go wrong, by number or by name; all if empty"),
    ] = ()

    def __post_init__(self) -> None:
        if self.total > 1 + 1e-12:
            raise ValueError(f"the probabilities of {', '.join(get_args(Fault))} add up to {self.total:g}, more than 1")

    def for_clients(self, names: Sequence[str]) -> Faults:
        """Return the same with clients by number. Raises ConfigError for an unknown client."""
        must_be_clients([client for client in self.clients if isinstance(client, str)], names)
        if strange := [client for client in self.clients if isinstance(client, int) and client >= len(names)]:
            raise ConfigError(f"clients: {strange[0]} is not in the fleet, 0 to {len(names) - 1}")
        for client in self.clients:
            if isinstance(client, int) and str(client) in names and names[client] != str(client):
                raise ConfigError(
                    f"clients: {client} is the name of one client and the number of {names[client]!r}; give the names, "
                    f"such as {str(client)!r}"
                )
        numbers = tuple(names.index(client) if isinstance(client, str) else client for client in self.clients)
        return self if numbers == self.clients else replace(self, clients=numbers)

    @property
    def total(self) -> float:
        """Probability that a visit has a fault."""
        return float(sum(getattr(self, kind) for kind in get_args(Fault)))

    def drawn(self, client: int, rng: np.random.Generator) -> Fault | None:
        """Draw the fault of one visit of `client`, None for no fault. rng: the visit's own generator."""
        if self.clients and client not in self.clients:
            return None
        left = rng.random()
        for kind in get_args(Fault):
            left -= getattr(self, kind)
            if left < 0:
                fault: Fault = kind
                return fault
        return None

    def sent(
        self, fault: Fault | None, parameters: Vector, num_examples: int, rng: np.random.Generator
    ) -> tuple[Vector, int]:
        """Return the parameters, changed in place, and the number of examples that a client sends with this fault."""
        match fault:
            case "nan" | "infinite":
                parameters[rng.integers(len(parameters))] = np.nan if fault == "nan" else np.inf
            case "scaled":
                with np.errstate(over="ignore"):
                    parameters *= np.float32(self.scale_factor)
            case "shape":
                return parameters[:-1], num_examples
            case "count":
                return parameters, 1000 * num_examples
        return parameters, num_examples

"""What goes wrong with a visit although its client stays: it is late, never answers, or sends what is no update."""

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
"""Faults after which what comes back is no update, whoever looks at it."""


@dataclass(frozen=True, config=STRICT)
class Faults:
    """The `[fleet.faults]` table: probabilities with which a visit goes wrong, each in one way at most."""

    nan: Annotated[Share, Doc("probability that one of the parameters that come back is not a number")] = 0.0
    infinite: Annotated[Share, Doc("probability that one of them is infinite")] = 0.0
    shape: Annotated[Share, Doc("probability that the last of them is missing")] = 0.0
    count: Annotated[Share, Doc("probability that the client claims a thousand times the examples that it holds")] = 0.0
    scaled: Annotated[Share, Doc("probability that all parameters come back times scale_factor: an attack")] = 0.0
    late: Annotated[Share, Doc("probability that computing takes late_factor times as long")] = 0.0
    hang: Annotated[Share, Doc("probability that the client never answers; needs server.deadline")] = 0.0
    late_factor: Annotated[float, Ge(1), Doc("how many times as long a late visit computes")] = 10.0
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
        """The same with clients by number. Raises ConfigError for one that is none of these."""
        must_be_clients([client for client in self.clients if isinstance(client, str)], names)
        if strange := [client for client in self.clients if isinstance(client, int) and client >= len(names)]:
            raise ConfigError(f"clients: {strange[0]} is none of the fleet's, 0 to {len(names) - 1}")
        numbers = tuple(names.index(client) if isinstance(client, str) else client for client in self.clients)
        return self if numbers == self.clients else replace(self, clients=numbers)

    @property
    def total(self) -> float:
        """Probability that a visit goes wrong."""
        return float(sum(getattr(self, kind) for kind in get_args(Fault)))

    def drawn(self, client: int, rng: np.random.Generator) -> Fault | None:
        """How one visit of `client` goes wrong; rng: that visit's own. None where it does not."""
        if self.clients and client not in self.clients:
            return None
        left = rng.random()
        for kind in get_args(Fault):
            left -= getattr(self, kind)
            if left < 0:
                found: Fault = kind
                return found
        return None

    def sent(
        self, fault: Fault | None, parameters: Vector, num_examples: int, rng: np.random.Generator
    ) -> tuple[Vector, int]:
        """What a client sends in place of its parameters, which are changed, and of its number of examples."""
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

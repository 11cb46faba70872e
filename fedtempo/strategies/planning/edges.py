"""Which clients belong to which edge server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fedtempo.errors import ConfigError


def random_members(n_clients: int, n_edges: int, rng: np.random.Generator) -> list[list[int]]:
    """Assign clients to edges at random; edges' numbers of clients differ by at most one, and none is empty."""
    parts = np.array_split(rng.permutation(n_clients), min(n_edges, n_clients))
    return [sorted(part.tolist()) for part in parts]


def members_by_name(names: Sequence[str], edges: Sequence[Sequence[str]]) -> list[list[int]]:
    """Return the positions of each edge's clients in `names`. Raises ConfigError unless each client is named once."""
    position = {name: number for number, name in enumerate(names)}
    times = Counter(name for edge in edges for name in edge)
    for name, count in times.items():
        if name not in position:
            raise ConfigError(f"strategy.edges: no client is called {name!r}")
        if count > 1:
            raise ConfigError(f"strategy.edges: client {name!r} is named {count} times; it belongs to one edge")
    if missing := [name for name in names if name not in times]:
        raise ConfigError(f"strategy.edges: client {missing[0]!r} belongs to no edge; name it in one")
    if not all(edges):
        raise ConfigError("strategy.edges: an edge has no client; remove it")
    return [sorted(position[name] for name in edge) for edge in edges]

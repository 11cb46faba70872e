"""Which clients an option of partitions concerns: a share that is drawn, or a list of names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.natural_order import listed

Members = list[int]
"""Numbers of clients, ascending."""


def drawn_members(
    clients: float | tuple[str | int, ...], names: Sequence[str], rng: np.random.Generator, where: str
) -> Members:
    """Return the clients that an option names or draws, the share rounded. Raises ConfigError for an unknown name.

    names: of all clients, in order. where: the option, for errors.
    """
    if not isinstance(clients, tuple):
        return sorted(rng.permutation(len(names))[: round(clients * len(names))].tolist())
    number = {name: i for i, name in enumerate(names)}
    for client in map(str, clients):
        if client not in number:
            raise ConfigError(f"{where}.clients: no client is called {client!r}{nearest(client, names)}")
    return sorted({number[str(client)] for client in clients})


def in_words(members: Members, names: Sequence[str]) -> str:
    """Return clients by their names, for people. names: of all clients."""
    if len(members) == len(names):
        return "all clients"
    return f"clients {listed([names[i] for i in members])}" if members else "no client"


def range_of(value: float | tuple[float, float], rng: np.random.Generator) -> float:
    """Return a value, drawn evenly from [low, high] if it is a range."""
    return float(rng.uniform(*value)) if isinstance(value, tuple) else value

"""Values that a configuration gives by client name, put into the order of the clients."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed

T = TypeVar("T")


@runtime_checkable
class ByName(Protocol):
    """A part of a fleet that refers to clients by name."""

    def for_clients(self, names: Sequence[str]) -> Any:
        """Return the part for clients in this order. Raises ConfigError for an unknown or a missing name."""
        ...


def for_clients(part: T, names: Sequence[str], where: str) -> T:
    """Return a part of a fleet, including nested parts, for clients in this order.

    where: its key in the configuration, with which error messages start.
    """
    if isinstance(part, ByName):
        try:
            ordered: T = part.for_clients(names)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        return ordered
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    changes = {}
    for field in dataclasses.fields(part):
        old = getattr(part, field.name)
        if (new := for_clients(old, names, f"{where}.{field.name}")) is not old:
            changes[field.name] = new
    return dataclasses.replace(part, **changes) if changes else part


def in_order(values: Mapping[str, T], names: Sequence[str]) -> list[T]:
    """Return the clients' values in order. Raises ConfigError unless exactly these clients are named."""
    must_be_clients(values, names)
    if missing := [name for name in names if name not in values]:
        raise ConfigError(f"no value for {listed(map(repr, missing))}; give one for each client by its name")
    return [values[name] for name in names]


def must_be_clients(named: Collection[str], names: Sequence[str]) -> None:
    """Raise ConfigError for a name that no client has."""
    if strange := [name for name in named if name not in names]:
        near = difflib.get_close_matches(strange[0], names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"no client is called {strange[0]!r}{hint} (clients are {listed(names)})")

"""The keys of `[model]` that choose which parameters and buffers travel between server and clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.parts.fields import STRICT, Doc


def _patterns(value: object) -> object:
    if isinstance(value, str):
        raise ValueError(f"give a list of patterns: [{value!r}]")
    return tuple(value) if isinstance(value, list) else value


Patterns = Annotated[tuple[str, ...], BeforeValidator(_patterns)]
Buffers = Literal["average", "local", "frozen"]

_NAMES_SHOWN = 12
"""Largest number of names that an error lists."""


@dataclass(frozen=True, config=STRICT)
class Exchange:
    """Which parts of a model travel, by patterns of names such as those in its `state_dict` (`*`, `?` and `[...]`).

    A trainable parameter or buffer travels if its name matches `exchange` and does not match `local`. Otherwise it is
    local: each client has its own values, trains them, and keeps them from visit to visit. Parameters with
    `requires_grad = False` are the same everywhere and never change.
    """

    exchange: Annotated[
        Patterns,
        Doc("patterns of the parameters and buffers that travel; all others stay at each client (default: all travel)"),
    ] = ()
    local: Annotated[
        Patterns,
        Doc("patterns of the parameters and buffers that each client keeps for itself (FedBN, FedPer)"),
    ] = ()
    buffers: Annotated[
        Buffers,
        Doc(
            "running statistics and other buffers: average (they travel and are averaged), local (each client keeps "
            "its own), or frozen (they keep their first values, and batch normalisation uses these in training too)"
        ),
    ] = "average"

    @property
    def is_default(self) -> bool:
        return not (self.exchange or self.local) and self.buffers == "average"

    @property
    def has_local_parts(self) -> bool:
        """Whether clients keep parts of the model for themselves."""
        return bool(self.exchange or self.local) or self.buffers == "local"

    def travels(self, names: Iterable[str]) -> bool:
        """Return whether a parameter or buffer with these names (several if it is tied) travels."""
        names = tuple(names)
        return (not self.exchange or _matches(self.exchange, names)) and not _matches(self.local, names)

    def check(
        self, trainable: Sequence[Sequence[str]], buffers: Sequence[Sequence[str]], frozen: Sequence[str]
    ) -> None:
        """Raise ConfigError for a pattern that matches nothing, or for `buffers` if there are none.

        trainable, buffers: the names of each parameter and buffer. frozen: those of parameters that never change.
        """
        names = [name for tensors in (trainable, buffers) for each in tensors for name in each]
        for key in ("exchange", "local"):
            for pattern in getattr(self, key):
                if any(fnmatchcase(name, pattern) for name in names):
                    continue
                if any(fnmatchcase(name, pattern) for name in frozen):
                    raise ConfigError(
                        f"model.{key}: {pattern!r} matches only parameters with requires_grad = False, which never "
                        "travel; remove it"
                    )
                raise ConfigError(f"model.{key}: {pattern!r} matches no parameter or buffer; there are {_some(names)}")
        if self.buffers != "average" and not buffers:
            raise ConfigError(f"model.buffers = {self.buffers!r}: the network has no buffers; remove the key")
        if not any(self.travels(each) for each in trainable):
            raise ConfigError(
                "model.exchange, model.local: no trainable parameter is left that travels; there are "
                f"{_some([each[0] for each in trainable])}"
            )


EVERYTHING = Exchange()


def _matches(patterns: Iterable[str], names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")

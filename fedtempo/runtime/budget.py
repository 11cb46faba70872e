"""The table `run.budget`: how many bytes, client hours, watt hours and how much epsilon a run may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt
from pydantic import AfterValidator, ByteSize
from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Doc, Positive

if TYPE_CHECKING:
    Size = int
else:
    Size = Annotated[ByteSize, Gt(0), AfterValidator(int)]


@dataclass(frozen=True, config=STRICT)
class Budget:
    """The table `run.budget`."""

    bytes: Annotated[
        Size | None,
        Doc("bytes sent in all directions: a number, or text such as '10 GB' (of 10^9 bytes) or '2 GiB'"),
    ] = None
    client_hours: Annotated[Positive | None, Doc("hours that clients are busy, summed over clients")] = None
    watt_hours: Annotated[Positive | None, Doc("energy that clients use for their visits; needs the fleet's watts")] = (
        None
    )
    epsilon: Annotated[
        Positive | None,
        Doc("epsilon of the client in the most averages, never exceeded; needs [server.privacy]"),
    ] = None

    def __post_init__(self) -> None:
        if self.bytes is self.client_hours is self.watt_hours is self.epsilon is None:
            raise ValueError("it is empty; give bytes, client_hours, watt_hours or epsilon")

    def limit(self, kind: str) -> float | None:
        """Return the limit of a kind in `KINDS`."""
        value: float | None = getattr(self, kind)
        return value


KINDS = ("bytes", "client_hours", "watt_hours", "epsilon")
"""What a budget can limit: the fields of `Budget`, and how a run ends that has used it up."""


def in_words(kind: str, value: float) -> str:
    """Return an amount of a kind in words: "1.2 GB", "3.5 client hours", "epsilon 8"."""
    if kind == "bytes":
        return ByteSize(value).human_readable(decimal=True, separator=" ").replace("KB", "kB")
    return f"epsilon {value:.4g}" if kind == "epsilon" else f"{value:.4g} {kind.replace('_', ' ')}"

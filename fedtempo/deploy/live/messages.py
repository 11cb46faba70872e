"""What goes over a grid: calls to clients, their replies, and which replies are no update."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

from fedtempo.errors import FedtempoError, RunError
from fedtempo.learning.sections import Sections
from fedtempo.runtime.executors import Vector
from fedtempo.runtime.executors.screening import NEGATIVE_VARIANCE, NOT_FINITE

PROTOCOL = 1
"""Version of what calls and replies hold; a client and a server of different ones do not work together."""

Kind = Literal["describe", "train", "receive", "compute", "send", "examples", "notice"]
"""What a client is asked for. "notice": for nothing, it is told of something."""

Arrays = tuple[np.ndarray[Any, np.dtype[Any]], ...]


@dataclass(frozen=True)
class Call:
    """A message to a client's node. content: JSON values. ttl_s: seconds after which nobody waits for the reply.

    model: what it carries, read when it is sent. check: makes of the reply what is wanted of it, in another thread;
    raises BadUpdate.
    """

    node: int
    kind: Kind
    content: Mapping[str, Any]
    arrays: Arrays = ()
    ttl_s: float = 600.0
    model: Callable[[], Vector] | None = None
    check: Callable[[Reply], Any] = lambda reply: dict(reply.content)


@dataclass(frozen=True)
class Failure:
    """Why a call has no answer.

    "gone": the node is not there, or the message expired. "failed": the client's program raised an error. "crashed":
    its process ended; worth one more try.
    """

    kind: Literal["gone", "failed", "crashed"]
    reason: str


@dataclass(frozen=True)
class Reply:
    """What came back of a call; with a failure, nothing else."""

    content: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = ()
    failure: Failure | None = None


class GridError(RunError):
    """The server of the grid cannot be reached, and will not be."""


class Grid(Protocol):
    """Carries calls to nodes and replies back. Used from one thread at a time; calls return at once."""

    def node_ids(self) -> Sequence[int]:
        """Nodes that are there now."""
        ...

    def push(self, call: Call) -> str | None:
        """Send a call; returns the name that its reply will have, None where there is no such node."""
        ...

    def pull(self, names: Sequence[str]) -> Mapping[str, Reply]:
        """Replies that have come to these calls. Each is given once."""
        ...

    def close(self) -> None: ...


class BadUpdate(FedtempoError):
    """What a client sent is no update: wrong shape, wrong count, numbers that are not finite, or no numbers."""


@dataclass(frozen=True)
class Answer:
    """What became of a call: what its check made of the reply, or why there is nothing of use.

    refusal: in the client's words. flaw: why the reply is no update.
    """

    sent: Any = None
    refusal: str | None = None
    flaw: str | None = None
    failure: Failure | None = None


_WORDS = 500
"""Characters that are kept of what a client says of a call in its own words."""


def answer_of(call: Call, reply: Reply) -> Answer:
    """What a reply to a call is; of what was not asked for nothing is kept."""
    if reply.failure is not None:
        return Answer(failure=replace(reply.failure, reason=reply.failure.reason[:_WORDS]))
    if (refusal := reply.content.get("refused")) is not None:
        return Answer(refusal=str(refusal)[:_WORDS])
    try:
        return Answer(call.check(reply))
    except BadUpdate as error:
        return Answer(flaw=str(error)[:_WORDS])


@dataclass(frozen=True)
class Sent:
    """What a client says of its training: statistics, and seconds of computing. model: where it was sent too."""

    statistics: dict[str, float]
    compute_s: float
    model: Any = None


_STATISTICS, _NAME = 100, 100


def nothing(reply: Reply) -> None:
    """Of some replies nothing is wanted but that they came."""


def read_training(reply: Reply, num_examples: int) -> Sent:
    """What a client says of its training. Raises BadUpdate."""
    content = reply.content
    statistics, compute_s = content.get("statistics"), content.get("compute_s")
    if not isinstance(statistics, Mapping) or "loss" not in statistics:
        raise BadUpdate("it has no statistics with a loss")
    if len(statistics) > _STATISTICS:
        raise BadUpdate(f"it has {len(statistics)} statistics; no strategy asks for more than {_STATISTICS}")
    for name, value in {**statistics, "compute_s": compute_s}.items():
        if len(str(name)) > _NAME:
            raise BadUpdate(f"it has a statistic with a name of {len(str(name))} characters")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise BadUpdate(f"its {name} is {value!r}, not a finite number")
        if not math.isfinite(value):
            raise BadUpdate(f"its {name} is {value!r}, {NOT_FINITE}")
    if content.get("num_examples") != num_examples:
        raise BadUpdate(f"it trained on {content.get('num_examples')!r} examples and had told of {num_examples}")
    assert isinstance(compute_s, int | float)
    return Sent({str(name): float(value) for name, value in statistics.items()}, max(0.0, float(compute_s)))


def read_update(reply: Reply, num_examples: int, sections: Sections) -> Sent:
    """What a client says of its training, and the model that it sent. Raises BadUpdate."""
    return replace(read_training(reply, num_examples), model=read_vector(reply, sections))


def read_vector(reply: Reply, sections: Sections) -> Vector:
    """The model that a client sent, as a flat vector. Raises BadUpdate."""
    if len(reply.arrays) != 1:
        raise BadUpdate(f"it has {len(reply.arrays)} arrays, not one")
    array, size = reply.arrays[0], sections.size
    if array.dtype != np.float32 or array.shape != (size,):
        raise BadUpdate(f"its model is {array.dtype} of shape {array.shape}, not float32 of shape ({size},)")
    if not np.isfinite(array).all():
        raise BadUpdate(f"its model is {NOT_FINITE}")
    if sections.has_negative_variance(array):
        raise BadUpdate(NEGATIVE_VARIANCE)
    return array

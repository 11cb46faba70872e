"""Messages between server and clients: calls, replies, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from fedtempo.errors import RunError

Kind = Literal["describe", "train", "receive", "compute", "send", "examples", "notice"]
"""What a call asks of a client. "notice": nothing, it only informs."""

Arrays = tuple[np.ndarray[Any, np.dtype[Any]], ...]

SMALL_REPLY_BYTES = 2**22
"""Size of a reply without arrays that no honest client exceeds; arrays come on top of it."""


@dataclass(frozen=True)
class DataNames:
    """Names in the server's data, in order, which clients follow: of classes and of features, if there are any."""

    classes: Sequence[str] = ()
    features: Sequence[str] = ()

    @property
    def of_classes(self) -> dict[str, Any]:
        """What every call whose answer depends on the classes' numbers contains."""
        return {"class_names": list(self.classes)}

    @property
    def all(self) -> dict[str, Any]:
        """What a call that asks for a description contains."""
        return {**self.of_classes, "feature_names": list(self.features)}


NO_NAMES = DataNames()


@dataclass(frozen=True)
class Call:
    """A message to a client's node.

    content: JSON values. ttl_s: seconds after which the reply is no longer wanted. attached: returns the arrays to
    attach; called when the call is sent. check: converts the reply to the call's result; runs in another thread and
    raises BadUpdate. reply_bytes: size of the largest reply that makes sense.
    """

    node: int
    kind: Kind
    content: Mapping[str, Any]
    arrays: Arrays = ()
    ttl_s: float = 600.0
    attached: Callable[[], Arrays] | None = None
    check: Callable[[Reply], Any] = lambda reply: dict(reply.content)
    reply_bytes: int = SMALL_REPLY_BYTES


@dataclass(frozen=True)
class Failure:
    """Why a call has no answer.

    "gone": the node is offline, or the message expired. "failed": the client's program raised an error. "crashed": its
    process ended; such calls are retried once.
    """

    kind: Literal["gone", "failed", "crashed"]
    reason: str


@dataclass(frozen=True)
class Sender:
    """The names that a node may use. registered: the name for which its key was registered; None if for none.

    others: names that were registered for other keys.
    """

    registered: str | None = None
    others: frozenset[str] = frozenset()

    def objection_to(self, name: str) -> str | None:
        """Return why a node may not use a name; None if it may."""
        if self.registered is not None and name != self.registered:
            return f"its key was registered for {self.registered}"
        if self.registered is None and name in self.others:
            return "the name was registered for another key"
        return None


@dataclass(frozen=True)
class Reply:
    """A client's reply to a call: content and arrays, or a failure, or why it cannot be read (flaw)."""

    content: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = ()
    failure: Failure | None = None
    flaw: str | None = None
    sender: Sender = Sender()


class GridError(RunError):
    """The grid's server cannot be reached and will not come back."""


class Grid(Protocol):
    """Carries calls to nodes and replies back. Used from one thread at a time; its methods do not wait for replies.

    interruptions: how often the grid's server could not be reached so far.
    """

    interruptions: int

    def node_ids(self) -> Sequence[int]:
        """Return the nodes now online."""
        ...

    def sender(self, node: int) -> Sender:
        """Return the names that a node may use, as of the last `node_ids`."""
        ...

    def push(self, call: Call) -> str | None:
        """Send a call and return the name of its reply; None if the node is unknown."""
        ...

    def pull(self, names: Mapping[str, int]) -> Mapping[str, Reply]:
        """Return the replies received to these calls. Each is returned once.

        names: the calls' names, with the size of the largest reply to each, bytes. A larger one has a flaw.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Answer:
    """The outcome of a call: its result, or the reason for having none.

    result: what the call's check returned. refusal: why the client rejected the call. flaw: why the reply is unusable.
    """

    result: Any = None
    refusal: str | None = None
    flaw: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class TrainingResult:
    """Result of a client's training: statistics, seconds of computing, and what came in the same reply.

    model: the model. sent: the vectors that came with it. lengths: of the parts of the update, as `outliers.Length`.
    """

    statistics: dict[str, float]
    compute_s: float
    model: Any = None
    sent: tuple[Any, ...] = ()
    lengths: tuple[Any, ...] = ()


def nothing(reply: Reply) -> None:
    """Ignore a reply's content: only its arrival matters."""

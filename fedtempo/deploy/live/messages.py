"""Messages between server and clients: calls, replies, and the checks on replies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np

from fedtempo.deploy.live.packing import unpacked
from fedtempo.errors import FedtempoError, RunError
from fedtempo.learning.sections import Sections
from fedtempo.runtime.executors import Vector
from fedtempo.runtime.executors.screening import NEGATIVE_VARIANCE, NOT_FINITE

Kind = Literal["describe", "train", "receive", "compute", "send", "examples", "notice"]
"""What a call asks of a client. "notice": nothing, it only informs."""

Arrays = tuple[np.ndarray[Any, np.dtype[Any]], ...]


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
    raises BadUpdate.
    """

    node: int
    kind: Kind
    content: Mapping[str, Any]
    arrays: Arrays = ()
    ttl_s: float = 600.0
    attached: Callable[[], Arrays] | None = None
    check: Callable[[Reply], Any] = lambda reply: dict(reply.content)


@dataclass(frozen=True)
class Failure:
    """Why a call has no answer.

    "gone": the node is offline, or the message expired. "failed": the client's program raised an error. "crashed": its
    process ended; such calls are retried once.
    """

    kind: Literal["gone", "failed", "crashed"]
    reason: str


@dataclass(frozen=True)
class Reply:
    """A client's reply to a call: content and arrays, or a failure."""

    content: Mapping[str, Any] = field(default_factory=dict)
    arrays: Arrays = ()
    failure: Failure | None = None


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

    def push(self, call: Call) -> str | None:
        """Send a call and return the name of its reply; None if the node is unknown."""
        ...

    def pull(self, names: Sequence[str]) -> Mapping[str, Reply]:
        """Return the replies received to these calls. Each is returned once."""
        ...

    def close(self) -> None: ...


class BadUpdate(FedtempoError):
    """A client sent no usable update: wrong shape, wrong count, or values that are not finite numbers."""


@dataclass(frozen=True)
class Answer:
    """The outcome of a call: its result, or the reason for having none.

    result: what the call's check returned. refusal: why the client rejected the call. flaw: why the reply is unusable.
    """

    result: Any = None
    refusal: str | None = None
    flaw: str | None = None
    failure: Failure | None = None


_REASON_CHARS = 500
"""Maximum length of a client's reason or error that is kept."""


def answer_of(call: Call, reply: Reply) -> Answer:
    """Check the reply to a call. Nothing that the call did not ask for is kept."""
    if reply.failure is not None:
        return Answer(failure=replace(reply.failure, reason=reply.failure.reason[:_REASON_CHARS]))
    if (refusal := reply.content.get("refused")) is not None:
        return Answer(refusal=str(refusal)[:_REASON_CHARS])
    try:
        return Answer(call.check(reply))
    except BadUpdate as error:
        return Answer(flaw=str(error)[:_REASON_CHARS])


@dataclass(frozen=True)
class TrainingResult:
    """Result of a client's training: statistics, seconds of computing, and what came in the same reply.

    model: the model. sent: the vectors that came with it.
    """

    statistics: dict[str, float]
    compute_s: float
    model: Any = None
    sent: tuple[Any, ...] = ()


_MAX_STATISTICS, _MAX_NAME_CHARS = 100, 100
_MAX_CHANGE = 1e38
"""Largest entry of a change: the sum with a model stays finite."""

Decode = Callable[[bytes], Vector]


def nothing(reply: Reply) -> None:
    """Ignore a reply's content: only its arrival matters."""


def read_training(reply: Reply, num_examples: int) -> TrainingResult:
    """Read the result of a client's training, without a model. Raises BadUpdate."""
    content = reply.content
    statistics, compute_s = content.get("statistics"), content.get("compute_s")
    if not isinstance(statistics, Mapping) or "loss" not in statistics:
        raise BadUpdate("its statistics have no loss")
    if len(statistics) > _MAX_STATISTICS:
        raise BadUpdate(f"it has {len(statistics)} statistics; at most {_MAX_STATISTICS} are accepted")
    for name, value in {**statistics, "compute_s": compute_s}.items():
        if len(str(name)) > _MAX_NAME_CHARS:
            raise BadUpdate(f"a statistic's name has {len(str(name))} characters; the limit is {_MAX_NAME_CHARS}")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise BadUpdate(f"its {name} is {value!r}, not a finite number")
        if not math.isfinite(value):
            raise BadUpdate(f"its {name} is {value!r}, {NOT_FINITE}")
    if content.get("num_examples") != num_examples:
        raise BadUpdate(f"it trained on {content.get('num_examples')!r} examples instead of {num_examples}")
    assert isinstance(compute_s, int | float)
    return TrainingResult({str(name): float(value) for name, value in statistics.items()}, max(0.0, float(compute_s)))


def read_update(
    reply: Reply, num_examples: int, sections: Sections, returns: int, decode: Decode | None = None
) -> TrainingResult:
    """Read the result of a client's training and what it sent, see `read_vectors`. Raises BadUpdate."""
    model, *sent = read_vectors(reply, sections, returns, decode)
    return replace(read_training(reply, num_examples), model=model, sent=tuple(sent))


def read_vectors(reply: Reply, sections: Sections, returns: int, decode: Decode | None = None) -> list[Vector]:
    """Read the model that a client sent and the vectors that came with it. Raises BadUpdate.

    returns: number of these vectors. decode: if updates are compressed, returns the change that bytes stand for, which
    comes in place of the model, with the client's running statistics.
    """
    if len(reply.arrays) != 1 + returns:
        raise BadUpdate(f"it has {len(reply.arrays)} arrays instead of {1 + returns}")
    size, arrays = sections.moving, list(reply.arrays)
    if decode is not None:
        arrays[0] = _read_change(arrays[0], sections, decode)
    for number, array in enumerate(arrays):
        what = "its model" if number == 0 else "a vector that it sends along"
        if array.dtype != np.float32 or array.shape != (size,):
            raise BadUpdate(f"{what} is {array.dtype} of shape {array.shape}, not float32 of shape ({size},)")
        if not np.isfinite(array).all():
            raise BadUpdate(f"{what} is {NOT_FINITE}")
        if sections.has_negative_variance(array):
            raise BadUpdate(NEGATIVE_VARIANCE)
    return arrays


def _read_change(array: Any, sections: Sections, decode: Decode) -> Vector:
    try:
        change = unpacked(array, sections.statistics, decode)
    except ValueError as error:
        raise BadUpdate(f"its change of the model is {error}") from error
    if np.isfinite(change).all() and np.abs(change).max(initial=0.0) > _MAX_CHANGE:
        raise BadUpdate(f"its change of the model has entries above {_MAX_CHANGE:.1g}")
    return change

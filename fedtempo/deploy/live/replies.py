"""What clients reply, read under bounds: the results of their work, or why a reply is unusable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedtempo.deploy.live.bounds import MAX_REASON_CHARS, BadUpdate, number, shown
from fedtempo.deploy.live.lengths import lengths_of
from fedtempo.deploy.live.messages import Answer, Call, Reply, TrainingResult
from fedtempo.deploy.live.packing import unpacked
from fedtempo.learning.sections import Sections
from fedtempo.learning.training import Training
from fedtempo.parts.foreign_text import one_line
from fedtempo.runtime.executors import Vector
from fedtempo.runtime.executors.screening import NEGATIVE_VARIANCE, NOT_FINITE

_MAX_STATISTICS, _MAX_NAME_CHARS = 100, 100
_MAX_CHANGE = 1e38
"""Largest entry of a change: the sum with a model stays finite."""

_NOT_NEGATIVE = ("squared_loss", "gradient_variance", "gradient_norm")
_ROUNDING = 1e-6
"""Relative difference that is allowed between the steps that a client and the server compute."""

Decode = Callable[[bytes], Vector]


def answer_of(call: Call, reply: Reply) -> Answer:
    """Check the reply to a call. Nothing that the call did not ask for is kept.

    Whatever a client sends is a result, a refusal or a flaw of this client: no error of it reaches the run.
    """
    try:
        if reply.failure is not None:
            return Answer(failure=replace(reply.failure, reason=_reason(reply.failure.reason)))
        if reply.flaw is not None:
            raise BadUpdate(reply.flaw)
        if (refusal := reply.content.get("refused")) is not None:
            return Answer(refusal=_reason(refusal))
        return Answer(call.check(reply))
    except BadUpdate as error:
        return Answer(flaw=_reason(error))
    except Exception as error:  # noqa: BLE001  the reply may hold anything
        return Answer(flaw=_reason(f"its reply cannot be read: {type(error).__name__}: {error}"))


def read_training(reply: Reply, num_examples: int, training: Training | None = None) -> TrainingResult:
    """Read the result of a client's training, without a model. Raises BadUpdate.

    training: what the client was asked to do, if it decides which statistics come back.
    """
    content = reply.content
    statistics = content.get("statistics")
    if not isinstance(statistics, Mapping) or "loss" not in statistics:
        raise BadUpdate("its statistics have no loss")
    if len(statistics) > _MAX_STATISTICS:
        raise BadUpdate(f"it has {len(statistics)} statistics; at most {_MAX_STATISTICS} are accepted")
    for name in statistics:
        if len(name) > _MAX_NAME_CHARS:
            raise BadUpdate(f"a statistic's name has {len(name)} characters; the limit is {_MAX_NAME_CHARS}")
        if not name.isprintable():
            raise BadUpdate(f"a statistic's name is {shown(name)}; it must be printable")
    numbers = {name: number(value, name) for name, value in statistics.items()}
    compute_s = number(content.get("compute_s"), "compute_s")
    if training is not None:
        _must_have_measured(numbers, training, num_examples)
    if content.get("num_examples") != num_examples:
        raise BadUpdate(f"it trained on {shown(content.get('num_examples'))} examples instead of {num_examples}")
    return TrainingResult(numbers, max(0.0, compute_s))


def _must_have_measured(statistics: Mapping[str, float], training: Training, num_examples: int) -> None:
    """Raise BadUpdate unless the statistics hold what a training was asked to measure, with possible values."""
    for name in sorted(training.statistics):
        if name not in statistics:
            raise BadUpdate(f"its statistics have no {name}")
        if name in _NOT_NEGATIVE:
            number(statistics[name], name, 0.0)
    if "effective_steps" in training.statistics:
        steps, right = statistics["effective_steps"], training.effective_steps(num_examples)
        if abs(steps - right) > _ROUNDING * right:
            raise BadUpdate(f"its effective_steps is {steps:g}; with this training it is {right:g}")


def read_update(
    reply: Reply,
    num_examples: int,
    sections: Sections,
    returns: int,
    decode: Decode | None = None,
    training: Training | None = None,
    received: Sequence[Vector] = (),
) -> TrainingResult:
    """Read the result of a client's training and what it sent, see `read_training` and `read_sent`."""
    sent = read_sent(reply, sections, returns, decode, received)
    trained = read_training(reply, num_examples, training)
    return replace(trained, model=sent.model, sent=sent.sent, lengths=sent.lengths)


def read_sent(
    reply: Reply, sections: Sections, returns: int, decode: Decode | None = None, received: Sequence[Vector] = ()
) -> TrainingResult:
    """Read what a client sent after its training, see `read_vectors`. received: holds the model that it received."""
    arrays = read_vectors(reply, sections, returns, decode)
    lengths = lengths_of(received[0], arrays, sections, change=decode is not None) if received else ()
    model, *sent = arrays
    return TrainingResult({}, 0.0, model, tuple(sent), lengths)


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
    for position, array in enumerate(arrays):
        what = "its model" if position == 0 else "a vector that it sends along"
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


def _reason(text: object) -> str:
    return one_line(text, MAX_REASON_CHARS)

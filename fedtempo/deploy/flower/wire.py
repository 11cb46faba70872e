"""Calls and replies as Flower messages: JSON content in one string, arrays in an array record."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.common.constant import SType

from fedtempo.deploy.live.bounds import object_of
from fedtempo.deploy.live.messages import Arrays, Call, Failure, Reply
from fedtempo.deploy.live.npy import array_of

_GONE = {3: "the message expired", 4: "the reply expired", 5: "its node is offline"}
_CRASHED = 8


def message_of(call: Call) -> Message:
    """Return a call as a message."""
    kind = MessageType.TRAIN if call.kind in ("train", "compute") else MessageType.QUERY
    content = _records({"kind": call.kind, "content": call.content}, call.arrays)
    # A message's id is the hash of its content: without a unique group id, a repeated call would be the same message.
    return Message(content, call.node, kind, ttl=call.ttl_s, group_id=uuid.uuid4().hex)


def read_call(message: Message) -> tuple[str, dict[str, Any], Arrays]:
    """Return a call's kind, content and arrays. Raises ValueError if the message holds no call."""
    values, arrays = _read(message.content)
    kind, content = values.get("kind"), values.get("content")
    if not isinstance(kind, str) or not isinstance(content, dict):
        raise ValueError("the message holds no call")
    return kind, content, arrays


def answer_to(message: Message, content: Mapping[str, Any], arrays: Arrays) -> Message:
    """Return the message that answers another."""
    return Message(_records(content, arrays), reply_to=message)


def reply_of(message: Message) -> Reply:
    """Return a message as a reply, which may be a failure. Raises any exception for one that is neither."""
    if message.has_error():
        code, reason = message.error.code, message.error.reason or ""
        if code in _GONE:
            return Reply(failure=Failure("gone", _GONE[code]))
        if code == _CRASHED:
            return Reply(failure=Failure("crashed", f"its process ended: {reason}"))
        return Reply(failure=Failure("failed", f"its program failed (code {code}): {reason}"))
    return Reply(*_read(message.content))


def _records(values: Mapping[str, Any], arrays: Arrays) -> RecordDict:
    records = RecordDict({"told": ConfigRecord({"json": json.dumps(values)})})
    if arrays:
        records["arrays"] = ArrayRecord(list(arrays))
    return records


def _read(content: RecordDict) -> tuple[dict[str, Any], Arrays]:
    values = object_of(content.config_records["told"]["json"])
    arrays = content.array_records["arrays"].values() if "arrays" in content else ()
    return values, tuple(map(_array, arrays))


def _array(array: Array) -> Any:
    if array.stype != SType.NUMPY:
        raise ValueError(f"an array of the type {array.stype!r}")
    return array_of(array.data)

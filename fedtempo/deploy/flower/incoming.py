"""Replies in transit: a SuperLink announces a reply as soon as its client starts to send it, piece by piece."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import httpx
from flwr.app import Message
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.constant import HEAD_BODY_DIVIDER
from flwr.supercore.inflatable.inflatable_object import (
    get_object_head_values_from_object_content,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectUnavailableError,
    inflate_object_from_contents,
    pull_objects,
)
from flwr.supercore.runtime import RuntimeHttpClient

from fedtempo.deploy.flower.wire import reply_of
from fedtempo.deploy.live.messages import SMALL_REPLY_BYTES, Failure, Reply

_BYTES_PER_PIECE = 2**12
"""Of a reply with many pieces, these have at least so many bytes on average."""

_MIN_PIECES = 1000


class _TooLarge(Exception):
    """A reply is larger than any that makes sense."""


@dataclass
class _PartialReply:
    """A reply in transit: its id at the SuperLink, its pieces' ids, those received, and whether one was missing.

    largest: bytes that it may have.
    """

    name: str
    pieces: list[str]
    largest: int
    received: dict[str, bytes] = field(default_factory=dict)
    unfinished: bool = False


class IncomingReplies:
    """Fetches a run's replies without waiting for any of them.

    Flower's own grid waits until a client has sent its whole reply, for three minutes if that client was killed, and
    fetches no other replies meanwhile. Whatever a client sends, its reply is readable or has a flaw.
    """

    def __init__(self, client: RuntimeHttpClient, node: Node, run_id: int) -> None:
        self._client, self._node, self._run_id = client, node, run_id
        self._known: set[str] = set()
        self._partial: dict[str, _PartialReply] = {}

    def expect(self, name: str) -> None:
        """Register the name of a call that was sent."""
        self._known.add(name)

    def pull(self, names: Mapping[str, int]) -> dict[str, Reply]:
        """Return the complete replies to the calls of these names; a reply that can never be complete is a failure.

        names: with the bytes that each reply may have.
        """
        unannounced = [name for name in names if name not in self._partial]
        replies = {}
        if announced := [name for name in unannounced if name in self._known]:
            try:
                self._ask(announced, names)
            except httpx.HTTPStatusError as error:
                if error.response.status_code != httpx.codes.INTERNAL_SERVER_ERROR:
                    raise
                # One of these replies may be the cause; the others must not suffer from it.
                for name in announced:
                    if not self._delivers(name, names):
                        replies[name] = Reply(flaw="its reply cannot be read: the SuperLink fails to deliver it")
        for name in unannounced:
            if name not in self._known:  # sent before the run was resumed, maybe as part of another Flower run
                if self._delivers(name, names):
                    self._known.add(name)
                else:
                    replies[name] = Reply(failure=Failure("gone", "the run in which it was sent has ended"))
        for name, partial_reply in list(self._partial.items()):
            if (reply := self._reply(partial_reply)) is not None:
                del self._partial[name]
                replies[name] = reply
        self._known -= replies.keys()
        return replies

    def _delivers(self, name: str, largest: Mapping[str, int]) -> bool:
        """Ask the SuperLink about one reply; return False if that is an internal error there."""
        try:
            self._ask([name], largest)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.INTERNAL_SERVER_ERROR:
                raise
            return False
        return True

    def _ask(self, names: Sequence[str], largest: Mapping[str, int]) -> None:
        """Ask the SuperLink which replies are in transit."""
        announced = self._client.PullMessages(PullAppMessagesRequest(message_ids=names))
        for message, tree in zip(announced.messages_list, announced.message_object_trees, strict=True):
            name = message.metadata.reply_to_message_id
            if name not in names:
                continue
            # One piece more than there may be shows that there are too many.
            most = _MIN_PIECES + largest[name] // _BYTES_PER_PIECE
            pieces = [node.object_id for node in islice(iterate_object_tree(tree), most + 1)]
            self._partial[name] = _PartialReply(message.metadata.message_id, pieces, largest[name])

    def _reply(self, partial_reply: _PartialReply) -> Reply | None:
        """Return the reply if it is complete, else None."""
        partial_reply.unfinished = False
        flaw: str | None = None
        pieces: dict[str, bytes] = {}
        try:
            if len(partial_reply.pieces) > _MIN_PIECES + partial_reply.largest // _BYTES_PER_PIECE:
                raise _TooLarge
            pieces = pull_objects(partial_reply.pieces, partial(self._piece, partial_reply), max_tries_per_object=1)
        except ObjectPullError as error:
            if partial_reply.unfinished:
                return None
            return Reply(failure=Failure("gone", f"its client did not send the whole reply: {error}"))
        except _TooLarge:
            flaw = f"its reply is larger than {partial_reply.largest} bytes"
        confirm = ConfirmMessageReceivedRequest(
            node=self._node, run_id=self._run_id, message_object_id=partial_reply.name
        )
        self._client.ConfirmMessageReceived(confirm)
        return Reply(flaw=flaw) if flaw is not None else _read(partial_reply, pieces)

    def _piece(self, partial_reply: _PartialReply, name: str) -> bytes:
        if name not in partial_reply.received:
            pull = make_pull_object_fn_protobuf(self._client.PullObject, self._node, self._run_id)
            try:
                piece = pull(name)
            except ObjectUnavailableError:
                partial_reply.unfinished = True
                raise
            partial_reply.received[name] = piece
            if sum(map(len, list(partial_reply.received.values()))) > partial_reply.largest:
                raise _TooLarge
        return partial_reply.received[name]


def _read(partial_reply: _PartialReply, pieces: dict[str, bytes]) -> Reply:
    """Return the reply that its pieces make; it has a flaw if they make none, or would make too large a one."""
    try:
        if _size_of(pieces) > partial_reply.largest:
            return Reply(flaw=f"its reply is larger than {partial_reply.largest} bytes")
        message = inflate_object_from_contents(partial_reply.name, pieces)
        if not isinstance(message, Message):
            return Reply(flaw=f"its reply is a {type(message).__name__}")
        return reply_of(message)
    except Exception as error:  # noqa: BLE001  a client may send anything
        return Reply(flaw=f"its reply cannot be read: {type(error).__name__}: {error}")


def _size_of(pieces: Mapping[str, bytes]) -> int:
    """Return the bytes of what the pieces stand for: an array may name a chunk many times, and a record an array.

    Raises any exception for pieces that Flower does not make.
    """
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in sizes:
            content = pieces[name]
            kind, children, _ = get_object_head_values_from_object_content(content)
            if kind != "ArrayChunk" and len(content) > SMALL_REPLY_BYTES:
                raise ValueError(f"its {kind} has {len(content)} bytes")
            if kind == "Array":
                children = [children[position] for position in json.loads(_body(content))["arraychunk_ids"]]
            if kind == "ArrayRecord":
                children = list(json.loads(_body(content)).values())
            sizes[name] = len(content) + sum(map(size, children))
        return sizes[name]

    return max(map(size, pieces), default=0)


def _body(content: bytes) -> bytes:
    return content[content.find(HEAD_BODY_DIVIDER) + len(HEAD_BODY_DIVIDER) :]

"""Replies in transit: a SuperLink announces a reply as soon as its client starts to send it, piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import httpx
from flwr.app import Message
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectUnavailableError,
    inflate_object_from_contents,
    pull_objects,
)
from flwr.supercore.runtime import RuntimeHttpClient

from fedtempo.deploy.flower.wire import reply_of
from fedtempo.deploy.live.messages import Failure, Reply


@dataclass
class _PartialReply:
    """A reply in transit: its id at the SuperLink, its pieces' ids, those received, and whether one was missing."""

    name: str
    pieces: list[str]
    received: dict[str, bytes] = field(default_factory=dict)
    unfinished: bool = False


class IncomingReplies:
    """Fetches a run's replies without waiting for any of them.

    Flower's own grid waits until a client has sent its whole reply, for three minutes if that client was killed, and
    fetches no other replies meanwhile.
    """

    def __init__(self, client: RuntimeHttpClient, node: Node, run_id: int) -> None:
        self._client, self._node, self._run_id = client, node, run_id
        self._known: set[str] = set()
        self._partial: dict[str, _PartialReply] = {}

    def expect(self, name: str) -> None:
        """Register the name of a call that was sent."""
        self._known.add(name)

    def pull(self, names: Sequence[str]) -> dict[str, Reply]:
        """Return the complete replies to the calls of these names; a reply that can never be complete is a failure."""
        unannounced = [name for name in names if name not in self._partial]
        if announced := [name for name in unannounced if name in self._known]:
            self._ask(announced)
        replies = {}
        for name in unannounced:
            if name not in self._known:  # sent before the run was resumed, maybe as part of another Flower run
                try:
                    self._ask([name])
                except httpx.HTTPStatusError as error:
                    if error.response.status_code != httpx.codes.INTERNAL_SERVER_ERROR:
                        raise
                    replies[name] = Reply(failure=Failure("gone", "the run in which it was sent has ended"))
                else:
                    self._known.add(name)
        for name, partial_reply in list(self._partial.items()):
            if (reply := self._reply(partial_reply)) is not None:
                del self._partial[name]
                replies[name] = reply
        self._known -= replies.keys()
        return replies

    def _ask(self, names: Sequence[str]) -> None:
        """Ask the SuperLink which replies are in transit."""
        announced = self._client.PullMessages(PullAppMessagesRequest(message_ids=names))
        for message, tree in zip(announced.messages_list, announced.message_object_trees, strict=True):
            pieces = [node.object_id for node in iterate_object_tree(tree)]
            self._partial[message.metadata.reply_to_message_id] = _PartialReply(message.metadata.message_id, pieces)

    def _reply(self, partial_reply: _PartialReply) -> Reply | None:
        """Return the reply if it is complete, else None."""
        partial_reply.unfinished = False
        try:
            pieces = pull_objects(partial_reply.pieces, partial(self._piece, partial_reply), max_tries_per_object=1)
        except ObjectPullError as error:
            if partial_reply.unfinished:
                return None
            return Reply(failure=Failure("gone", f"its client did not send the whole reply: {error}"))
        confirm = ConfirmMessageReceivedRequest(
            node=self._node, run_id=self._run_id, message_object_id=partial_reply.name
        )
        self._client.ConfirmMessageReceived(confirm)
        message = inflate_object_from_contents(partial_reply.name, pieces)
        assert isinstance(message, Message)
        return reply_of(message)

    def _piece(self, partial_reply: _PartialReply, name: str) -> bytes:
        if name not in partial_reply.received:
            pull = make_pull_object_fn_protobuf(self._client.PullObject, self._node, self._run_id)
            try:
                partial_reply.received[name] = pull(name)
            except ObjectUnavailableError:
                partial_reply.unfinished = True
                raise
        return partial_reply.received[name]

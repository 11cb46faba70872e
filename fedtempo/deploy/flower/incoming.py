"""Replies on their way: a SuperLink tells of one as soon as its client begins to send it, piece by piece."""

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
class _Coming:
    """A reply: its number at the SuperLink, its pieces, those that have come, and whether one was not there yet."""

    name: str
    pieces: list[str]
    come: dict[str, bytes] = field(default_factory=dict)
    unfinished: bool = False


class Incoming:
    """Fetches a run's replies without waiting for one.

    Flower's own grid waits until a client has sent all of its reply, for three minutes where that was killed meanwhile,
    and fetches nobody else's.
    """

    def __init__(self, client: RuntimeHttpClient, node: Node, run_id: int) -> None:
        self._client, self._node, self._run_id = client, node, run_id
        self._own: set[str] = set()
        self._coming: dict[str, _Coming] = {}

    def expect(self, name: str) -> None:
        """A call of this name has been sent."""
        self._own.add(name)

    def pull(self, names: Sequence[str]) -> dict[str, Reply]:
        """Replies to the calls of these names that are there as a whole. One that never will be is a failure."""
        asked = [name for name in names if name not in self._coming]
        if own := [name for name in asked if name in self._own]:
            self._ask(own)
        replies = {}
        for name in asked:
            if name not in self._own:  # sent before the run was resumed, in another one perhaps
                try:
                    self._ask([name])
                except httpx.HTTPStatusError as error:
                    if error.response.status_code != httpx.codes.INTERNAL_SERVER_ERROR:
                        raise
                    replies[name] = Reply(failure=Failure("gone", "the run that it was sent in has ended"))
                else:
                    self._own.add(name)
        for name, coming in list(self._coming.items()):
            if (reply := self._reply(coming)) is not None:
                del self._coming[name]
                replies[name] = reply
        self._own -= replies.keys()
        return replies

    def _ask(self, names: Sequence[str]) -> None:
        """Hear which replies are on their way."""
        told = self._client.PullMessages(PullAppMessagesRequest(message_ids=names))
        for message, tree in zip(told.messages_list, told.message_object_trees, strict=True):
            pieces = [each.object_id for each in iterate_object_tree(tree)]
            self._coming[message.metadata.reply_to_message_id] = _Coming(message.metadata.message_id, pieces)

    def _reply(self, coming: _Coming) -> Reply | None:
        """The reply, None where it is not there yet."""
        coming.unfinished = False
        try:
            pieces = pull_objects(coming.pieces, partial(self._piece, coming), max_tries_per_object=1)
        except ObjectPullError as error:
            if coming.unfinished:
                return None
            return Reply(failure=Failure("gone", f"its client did not send all of it: {error}"))
        confirm = ConfirmMessageReceivedRequest(node=self._node, run_id=self._run_id, message_object_id=coming.name)
        self._client.ConfirmMessageReceived(confirm)
        message = inflate_object_from_contents(coming.name, pieces)
        assert isinstance(message, Message)
        return reply_of(message)

    def _piece(self, coming: _Coming, name: str) -> bytes:
        if name not in coming.come:
            pull = make_pull_object_fn_protobuf(self._client.PullObject, self._node, self._run_id)
            try:
                coming.come[name] = pull(name)
            except ObjectUnavailableError:
                coming.unfinished = True
                raise
        return coming.come[name]

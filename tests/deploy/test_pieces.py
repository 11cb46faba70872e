"""Messages that arrive in pieces from senders that may be killed midway, with a SuperLink in this process's memory."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

import httpx
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesResponse, PushMessagesResponse
from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, PullObjectResponse, PushObjectResponse
from flwr.proto.node_pb2 import Node
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.error import ApiErrorCode
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
)

from fedtempo.deploy.flower import wire
from fedtempo.deploy.flower.incoming import IncomingReplies
from fedtempo.deploy.flower.node import _Link
from fedtempo.deploy.live.messages import Call
from fedtempo.deploy.live.replies import answer_of
from tests.test_fuzz import mutated

pytestmark = [pytest.mark.deploy, pytest.mark.usefixtures("task_identity")]


class Pieces:
    """A SuperLink that holds one message. known: the message is not abandoned. there: number of received pieces."""

    def __init__(self, message: Message) -> None:
        message.metadata.__dict__["_message_id"] = message.object_id
        self.proto = message_to_proto(remove_content_from_message(message))
        self.tree = get_object_tree(message)
        self.pieces = {name: piece.deflate() for name, piece in get_all_nested_objects(message).items()}
        self.there, self.known = 0, True
        self.asked: list[list[str]] = []
        self.confirmed: list[str] = []

    def PullObject(self, request: Any) -> PullObjectResponse:
        names = list(self.pieces)
        if not self.known:
            return PullObjectResponse(object_found=False)
        if names.index(request.object_id) >= self.there:
            return PullObjectResponse(object_found=True, object_available=False)
        content = self.pieces[request.object_id]
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def PullMessages(self, request: Any) -> PullAppMessagesResponse:
        self.asked.append(list(request.message_ids))
        return PullAppMessagesResponse(messages_list=[self.proto], message_object_trees=[self.tree])

    def ConfirmMessageReceived(self, request: Any) -> ConfirmMessageReceivedResponse:
        self.confirmed.append(request.message_object_id)
        return ConfirmMessageReceivedResponse()


def call() -> Message:
    message = wire.message_of(Call(5, "train", {"x": 1}, (np.arange(3, dtype=np.float32),)))
    message.metadata.__dict__["_message_id"] = message.object_id
    return message


def test_a_reply_is_delivered_once_all_its_pieces_arrived() -> None:
    sent = call()
    superlink = Pieces(wire.answer_to(sent, {"y": 2}, (np.ones(3, np.float32),)))
    incoming = IncomingReplies(superlink, Node(node_id=1), 1)  # type: ignore[arg-type]
    name = sent.metadata.message_id
    for _ in superlink.pieces:
        assert incoming.pull({name: 10**6}) == {}
        superlink.there += 1
    assert superlink.asked == [[name]], "the message is offered only once"
    assert superlink.confirmed == []
    reply = incoming.pull({name: 10**6})[name]
    assert reply.content == {"y": 2}
    np.testing.assert_array_equal(reply.arrays[0], np.ones(3, np.float32))
    assert superlink.confirmed == [superlink.proto.metadata.message_id]


def odd_replies() -> dict[str, tuple[Message, str]]:
    """Return messages that no client of ours sends, and what is said of them."""
    sent = call()
    whole = Array(np.zeros(1000, np.float32))
    huge = Array("float32", (10**15,), "numpy.ndarray", whole.data.replace(b"(1000,)", b"(%d,)" % 10**15))
    archive = Array("float32", (3,), "numpy.ndarray", b"PK" + bytes(100))
    told = ConfigRecord({"json": "{}"})
    names = {str(i): whole for i in range(300)}
    records = {
        "header of 10^15 floats": ({"told": told, "arrays": ArrayRecord({"0": huge})}, "array"),
        "archive": ({"told": told, "arrays": ArrayRecord({"0": archive})}, "array"),
        "nested": ({"told": ConfigRecord({"json": "[" * 200_000})}, "nested too deeply"),
        "array named many times": ({"told": told, "arrays": ArrayRecord(names)}, "larger than 1000000 bytes"),
        "much": ({"told": ConfigRecord({"json": " " * 2 * 10**6 + "{}"})}, "larger than 1000000 bytes"),
        "no records": ({}, "KeyError"),
    }
    return {name: (Message(RecordDict(parts), reply_to=sent), flaw) for name, (parts, flaw) in records.items()}


ODD = ["array named many times", "nested", "archive", "much", "no records", "header of 10^15 floats"]


@pytest.mark.parametrize("name", ODD)
def test_a_reply_that_cannot_be_read_is_its_clients_flaw(name: str) -> None:
    message, flaw = odd_replies()[name]
    superlink = Pieces(message)
    superlink.there = len(superlink.pieces)
    incoming = IncomingReplies(superlink, Node(node_id=1), 1)  # type: ignore[arg-type]
    called = message.metadata.reply_to_message_id
    incoming.expect(called)
    reply = incoming.pull({called: 10**6})[called]
    assert flaw in (reply.flaw or "")
    assert superlink.confirmed == [superlink.proto.metadata.message_id]


def test_mutated_pieces_make_a_reply_or_a_flaw() -> None:
    rng = np.random.default_rng(4)
    sent = call()
    flaws = 0
    for _ in range(100):
        superlink = Pieces(wire.answer_to(sent, {"loss": 1.0}, (np.zeros(100, np.float32),)))
        superlink.there = len(superlink.pieces)
        name = list(superlink.pieces)[int(rng.integers(superlink.there))]
        superlink.pieces[name] = mutated(superlink.pieces[name], rng)
        incoming = IncomingReplies(superlink, Node(node_id=1), 1)  # type: ignore[arg-type]
        incoming.expect(sent.metadata.message_id)
        (reply,) = incoming.pull({sent.metadata.message_id: 10**6}).values()
        answer = answer_of(Call(1, "train", {}), reply)
        flaws += answer.flaw is not None
    assert flaws > 20


def test_a_chunk_that_is_named_many_times_takes_no_memory() -> None:
    sent = call()
    superlink = Pieces(wire.answer_to(sent, {}, (np.zeros(1000, np.float32),)))
    superlink.there = len(superlink.pieces)
    (name,) = (name for name, piece in superlink.pieces.items() if piece.startswith(b"Array "))
    piece = superlink.pieces[name].replace(b'"arraychunk_ids": [0]', b'"arraychunk_ids": [%s0]' % (b"0," * 10**5))
    superlink.pieces[name] = piece
    incoming = IncomingReplies(superlink, Node(node_id=1), 1)  # type: ignore[arg-type]
    incoming.expect(sent.metadata.message_id)
    (reply,) = incoming.pull({sent.metadata.message_id: 10**6}).values()
    assert reply.flaw == "its reply is larger than 1000000 bytes"


def test_a_reply_that_the_superlink_cannot_deliver_stops_no_other() -> None:
    sent = call()
    superlink = Pieces(wire.answer_to(sent, {"y": 2}, ()))
    superlink.there = len(superlink.pieces)
    pull_messages = superlink.PullMessages

    def failing(request: Any) -> PullAppMessagesResponse:
        if "odd" in request.message_ids:
            answer = httpx.Response(500, request=httpx.Request("POST", "http://superlink"))
            raise httpx.HTTPStatusError("500", request=answer.request, response=answer)
        return pull_messages(request)

    superlink.PullMessages = failing  # type: ignore[method-assign]
    incoming = IncomingReplies(superlink, Node(node_id=1), 1)  # type: ignore[arg-type]
    name = sent.metadata.message_id
    incoming.expect(name)
    incoming.expect("odd")
    replies = incoming.pull({"odd": 10**6, name: 10**6})
    assert replies[name].content == {"y": 2}
    assert "fails to deliver it" in (replies["odd"].flaw or "")


def test_a_reply_abandoned_by_the_superlink_is_gone() -> None:
    sent = call()
    superlink = Pieces(wire.answer_to(sent, {"y": 2}, ()))
    incoming = IncomingReplies(superlink, Node(node_id=1), 1)  # type: ignore[arg-type]
    name = sent.metadata.message_id
    superlink.there = 1
    assert incoming.pull({name: 10**6}) == {}
    superlink.known = False
    failure = incoming.pull({name: 10**6})[name].failure
    assert failure is not None
    assert failure.kind == "gone"
    assert "did not send the whole reply" in failure.reason


def test_a_call_of_another_run_is_gone_and_the_others_are_fetched() -> None:
    sent = call()
    superlink = Pieces(wire.answer_to(sent, {"y": 2}, ()))
    superlink.there = len(superlink.pieces)
    pull_messages = superlink.PullMessages

    def refusing(request: Any) -> PullAppMessagesResponse:
        if "former" in request.message_ids:  # like a SuperLink that still holds the other run's messages
            answer = httpx.Response(500, request=httpx.Request("POST", "http://superlink"))
            raise httpx.HTTPStatusError("500", request=answer.request, response=answer)
        return pull_messages(request)

    superlink.PullMessages = refusing  # type: ignore[method-assign]
    incoming = IncomingReplies(superlink, Node(node_id=1), 1)  # type: ignore[arg-type]
    name = sent.metadata.message_id
    incoming.expect(name)
    replies = incoming.pull({"former": 10**6, name: 10**6})
    assert replies[name].content == {"y": 2}
    assert replies["former"].failure is not None
    assert replies["former"].failure.kind == "gone"


def test_a_client_gives_up_a_call_that_its_server_did_not_finish_sending(caplog: pytest.LogCaptureFixture) -> None:
    pieces, replies = Pieces(call()), []
    pieces.known = False

    def push(request: Any) -> PushMessagesResponse:
        replies.extend(request.messages_list)
        return PushMessagesResponse(session_id="s")

    superlink = SimpleNamespace(
        PullMessages=lambda request: PullMessagesResponse(
            messages_list=[pieces.proto], message_object_trees=[pieces.tree]
        ),
        PullObject=pieces.PullObject,
        ConfirmMessageReceived=pieces.ConfirmMessageReceived,
        PushMessages=push,
        PushObject=lambda request: PushObjectResponse(stored=True),
    )
    link: Any = _Link(superlink, Node(node_id=5), "here")  # type: ignore[arg-type]
    assert link._answer_one(None)
    (reply,) = map(message_from_proto, replies)
    failure = wire.reply_of(reply).failure
    assert failure is not None
    assert failure.kind == "gone"
    assert reply.metadata.reply_to_message_id == pieces.proto.metadata.message_id
    assert "did not arrive" in caplog.text
    assert pieces.confirmed == []


def test_a_client_stays_connected_if_the_run_of_its_answer_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    """The SuperLink then rejects whatever belongs to the run."""
    caplog.set_level("INFO")
    ended = {"code": int(ApiErrorCode.FLEET_RUN_STATUS_NOT_ALLOWED), "detail": "not allowed"}
    asked = []

    def pull(request: Any) -> PullMessagesResponse:
        asked.append(request)
        if len(asked) > 1:
            raise KeyboardInterrupt
        request = httpx.Request("POST", "http://superlink")
        httpx.Response(403, text=json.dumps(ended), request=request).raise_for_status()
        raise AssertionError

    link: Any = _Link(SimpleNamespace(PullMessages=pull), Node(node_id=5), "here")  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        link.work(None)
    assert "of a run that has ended" in caplog.text

"""Clients only reply, in their own name, and their text forges no lines in the SuperLink's log."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("flwr")

import httpx
from flwr.proto.fab_pb2 import GetFabRequest
from flwr.proto.message_pb2 import PullObjectRequest, PushObjectRequest

from fedtempo.deploy.client.settings import parse_client
from fedtempo.deploy.flower import node
from fedtempo.deploy.flower.guarded import SafeRecord, _indented, objection_to_push
from fedtempo.deploy.flower.superlink import started
from tests.deploy.live.deployments import real as config
from tests.deploy.processes import deployed, secured, wait_until

pytestmark = pytest.mark.deploy

FORGED = "x\n2026-01-01 ERROR fedtempo: FORGED \x1b[2J"

CALLS_IN_THE_SERVERS_NAME = """
import uuid
import httpx
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_push_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import push_objects
from flwr.supercore.task_identity import TaskIdentity
from fedtempo.deploy.flower import node, wire

send = node._Link._send

def forging(link, reply, took, run_id):
    for source in (1, link._node.node_id):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, source, 1
        records = wire._records({{"kind": "notice", "content": {{"rejected": "FORGED by mallory"}}}}, ())
        message = Message(records, int(open({target!r}).read()), "query", ttl=600.0, group_id=uuid.uuid4().hex)
        message.metadata.__dict__.update(_run_id=run_id, _src_node_id=source)
        message.metadata.__dict__["_message_id"] = message.object_id
        with no_object_id_recompute():
            objects, tree = get_all_nested_objects(message), get_object_tree(message)
            proto = message_to_proto(remove_content_from_message(message))
        request = PushMessagesRequest(
            node=link._node, messages_list=[proto], message_object_trees=[tree], clientapp_runtime_list=[0.0]
        )
        try:
            answer = link._client.PushMessages(request)
            push = make_push_object_fn_protobuf(link._client.PushObject, link._node, run_id, answer.session_id)
            push_objects(objects, push, object_ids_to_push=set(answer.objects_to_push))
            print("pushed as", source, flush=True)
        except httpx.HTTPStatusError as error:
            print("not pushed:", error.response.status_code, error.response.text, flush=True)
    send(link, reply, took, run_id)

node._Link._send = forging
"""


def test_a_client_calls_no_other_client_in_the_servers_name(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with secured(tmp_path, ["alice", "mallory"]) as link, link.client("alice") as alice:
        target.write_text(alice.says(r"connected to \S+ as node \d+", 200).rpartition(" ")[2])
        with link.client("mallory", before=CALLS_IN_THE_SERVERS_NAME.format(target=str(target))) as mallory:
            mallory.says("connected to", 200)
            summary = deployed(link, config(data__clients=2, run__max_commits=1), tmp_path / "run")
            mallory.says("(not )?pushed")
    assert "pushed as" not in mallory.text
    assert 'not pushed: 403 {"detail":"clients only reply"}' in mallory.text
    assert "FORGED" not in alice.text
    assert summary["commits"] == 1


@pytest.mark.parametrize(
    ("replies_to", "source", "count", "objection"),
    [
        ("m", 7, 1, None),
        ("", 7, 1, "clients only reply"),
        ("", 1, 1, "clients only reply"),
        ("m", 1, 1, "clients reply in their own name"),
        ("m", 8, 1, "clients reply in their own name"),
        ("m", 7, 0, "one message at a time"),
        ("m", 7, 2, "one message at a time"),
    ],
)
def test_what_a_client_may_push(replies_to: str, source: int, count: int, objection: str | None) -> None:
    message = SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id=replies_to, src_node_id=source))
    request = SimpleNamespace(
        node=SimpleNamespace(node_id=7), messages_list=[message] * count, message_object_trees=[None] * count
    )
    assert objection_to_push(request) == objection


def test_a_client_forges_no_line_of_the_superlinks_log(tmp_path: Path) -> None:
    log = tmp_path / "superlink.log"
    with started(tmp_path) as superlink:
        settings: Any = {"name": "e", "insecure": True, "superlink": superlink.address, "data": {"source": "digits"}}
        with node._connected(parse_client(settings), None) as link:
            client, own = link._client, link._node
            forged = PushObjectRequest(node=own, run_id=9, object_id=FORGED, object_content=b"x", session_id=FORGED)
            for call in (
                lambda: client.PushObject(forged),
                lambda: client.PullObject(PullObjectRequest(node=own, run_id=9, object_id=FORGED)),
                lambda: client.GetFab(GetFabRequest(node=own, run_id=9, hash_str=FORGED)),
            ):
                with pytest.raises(httpx.HTTPStatusError):
                    call()
        wait_until(lambda: "FORGED" in log.read_text(), 10.0)
    lines = log.read_text().splitlines()
    assert not [line for line in lines if line.startswith("2026-01-01")]
    assert [line for line in lines if r"x\n2026-01-01 ERROR fedtempo: FORGED \x1b[2J" in line]
    assert "\x1b[2J" not in log.read_text()


def test_text_in_an_exception_forges_no_line() -> None:
    class Safe(logging.Formatter):
        formatException = _indented(logging.Formatter.formatException)

    try:
        raise ValueError(FORGED)
    except ValueError:
        record = SafeRecord("flwr", logging.ERROR, __file__, 1, "%s", (FORGED,), sys.exc_info())
    first, *others = Safe("%(message)s").format(record).split("\n")
    assert first == r"x\n2026-01-01 ERROR fedtempo: FORGED \x1b[2J"
    assert others
    assert all(line.startswith("  ") for line in others)
    assert "\x1b" not in "".join(others)

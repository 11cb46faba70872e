"""Makes a client process send messages that no client sends: mutated fields, arrays, JSON text, pieces and requests.

Run before the client starts:
`from tests.deploy import fuzzing_client; fuzzing_client.begin(seed, counter, honest, poll_s)`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_id, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_push_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError, push_object_contents_from_iterable
from google.protobuf.message import DecodeError

from fedtempo.deploy.flower import node, wire
from fedtempo.deploy.live.messages import Failure, Reply
from tests.deploy.live.mutations import mutated_reply
from tests.test_fuzz import mutated

NESTED = "[" * 200_000


def begin(seed: int, counter: str, honest: int, poll_s: float) -> None:
    """Mutate what this process sends, after some honest messages.

    counter: file for the number of messages. poll_s: seconds between requests for new calls.
    """
    rng, sent = np.random.default_rng(seed), 0
    node._POLL_S = node._POLL_MAX_S = node._POLL_IDLE_S = poll_s
    records, send = wire._records, node._Link._send

    def odd_records(values: Any, arrays: Any) -> RecordDict:
        if sent < honest:
            return records(values, arrays)
        reply = mutated_reply(Reply(values, tuple(arrays)), rng) if rng.integers(10) else Reply(values, tuple(arrays))
        if isinstance(reply.failure, Failure):
            reply = Reply({"refused": reply.failure.reason})
        with contextlib.suppress(Exception):
            result = records(reply.content, reply.arrays)
            if rng.integers(4) == 0:
                text = str(result["told"]["json"]).encode()
                text = NESTED.encode() if rng.integers(20) == 0 else mutated(text, rng)
                result["told"] = ConfigRecord({"json": text.decode(errors="replace")})
            if "arrays" in result and rng.integers(4) == 0:
                result["arrays"] = ArrayRecord({"0": odd_array(result["arrays"].get("0"))})
            return result
        return records({"refused": "x"}, ())

    def odd_array(array: Any) -> Array:
        data = b"" if array is None else array.data
        stype = "numpy.ndarray" if rng.integers(5) else str(rng.choice(["", "torch.tensor", "\x1b[2J"]))
        at = int(rng.integers(4))
        if at == 0:
            data = b"PK\x03\x04" + data
        elif at == 1:
            data = data[:10] + data[10:128].replace(b"(610,)", b"(%d,)" % 10**15) + data[128:]
        else:
            data = mutated(data or b"x", rng)
        return Array(dtype="float32", shape=(10**15,), stype=stype, data=data)

    def odd_send(link: Any, reply: Any, took_s: float, run_id: int) -> None:
        nonlocal sent
        sent += 1
        Path(counter).write_text(str(sent))
        delivered = False
        if sent > honest and rng.integers(100) == 0:  # the SuperLink accepts some and never delivers them
            with contextlib.suppress(httpx.HTTPStatusError, ObjectPushError, ValueError, KeyError):
                delivered = send_pieces(link, reply, took_s, run_id)
        if not delivered:
            send(link, reply, took_s, run_id)

    def send_pieces(link: Any, reply: Any, took_s: float, run_id: int) -> bool:
        """Send a reply of which one piece, or the request itself, is changed; return whether it was accepted."""
        with no_object_id_recompute():
            pieces = {name: piece.deflate() for name, piece in get_all_nested_objects(reply).items()}
        root = reply.object_id
        changed = list(pieces)[int(rng.integers(len(pieces)))]
        head, _, body = pieces[changed].partition(b"\x00")
        body = mutated(body or b"x", rng)
        kind, children, _ = head.split(b" ")
        pieces[changed] = b" ".join([kind, children, str(len(body)).encode()]) + b"\x00" + body
        renamed: dict[str, str] = {}
        result: dict[str, bytes] = {}
        for name, content in pieces.items():  # children come before their parents
            for former, new in renamed.items():
                content = content.replace(former.encode(), new.encode())
            renamed[name] = get_object_id(content)
            result[renamed[name]] = content
        top = renamed[root]
        reply.metadata.__dict__["_message_id"] = top
        others = [ObjectTree(object_id=name) for name in result if name != top]
        bare = message_to_proto(remove_content_from_message(reply) if reply.has_content() else reply)
        request = PushMessagesRequest(
            node=link._node,
            messages_list=[bare],
            message_object_trees=[ObjectTree(object_id=top, children=others)],
            clientapp_runtime_list=[took_s if rng.integers(3) else float("nan")],
        )
        if rng.integers(3) == 0:
            field = str(rng.choice(["ttl", "created_at", "message_type", "group_id", "run_id", "dst_node_id"]))
            value = getattr(bare.metadata, field)
            setattr(request.messages_list[0].metadata, field, type(value)(-1 if not isinstance(value, str) else "\x1b"))
        elif rng.integers(3) == 0:
            with contextlib.suppress(DecodeError):
                request = PushMessagesRequest.FromString(mutated(request.SerializeToString(), rng))
        response = link._client.PushMessages(request)
        push = make_push_object_fn_protobuf(link._client.PushObject, link._node, run_id, response.session_id)
        wanted = {name: content for name, content in result.items() if name in response.objects_to_push}
        push_object_contents_from_iterable(wanted.items(), push)
        return bool(response.objects_to_push)

    wire._records = odd_records
    node._Link._send = odd_send  # type: ignore[method-assign]

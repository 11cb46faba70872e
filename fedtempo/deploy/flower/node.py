"""A client in one process, which keeps its data and model in memory and polls the SuperLink for calls."""

from __future__ import annotations

import contextlib
import logging
import random
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TypeVar

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Error, Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
    UnregisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    inflate_object_from_contents,
    pull_objects,
    push_objects,
)
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedtempo.deploy.client.answers import Answers, limit_memory
from fedtempo.deploy.client.settings import ClientSettings
from fedtempo.deploy.flower.wire import answer_to, read_call
from fedtempo.deploy.garbage import frequent_collections
from fedtempo.errors import ConfigError, RunError

log = logging.getLogger("fedtempo.client")

T = TypeVar("T")
Keys = tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]

_POLL_S, _POLL_MAX_S, _POLL_IDLE_S = 0.05, 0.4, 2.0
"""Shortest time between two polls, the longest within a few seconds of a call, and the longest of all."""
_POLL_SHARE = 0.05
"""Share of a long pause by which a poll may be late: many clients that wait for long would keep a SuperLink busy."""
_RETRY_S, _RETRY_MAX_S = 0.5, 30.0
_GONE = 3
"""Flower's error code for a missing message."""
_REFUSED_S = 120.0
"""Seconds of rejections after which a client gives up; the key of a killed client is rejected for a minute."""


class _Ended(BaseException):
    """The process received a signal to end."""


class _Refused(Exception):
    """The SuperLink rejects this client."""


def serve(settings: ClientSettings) -> None:
    """Serve a SuperLink until SIGTERM or Ctrl-C. Reconnects with back-off, without a limit.

    Raises ConfigError for unusable settings (data, key, certificate), RunError if the SuperLink keeps rejecting the
    client. Must run in the main thread.
    """
    limit_memory(settings.limits.memory_mb)
    answers = Answers(settings)
    log.info("client %s %s; serving %s", settings.name, answers.about_examples, settings.superlink)
    keys = _read_key(settings.private_key)
    try:
        ssl.create_default_context(cafile=settings.root_certificates)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"root_certificates = {settings.root_certificates}: invalid PEM file: {error}") from error
    delay, refused_since = _RETRY_S, None
    with contextlib.suppress(_Ended), _ended_by_signals(), frequent_collections():
        while True:
            try:
                with _connected(settings, keys) as link:
                    delay, refused_since = _RETRY_S, None
                    link.work(answers)
            except _Refused as error:
                refused_since = refused_since or time.monotonic()
                if time.monotonic() - refused_since > _REFUSED_S:
                    raise RunError(f"SuperLink {settings.superlink} rejects client {settings.name}: {error}") from error
                _pause(settings.superlink, error, delay)
            except httpx.HTTPError as error:
                if _is_unsafe(error):
                    raise ConfigError(
                        f"root_certificates = {settings.root_certificates}: no safe connection to "
                        f"{settings.superlink}: {error}"
                    ) from error
                _pause(settings.superlink, error, delay)
            delay = min(2 * delay, _RETRY_MAX_S)
    log.info("client %s ended", settings.name)


def next_delay(delay: float, pause_s: float) -> float:
    """Return how long to wait for the next poll. delay: before the last one. pause_s: since the last call, seconds."""
    return min(1.25 * delay, max(_POLL_MAX_S, min(_POLL_SHARE * pause_s, _POLL_IDLE_S)))


class _Link:
    """A registered and active node at a SuperLink. address: of the SuperLink, for the log."""

    def __init__(self, client: FleetHttpClient, node: Node, address: str) -> None:
        self._client, self._node, self._address = client, node, address

    def work(self, answers: Answers) -> None:
        """Answer calls, one at a time, until the SuperLink no longer knows the node."""
        delay, since = _POLL_S, time.monotonic()
        while True:
            try:
                answered = self._answer_one(answers)
            except httpx.HTTPStatusError as error:
                if not _run_has_ended(error):
                    raise
                log.info("dropped a call, or its answer, of a run that has ended")
                answered = True
            if answered:
                delay, since = _POLL_S, time.monotonic()
            else:
                time.sleep(delay)
                delay = next_delay(delay, time.monotonic() - since)

    def _answer_one(self, answers: Answers) -> bool:
        response = self._patiently(lambda: self._client.PullMessages(PullMessagesRequest(node=self._node)))
        if not response.messages_list:
            return False
        head, tree = message_from_proto(response.messages_list[0]), response.message_object_trees[0]
        run_id, message_id = head.metadata.run_id, head.metadata.message_id
        pull = make_pull_object_fn_protobuf(self._client.PullObject, self._node, run_id)
        object_ids = [node.object_id for node in iterate_object_tree(tree)]
        try:
            objects = self._patiently(lambda: pull_objects(object_ids, pull_object_fn=pull))
        except ObjectPullError as error:  # the server was killed while sending: the SuperLink has waited three minutes
            log.warning("dropped a call whose content did not arrive: %s", error)
            gone = Message(Error(_GONE, str(error)), reply_to=head)
            self._patiently(lambda: self._send(gone, 0.0, run_id))
            return True
        confirm = make_confirm_message_received_fn_protobuf(self._client.ConfirmMessageReceived, self._node, run_id)
        self._patiently(lambda: confirm(message_id))
        with no_object_id_recompute():
            message = inflate_object_from_contents(message_id, objects)
        assert isinstance(message, Message)
        message.metadata.__dict__["_message_id"] = message_id
        began = time.perf_counter()
        try:
            reply = answer_to(message, *answers.answer(*read_call(message)))
        except Exception as error:  # an invalid message must not stop the client
            log.exception("a call failed")
            reply = Message(Error(2, f"{type(error).__name__}: {error}"), reply_to=message)
        took_s = time.perf_counter() - began
        self._patiently(lambda: self._send(reply, took_s, run_id))
        return True

    def _patiently(self, operation: Callable[[], T]) -> T:
        """Retry while the SuperLink is away: one that keeps its state still knows the node and its call afterwards."""
        delay, away = _RETRY_S, False
        while True:
            try:
                result = operation()
            except httpx.HTTPError as error:
                if not _is_away(error):
                    raise
                _pause(self._address, error, delay)
                delay, away = min(2 * delay, _RETRY_MAX_S), True
            else:
                if away:
                    log.info("connected to %s again", self._address)
                return result

    def _send(self, reply: Message, took_s: float, run_id: int) -> None:
        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            objects, tree = get_all_nested_objects(reply), get_object_tree(reply)
            bare = remove_content_from_message(reply) if reply.has_content() else reply
            response = self._client.PushMessages(
                PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(bare)],
                    message_object_trees=[tree],
                    clientapp_runtime_list=[took_s],
                )
            )
            push = make_push_object_fn_protobuf(self._client.PushObject, self._node, run_id, response.session_id)
            try:
                push_objects(objects, push, object_ids_to_push=set(response.objects_to_push))
            except ObjectPushError as error:  # the run has ended, or the SuperLink has lost its state
                log.warning("dropped an answer that the SuperLink does not accept: %s", error)


@contextlib.contextmanager
def _connected(settings: ClientSettings, keys: Keys | None) -> Iterator[_Link]:
    """Activate a node inside the block; without keys, also register it and unregister it at the end."""
    private, public = keys or generate_key_pairs()
    public_key = public_key_to_bytes(public)
    with FleetHttpClient.from_server_address(
        settings.superlink,
        settings.insecure,
        settings.root_certificates,
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="SuperNode"),
            NodeAuthHttpInterceptor(private, public),
        ],
    ) as client:
        try:
            if keys is None:
                client.RegisterNode(RegisterNodeFleetRequest(public_key=public_key))
            activated = client.ActivateNode(
                ActivateNodeRequest(public_key=public_key, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL)
            )
        except httpx.HTTPStatusError as error:
            reason = FlowerError.from_json(error.response.text)
            raise _Refused(f"[code: {reason.code}] {reason.message}" if reason else str(error)) from error
        node = Node(node_id=activated.node_id)
        log.info("connected to %s as node %d", settings.superlink, node.node_id)
        heartbeat = HeartbeatSender(lambda: _send_heartbeat(client, node))
        heartbeat.start()
        try:
            yield _Link(client, node, settings.superlink)
        finally:
            if heartbeat.is_running:
                heartbeat.stop()
            with contextlib.suppress(httpx.HTTPError, RuntimeError):
                client.DeactivateNode(DeactivateNodeRequest(node_id=node.node_id))
                if keys is None:
                    client.UnregisterNode(UnregisterNodeFleetRequest(node_id=node.node_id))


def _pause(address: str, error: Exception, delay_s: float) -> None:
    """Wait before the next try, with jitter so that a server's clients do not all return at the same time."""
    if isinstance(error, _Refused):
        what = "rejected"
    elif isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        what = f"{address} received too many requests"
    else:
        what = f"no connection to {address}"
    log.warning("%s: %s; trying again in %.1f s", what, error, delay_s)
    time.sleep(delay_s * random.uniform(0.8, 1.2))  # noqa: S311


def _is_unsafe(error: httpx.HTTPError) -> bool:
    return any(word in str(error).lower() for word in ("certificate", "ssl", "tls"))


def _is_away(error: httpx.HTTPError) -> bool:
    """Return whether there is no answer, or only a proxy's: no server behind it, or too many requests."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in (429, 502, 503, 504)
    return not _is_unsafe(error)


def _run_has_ended(error: httpx.HTTPStatusError) -> bool:
    """Return whether the SuperLink rejects a request since it belongs to a run that has ended."""
    reason = FlowerError.from_json(error.response.text)
    return reason is not None and reason.code == ApiErrorCode.FLEET_RUN_STATUS_NOT_ALLOWED


def _send_heartbeat(client: FleetHttpClient, node: Node) -> bool:
    """Send a heartbeat; return whether it succeeded. If the node is no longer known, its next call fails."""
    try:
        client.SendNodeHeartbeat(SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL))
    except httpx.HTTPError:
        return False
    return True


def _read_key(path: str | None) -> Keys | None:
    if path is None:
        return None
    try:
        private = load_ssh_private_key(Path(path).read_bytes(), None)
    except OSError as error:
        raise ConfigError(f"private_key = {path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"private_key = {path}: not a key in OpenSSH format: {error}") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"private_key = {path}: must be an elliptic-curve key, like those of `fedtempo keys`")
    return private, private.public_key()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Raise _Ended inside the block on SIGTERM or Ctrl-C, once, even in the middle of a visit."""

    def end(number: int, frame: FrameType | None) -> None:
        for handled in former:
            signal.signal(handled, signal.SIG_IGN)
        raise _Ended

    former: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}
    for handled in (signal.SIGTERM, signal.SIGINT):
        former[handled] = signal.signal(handled, end)
    try:
        yield
    finally:
        for handled, handler in former.items():
            signal.signal(handled, handler)

"""The grid of a run at a SuperLink: the run is submitted, its server task acquired, and calls are carried over it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from flwr.common.constant import SubStatus
from flwr.common.serde import context_from_proto, fab_to_proto, run_from_proto, user_config_to_proto
from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, StartRunRequest
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.run_pb2 import Run
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import NodeStatus, TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.retry import RetryInvoker, exponential
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from fedtempo.deploy.addresses import split
from fedtempo.deploy.flower.app import bundle
from fedtempo.deploy.flower.control_secret import HEADER, proof
from fedtempo.deploy.flower.incoming import IncomingReplies
from fedtempo.deploy.flower.wire import message_of
from fedtempo.deploy.live.messages import Call, GridError, Reply, Sender
from fedtempo.errors import ConfigError, RunError

T = TypeVar("T")

_AWAY = (502, 503, 504)
_PUSHES, _PUSH_AGAIN_S = 5, 0.5
"""How often a call is sent if the SuperLink is interrupted meanwhile, and seconds before it is sent again."""
_ACQUIRE_S = 30.0
"""Seconds within which the server task of a submitted run must be acquired."""


@dataclass(frozen=True)
class SuperLink:
    """A SuperLink's address, host:port. Raises ConfigError if it is none.

    root_certificates: PEM file of the authority that signed its certificate; None: no TLS. secret: of its control
    interface; None if it asks for none.
    """

    address: str
    root_certificates: Path | None = None
    secret: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            split(self.address)
        except ValueError as error:
            raise ConfigError(f"superlink = {self.address!r}: {error}") from error

    @property
    def insecure(self) -> bool:
        return self.root_certificates is None

    @property
    def certificates(self) -> bytes | None:
        """Content of the PEM file; None without TLS. Raises ConfigError if the file cannot be read."""
        if self.root_certificates is None:
            return None
        try:
            return self.root_certificates.read_bytes()
        except OSError as error:
            raise ConfigError(f"root_certificates = {self.root_certificates}: {error.strerror}") from error


@dataclass(frozen=True)
class Session:
    """Credentials with which a process acts as the server of a run at a SuperLink; the token is secret.

    run: Flower's description of the run, as bytes in base64.
    """

    token: str
    run_id: int
    task_id: int
    node_id: int
    run: str


class FlowerGrid:
    """Implements `Grid`. Operations are retried while the SuperLink is away, for the `outage_s` of `joined`."""

    def __init__(self, grid: HttpGrid, superlink: SuperLink, session: Session, names: Iterable[NodeInfo] = ()) -> None:
        """names: the nodes that are registered at the SuperLink."""
        self._grid, self._superlink, self.session = grid, superlink, session
        self._replies = IncomingReplies(grid._runtime_client, grid.node, session.run_id)
        self.interruptions = 0
        self._registered: dict[int, str] = registered_names(names)
        """The names for which keys were registered, by the nodes of these keys."""

    def node_ids(self) -> list[int]:
        nodes = self._translated(lambda: list(self._grid.get_nodes()))
        self._registered |= registered_names(nodes)
        return [node.node_id for node in nodes]

    def sender(self, node: int) -> Sender:
        return Sender(self._registered.get(node), frozenset(self._registered.values()))

    def push(self, call: Call) -> str | None:
        """Send a call; see `Grid`. If it is unknown whether the SuperLink has it, send it once more, as a new message.

        A client that gets both answers the second from memory. Raises GridError if the SuperLink stores none of them.
        """
        for attempt in range(_PUSHES):
            interruptions = self.interruptions
            try:
                names: list[str] = self._translated(lambda: list(self._grid.push_messages([message_of(call)])))
            except ObjectPushError:  # its answer to a piece was lost, so it refuses the same piece again
                time.sleep(_PUSH_AGAIN_S * 2**attempt)
                continue
            if names and names[0]:
                self._replies.expect(names[0])
                return names[0]
            if self.interruptions == interruptions:
                return None
        raise GridError(f"SuperLink {self._superlink.address} does not store a call after {_PUSHES} tries; see its log")

    def pull(self, names: Mapping[str, int]) -> dict[str, Reply]:
        return self._translated(lambda: self._replies.pull(names))

    def close(self) -> None:
        self._grid.close()

    def interrupted(self, _: object) -> None:
        """Count an operation that must be retried."""
        self.interruptions += 1

    def _translated(self, operation: Callable[[], T]) -> T:
        """Perform an operation and raise its network errors as GridError."""
        try:
            return operation()
        except httpx.HTTPError as error:
            why: object = error
            if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.UNAUTHORIZED:
                why = why_ended(self._superlink, self.session.run_id)
            raise GridError(f"SuperLink {self._superlink.address}: {why}") from error
        except RunNotRunningException as error:
            why = why_ended(self._superlink, self.session.run_id)
            raise GridError(f"SuperLink {self._superlink.address}: {why}") from error


@contextlib.contextmanager
def joined(superlink: SuperLink, outage_s: float, former: Session | None = None) -> Iterator[FlowerGrid]:
    """Yield the grid of a run at `superlink`, which must run with `--isolation process`. One at a time per process.

    outage_s: seconds for which operations are retried while the SuperLink is away. former: session of a run whose
    server was killed; the run is rejoined if the SuperLink still has it (for about a minute), else a new one is
    submitted. Raises RunError if the SuperLink cannot be reached.
    """
    certificates = superlink.certificates
    grid, session = (None, None) if former is None else (_rejoined(superlink, certificates, former), former)
    if grid is None or session is None:
        try:
            grid, session = _submitted(superlink, certificates)
        except httpx.HTTPStatusError as error:
            raise rejected(superlink, "the run", error) from error
        except httpx.HTTPError as error:
            raise RunError(f"SuperLink {superlink.address} cannot be reached: {error}") from error
    flower_grid = FlowerGrid(grid, superlink, session, registered_nodes(superlink))
    client = grid._runtime_client
    grid._retry_invoker = client._retry_invoker = _retry_invoker(outage_s, flower_grid.interrupted)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = session.task_id, session.run_id, session.node_id
    heartbeat = HeartbeatSender(lambda: _send_heartbeat(client))
    heartbeat.start()
    status = "failed"
    try:
        yield flower_grid
        status = "completed"
    finally:
        with contextlib.suppress(RuntimeError):
            heartbeat.stop()
        grid._retry_invoker.max_time = 0.0
        with contextlib.suppress(httpx.HTTPError, RunNotRunningException):
            client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))
        grid.close()
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = None


def _submitted(superlink: SuperLink, certificates: bytes | None) -> tuple[HttpGrid, Session]:
    """Submit a run and acquire its server task."""
    run_id = _submit(superlink)
    token = _acquire(superlink, certificates, run_id)
    grid = _http_grid(superlink, certificates, token)
    task = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
    node_id = context_from_proto(task.context).node_id
    grid.set_run(run_from_proto(task.run))
    description = base64.b64encode(task.run.SerializeToString()).decode()
    return grid, Session(token, task.run.run_id, task.task_id, node_id, description)


def _http_grid(superlink: SuperLink, certificates: bytes | None, token: str) -> HttpGrid:
    grid = HttpGrid(superlink.address, insecure=superlink.insecure, root_certificates=certificates, token=token)
    grid._retry_invoker = _retry_invoker(
        _ACQUIRE_S
    )  # before it connects: Flower's own invoker ends the process on a refusal
    return grid


def _rejoined(superlink: SuperLink, certificates: bytes | None, former: Session) -> HttpGrid | None:
    """Return the grid of a run submitted before; None if the SuperLink has ended it or does not know it."""
    grid = _http_grid(superlink, certificates, former.token)
    grid.set_run(run_from_proto(Run.FromString(base64.b64decode(former.run))))
    try:
        grid.get_node_ids()
    except (httpx.HTTPError, RunNotRunningException):
        grid.close()
        return None
    return grid


def control(superlink: SuperLink) -> ControlHttpClient:
    """Return a client of the SuperLink's control interface, where runs are submitted and keys registered."""
    return ControlHttpClient.from_server_address(
        server_address=superlink.address,
        insecure=superlink.insecure,
        root_certificates=superlink.certificates,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI"), *_with_secret(superlink)],
    )


def registered_nodes(superlink: SuperLink) -> list[NodeInfo]:
    """Return the nodes registered at a SuperLink. Raises RunError if it does not say."""
    client = control(superlink)
    try:
        return listed_nodes(client)
    except httpx.HTTPStatusError as error:
        raise rejected(superlink, "the list of its nodes", error) from error
    except httpx.HTTPError as error:
        raise RunError(f"SuperLink {superlink.address} does not list its nodes: {error}") from error
    finally:
        client.close()


def listed_nodes(client: ControlHttpClient) -> list[NodeInfo]:
    """Return the nodes registered at a SuperLink, asked through its control interface. Raises httpx.HTTPError."""
    nodes = client.ListNodes(ListNodesRequest()).nodes_info
    return [node for node in nodes if node.status != NodeStatus.UNREGISTERED]


def registered_names(nodes: Iterable[NodeInfo]) -> dict[int, str]:
    """Return the names for which the keys of nodes were registered, by the nodes' numbers."""
    return {node.node_id: node.name for node in nodes if node.name}


def why_ended(superlink: SuperLink, run_id: int) -> str:
    """Return why a SuperLink no longer knows the server of a run, in words."""
    client = control(superlink)
    try:
        status = client.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id].status.sub_status
    except (httpx.HTTPError, KeyError):
        status = ""
    finally:
        client.close()
    stopped = "the run was stopped there, by `flwr stop` or another program that may control it"
    abandoned = "it abandoned the run after a minute without its server"
    why = {SubStatus.STOPPED: stopped, SubStatus.FAILED: abandoned}.get(status, f"{stopped}, or {abandoned}")
    return f"{why}; continue with `fedtempo resume`"


def rejected(superlink: SuperLink, what: object, error: httpx.HTTPStatusError) -> RunError:
    """Return the error for a request to the control interface that the SuperLink rejects."""
    why = error.response.text.strip() or str(error)
    if error.response.status_code == httpx.codes.UNAUTHORIZED:
        why += "; set deploy.control_secret to the file with the secret of this SuperLink"
    return RunError(f"SuperLink {superlink.address} rejects {what}: {why}")


class _Secret:
    """Interceptor that shows that this program has the secret of the control interface."""

    def __init__(self, secret: str, port: int | None) -> None:
        self._secret, self._port = secret, port

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]) -> httpx.Response:
        context.request.headers[HEADER] = proof(self._secret, self._port)
        return call_next(context)


def _with_secret(superlink: SuperLink) -> list[_Secret]:
    if superlink.secret is None:
        return []
    return [_Secret(superlink.secret, split(superlink.address)[1] if superlink.insecure else None)]


def _submit(superlink: SuperLink) -> int:
    """Submit a run and return its number."""
    content = bundle()
    fab = fab_to_proto(Fab(hashlib.sha256(content).hexdigest(), content, {}))
    client = control(superlink)
    try:
        response = client.StartRun(
            StartRunRequest(fab=fab, override_config=user_config_to_proto({}), federation="", app_spec="")
        )
    finally:
        client.close()
    return int(response.run_id)


def _acquire(superlink: SuperLink, certificates: bytes | None, run_id: int) -> str:
    """Acquire the server task of a run and return its token, with which the run's grid can be used."""
    client = RuntimeHttpClient.from_server_address(
        server_address=superlink.address,
        insecure=superlink.insecure,
        root_certificates=certificates,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), *_with_secret(superlink)],
    )
    until = time.monotonic() + _ACQUIRE_S
    try:
        while time.monotonic() < until:
            acquired = client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
            if acquired.HasField("task") and acquired.token:
                if acquired.task.run_id != run_id:
                    raise RunError(
                        f"SuperLink {superlink.address}: run {acquired.task.run_id} waits there; `flwr stop` ends it"
                    )
                return str(acquired.token)
            time.sleep(0.1)
    finally:
        client.close()
    raise RunError(f"SuperLink {superlink.address}: another process took the run; start it with `--isolation process`")


def _retry_invoker(outage_s: float, on_backoff: Callable[[object], None] | None = None) -> RetryInvoker:
    """Return an invoker that retries while the SuperLink is away. Unlike Flower's own, it sends no signals.

    on_backoff: called before each retry.
    """

    def is_final(error: Exception) -> bool:
        if isinstance(error, httpx.HTTPStatusError):
            return error.response.status_code not in _AWAY
        return any(word in str(error).lower() for word in ("certificate", "ssl", "tls"))

    return RetryInvoker(
        wait_gen_factory=lambda: exponential(max_delay=5),
        recoverable_exceptions=(httpx.TransportError, httpx.HTTPStatusError),
        max_tries=None,
        max_time=outage_s,
        on_backoff=on_backoff,
        should_giveup=is_final,
    )


def _send_heartbeat(client: RuntimeHttpClient) -> bool:
    """Send the SuperLink a heartbeat of the run's server; return whether it succeeded."""
    try:
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    except httpx.HTTPError:
        return False
    return True

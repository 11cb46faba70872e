"""How clients join a run, before and after it begins: every node is asked to describe its client."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedtempo.deploy.live.announced import objections
from fedtempo.deploy.live.bounds import BadUpdate
from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.messages import NO_NAMES, Answer, Call, DataNames, Grid, Reply, nothing
from fedtempo.deploy.live.operations import Operations
from fedtempo.deploy.live.replies import answer_of
from fedtempo.deploy.live.roster import Description, Roster, as_clients
from fedtempo.errors import ConfigError, RunError
from fedtempo.parts.inputs import InputShape

DESCRIBE_S = 60.0
"""Seconds within which a node must describe its client."""

SILENT_S = 20.0
"""Seconds without a description after which the log mentions a node."""

SETTLED_S = 40.0
"""Seconds without a new node after which a resumed run waits no longer; clients retry every 36 seconds or sooner."""

_POLL_S = 0.1
"""Seconds between two polls for clients, before the run."""

log = logging.getLogger("fedtempo.run")


@dataclass(frozen=True)
class Admission:
    """What a run demands of the clients that join it.

    names: if given, only clients with these names may join before the run. shape: of an example, task: which labels
    must fit, n_classes: of the server's data; None for anything. data_names: of the server's data. most_times: how
    many times as many examples as the median of the others a client may announce.
    """

    names: Collection[str] = ()
    shape: InputShape | None = None
    task: str | None = None
    n_classes: int | None = None
    data_names: DataNames = NO_NAMES
    most_times: float = math.inf

    def call(self, node: int) -> Call:
        """Return the call that asks a node to describe its client; its result is a description as JSON values."""
        return Call(node, "describe", self.data_names.all, ttl_s=DESCRIBE_S, check=self.read)

    def read(self, reply: Reply) -> dict[str, Any]:
        """Return the description in a reply as JSON values. Raises BadUpdate for a client that cannot take part."""
        try:
            description = Description.read(reply.content)
        except ConfigError as error:
            raise BadUpdate(str(error)) from error
        name, histogram = description.name, description.label_histogram
        if (objection := reply.sender.objection_to(name)) is not None:
            raise BadUpdate(f"client {name}: {objection}")
        if self.shape is not None and description.input_shape != self.shape:
            raise BadUpdate(f"client {name}: its examples have shape {description.input_shape}, not {self.shape}")
        if self.task is not None and description.task != self.task:
            raise BadUpdate(f"client {name}: its labels are {description.task}, not {self.task}")
        if histogram is not None and self.n_classes is not None:
            if len(histogram) > self.n_classes:
                raise BadUpdate(
                    f"client {name}: it has examples of {len(histogram)} classes; the server's data have "
                    f"{self.n_classes}"
                )
            # A client whose data lack the last classes does not know of them.
            description = replace(description, label_histogram=(*histogram, *[0] * (self.n_classes - len(histogram))))
        return asdict(description)

    def objections(self, joined: Mapping[str, JoinedClient]) -> dict[str, str]:
        """Return why clients cannot take part beside the others that have joined, by name."""
        return objections({name: client.description.num_examples for name, client in joined.items()}, self.most_times)


@dataclass(frozen=True)
class JoinedClient:
    """A client that has joined: its node and its description."""

    node: int
    description: Description


def wait_for_clients(
    grid: Grid,
    wanted: int,
    wait_s: float,
    admission: Admission = Admission(),
    *,
    at_least: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[JoinedClient]:
    """Wait until `wanted` clients have joined, for at most `wait_s` seconds; return them in the order of their names.

    admission: which clients may join. at_least: number of clients that suffices once the time has passed (default:
    `wanted`). say: receives a line for every client that joins or is rejected. Raises RunError if too few clients join.
    """
    joined: dict[str, JoinedClient] = {}
    pending: dict[str, Call] = {}
    """Calls that ask a node to describe its client, by their names."""
    asked_nodes: set[int] = set()
    warn_at: dict[int, float] = {}
    """When to mention that a node has not answered, by its number."""
    rejected = 0

    def reject(node: int, reason: str) -> None:
        nonlocal rejected
        rejected += 1
        say(f"node {node} rejected: {reason}")
        grid.push(_notice(node, reason))

    def compare() -> None:
        for name, reason in admission.objections(joined).items():
            reject(joined.pop(name).node, reason)

    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        if len(joined) >= wanted:
            compare()
        if len(joined) >= wanted:
            break
        online = set(grid.node_ids())
        # a node that left and returned has the same number: ask again
        asked_nodes &= online | {call.node for call in pending.values()}
        for node in online - asked_nodes:
            call = admission.call(node)
            if (name := grid.push(call)) is not None:
                asked_nodes.add(node)
                pending[name] = call
                warn_at.setdefault(node, time.monotonic() + SILENT_S)
        largest = {name: call.reply_bytes for name, call in pending.items()}
        for name, reply in (grid.pull(largest) if pending else {}).items():
            if (asked := pending.pop(name, None)) is None:
                continue
            node = asked.node
            answer = answer_of(asked, replace(reply, sender=grid.sender(node)))
            if answer.failure is not None and answer.failure.kind == "gone":
                asked_nodes.discard(node)
                continue
            reason = answer.refusal or answer.flaw
            if answer.failure is not None:
                reason = f"it cannot describe its client: {answer.failure.reason}"
            if reason is None:
                description = Description.restored(answer.result)
                if admission.names and description.name not in admission.names:
                    reason = f"client {description.name}: its name is not in deploy.names"
                elif description.name in joined and joined[description.name].node in online - {node}:
                    reason = f"client {description.name}: another node has joined under this name"
                else:
                    joined[description.name] = JoinedClient(node, description)
                    say(f"client {description.name}: {description.num_examples} examples ({len(joined)} of {wanted})")
            if reason is not None:
                reject(node, reason)
        for node in [call.node for call in pending.values() if time.monotonic() >= warn_at[call.node]]:
            warn_at[node] = math.inf
            say(no_description(node, SILENT_S))
        time.sleep(_POLL_S)
    compare()
    if len(joined) < (wanted if at_least is None else at_least):
        rejected_too = f" ({rejected} rejected)" if rejected else ""
        raise RunError(
            f"{len(joined)} of {wanted} clients joined within {wait_s:g} s{rejected_too}: start the others, or change "
            "data.clients, deploy.wait_s or deploy.min_clients"
        )
    order = as_clients(client.description for client in joined.values())
    return [joined[client.name] for client in order]


def wait_for_nodes(grid: Grid, wanted: int, wait_s: float, say: Callable[[str], None]) -> None:
    """Wait until `wanted` nodes are online: as many as when the run was interrupted, since others may stay away.

    A resumed run continues with fewer too, after `wait_s` seconds or if none comes for `SETTLED_S` seconds.
    """
    until = time.monotonic() + wait_s
    most, settled_at = 0, math.inf
    while (online := len(grid.node_ids())) < wanted and time.monotonic() < min(until, settled_at):
        if online > most:
            most, settled_at = online, time.monotonic() + SETTLED_S
        time.sleep(_POLL_S)
    say(f"{online} clients are online, of {wanted} when the run was interrupted")


def no_description(node: int, seconds: float) -> str:
    """Return the line about a node that has not described its client for `seconds`."""
    return f"node {node} is online but has not described its client for {seconds:g} s: it is busy, or hangs"


def _notice(node: int, reason: str) -> Call:
    """Return the call that tells a node why its client cannot take part."""
    return Call(node, "notice", {"rejected": reason}, ttl_s=DESCRIBE_S, check=nothing)


class LateJoiners:
    """Asks nodes that come online during a run to describe their client, and updates the roster.

    admission: which clients may join. operations: sends the requests to nodes; set before the first `look`.
    """

    operations: Operations

    def __init__(self, loop: RunLoop, roster: Roster, admission: Admission) -> None:
        self._loop, self._roster, self._admission = loop, roster, admission
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked_nodes: set[int] = set()
        self._warned_nodes: set[int] = set()
        self._rejected_nodes: set[int] = set()

    def look(self, nodes: Sequence[int]) -> None:
        """Ask those of the nodes now online that are new to describe their client."""
        for node in self._roster.update(nodes):
            if node not in self._asked_nodes:
                self._asked_nodes.add(node)
                task = self._loop.create_task(self._ask(node))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Stop waiting for descriptions."""
        for task in self._tasks:
            task.cancel()

    async def _ask(self, node: int) -> None:
        operation = self.operations.call(self._admission.call(node))
        try:
            await asyncio.wait([operation.future], timeout=SILENT_S)
            if not operation.future.done():
                self._warn(node, no_description(node, SILENT_S))
                await asyncio.wait([operation.future], timeout=DESCRIBE_S - SILENT_S)
            if not operation.future.done() or operation.future.exception() is not None:
                return
            answer: Answer = operation.future.result()
            if answer.result is not None:  # else it is not a client of this run
                introduced = self._roster.introduce(node, Description.restored(answer.result))
                if introduced.replaced is not None:
                    self.operations.hang_up(introduced.replaced)
                if introduced.objection is not None:
                    self._reject(node, introduced.objection)
            elif (reason := answer.flaw or answer.refusal) is not None:
                self._reject(node, reason)
        finally:
            self._asked_nodes.discard(node)

    def _reject(self, node: int, reason: str) -> None:
        """Log once, here and at the client, why a node cannot take part."""
        if node not in self._rejected_nodes:
            self._rejected_nodes.add(node)
            self.operations.call(_notice(node, reason)).wanted = False
            self._warn(node, f"node {node} rejected: {reason}")

    def _warn(self, node: int, line: str) -> None:
        """Log one warning per node, and none while a resumed run is replayed."""
        if self._loop.live and node not in self._warned_nodes:
            self._warned_nodes.add(node)
            log.warning("%s", line)

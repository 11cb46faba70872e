"""How clients join a run, before and after it begins: every node is asked to describe its client."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.messages import NO_NAMES, Answer, Call, DataNames, Grid
from fedtempo.deploy.live.operations import Operations
from fedtempo.deploy.live.roster import Description, Roster, as_clients, read_description
from fedtempo.errors import ConfigError, RunError
from fedtempo.parts.inputs import InputShape

DESCRIBE_S = 60.0
"""Seconds within which a node must describe its client."""

SILENT_S = 20.0
"""Seconds without a description after which the log mentions a node."""

_POLL_S = 0.1
"""Seconds between two polls for clients, before the run."""

log = logging.getLogger("fedtempo.run")


@dataclass(frozen=True)
class JoinedClient:
    """A client that has joined: its node and its description."""

    node: int
    description: Description


def wait_for_clients(
    grid: Grid,
    wanted: int,
    wait_s: float,
    *,
    at_least: int | None = None,
    names: Collection[str] = (),
    shape: InputShape | None = None,
    task: str | None = None,
    data_names: DataNames = NO_NAMES,
    say: Callable[[str], None] = lambda _: None,
) -> list[JoinedClient]:
    """Wait until `wanted` clients have joined, for at most `wait_s` seconds; return them in the order of their names.

    at_least: number of clients that suffices once the time has passed (default: `wanted`). names: if given, only
    clients with these names are accepted. shape, task: required shape of an example, and the task that labels must fit.
    data_names: of the server's data. say: receives a line for every client that joins or is
    rejected. Raises RunError if too few clients join.
    """
    joined: dict[str, JoinedClient] = {}
    pending: dict[str, int] = {}
    """Nodes that were asked to describe their client, by the name of the call."""
    asked_nodes: set[int] = set()
    warn_at: dict[int, float] = {}
    """When to mention that a node has not answered, by its number."""
    rejected = 0
    until = time.monotonic() + wait_s
    while len(joined) < wanted and time.monotonic() < until:
        online = set(grid.node_ids())
        asked_nodes &= online | set(pending.values())  # a node that left and returned has the same number: ask again
        for node in online - asked_nodes:
            call = Call(node, "describe", data_names.all, ttl_s=DESCRIBE_S)
            if (name := grid.push(call)) is not None:
                asked_nodes.add(node)
                pending[name] = node
                warn_at.setdefault(node, time.monotonic() + SILENT_S)
        for name, reply in (grid.pull(list(pending)) if pending else {}).items():
            node = pending.pop(name)
            if reply.failure is not None and reply.failure.kind == "gone":
                asked_nodes.discard(node)
                continue
            try:
                if reply.failure is not None:
                    raise ConfigError(f"it cannot describe its client: {reply.failure.reason}")
                if "refused" in reply.content:
                    raise ConfigError(str(reply.content["refused"]))
                description = Description.read(reply.content)
                if shape is not None and description.input_shape != shape:
                    raise ConfigError(
                        f"client {description.name}: its examples have shape {description.input_shape}, not {shape}"
                    )
                if task is not None and description.task != task:
                    raise ConfigError(f"client {description.name}: its labels are {description.task}, not {task}")
                if names and description.name not in names:
                    raise ConfigError(f"client {description.name}: its name is not in deploy.names")
                if description.name in joined and joined[description.name].node in online - {node}:
                    raise ConfigError(f"client {description.name}: another node has joined under this name")
            except ConfigError as error:
                rejected += 1
                say(f"node {node} rejected: {error}")
            else:
                joined[description.name] = JoinedClient(node, description)
                say(f"client {description.name}: {description.num_examples} examples ({len(joined)} of {wanted})")
        for node in [node for node in pending.values() if time.monotonic() >= warn_at[node]]:
            warn_at[node] = math.inf
            say(no_description(node, SILENT_S))
        time.sleep(_POLL_S)
    if len(joined) < (wanted if at_least is None else at_least):
        rejected_too = f" ({rejected} rejected)" if rejected else ""
        raise RunError(
            f"{len(joined)} of {wanted} clients joined within {wait_s:g} s{rejected_too}: start the others, or change "
            "data.clients, deploy.wait_s or deploy.min_clients"
        )
    order = as_clients(client.description for client in joined.values())
    return [joined[client.name] for client in order]


def wait_for_nodes(grid: Grid, wanted: int, wait_s: float, say: Callable[[str], None]) -> None:
    """Wait until `wanted` nodes are online, or `wait_s` seconds have passed: a resumed run continues with fewer too."""
    until = time.monotonic() + wait_s
    while (online := len(grid.node_ids())) < wanted and time.monotonic() < until:
        time.sleep(_POLL_S)
    say(f"{online} of {wanted} clients are online")


def no_description(node: int, seconds: float) -> str:
    """Return the line about a node that has not described its client for `seconds`."""
    return f"node {node} is online but has not described its client for {seconds:g} s: it is busy, or hangs"


class LateJoiners:
    """Asks nodes that come online during a run to describe their client, and updates the roster.

    data_names: of the server's data. operations: sends the requests to nodes; set before the first `look`.
    """

    operations: Operations

    def __init__(self, loop: RunLoop, roster: Roster, data_names: DataNames) -> None:
        self._loop, self._roster, self._data_names = loop, roster, data_names
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked_nodes: set[int] = set()
        self._warned_nodes: set[int] = set()

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
        call = Call(node, "describe", self._data_names.all, ttl_s=DESCRIBE_S, check=read_description)
        operation = self.operations.call(call)
        try:
            await asyncio.wait([operation.future], timeout=SILENT_S)
            if not operation.future.done():
                self._warn(node, no_description(node, SILENT_S))
                await asyncio.wait([operation.future], timeout=DESCRIBE_S - SILENT_S)
            if not operation.future.done() or operation.future.exception() is not None:
                return
            answer: Answer = operation.future.result()
            if answer.result is not None:  # else it is not a client of this run
                replaced = self._roster.introduce(node, Description(**answer.result))
                if replaced is not None:
                    self.operations.hang_up(replaced)
            elif (reason := answer.flaw or answer.refusal) is not None:
                self._warn(node, f"node {node} rejected: {reason}")
        finally:
            self._asked_nodes.discard(node)

    def _warn(self, node: int, line: str) -> None:
        """Log one warning per node, and none while a resumed run is replayed."""
        if self._loop.live and node not in self._warned_nodes:
            self._warned_nodes.add(node)
            log.warning("%s", line)

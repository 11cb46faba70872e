"""Before a run: its clients come, one after another, and say who they are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from fedtempo.deploy.live.messages import Call, Grid
from fedtempo.deploy.live.reception import SILENT_S, silent
from fedtempo.deploy.live.roster import Description, as_clients
from fedtempo.errors import ConfigError, RunError

_LOOK_S = 0.1
"""Seconds between two looks for clients that have come."""
_DESCRIBE_S = 60.0


@dataclass(frozen=True)
class Met:
    """A client that has come: where it is, and what it told."""

    node: int
    told: Description


def meet(
    grid: Grid,
    wanted: int,
    wait_s: float,
    *,
    at_least: int | None = None,
    names: Collection[str] = (),
    shape: tuple[int, ...] | None = None,
    task: str | None = None,
    class_names: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> list[Met]:
    """Wait until `wanted` clients have come, `at_least` when time is up; in the order of their names.

    names: the only ones that are wanted, where given. shape, task: of the examples that they must have, and what their
    labels must ask for. class_names: by which they number their classes. say: told of each client that comes, and of
    those that are not taken.
    Raises RunError where too few come.
    """
    met: dict[str, Met] = {}
    asked: dict[str, int] = {}
    known: set[int] = set()
    quiet_at: dict[int, float] = {}
    """When there is something to say of a node that was asked, by its number."""
    strangers = 0
    until = time.monotonic() + wait_s
    while len(met) < wanted and time.monotonic() < until:
        there = set(grid.node_ids())
        known &= there | set(asked.values())  # who left and comes back is asked again: it has the same number
        for node in there - known:
            call = Call(node, "describe", {"class_names": list(class_names)}, ttl_s=_DESCRIBE_S)
            if (name := grid.push(call)) is not None:
                known.add(node)
                asked[name] = node
                quiet_at.setdefault(node, time.monotonic() + SILENT_S)
        for name, reply in (grid.pull(list(asked)) if asked else {}).items():
            node = asked.pop(name)
            if reply.failure is not None and reply.failure.kind == "gone":
                known.discard(node)
                continue
            try:
                if reply.failure is not None:
                    raise ConfigError(f"node {node} does not say who it is: {reply.failure.reason}")
                if "refused" in reply.content:
                    raise ConfigError(f"node {node} does not come in: {reply.content['refused']}")
                told = Description.read(reply.content)
                if shape is not None and told.input_shape != shape:
                    raise ConfigError(f"client {told.name} has examples of shape {told.input_shape}, not {shape}")
                if task is not None and told.task != task:
                    raise ConfigError(f"client {told.name} has data that ask for {told.task}, not for {task}")
                if names and told.name not in names:
                    raise ConfigError(f"client {told.name} is none of deploy.names")
                if told.name in met and met[told.name].node in there - {node}:
                    raise ConfigError(f"client {told.name} is there twice; the first is taken")
            except ConfigError as error:
                strangers += 1
                say(str(error))
            else:
                met[told.name] = Met(node, told)
                say(f"client {told.name}: {told.num_examples} examples ({len(met)} of {wanted})")
        for node in [node for node in asked.values() if time.monotonic() >= quiet_at[node]]:
            quiet_at[node] = math.inf
            say(silent(node, SILENT_S))
        time.sleep(_LOOK_S)
    if len(met) < (wanted if at_least is None else at_least):
        others = f" ({strangers} others were no clients of this run)" if strangers else ""
        raise RunError(
            f"{len(met)} of {wanted} clients came within {wait_s:g} s{others}: start them, or set data.clients, "
            "deploy.wait_s or deploy.min_clients"
        )
    order = as_clients(each.told for each in met.values())
    return [met[client.name] for client in order]


def wait_for_nodes(grid: Grid, wanted: int, wait_s: float, say: Callable[[str], None]) -> None:
    """Wait until so many nodes are there; a run that was going on goes on with fewer too."""
    until = time.monotonic() + wait_s
    while (there := len(grid.node_ids())) < wanted and time.monotonic() < until:
        time.sleep(_LOOK_S)
    say(f"{there} clients are there ({wanted} were)")

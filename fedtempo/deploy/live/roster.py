"""The node of each client: nodes go offline and return, possibly under another number."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedtempo.deploy.live.messages import BadUpdate, Reply
from fedtempo.errors import ConfigError
from fedtempo.federation import Client
from fedtempo.parts.inputs import InputShape, shape_of_json
from fedtempo.parts.natural_order import natural
from fedtempo.version import PROTOCOL


@dataclass(frozen=True)
class Description:
    """A client's description of itself.

    label_histogram: examples of each class; None if the client does not reveal it. shares_examples: whether it agrees
    to upload raw examples. input_shape: shape of one example, or of each of its inputs. task: what its labels are
    (classes, tokens, numbers).
    """

    name: str
    num_examples: int
    label_histogram: tuple[int, ...] | None
    shares_examples: bool
    input_shape: InputShape
    task: str = "classes"

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Description:
        """Read a description from a reply. Raises ConfigError if it is invalid."""
        if content.get("protocol") != PROTOCOL:
            raise ConfigError(
                f"protocol version {content.get('protocol')!r}, but the server has {PROTOCOL}: install its fedtempo"
            )
        try:
            histogram = content["label_histogram"]
            read = cls(
                name=str(content["name"]),
                num_examples=int(content["num_examples"]),
                label_histogram=None if histogram is None else tuple(int(count) for count in histogram),
                shares_examples=content["shares_examples"] is True,
                input_shape=shape_of_json(content["input_shape"]),
                task=str(content.get("task", "classes")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"a client's description is invalid: {error!r}") from error
        if not re.fullmatch(r"[\w.-]{1,64}", read.name):
            raise ConfigError(f"client name {read.name[:80]!r}: must have 1 to 64 letters, digits, . _ or -")
        if read.num_examples < 1 or min(read.label_histogram or (0,)) < 0:
            raise ConfigError(f"client {read.name}: invalid numbers of examples; it needs at least one")
        return read

    @classmethod
    def restored(cls, description: Mapping[str, Any]) -> Description:
        """Return the description that a journal holds as JSON values."""
        histogram, shape = description["label_histogram"], shape_of_json(description["input_shape"])
        return cls(**{**description, "label_histogram": histogram and tuple(histogram), "input_shape": shape})


def read_description(reply: Reply) -> dict[str, Any]:
    """Read a description as JSON values. Raises BadUpdate if it is invalid."""
    try:
        return asdict(Description.read(reply.content))
    except ConfigError as error:
        raise BadUpdate(str(error)) from error


def as_clients(descriptions: Iterable[Description]) -> tuple[Client, ...]:
    """Return the clients of a run, numbered in natural order of their names: client-2 before client-10."""
    return tuple(
        Client(i, description.num_examples, description.label_histogram, description.shares_examples, description.name)
        for i, description in enumerate(sorted(descriptions, key=lambda description: natural(description.name)))
    )


class Roster:
    """The clients of a run and their nodes. Must be made inside a running event loop."""

    def __init__(self, clients: Sequence[Client], nodes: Sequence[int]) -> None:
        """nodes: number of each client's node when the run begins."""
        self._clients = {client.name: client for client in clients}
        self._nodes = list(nodes)
        self._online = set(nodes)
        self._unresponsive: set[int] = set()
        self._strangers: set[int] = set()
        self._changed = asyncio.Event()

    def node(self, client: Client) -> int | None:
        """Return the client's node; None if it is offline or unresponsive."""
        node = self._nodes[client.id]
        return node if node in self._online and node not in self._unresponsive else None

    def mark_unresponsive(self, client: Client) -> None:
        """Treat a client that did not answer as absent until it answers something."""
        self._unresponsive.add(self._nodes[client.id])

    def mark_responsive(self, client: Client) -> None:
        """Treat a client that answered as present."""
        if self._nodes[client.id] in self._unresponsive:
            self._unresponsive.discard(self._nodes[client.id])
            self._wake()

    def update(self, nodes: Iterable[int]) -> list[int]:
        """Set the nodes now online; return those to ask for a description: new and unresponsive ones."""
        before, self._online = self._online, set(nodes)
        self._unresponsive &= self._online  # a node that left is responsive again when it returns
        new = self._online - before
        if new & set(self._nodes):
            self._wake()
        self._strangers &= self._online
        return sorted((self._online - set(self._nodes) - self._strangers) | (self._online & self._unresponsive))

    def introduce(self, node: int, description: Description) -> int | None:
        """Make `node` the client's node if the description fits a client whose node is offline or unresponsive.

        Returns the number of the node that it replaces; None if it replaces none. A node whose description fits no
        client of the run is ignored until it leaves and returns.
        """
        client = self._clients.get(description.name)
        if client is None or description.num_examples != client.num_examples:
            self._strangers.add(node)
            return None
        if node == self._nodes[client.id]:
            self.mark_responsive(client)
            return None
        if self.node(client) is not None:
            return None
        replaced, self._nodes[client.id] = self._nodes[client.id], node
        self._unresponsive.discard(replaced)
        self._wake()
        return replaced

    async def present(self, client: Client, patience_s: float) -> int | None:
        """Wait until the client is present and return its node; None if that takes longer than `patience_s` seconds."""
        try:
            async with asyncio.timeout(patience_s):
                while (node := self.node(client)) is None:
                    await self._changed.wait()
        except TimeoutError:
            return None
        return node

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

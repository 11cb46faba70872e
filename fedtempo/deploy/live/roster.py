"""Which node stands for which client: nodes come, go, and come back, perhaps under another number."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedtempo.deploy.live.messages import PROTOCOL, BadUpdate, Reply
from fedtempo.errors import ConfigError
from fedtempo.federation import Client
from fedtempo.parts.natural_order import natural


@dataclass(frozen=True)
class Description:
    """What a client tells of itself.

    label_histogram: examples of each class, None where it does not tell. shares_examples: whether it agrees to upload
    raw examples. input_shape: of one example. task: what its labels ask for.
    """

    name: str
    num_examples: int
    label_histogram: tuple[int, ...] | None
    shares_examples: bool
    input_shape: tuple[int, ...]
    task: str = "classes"

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Description:
        """A description from a reply. Raises ConfigError for one that is not usable."""
        if content.get("protocol") != PROTOCOL:
            raise ConfigError(f"a client speaks version {content.get('protocol')!r}; this server needs {PROTOCOL}")
        try:
            histogram = content["label_histogram"]
            read = cls(
                name=str(content["name"]),
                num_examples=int(content["num_examples"]),
                label_histogram=None if histogram is None else tuple(int(count) for count in histogram),
                shares_examples=content["shares_examples"] is True,
                input_shape=tuple(int(side) for side in content["input_shape"]),
                task=str(content.get("task", "classes")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"a client's description is not usable: {error!r}") from error
        if not re.fullmatch(r"[\w.-]{1,64}", read.name):
            raise ConfigError(f"a client calls itself {read.name[:80]!r}; a name has 1 to 64 letters, digits, . _ -")
        if read.num_examples < 1 or min(read.label_histogram or (0,)) < 0:
            raise ConfigError(f"client {read.name}: it tells of {read.num_examples} examples; it needs at least one")
        return read

    @classmethod
    def known(cls, told: Mapping[str, Any]) -> Description:
        """A description that was read before, from a record's JSON values."""
        histogram, shape = told["label_histogram"], tuple(told["input_shape"])
        return cls(**{**told, "label_histogram": histogram and tuple(histogram), "input_shape": shape})


def read_description(reply: Reply) -> dict[str, Any]:
    """A description as JSON values. Raises BadUpdate for one that is not usable."""
    try:
        return asdict(Description.read(reply.content))
    except ConfigError as error:
        raise BadUpdate(str(error)) from error


def as_clients(descriptions: Iterable[Description]) -> tuple[Client, ...]:
    """The clients of a run, numbered by name: client-2 comes before client-10."""
    return tuple(
        Client(i, told.num_examples, told.label_histogram, told.shares_examples, told.name)
        for i, told in enumerate(sorted(descriptions, key=lambda told: natural(told.name)))
    )


class Members:
    """The clients of a run and the nodes that they are at. Use within a running event loop.

    nodes: number of each client's node when the run begins.
    """

    def __init__(self, clients: Sequence[Client], nodes: Sequence[int]) -> None:
        self._clients = {client.name: client for client in clients}
        self._nodes = list(nodes)
        self._online = set(nodes)
        self._doubted: set[int] = set()
        self._strangers: set[int] = set()
        self._changed = asyncio.Event()

    def node(self, client: Client) -> int | None:
        """Where the client is, None where it is not there."""
        node = self._nodes[client.id]
        return node if node in self._online and node not in self._doubted else None

    def doubt(self, client: Client) -> None:
        """The client did not answer: it counts as not there until it shows itself."""
        self._doubted.add(self._nodes[client.id])

    def heard(self, client: Client) -> None:
        """The client answered."""
        if self._nodes[client.id] in self._doubted:
            self._doubted.discard(self._nodes[client.id])
            self._wake()

    def seen(self, nodes: Iterable[int]) -> list[int]:
        """These nodes are there now. Returns those to ask who they are: new ones, and those that did not answer."""
        before, self._online = self._online, set(nodes)
        self._doubted &= self._online  # one that left and comes back starts anew
        news = self._online - before
        if news & set(self._nodes):
            self._wake()
        self._strangers &= self._online
        return sorted((self._online - set(self._nodes) - self._strangers) | (self._online & self._doubted))

    def introduce(self, node: int, told: Description) -> int | None:
        """A node says who it is. Returns the number of the node that it replaces, None where it replaces none.

        It takes a client's place where that client's node has left or does not answer; a name that is in use, or is
        none of the run's, is not taken up, and is asked again only if the node leaves and returns.
        """
        client = self._clients.get(told.name)
        if client is None or told.num_examples != client.num_examples:
            self._strangers.add(node)
            return None
        if node == self._nodes[client.id]:
            self.heard(client)
            return None
        if self.node(client) is not None:
            return None
        former, self._nodes[client.id] = self._nodes[client.id], node
        self._doubted.discard(former)
        self._wake()
        return former

    async def present(self, client: Client, patience_s: float) -> int | None:
        """Where the client is, once it is there; None where it does not come within `patience_s`."""
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

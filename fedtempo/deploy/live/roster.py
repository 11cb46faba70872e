"""The node of each client: nodes go offline and return, possibly under another number."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from fedtempo.data.labels import Task
from fedtempo.deploy.live.bounds import MAX_EXAMPLES, shown
from fedtempo.errors import ConfigError
from fedtempo.federation import Client
from fedtempo.parts.construct import construct, names_of_fields
from fedtempo.parts.fields import STRICT, Interval
from fedtempo.parts.inputs import shape_of_json
from fedtempo.parts.natural_order import natural
from fedtempo.version import PROTOCOL

_MAX_CLASSES = 10**6
_MAX_INPUTS, _MAX_SIDES, _MAX_SIDE = 100, 16, 10**9


def _bounded(shape: Any) -> Any:
    """Return a shape. Raises ValueError unless it is one that examples can have."""
    parts = list(shape.values()) if isinstance(shape, dict) else [shape] if _is_sides(shape) else list(shape)
    if len(parts) > _MAX_INPUTS or not all(map(_is_sides, parts)):
        raise ValueError("must be the shape of an example, or of each of its inputs")
    return shape


def _is_sides(shape: Any) -> bool:
    return (
        isinstance(shape, tuple)
        and len(shape) <= _MAX_SIDES
        and all(type(side) is int and 0 <= side <= _MAX_SIDE for side in shape)
    )


@dataclass(frozen=True, config=STRICT)
class Description:
    """A client's description of itself.

    label_histogram: examples of each class; None if the client does not reveal it. shares_examples: whether it agrees
    to upload raw examples. input_shape: shape of one example, or of each of its inputs. task: what its labels are
    (classes, tokens, numbers).
    """

    name: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    num_examples: Annotated[int, Interval(ge=1, le=MAX_EXAMPLES)]
    label_histogram: (
        Annotated[
            tuple[Annotated[int, Interval(ge=0, le=MAX_EXAMPLES)], ...], Field(strict=False, max_length=_MAX_CLASSES)
        ]
        | None
    )
    shares_examples: bool
    input_shape: Annotated[Any, AfterValidator(_bounded)]
    task: Task = "classes"

    def __post_init__(self) -> None:
        if self.label_histogram is not None and sum(self.label_histogram) != self.num_examples:
            raise ValueError(
                f"label_histogram: has {sum(self.label_histogram)} examples; num_examples = {self.num_examples}"
            )

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Description:
        """Read a description from a reply. Raises ConfigError if it is invalid."""
        if content.get("protocol") != PROTOCOL:
            raise ConfigError(
                f"protocol version {shown(content.get('protocol'))}, but the server has {PROTOCOL}: install its "
                "fedtempo"
            )
        values = {name: content[name] for name in names_of_fields(cls) if name in content}
        try:
            values["input_shape"] = shape_of_json(values.get("input_shape"))
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(f"client.input_shape = {shown(values.get('input_shape'))}: no shape") from error
        values["shares_examples"] = values.get("shares_examples") is True
        return construct(cls, values, "client")

    @classmethod
    def restored(cls, description: Mapping[str, Any]) -> Description:
        """Return the description that a journal holds as JSON values."""
        histogram, shape = description["label_histogram"], shape_of_json(description["input_shape"])
        return cls(**{**description, "label_histogram": histogram and tuple(histogram), "input_shape": shape})


def as_clients(descriptions: Iterable[Description]) -> tuple[Client, ...]:
    """Return the clients of a run, numbered in natural order of their names: client-2 before client-10."""
    return tuple(
        Client(i, description.num_examples, description.label_histogram, description.shares_examples, description.name)
        for i, description in enumerate(sorted(descriptions, key=lambda description: natural(description.name)))
    )


class Introduced(NamedTuple):
    """What became of a node that described its client.

    replaced: the client's former node, if it takes its place. objection: why it cannot be a client of the run.
    """

    replaced: int | None = None
    objection: str | None = None


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

    def introduce(self, node: int, description: Description) -> Introduced:
        """Make `node` the client's node if the description fits a client whose node is offline or unresponsive.

        A node whose description fits no client of the run is ignored until it leaves and returns.
        """
        client = self._clients.get(description.name)
        if client is None:
            self._strangers.add(node)
            return Introduced()
        if description.num_examples != client.num_examples:
            self._strangers.add(node)
            held = f"it has {description.num_examples} examples; the run began with {client.num_examples}"
            return Introduced(objection=f"client {client.name}: {held}")
        if node == self._nodes[client.id]:
            self.mark_responsive(client)
            return Introduced()
        if self.node(client) is not None:
            return Introduced(objection=f"client {client.name}: another node has joined under this name")
        replaced, self._nodes[client.id] = self._nodes[client.id], node
        self._unresponsive.discard(replaced)
        self._wake()
        return Introduced(replaced)

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

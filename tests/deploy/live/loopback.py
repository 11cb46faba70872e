"""A grid without processes: each client answers in its own thread, one call at a time, as over a network."""

from __future__ import annotations

import copy
import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import parse_client
from fedtempo.deploy.live.messages import Call, Failure, Reply, Sender

Change = Callable[[Call, Reply], Reply | None]


def digits_clients(count: int, **settings: Any) -> list[Answers]:
    """Create clients that share the digits as in a simulation with seed 1 and partition iid."""
    data = {"source": "digits", "clients": count, "examples_per_client": 20}
    return [
        Answers(parse_client({"name": f"c{i}", "insecure": True, "data": {**data, "part": i}, **settings}))
        for i in range(count)
    ]


class Loopback:
    """An implementation of `Grid`. online: reachable nodes; calls to others, even in progress, end as "gone".

    change: called for each reply before it is returned; it may wait, change the reply, or return None to drop it.
    names: those registered for the nodes' keys, by node. one_thread: all clients answer in the same thread; for
    networks that draw random numbers, because PyTorch's generator belongs to the process.
    """

    def __init__(
        self, clients: Sequence[Answers], change: Change = lambda call, reply: reply, one_thread: bool = False
    ) -> None:
        self.clients: dict[int, Answers] = {100 + i: client for i, client in enumerate(clients)}
        self.online = set(self.clients)
        self.interruptions = 0
        self.change = change
        self.names: dict[int, str] = {}
        self.calls: list[Call] = []
        self._one_thread = one_thread
        self._names = map(str, itertools.count())
        self._threads: dict[int, ThreadPoolExecutor] = {}
        self._open: dict[str, int] = {}
        self.replies: dict[str, Reply] = {}
        self._lock = threading.Lock()

    def node_ids(self) -> list[int]:
        return sorted(self.online)

    def sender(self, node: int) -> Sender:
        return Sender(self.names.get(node), frozenset(self.names.values()))

    def push(self, call: Call) -> str | None:
        if call.node not in self.clients:
            return None
        name = next(self._names)
        self.calls.append(call)
        sent = json.loads(json.dumps(call.content))  # only what can be sent over a network
        arrays = copy.deepcopy(call.arrays)
        self._open[name] = call.node
        thread = self._threads.setdefault(0 if self._one_thread else call.node, ThreadPoolExecutor(1))
        thread.submit(self._work, name, call, sent, arrays)
        return name

    def _work(self, name: str, call: Call, sent: Mapping[str, Any], arrays: Any) -> None:
        try:
            content, sent_back = self.clients[call.node].answer(call.kind, sent, arrays)
            reply: Reply | None = self.change(call, Reply(json.loads(json.dumps(content)), sent_back))
        except Exception as error:  # noqa: BLE001  as a client's process that raises
            reply = Reply(failure=Failure("failed", repr(error)))
        with self._lock:
            if reply is not None and call.node in self.online:
                self.replies[name] = reply

    def pull(self, names: Sequence[str]) -> dict[str, Reply]:
        with self._lock:
            come = {name: self.replies.pop(name) for name in names if name in self.replies}
        for name in names:
            if name not in come and self._open.get(name) not in self.online:
                come[name] = Reply(failure=Failure("gone", "the node is offline, or the name not known"))
        return come

    def close(self) -> None:
        for thread in self._threads.values():
            thread.shutdown(wait=True)


def wait_until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until another thread makes a condition true."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)

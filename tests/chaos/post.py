"""A post office between a deployment's server and its clients, which loses, doubles, delays and cuts their letters.

It lives in another process than the server, as do the clients, so that the server can be killed.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.live.bounds import object_of
from fedtempo.deploy.live.messages import Failure
from fedtempo.deploy.live.npy import array_of
from tests.chaos.invariants import Evidence, SentCall, SentReply
from tests.chaos.letters import Letter, written
from tests.chaos.plan import CLIENTS, MESSAGES, SUPERLINK, Fault
from tests.chaos.strikes import Log

_PACE_S = 0.02
_AWAY_S = 1.0
"""Longest time for which something is stopped, away or under way."""


@dataclass(eq=False)
class _Client:
    """A client's process. life: how often it was started. away_until, stopped_until: offline, or not answering."""

    node: int
    make: Callable[[], Answers]
    answers: Answers
    thread: ThreadPoolExecutor
    life: int = 0
    away_until: float = 0.0
    stopped_until: float = 0.0


@dataclass(eq=False)
class _Open:
    """A call without a reply that was fetched. faults: of its reply. letters: the replies, with the time of arrival."""

    client: _Client
    node: int
    life: int
    kind: str
    expires_at: float
    faults: list[Fault] = field(default_factory=list)
    letters: list[tuple[float, Letter | Failure]] = field(default_factory=list)


class PostOffice:
    """Serves one server after another. faults: by the number of calls before them. calm: a file that ends them."""

    def __init__(self, clients: Sequence[Callable[[], Answers]], faults: Sequence[Fault], calm: Path, log: Log) -> None:
        self._numbers, self._names = itertools.count(100), map(str, itertools.count())
        self._clients = [_Client(next(self._numbers), make, make(), ThreadPoolExecutor(1)) for make in clients]
        self._faults, self._calm, self._log = list(faults), calm, log
        self._open: dict[str, _Open] = {}
        self._again: dict[str, Letter | Failure] = {}
        self._calls = self._interruptions = self._lives = 0
        self._away_until = 0.0
        self._lock = threading.RLock()
        self._closed = False
        self.evidence = Evidence()

    def serve(self, server: Connection) -> threading.Thread:
        """Answer a server's questions in a thread, until it ends."""
        self._lives += 1
        thread = threading.Thread(target=self._serve, args=(server, self._lives), daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        """Stop all clients."""
        self._closed = True
        for client in self._clients:
            client.thread.shutdown(wait=True, cancel_futures=True)

    def _serve(self, server: Connection, life: int) -> None:
        try:
            while True:
                question, *arguments = server.recv()
                time.sleep(max(0.0, self._away_until - time.monotonic()))
                with self._lock:
                    answer = getattr(self, f"_{question}")(*arguments)
                server.send((answer, self._interruptions))
        except (EOFError, OSError):
            server.close()

    # Questions ------------------------------------------------------------------------------------------------------

    def _online(self) -> list[int]:
        now = time.monotonic()
        return sorted(client.node for client in self._clients if now >= client.away_until)

    def _push(self, node: int, kind: str, letter: Letter, ttl_s: float) -> str | None:
        client = next((client for client in self._clients if client.node == node), None)
        if client is None:
            return None
        name = next(self._names)
        self._open[name] = call = _Open(client, node, client.life, kind, time.monotonic() + ttl_s)
        content = object_of(letter.text)
        if kind not in ("describe", "notice"):
            self._calls += 1
            sent = SentCall(self._lives, str(content.get("call")), kind, content.get("stay"), content.get("client"))
            self.evidence.calls.append(sent)
            if letter.arrays and content.get("stay") is not None and kind == "train":
                self.evidence.models[content["stay"]] = array_of(letter.arrays[0])
        due = [] if kind in ("describe", "notice") or self._calm.exists() else self._due()
        times, delay_s = 1, 0.0
        for fault in due:
            if fault.kind in MESSAGES and fault.back:
                call.faults.append(fault)
            elif fault.kind in MESSAGES:
                self._log.add(fault.kind)
                match fault.kind:
                    case "message lost":
                        times = 0
                    case "message doubled":
                        times = 2
                        self.evidence.doubled.add(str(content.get("call")))
                    case "message delayed":
                        delay_s = _AWAY_S * fault.size
                    case "message truncated":
                        letter = letter.cut(fault.size)
            elif fault.kind in CLIENTS:
                self._strike_client(fault)
            elif fault.kind in SUPERLINK:
                self._strike_superlink(fault)
        for _ in range(times):
            timer = threading.Timer(delay_s, self._deliver, (call, letter))
            timer.daemon = True
            timer.start()
        return name

    def _pull(self, names: Sequence[str]) -> dict[str, Letter | Failure]:
        now = time.monotonic()
        come: dict[str, Letter | Failure] = {}
        for name in names:
            call = self._open.get(name)
            if call is None:
                come[name] = Failure("gone", "the run in which it was sent has ended")
            elif call.letters and call.letters[0][0] <= now:
                come[name] = call.letters.pop(0)[1]
                del self._open[name]
                if call.letters:
                    self._again[name] = call.letters[0][1]
            elif now >= call.expires_at:
                come[name] = Failure("gone", "the message expired")
                del self._open[name]
            elif call.client.node != call.node or now < call.client.away_until:
                come[name] = Failure("gone", "its node is offline")
                del self._open[name]
        if not come and self._again:  # what was delivered before comes once more, unasked
            come, self._again = self._again, {}
        return come

    # Clients --------------------------------------------------------------------------------------------------------

    def _deliver(self, call: _Open, letter: Letter) -> None:
        if not self._closed:
            call.client.thread.submit(self._work, call, letter)

    def _work(self, call: _Open, letter: Letter) -> None:
        client = call.client
        while time.monotonic() < max(client.stopped_until, client.away_until) and not self._closed:
            time.sleep(0.01)
        if client.life != call.life or self._closed:
            return
        time.sleep(_PACE_S)
        answer: Letter | Failure
        try:
            content, arrays = object_of(letter.text), tuple(map(array_of, letter.arrays))
        except ValueError as error:
            answer = Failure("failed", f"its program failed: {error}")
        else:
            answer = self._answer(client, call, content, arrays)
        with self._lock:
            if client.life == call.life:
                self._reply(call, answer)

    def _answer(self, client: _Client, call: _Open, content: dict[str, Any], arrays: Any) -> Letter | Failure:
        answers = client.answers
        name = content.get("call")
        before = answers._last
        try:
            reply, sent = answers.answer(call.kind, content, arrays)
        except Exception as error:  # noqa: BLE001  as a client's process that raises
            return Failure("failed", repr(error))
        again = before is not None and answers._last is before and before[0] == name
        if call.kind not in ("describe", "notice") and "refused" not in reply:
            loss = (reply.get("statistics") or {}).get("loss")
            vector = sent[0].copy() if sent else None
            described = SentReply(
                self._clients.index(client), client.life, str(name), call.kind, content.get("stay"), loss, vector, again
            )
            with self._lock:
                self.evidence.replies.append(described)
        return written(reply, sent)

    def _reply(self, call: _Open, answer: Letter | Failure) -> None:
        times, at = 1, time.monotonic()
        for fault in call.faults:
            self._log.add(fault.kind)
            match fault.kind:
                case "message lost":
                    times = 0
                case "message doubled":
                    times = 2
                case "message delayed":
                    at += _AWAY_S * fault.size
                case "message truncated" if isinstance(answer, Letter):
                    answer = answer.cut(fault.size)
        call.faults.clear()
        call.letters += [(at, answer)] * times

    # Faults ---------------------------------------------------------------------------------------------------------

    def _due(self) -> list[Fault]:
        due = [fault for fault in self._faults if fault.when <= self._calls]
        self._faults = [fault for fault in self._faults if fault.when > self._calls]
        return due

    def _strike_client(self, fault: Fault) -> None:
        client = self._clients[fault.of % len(self._clients)]
        self._log.add(fault.kind)
        if fault.kind == "client stopped":
            client.stopped_until = time.monotonic() + _AWAY_S * fault.size
            return
        client.life += 1
        client.away_until = time.monotonic() + _AWAY_S * fault.size
        client.answers = client.make()
        if fault.back:  # without a key of its own it comes back under another number
            client.node = next(self._numbers)

    def _strike_superlink(self, fault: Fault) -> None:
        self._log.add(fault.kind)
        self._away_until = time.monotonic() + _AWAY_S * fault.size
        self._interruptions += 1
        if fault.kind == "SuperLink killed":  # what it was about to deliver is lost
            for call in self._open.values():
                call.letters.clear()

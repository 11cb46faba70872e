"""How a benchmark asks a peer in an environment of its own: lines of JSON over the pipes of a long-lived process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.peers.environments import HERE, python_of

ROOT = HERE.parent.parent
ANSWER_S, END_S = 300.0, 30
"""How long a driver may take to start or to answer, and to end."""

REPLY = "reply: "
"""Before each answer: until its driver answers, a peer may print what it likes."""


class PeerError(Exception):
    """A peer is not there, or ended, or answered what cannot be used; one line."""


def answer(turn: Callable[[Any], Any]) -> None:
    """The driver's side: say that all is ready, then answer each line from stdin until there is no more.

    Whatever else prints, Python or not, prints to stderr.
    """
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as replies:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        print(REPLY + json.dumps("ready"), file=replies, flush=True)
        for line in sys.stdin:
            print(REPLY + json.dumps(turn(json.loads(line))), file=replies, flush=True)


class Peer:
    """A driver in its process; a context manager. Raises PeerError where it cannot be started.

    name: of the folder that holds the driver and its environment. arguments: the driver's. command: what to start
    instead, for tests. answer_s: how long it may take to start, and to answer.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str] = (),
        *,
        command: Sequence[str] | None = None,
        answer_s: float = ANSWER_S,
    ) -> None:
        self.name, self._answer_s = name, answer_s
        if command is None:
            python = python_of(name)
            if not python.exists():
                raise PeerError(f"{name} is not installed: make bench-peers")
            command = [str(python), "-m", f"benchmarks.peers.{name}.drive", *arguments]
        one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            cwd=ROOT,
            env={**os.environ, **one_thread, "PYTHONPATH": str(ROOT)},
        )
        try:
            self._receive()
        except BaseException:
            self.close()
            raise

    def ask(self, request: Any = None) -> Any:
        """One turn. Raises PeerError where the driver ended or said nothing instead of answering."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._receive()

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        silent = threading.Event()

        def give_up() -> None:
            silent.set()
            self._process.kill()

        patience = threading.Timer(self._answer_s, give_up)
        patience.start()
        try:
            for line in self._process.stdout:
                if line.startswith(REPLY):
                    return json.loads(line.removeprefix(REPLY))
        finally:
            patience.cancel()
        self._end()
        if silent.is_set():
            raise PeerError(f"{self.name} did not answer within {self._answer_s:g} s")
        self._said.seek(0)
        lines = [text for text in self._said.read().splitlines() if text.strip()]
        raise PeerError(f"{self.name} ended with exit code {self._process.returncode}: {lines[-1] if lines else ''}")

    def close(self) -> None:
        """End it, by force where it does not end by itself."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        self._end()
        self._said.close()

    def _end(self) -> None:
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

"""The server of a deployment in a process of its own, which reaches its clients through a post office (see there)."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fedtempo.deploy.live import joining, transport
from fedtempo.deploy.live.bounds import object_of
from fedtempo.deploy.live.messages import Call, Failure, GridError, Reply, Sender
from fedtempo.deploy.live.npy import array_of
from fedtempo.deploy.run import conclude_deployment, deploy_to_folder, resume_deployment
from fedtempo.record import Recorder, RunFolder
from fedtempo.runs.config import Config
from tests.chaos.broken import BREAKS
from tests.chaos.letters import Letter, written
from tests.chaos.plan import Fault
from tests.chaos.simulations import reported
from tests.chaos.strategies import CALM
from tests.chaos.strikes import Log, Strikes
from tests.crash import lives


class Letterbox:
    """Implements `Grid`: every operation is a question to the post office."""

    def __init__(self, office: Connection) -> None:
        self._office, self._lock = office, threading.Lock()
        self.interruptions = 0

    def _ask(self, *question: Any) -> Any:
        with self._lock:
            try:
                self._office.send(question)
                answer, self.interruptions = self._office.recv()
            except (EOFError, OSError) as error:
                raise GridError(f"the post office is gone: {error}") from error
        return answer

    def node_ids(self) -> list[int]:
        nodes: list[int] = self._ask("online")
        return nodes

    def sender(self, node: int) -> Sender:
        return Sender()

    def push(self, call: Call) -> str | None:
        letter = written(call.content, call.arrays)
        name: str | None = self._ask("push", call.node, call.kind, letter, call.ttl_s)
        return name

    def pull(self, names: Mapping[str, int]) -> dict[str, Reply]:
        letters: dict[str, Letter | Failure] = self._ask("pull", list(names))
        return {name: read(letter) for name, letter in letters.items()}

    def close(self) -> None:
        self._office.close()


def read(letter: Letter | Failure) -> Reply:
    """Return the reply that a letter holds; it has a flaw if it cannot be read."""
    if isinstance(letter, Failure):
        return Reply(failure=letter)
    try:
        return Reply(object_of(letter.text), tuple(map(array_of, letter.arrays)))
    except Exception as error:  # noqa: BLE001  whatever came of the bytes
        return Reply(flaw=f"its reply cannot be read: {error}")


def recording(rows: Log) -> type[Recorder]:
    """Return a recorder that also logs every visit, as soon as it has ended."""

    class Recording(Recorder):
        def visit(self, row: Any) -> None:
            super().visit(row)
            rows.add(json.dumps([row.number, row.client, row.outcome, row.started, row.finished, row.loss]))

    return Recording


def hurry() -> None:
    """Let everything that takes seconds at a SuperLink take fractions of one."""
    transport._GRACE_S, transport._RETURN_S, transport._SLOW_S = 0.1, 0.4, 0.3
    joining._POLL_S, joining.SILENT_S, joining.DESCRIBE_S = 0.02, 1.0, 3.0  # type: ignore[misc]
    transport.Transport.__init__.__kwdefaults__.update(poll_s=0.01, poll_max_s=0.05)


def drive(
    config: Config,
    folder: Path,
    office: Connection,
    faults: Sequence[Fault],
    counts: dict[str, float],
    log: Path,
    eager: bool,
    broken: str | None = None,
) -> None:
    """Begin or resume the deployment in `folder`, see `simulations.live`. broken: how fedtempo is broken on purpose."""
    if broken is not None:
        BREAKS[broken]()
    calm = log.with_name("calm")
    os.environ[CALM] = str(calm)
    hurry()
    if eager:
        lives._checkpoint_always()
    Strikes(faults, counts, Log(log), folder, calm).install()
    grid, recorder = Letterbox(office), recording(Log(log.with_name("rows")))

    def run() -> None:
        if not (folder / "config.toml").exists():
            deploy_to_folder(config, folder, grid, recorder=recorder)
        elif RunFolder(folder).finished:
            conclude_deployment(config, folder)
        else:
            with RunFolder.resume(folder) as claimed:
                resume_deployment(config, claimed, grid, recorder=recorder)

    reported(folder, run)

"""A deployment of real processes: a SuperLink, a proxy before it, clients and a server, all of which are hit."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from fedtempo.deploy.flower.superlink import free_port, started
from tests.chaos.deployments import config
from tests.chaos.invariants import violations_by_logs
from tests.chaos.outcome import Outcome
from tests.chaos.plan import Fault, Trial
from tests.chaos.strategies import CALM
from tests.chaos.strikes import FULL, Log, state
from tests.deploy.processes import ClientProcess, client, family

CLIENTS = 3
PACE_S = 0.3
_STOPPED_S, _AWAY_S, _DELAY_S = 4.0, 2.0, 3.0
_LONGEST_S = 600.0
_MOST_LIVES = 12

SLOW = {
    "strategy.busy_s": 20.0,
    "strategy.roll_s": 260.0,  # a client waits three minutes for a call whose server was killed while sending it
    "data.clients": CLIENTS,
    "deploy.wait_s": 120.0,
    "deploy.deadline_floor_s": 15.0,
    "deploy.patience_s": 2.0,
    "deploy.refresh_s": 1.0,
    "deploy.outage_s": 60.0,
}
"""What differs where messages and processes take their time."""

JUMPS = """
import signal, time
_offset = [0.0]
_now = time.time
time.time = lambda: _now() + _offset[0]
signal.signal(signal.SIGUSR1, lambda *_: _offset.__setitem__(0, _offset[0] + {seconds}))
"""
"""Code with which the time of day of a process jumps at SIGUSR1."""


class Scene:
    """All processes of a trial. Anything in it may be killed; what is killed is started again after a while."""

    def __init__(self, trial: Trial, room: Path) -> None:
        self._trial, self._room = trial, room
        self.log, self.folder = Log(room / "faults"), room / "run"
        self._port = free_port()
        # The same port, for which alone a SuperLink without TLS accepts a proof of the control secret.
        self._front, self._behind = f"127.0.0.1:{self._port}", f"127.0.0.2:{self._port}"
        self._stack = contextlib.ExitStack()
        self._superlink = contextlib.ExitStack()
        self._proxy: subprocess.Popen[bytes] | None = None
        self._clients: list[ClientProcess] = []
        self.logs: list[list[Path]] = [[] for _ in range(CLIENTS)]
        self.driver: subprocess.Popen[str] | None = None
        self.full = False

    def __enter__(self) -> Scene:
        self._start_superlink()
        self._start_proxy()
        self._clients = [self._start_client(part) for part in range(CLIENTS)]
        secret = str(self._room / "control.secret")
        settings = config(self._trial.strategy, **SLOW).with_changes(
            {"deploy.superlink": self._front, "deploy.control_secret": secret}
        )
        (self._room / "run.toml").write_text(settings.dump())
        return self

    def __exit__(self, *exception: object) -> None:
        if self.driver is not None and self.driver.poll() is None:
            self.driver.kill()
            self.driver.wait()
        self._stack.close()
        if self._proxy is not None:
            self._proxy.kill()
            self._proxy.wait()
        self._superlink.close()

    # Processes ------------------------------------------------------------------------------------------------------

    def _start_superlink(self) -> None:
        self._superlink.enter_context(started(self._room, address=self._behind, database=self._room / "state.db"))

    def _start_proxy(self) -> None:
        command = [sys.executable, "-m", "tests.chaos.proxy", self._front, self._behind]
        self._proxy = subprocess.Popen([*command, str(self._room / "orders")])

    def _start_client(self, part: int) -> ClientProcess:
        before = JUMPS.format(seconds=86400 * (-400, 400)[part % 2])
        process: ClientProcess = self._stack.enter_context(
            client(
                self._room,
                f"c{part}",
                self._front,
                before=before,
                part=part,
                insecure=True,
                pace_s=PACE_S,
                tell_labels=True,
                share_examples=True,
            )
        )
        self.logs[part].append(process.log)
        return process

    def begin(self) -> None:
        """Start the server, which begins or resumes the run."""
        self.full = False
        arguments = ["deploy", str(self._room / "run.toml"), "--out", str(self.folder)]
        if (self.folder / "config.toml").exists():
            arguments = ["resume", str(self.folder)]
        with (self._room / "driver.log").open("a") as output:
            self.driver = subprocess.Popen(
                [sys.executable, "-m", "fedtempo", *arguments],
                stdout=output,
                stderr=output,
                text=True,
                env={**os.environ, CALM: str(self._room / "calm")},
            )

    def pid_of_superlink(self) -> int | None:
        """Return the process number of the SuperLink; None if it is not running."""
        pids = [
            pid
            for pid, line in family().items()
            if "flower.guarded" in line and str(self._port) in line and "die_with_parent" not in line
        ]
        return pids[0] if pids else None

    # Faults ---------------------------------------------------------------------------------------------------------

    def strike(self, fault: Fault) -> None:
        """Bring about a fault."""
        victim, _, how = fault.kind.partition(" ")
        part = fault.of % CLIENTS
        if fault.kind == "disk full":
            self._fill_disk(fault)
        elif victim == "message":
            order = "cut" if how == "truncated" else f"delay {_DELAY_S * fault.size:.3f}"
            Log(self._room / "orders").add(order)
            self.log.add(fault.kind)
        elif fault.kind == "clock jumped":
            self._signal(fault, self._clients[part].process.pid, signal.SIGUSR1)
        elif victim == "client":
            self._signal(fault, self._clients[part].process.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            if how == "killed":
                self._clients[part].process.wait()
                time.sleep(_AWAY_S * fault.size)
                self._clients[part] = self._start_client(part)
        elif victim == "driver":
            assert self.driver is not None
            self._signal(fault, self.driver.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        elif victim == "proxy":
            assert self._proxy is not None
            self._signal(fault, self._proxy.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            if how == "killed":
                self._proxy.wait()
                time.sleep(_AWAY_S * fault.size)
                self._start_proxy()
        elif (pid := self.pid_of_superlink()) is not None:
            self._signal(fault, pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            if how == "killed":
                self._superlink.close()
                time.sleep(_AWAY_S * fault.size)
                self._start_superlink()

    def _signal(self, fault: Fault, pid: int, number: int) -> None:
        if state(pid) in ("", "Z", "X"):
            return
        os.kill(pid, number)
        self.log.add(fault.kind)
        if number == signal.SIGSTOP:
            timer = threading.Timer(_STOPPED_S * fault.size, _go_on, [pid])
            timer.daemon = True
            timer.start()

    def _fill_disk(self, fault: Fault) -> None:
        assert self.driver is not None
        if state(self.driver.pid) in ("", "Z", "X"):
            return
        size = (self.folder / "journal.jsonl").stat().st_size + int(2000 * fault.size)
        resource.prlimit(self.driver.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        self.full = True

    def sent(self) -> int:
        """Return the number of calls that the server has sent."""
        try:
            return (self.folder / "journal.jsonl").read_bytes().count(b'["named", ')
        except FileNotFoundError:
            return 0


def _go_on(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def disturbed(trial: Trial, room: Path) -> Outcome:
    """Carry out the trial in the folder `room`."""
    outcome = Outcome(trial)
    with Scene(trial, room) as scene:
        faults, lives = trial.around(), 0
        while not outcome.violations:
            scene.begin()
            lives += 1
            code = _until_it_ends(scene, faults, room)
            if code == 0:
                break
            if code == FULL and scene.full:
                scene.log.add("disk full")
            elif code != -signal.SIGKILL:
                tail = (room / "driver.log").read_text()[-1500:]
                outcome.violations.append(f"the server ended with {code}: {tail}")
            if lives == _MOST_LIVES:
                outcome.violations.append(f"the run has not ended in {lives} lives")
        outcome.resumed = lives - 1
    outcome.injected.update(scene.log.lines())
    if not outcome.violations:
        calm_s = float((room / "calm").read_text()) if (room / "calm").exists() else None
        outcome.violations += violations_by_logs(scene.folder, scene.logs, calm_s)
    return outcome


def _until_it_ends(scene: Scene, faults: list[Fault], room: Path) -> int | None:
    """Strike as planned until the server ends; return its exit code, None if it hangs."""
    assert scene.driver is not None
    until = time.monotonic() + _LONGEST_S
    while scene.driver.poll() is None:
        if time.monotonic() > until:
            scene.driver.kill()
            scene.driver.wait()
            return None
        if faults and scene.sent() >= faults[0].when and not (room / "calm").exists():
            scene.strike(faults.pop(0))
        time.sleep(0.05)
    return scene.driver.returncode

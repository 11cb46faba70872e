"""Faults that a process brings upon itself at a given point, and a log of those that happened."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fedtempo.record.recorder import Recorder
from tests.chaos.plan import Fault

FULL = 3
"""Exit code of a life that ends with an error of its own, as one of `fedtempo run`."""

_STOPPED_S, _FORWARD_S, _YEARS_S = 0.6, 3600.0, 10 * 365.25 * 86400

_jumped_s = {"time": 0.0, "monotonic": 0.0}


class Log:
    """A file of lines that survive the process that writes them: what has happened, one word or row per line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, line: str) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits[1], limits[1]))  # this file is on another disk
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            os.close(descriptor)

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


class Strikes:
    """The faults of one life.

    counts: what an undisturbed life has of each point. log: of the faults that happened. folder: of the run. calm: a
    file that ends all faults.
    """

    def __init__(
        self, faults: Iterable[Fault], counts: dict[str, float], log: Log, folder: Path, calm: Path | None = None
    ) -> None:
        self._log, self._folder, self._calm = log, folder, calm
        self._due = [(fault, 1 + int(fault.when * counts.get(fault.at, 0.0))) for fault in faults]
        self.seen: Counter[str] = Counter()
        self._lock = threading.RLock()

    def install(self) -> None:
        """Count the points from now on, and strike."""
        _install_clocks()
        for name in ("fsync", "replace", "unlink"):
            setattr(os, name, self._counted(name, getattr(os, name)))
        Recorder.visit = self._counted("visit", Recorder.visit)  # type: ignore[method-assign]

    def _counted(self, at: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                self.seen[at] += 1
                number = self.seen[at]
                due = [fault for fault, when in self._due if fault.at == at and when == number]
            if due and not (self._calm is not None and self._calm.exists()):
                for fault in due:
                    self._strike(fault)
            return function(*arguments, **options)

        return counted

    def _strike(self, fault: Fault) -> None:
        match fault.kind:
            case "driver killed":
                self._log.add(fault.kind)
                os.kill(os.getpid(), signal.SIGKILL)
            case "disk full":
                sizes = [path.stat().st_size for path in self._folder.rglob("*") if path.is_file()]
                full = int(max([4096, *sizes]) * (1 + fault.size) / 2)
                resource.setrlimit(resource.RLIMIT_FSIZE, (full, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            case "clock jumped":
                self._log.add(fault.kind)
                jump(fault.size)
            case "worker killed" | "worker stopped":
                self._strike_worker(fault)

    def _strike_worker(self, fault: Fault) -> None:
        if not (workers := children(os.getpid())):
            return
        victim = workers[fault.of % len(workers)]
        with contextlib.suppress(ProcessLookupError):
            if fault.kind == "worker killed":
                os.kill(victim, signal.SIGKILL)
            else:
                os.kill(victim, signal.SIGSTOP)
                timer = threading.Timer(_STOPPED_S * fault.size, _go_on, [victim])
                timer.daemon = True
                timer.start()
            self._log.add(fault.kind)


def children(pid: int) -> list[int]:
    """Return the process numbers of a process's children that are not ended."""
    numbers = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            numbers += [int(number) for number in tasks.read_text().split()]
    return [number for number in numbers if state(number) not in ("", "Z", "X")]


def state(pid: int) -> str:
    """Return the state of a process as in /proc: R, S, T, Z, ...; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _go_on(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _install_clocks() -> None:
    for name in _jumped_s:
        clock = getattr(time, name)
        setattr(time, name, lambda clock=clock, name=name: clock() + _jumped_s[name])


def jump(size: float) -> None:
    """Let the clock jump: the time of day by up to ten years to either side, or all time on by up to an hour."""
    if size < 0.5:
        _jumped_s["time"] += (4 * size - 1) * _YEARS_S
    else:
        for name in _jumped_s:
            _jumped_s[name] += (2 * size - 1) * _FORWARD_S


def stop_for_a_while(pid: int, size: float) -> bool:
    """Stop another process for a while; return whether it was stopped."""
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(_STOPPED_S * size)
        return state(pid) == "T"
    except ProcessLookupError:
        return False
    finally:
        _go_on(pid)

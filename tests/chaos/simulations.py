"""A simulation whose processes are killed, stopped and lied to about space and time, and that is resumed each time."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fedtempo.errors import FedtempoError
from fedtempo.runs.config import Config
from fedtempo.runs.run import Run
from tests.chaos.invariants import differences
from tests.chaos.outcome import Outcome
from tests.chaos.plan import Fault, Trial
from tests.chaos.strikes import FULL, Log, Strikes, stop_for_a_while
from tests.crash import lives

multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.chaos.warm"])

_LONGEST_S = 180.0
"""Seconds after which a life hangs."""


def config(strategy: str, executor: str) -> Config:
    """Return a short run in which some clients fail."""
    changes: dict[str, Any] = {"run.horizon": 20.0, "data.clients": 10, "executor.kind": executor, "run.verify": False}
    if strategy.startswith("fedhusky"):
        changes["run.horizon"] = 40.0  # it plans groups
    if strategy == "psfl":
        changes["data.clients"] = 12  # four sequences of three
    if executor == "processes":
        changes["executor.workers"] = 2
    return lives.config(strategy, changes)


def live(
    config: Config, folder: Path, faults: Sequence[Fault], counts: dict[str, float], log: Path, eager: bool
) -> None:
    """Begin or resume the run in `folder`; exits with FULL if an error ends it."""
    if eager:
        lives._checkpoint_always()
    strikes = Strikes(faults, counts, Log(log), folder)
    strikes.install()
    began = time.perf_counter()
    reported(folder, lambda: Run(config).complete(folder))
    if not faults:
        counted = {**strikes.seen, "seconds": time.perf_counter() - began}
        log.with_name("counts.json").write_text(json.dumps(counted))


def reported(folder: Path, run: Callable[[], object]) -> None:
    """Run; write an error beside the run's folder and exit, as `fedtempo run` would with a message."""
    error_file = folder.with_name("error.txt")
    error_file.unlink(missing_ok=True)
    descriptor = os.open(error_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        run()
    except FedtempoError as error:
        Log(error_file).add(f"{type(error).__name__}: {error}")
        sys.exit(FULL)
    except BaseException:
        Log(error_file).add(traceback.format_exc())
        raise
    finally:
        os.close(descriptor)


class Undisturbed:
    """Undisturbed runs, each made when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, trial: Trial) -> tuple[Path, dict[str, float]]:
        """Return the folder of the undisturbed run, and what it counted."""
        trains = trial.executor != "none"
        room = self._folder / f"{trial.strategy}-{'trained' if trains else 'none'}"
        counts = room / "counts.json"
        if not counts.exists():
            room.mkdir()
            like = config(trial.strategy, "inline" if trains else "none")
            life = lives.live(live, like, room / "run", (), {}, room / "faults", True)
            life.join()
            if life.exitcode != 0:
                raise RuntimeError(f"the undisturbed run of {trial} failed: {(room / 'error.txt').read_text()}")
        return room / "run", json.loads(counts.read_text())


def disturbed(
    trial: Trial, room: Path, undisturbed: Undisturbed, undone: Callable[[Path], None] | None = None
) -> Outcome:
    """Carry out the trial in the folder `room`. undone: called with the finished run's folder, to break it."""
    whole, counts = undisturbed.of(trial)
    outcome = Outcome(trial)
    settings, folder, log = config(trial.strategy, trial.executor), room / "run", Log(room / "faults")
    codes: list[int | None] = []
    for faults in trial.lives():
        life = lives.live(live, settings, folder, faults, counts, log.path, trial.eager)
        codes.append(struck(life, faults, counts, log))
        complain(outcome, faults, codes[-1], folder, log)
        if codes[-1] == 0 or outcome.violations:
            break
    if codes[-1] != 0 and not outcome.violations:
        life = lives.live(live, settings, folder, (), counts, log.path, trial.eager)
        codes.append(struck(life, (), counts, log))
        complain(outcome, (), codes[-1], folder, log)
    outcome.injected.update(log.lines())
    if not outcome.violations:
        outcome.violations += differences(folder, whole)
        outcome.resumed = len(codes) - 1
    return outcome


def struck(life: BaseProcess, faults: Sequence[Fault], counts: dict[str, float], log: Log) -> int | None:
    """Send a life the signals among its faults, and wait for its end; return its exit code."""
    began, pid = time.monotonic(), life.pid
    assert pid is not None
    for fault in sorted((fault for fault in faults if fault.at == "seconds"), key=lambda fault: fault.when):
        life.join(max(0.0, began + fault.when * counts["seconds"] - time.monotonic()))
        if life.exitcode is not None:
            break
        if fault.kind == "driver killed":
            life.kill()
            life.join()
            if life.exitcode == -signal.SIGKILL:
                log.add(fault.kind)
        elif stop_for_a_while(pid, fault.size):
            log.add(fault.kind)
    life.join(_LONGEST_S)
    if life.exitcode is None:
        life.kill()
        life.join()
        return None
    return life.exitcode


def complain(outcome: Outcome, faults: Sequence[Fault], code: int | None, folder: Path, log: Log) -> None:
    """Add a violation for a life that did not end as its faults explain."""
    kinds = {fault.kind for fault in faults}
    error_file = folder.with_name("error.txt")
    error = error_file.read_text() if error_file.exists() else ""
    if code == FULL and "disk full" in kinds:
        log.add("disk full")
        if not any(words in error for words in ("could not be", "cannot be")):
            outcome.violations.append(f"a full disk is not named: {error}")
    elif code is None:
        outcome.violations.append(f"a life did not end within {_LONGEST_S:g} s")
    elif code not in (0, -signal.SIGKILL if "driver killed" in kinds else 0):
        outcome.violations.append(f"a life ended with {code}: {error[-1500:]}")

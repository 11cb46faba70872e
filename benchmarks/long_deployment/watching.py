"""Run a deployment by its plan of restarts, and sample its programs until it ends."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from benchmarks.long_deployment.outcome import FolderSample, Outcome, Restarted
from benchmarks.long_deployment.plan import DRIVER, SUPERLINK, Plan, Restart
from benchmarks.long_deployment.programs import Program, Programs
from benchmarks.long_deployment.samples import (
    entries_of,
    proportional_kb,
    sample,
    shared_memory_of,
    size_of,
)
from fedtempo.errors import RunError

_TICK_S = 0.25
_PROPORTIONAL_S = 60.0
_JOIN_S = 600.0
_TRAINED = re.compile(rb"INFO train \d+ answered in")


class Watch:
    """Carries out a plan on programs. say: receives a line for each restart. every_s: seconds between two samples."""

    def __init__(self, programs: Programs, plan: Plan, every_s: float, say: Callable[[str], None]) -> None:
        self._programs, self._every_s, self._say = programs, every_s, say
        self._due: list[tuple[float, str, Restart]] = []
        for restart in plan.restarts:
            self._due += [(restart.down_s, "down", restart), (restart.up_s, "up", restart)]
        self._due.sort(key=lambda step: step[0])
        self._lived_since: dict[str, float] = {}
        self._zero = time.monotonic()
        self.outcome = Outcome()

    def follow(self, limit_s: float, file: TextIO) -> Outcome:
        """Start the programs, follow the plan until the run has ended, end the programs; return what happened.

        file: gets each sample as a line of JSON. Raises RunError if the run does not begin, or not end in `limit_s`.
        """
        programs, outcome = self._programs, self.outcome
        try:
            programs.begin()
            self._wait_for_clients()
            self._lived_since = dict.fromkeys(programs.programs, 0.0)
            sampled_at, all_sampled_at = -self._every_s, -_PROPORTIONAL_S
            while True:
                now = self._now
                if now > limit_s:
                    raise RunError(f"the run has not ended after {limit_s:.0f} s, see {programs.programs[DRIVER].log}")
                while self._due and self._due[0][0] <= now:
                    self._step(*self._due.pop(0)[1:])
                if self._look_for_ends():
                    break
                if now - sampled_at >= self._every_s:
                    sampled_at = now
                    with_all = now - all_sampled_at >= _PROPORTIONAL_S
                    all_sampled_at = now if with_all else all_sampled_at
                    self._sample(with_all, file)
                time.sleep(_TICK_S)
            outcome.wall_s = self._now
        finally:
            programs.end_all()
        for name, program in programs.programs.items():
            if name not in (DRIVER, SUPERLINK):
                self._note_life(program)
            if program.exits:
                outcome.exits[name] = program.exits[-1]
            outcome.log_bytes[name] = size_of(program.log)
        outcome.left = self._left()
        return outcome

    @property
    def _now(self) -> float:
        return time.monotonic() - self._zero

    def _wait_for_clients(self) -> None:
        """Wait until the run has begun, and set time 0."""
        programs = self._programs
        until = time.monotonic() + _JOIN_S
        while not (programs.run_folder / "now.json").exists():
            driver = programs.programs[DRIVER]
            assert driver.process is not None
            if driver.process.poll() is not None or time.monotonic() > until:
                raise RunError(f"the run did not begin, see {driver.log}")
            time.sleep(_TICK_S)
        self._zero = time.monotonic()

    def _step(self, what: str, restart: Restart) -> None:
        name = restart.program
        program = self._programs.programs[name]
        if what == "down":
            self._say(f"{self._now:7.1f} s: {name} {'killed' if restart.killed else 'ended'}")
            if name not in (DRIVER, SUPERLINK):
                self._note_life(program)
            self._programs.end(name, killed=restart.killed)
            program.process = None
            program.life += 1
        else:
            self._say(f"{self._now:7.1f} s: {name} started again")
            self._programs.start(name)
            self._lived_since[name] = self._now
            self.outcome.restarts.append(restart)

    def _look_for_ends(self) -> bool:
        """Note programs that ended by themselves, and start them again; return whether the run has ended."""
        for name, program in self._programs.programs.items():
            if program.process is None or (code := program.process.poll()) is None:
                continue
            if name == DRIVER and code == 0:
                program.exits.append(0)
                return True
            self.outcome.crashed.append((name, code))
            self._say(f"{self._now:7.1f} s: {name} ended by itself with exit code {code}; started again")
            if len(self.outcome.crashed) > 20:
                raise RunError(f"programs keep ending by themselves, see {program.log}")
            if name not in (DRIVER, SUPERLINK):
                self._note_life(program)
            program.life += 1
            self._programs.start(name)
            self._lived_since[name] = self._now
        return False

    def _sample(self, with_all: bool, file: TextIO) -> None:
        programs, now = self._programs, round(self._now, 2)
        running = {name: each.process.pid for name, each in programs.programs.items() if each.process is not None}
        for name, process in running.items():
            program = programs.programs[name]
            if (held := sample(now, name, program.life, process, program.log)) is not None:
                self.outcome.samples.append(held)
                file.write(json.dumps(dataclasses.asdict(held)) + "\n")
        folder = FolderSample(
            now,
            len(entries_of(programs.temporary)),
            size_of(programs.temporary),
            sum(size_of(Path(f"{programs.database}{suffix}")) for suffix in ("", "-wal", "-shm")),
            size_of(programs.run_folder),
            proportional_kb(running.values()) if with_all else None,
        )
        self.outcome.folders.append(folder)
        file.write(json.dumps(dataclasses.asdict(folder)) + "\n")
        file.flush()

    def _note_life(self, program: Program) -> None:
        """Note how many visits a client trained in its present life."""
        if program.process is None:
            return
        with program.log.open("rb") as log:
            log.seek(program.began_at[-1])
            visits = len(_TRAINED.findall(log.read()))
        lived_s = self._now - self._lived_since[program.name]
        self.outcome.lives.append(Restarted(program.name, program.life, visits, round(lived_s, 1)))

    def _left(self) -> list[str]:
        """Return what the programs left behind."""
        programs = self._programs
        left = [f"tmp/{name}" for name in entries_of(programs.temporary)]
        left += [f"shared memory {name}" for name in shared_memory_of(programs.processes)]
        left += [f"work/{name}" for name in entries_of(programs.folder / "work")]
        left += [f"process {process}" for process in sorted(programs.processes) if Path(f"/proc/{process}").exists()]
        half_written = [f"run/{name}" for name in entries_of(programs.run_folder) if Path(name).name.startswith(".")]
        unfinished = [
            f"run/{name}"
            for name in ("now.json", "journal.jsonl", "deployment.json")
            if (programs.run_folder / name).exists()
        ]
        return left + [name for name in half_written if name != "run/.lock"] + unfinished


def load_facts(run: Path) -> dict[str, Any]:
    """Return what the finished run says of itself: how it ended, its visits, and its accuracies."""
    from fedtempo.record import load_run

    records = load_run(run)
    outcomes: dict[str, int] = {}
    for outcome in records.visits["outcome"]:
        outcomes[str(outcome)] = outcomes.get(str(outcome), 0) + 1
    accuracy = records.evaluations["accuracy"]
    return {
        "ended": records.facts.get("ended"),
        "resumed": records.facts.get("resumed"),
        "outcomes": outcomes,
        "commits": len(records.commits["time"]),
        "first_accuracy": float(accuracy[0]) if len(accuracy) else None,
        "last_accuracy": float(accuracy[-1]) if len(accuracy) else None,
    }

"""Killed runs: each life of a run is a process, forked by a server that has already imported everything.

A run may also be interrupted in this process, at a given time on its clock.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from fedtempo.api import experiment
from fedtempo.cli import progress
from fedtempo.cli.app import main
from fedtempo.record import load_run
from fedtempo.runs.config import Config, parse
from fedtempo.runs.models import read_model
from fedtempo.runs.run import Run
from fedtempo.runs.world import build_world
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.executors import journalled
from fedtempo.runtime.simulation import Simulation
from tests.crash.power import Disk
from tests.strategies.test_every_strategy import BASE, SPECIAL

__all__ = ["BaseProcess", "Config", "build_world", "experiment", "progress", "replace"]
_SERVER: Any = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.crash.lives"])


def config(strategy: str, changes: dict[str, Any] | None = None) -> Config:
    """Return a small run in which some clients fail, with many checkpoints."""
    tables = {**BASE, "strategy": {"name": strategy}, "executor": {"kind": "inline"}}
    settings = {
        "run.horizon": 60.0,
        "run.checkpoint_every": 1e-6,
        "run.verify": True,
        "fleet.availability": {"kind": "dropout", "probability": 0.1},
        **SPECIAL.get(strategy, {}),
    }
    return parse(tables).with_changes({**settings, **(changes or {})})


build_world(config("fedavg"))  # the fork server keeps the data loaded
journalled._MAX_SHARE = 0.5  # checkpoints may take half of the run's time


def live(target: Callable[..., None], *arguments: Any, **options: Any) -> BaseProcess:
    """Start a life in a forked process."""
    process: BaseProcess = _SERVER.Process(target=target, args=arguments, kwargs=options)
    process.start()
    return process


def run(
    config: Config, folder: Path, begun: Any = None, die: str | None = None, without_power: Path | None = None
) -> None:
    """Live one life: begin or resume the run in `folder`. die: "name:n", the file operation before which it dies.

    without_power: the folder for the files that would survive a power failure at that moment.
    """
    if die is not None:
        _checkpoint_always()
        disk = None if without_power is None else Disk()
        name, _, number = die.partition(":")
        _die_before(name, int(number), lambda: disk and disk.loses_power(folder, without_power))
    if begun is not None:
        begun.set()
    Run(config).complete(folder)


def _checkpoint_always() -> None:
    """Make a checkpoint at every opportunity, complete before the run continues."""
    journalled._MAX_SHARE = math.inf
    begin = journalled.Journalled._checkpoint

    def complete_checkpoint(self: journalled.Journalled) -> None:
        begin(self)
        self.settle()

    journalled.Journalled._checkpoint = complete_checkpoint  # type: ignore[method-assign]


def command(
    arguments: list[str],
    output: Path,
    *,
    ctrl_c: bool = True,
    file_bytes: int | None = None,
    privileged: bool = True,
) -> None:
    """Live one life: run `fedtempo` with these arguments in a separate process group and print to `output`.

    ctrl_c: False to ignore Ctrl-C, as in the background of a script. file_bytes: largest size of a file.
    privileged: False to drop root privileges, even if this process has them.
    """
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.default_int_handler if ctrl_c else signal.SIG_IGN)
    with output.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if not privileged and os.getuid() == 0:
        os.setuid(65534)
    sys.argv = ["fedtempo", *arguments]
    main()


def _die_before(name: str, number: int, last: Callable[[], Any]) -> None:
    """Die before the n-th call of os.fsync, os.replace or os.unlink. last: called before dying."""
    function, calls = getattr(os, name), iter(range(1, number + 1))

    def counted(*arguments: Any, **options: Any) -> Any:
        if next(calls) == number:
            last()
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    setattr(os, name, counted)


def begins() -> Any:
    """Return the event that a life sets when everything is imported and the run begins."""
    return _SERVER.Event()


def killed_after(config: Config, folder: Path, seconds: float) -> bool:
    """Run a life and kill it after some time; return whether it was killed before its end."""
    begun = begins()
    life = live(run, config, folder, begun)
    begun.wait(60)
    life.join(seconds)
    life.kill()
    life.join()
    assert life.exitcode in (0, -signal.SIGKILL)
    return life.exitcode != 0


def lived_to_its_end(config: Config, folder: Path) -> float:
    """Run an undisturbed life; return its duration in seconds."""
    begun = begins()
    life = live(run, config, folder, begun)
    begun.wait(60)
    began = time.perf_counter()
    life.join(120)
    assert life.exitcode == 0
    return time.perf_counter() - began


def interrupted_at(config: Config, folder: Path, *instants: float) -> None:
    """Begin or resume the run in `folder` in this process, with Ctrl-C at the given times of the run's clock."""

    def watch(sim: Simulation, evaluations: Evaluations) -> None:
        for instant in instants:
            asyncio.get_running_loop().call_at(instant, signal.raise_signal, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert Run(config, watch=watch).complete(folder)["ended"] == "interrupted"
    finally:
        signal.signal(signal.SIGINT, before)


def assert_the_same(folder: Path, other: Path) -> None:
    """Assert that two runs gave the same bits."""
    one, two = load_run(folder), load_run(other)
    for table in ("visits", "commits", "evaluations"):
        for column, values in getattr(one, table).items():
            np.testing.assert_array_equal(values, getattr(two, table)[column], f"{table}.{column}")
    assert one.notes == two.notes
    differs = {"wall_s", "resumed", "executor"}
    assert {
        name for name in one.facts.keys() | two.facts.keys() if one.facts.get(name) != two.facts.get(name)
    } <= differs
    assert one.summary is not None
    assert two.summary is not None
    assert {name for name in one.summary if one.summary[name] != two.summary[name]} <= differs
    models = [sorted(path.name for path in (run_folder / "models").iterdir()) for run_folder in (folder, other)]
    assert models[0] == models[1]
    assert set(models[0]) <= {"best.safetensors", "clients.safetensors", "last.safetensors"}
    weights = [read_model(run_folder, "last", one.facts["model_sha256"]).vector for run_folder in (folder, other)]
    assert weights[0].tobytes() == weights[1].tobytes()
    assert (folder / "journal.jsonl").read_text().count("\n") == 1  # what the result depends on

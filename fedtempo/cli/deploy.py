"""What the commands around real clients do: client, deploy, keys, fleet measure."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from fedtempo.cli import logs, progress
from fedtempo.cli.logs import Format
from fedtempo.deploy.client.settings import load_client
from fedtempo.deploy.flower import need_flower
from fedtempo.deploy.run import deploy_to_folder, must_be_the_same, remembered, resume_deployment
from fedtempo.errors import ConfigError
from fedtempo.record import Recorder, RunFolder, default_name, load_run
from fedtempo.record.folder import unused
from fedtempo.record.journal import read_identity
from fedtempo.record.recorder import Observer
from fedtempo.report.table import run_table
from fedtempo.report.trackers.tracking import tracked
from fedtempo.runs.config import Config, load

RUNS = Path("runs")
INTERRUPTED = 130


def client(path: Path, log_format: Format) -> None:
    """Serve a SuperLink until the process is told to end."""
    need_flower()
    settings = load_client(path)
    from fedtempo.deploy.flower.node import serve

    logs.configure(log_format)
    serve(settings)


def deploy(
    console: Console,
    path: Path,
    local: int | None,
    out: Path | None,
    sets: list[str],
    seed: int | None,
    log_format: Format | None,
) -> int:
    """One run on real clients into a folder; returns the exit code."""
    config = _config(path, local, sets, seed)
    from fedtempo.deploy.flower import service

    folder = out or unused(RUNS / default_name(config.label, config.run.seed))
    with tracked(config, folder) as trackers:
        observing = _observed(console, config, log_format, trackers)
        with observing as seen, service.grid(config, folder, local, say=_plainly(console)) as grid:
            summary = deploy_to_folder(config, folder, grid, remember=service.to_resume(grid, local), **seen)
        return _show(console, folder, summary)


def is_deployment(folder: Path) -> bool:
    """Whether a folder holds a run on real clients that could be resumed."""
    return remembered(folder) is not None


def resume(console: Console, path: Path, sets: list[str], force: bool, log_format: Format | None) -> int:
    """Go on with a run on real clients whose server was killed or interrupted; returns the exit code."""
    need_flower()
    from fedtempo.deploy.flower import service
    from fedtempo.deploy.flower.grid import Session

    told = remembered(path) or {}
    local = told.get("local")
    with RunFolder.resume(path) as folder:
        label = read_identity(folder.journal).get("label")
        config = load(folder.config, sets, own=False).with_changes({}, label=label)
        must_be_the_same(config, folder, force=force)
        former = None if told.get("session") is None else Session(**told["session"])
        with tracked(config, path) as trackers:
            observing = _observed(console, config, log_format, trackers)
            with observing as seen, service.grid(config, path, local, former, say=_plainly(console)) as grid:
                remember = service.to_resume(grid, local)
                summary = resume_deployment(config, folder, grid, remember=remember, force=force, **seen)
            return _show(console, path, summary)


@contextlib.contextmanager
def _observed(
    console: Console, config: Config, log_format: Format | None, trackers: Iterable[Observer]
) -> Iterator[dict[str, Any]]:
    """What lets others watch a run: arguments of `deploy_to_folder`. SIGTERM interrupts the block."""
    from fedtempo.deploy.flower.observing import Metrics, served

    observers: list[Observer] = list(trackers)
    with contextlib.ExitStack() as stack:
        if log_format is not None:
            logs.configure(log_format)
            observers.append(logs.RunLog())
        watchers: list[Callable[[Any, Any], None]] = [stack.enter_context(progress.shown(console, config))]
        if config.deploy.metrics is not None:
            metrics = Metrics()
            stack.enter_context(served(metrics, config.deploy.metrics))
            observers.append(metrics)
            watchers.append(metrics.watch)
        stack.enter_context(_sigterm_interrupts())

        def watch(run: Any, evaluations: Any) -> None:
            for watcher in watchers:
                watcher(run, evaluations)

        def say(line: str) -> None:
            if log_format is None:
                console.print(line, style="dim", soft_wrap=True)
            else:
                logging.getLogger("fedtempo.run").info(line)

        yield {"watch": watch, "say": say, "recorder": partial(Recorder, observers=observers)}


def _show(console: Console, folder: Path, summary: dict[str, Any]) -> int:
    """A run that ended, and its report; returns the exit code."""
    console.print(run_table(summary))
    from fedtempo.report.html import write_report

    write_report(folder / "report.html", [load_run(folder)])
    console.print(f"{folder}/report.html", style="cyan", soft_wrap=True)
    if summary["ended"] == "interrupted":
        console.print(f"interrupted: `fedtempo resume {folder}` goes on", style="yellow", soft_wrap=True)
        return INTERRUPTED
    return 0


def measure(console: Console, path: Path, local: int | None, visits: int, out: Path, sets: list[str]) -> None:
    """Measure live clients and write them as a fleet."""
    if out.exists():
        raise ConfigError(f"{out} is there already: nothing is overwritten; choose another file with --out")
    config = _config(path, local, sets, None)
    from fedtempo.deploy.flower import service
    from fedtempo.deploy.flower.measuring import Measure, as_toml

    unlimited = config.with_changes({"run.horizon": 1e9, "run.stop_at_target": False, "run.evaluate_every": 1e9})
    run = dataclasses.replace(unlimited.run, horizon=None, max_commits=1)
    measured = dataclasses.replace(unlimited, strategy=Measure(visits), run=run, label="measure")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "run"
        joined = service.grid(config, target, local, say=_plainly(console))
        with joined as grid, console.status(f"{visits} visits of each client"):
            deploy_to_folder(measured, target, grid, say=lambda line: console.print(line, style="dim", soft_wrap=True))
        out.write_text(as_toml(load_run(target)), encoding="utf-8")
    console.print(f"{out}", style="cyan", soft_wrap=True)


def keys(
    console: Console,
    folder: Path,
    hosts: list[str],
    clients: list[str],
    renew_server: bool,
    register_at: str | None,
) -> None:
    """Make what is missing of certificates and keys; register the public ones at a SuperLink."""
    need_flower()
    from fedtempo.deploy.flower.grid import SuperLink
    from fedtempo.deploy.flower.keys import make_keys, register

    for made in make_keys(folder, hosts, clients, renew_server=renew_server):
        console.print(f"{made}", style="cyan", soft_wrap=True)
    if register_at is not None:
        for name in register(SuperLink(register_at, folder / "ca.crt"), folder):
            console.print(f"{name} is registered at {register_at}", soft_wrap=True)


def _plainly(console: Console) -> Callable[[str], None]:
    return lambda line: console.print(line, soft_wrap=True)


def _config(path: Path, local: int | None, sets: list[str], seed: int | None) -> Config:
    need_flower()
    if local is not None and local < 1:
        raise ConfigError(f"--local {local}: give the number of clients, 1 or more")
    own = [] if local is None else [f"data.clients={local}"]
    return load(path, [*sets, *own, *([] if seed is None else [f"run.seed={seed}"])])


@contextlib.contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: with its folder in order."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)

"""What the commands around real clients do: client, deploy, keys, fleet measure."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from fedtempo.api.experiment import Experiment
from fedtempo.cli import logs
from fedtempo.cli.logs import Format
from fedtempo.cli.progress import sigterm_interrupts, terminal
from fedtempo.cli.runs import RUNS, show_result
from fedtempo.deploy.client.settings import load_client
from fedtempo.deploy.flower import need_flower
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError
from fedtempo.record import default_name, load_run
from fedtempo.record.folder import unused
from fedtempo.runs.config import Config, load


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
    """Run once on real clients, in a folder; return the exit code."""
    config = _config(path, local, sets, seed)
    folder = out or unused(RUNS / default_name(config.label, config.run.seed))
    display = terminal(console, log_format, deployed=True)
    with sigterm_interrupts():
        result = Experiment.of(config).deploy(folder, local=local, display=display)
    return show_result(console, result)


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

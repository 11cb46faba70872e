"""Runs on real clients, from Python: begun, continued after an interruption, measured.

Flower is imported only when it is used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fedtempo.deploy.flower import need_flower
from fedtempo.errors import ConfigError
from fedtempo.record import Recorder, RunFolder, load_run
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import Config
from fedtempo.runs.elsewhere import must_be_state
from fedtempo.runs.run import Loaded, configuration
from fedtempo.studies.display import Display


def check_local(local: int | None) -> None:
    """Raise ConfigError if Flower is not installed, or for less than one client on this machine."""
    need_flower()
    if local is not None and local < 1:
        raise ConfigError(f"local = {local}: give the number of clients, 1 or more")


def deploy(
    config: Config,
    path: Path,
    local: int | None,
    say: Callable[[str], None],
    display: Display,
    loaded: Loaded,
) -> dict[str, Any]:
    """Run once on real clients in a new folder; return the summary. See `Experiment.deploy`, and `Run` for `loaded`."""
    config = _with_clients(config, local)
    from fedtempo.deploy.flower import service
    from fedtempo.deploy.run import deploy_to_folder

    with _followed(config, path, display) as followers, service.grid(config, path, local, say=say) as grid:
        remember = service.to_resume(grid, local)
        summary = deploy_to_folder(config, path, grid, remember=remember, say=say, loaded=loaded, **followers)
    _compare_loads(config, path, say)
    return summary


def measure(config: Config, path: Path, local: int | None, visits: int, say: Callable[[str], None]) -> Path:
    """Measure real clients and write them as a `[fleet]`; return the file. See `Experiment.measure_fleet`."""
    if path.exists():
        raise ConfigError(f"{path} already exists; choose another file (nothing was overwritten)")
    if visits < 1:
        raise ConfigError(f"visits = {visits}: give the number of visits per client, 1 or more")
    config = _with_clients(config, local)
    from fedtempo.deploy.flower import service
    from fedtempo.deploy.flower.measuring import Measure, as_toml
    from fedtempo.deploy.run import deploy_to_folder

    unlimited = config.with_changes({"run.horizon": 1e9, "run.stop_at_target": False, "run.evaluate_every": 1e9})
    run = dataclasses.replace(unlimited.run, horizon=None, max_commits=1, patience=None, budget=None)
    measured = dataclasses.replace(unlimited, strategy=Measure(visits), run=run, label="measure")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "run"
        with service.grid(config, target, local, say=say) as grid:
            deploy_to_folder(measured, target, grid, say=say)
        write_text(path, as_toml(load_run(target)))
    return path


def resume(
    path: Path, remembered: Mapping[str, Any], sets: list[str], force: bool, display: Display, loaded: Loaded
) -> dict[str, Any]:
    """Continue the deployment in a folder; return the summary.

    remembered: as `fedtempo.deploy.remembering.remembered` returns it. loaded: see `Run`.
    """
    from fedtempo.deploy.run import check_identity, conclude_deployment, resume_deployment

    if RunFolder(path).finished:
        return conclude_deployment(configuration(path, sets), path, loaded=loaded)
    need_flower()
    from fedtempo.deploy.flower import service
    from fedtempo.deploy.flower.grid import Session

    local = remembered.get("local")
    with RunFolder.resume(path) as folder:
        config = configuration(path, sets)
        if local is None:
            must_be_state(config, sets)
        check_identity(config, folder, force=force)
        former = None if remembered.get("session") is None else Session(**remembered["session"])
        with (
            _followed(config, path, display) as followers,
            service.grid(config, path, local, former, say=display.say) as grid,
        ):
            remember = service.to_resume(grid, local)
            return resume_deployment(
                config, folder, grid, remember=remember, force=force, say=display.say, loaded=loaded, **followers
            )


def _with_clients(config: Config, local: int | None) -> Config:
    """Return a configuration for `local` clients, unchanged if None. Raises ConfigError as `check_local`."""
    check_local(local)
    return config if local is None else config.with_changes({"data.clients": local}, config.label)


def _compare_loads(config: Config, path: Path, say: Callable[[str], None]) -> None:
    """Say if the machines' load was another than when the fleet was measured that the configuration names."""
    from fedtempo.api.reports import load_differences
    from fedtempo.deploy.loads import warning
    from fedtempo.fleet.presets import is_file

    preset = config.fleet.preset
    if is_file(preset):
        with contextlib.suppress(ConfigError):  # the file was there when the run began, and is no longer needed
            if lines := load_differences(str(preset), path):
                say(warning(lines))


@contextlib.contextmanager
def _followed(config: Config, path: Path, display: Display) -> Iterator[dict[str, Any]]:
    """Yield what follows a deployment, as arguments of `deploy_to_folder`: display, and metrics if configured."""
    from fedtempo.deploy.flower.observing import Metrics, served

    with contextlib.ExitStack() as stack:
        observers = list(stack.enter_context(display.observing(config, path)))
        shown = stack.enter_context(display.watching(config))
        watchers: list[Callable[[Any, Any], None]] = [] if shown is None else [shown]
        if config.deploy.metrics is not None:
            metrics = Metrics()
            stack.enter_context(served(metrics, config.deploy.metrics))
            observers.append(metrics)
            watchers.append(metrics.watch)

        def watch(run: Any, evaluations: Any) -> None:
            for watcher in watchers:
                watcher(run, evaluations)

        yield {"watch": watch, "recorder": partial(Recorder, observers=observers)}

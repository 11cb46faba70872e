"""Runs on real clients, from Python: begun, and continued after an interruption. Flower is imported if it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record import Recorder, RunFolder
from fedtempo.runs.config import Config
from fedtempo.runs.run import configuration
from fedtempo.studies.display import Display


def deploy(
    config: Config, path: Path, local: int | None, say: Callable[[str], None], display: Display
) -> dict[str, Any]:
    """Run once on real clients in a new folder; return the summary. See `Experiment.deploy`."""
    from fedtempo.deploy.flower import need_flower

    need_flower()
    from fedtempo.deploy.flower import service
    from fedtempo.deploy.run import deploy_to_folder

    if local is not None and local < 1:
        raise ConfigError(f"local = {local}: give the number of clients, 1 or more")
    if local is not None:
        config = config.with_changes({"data.clients": local}, config.label)
    with _followed(config, path, display) as followers, service.grid(config, path, local, say=say) as grid:
        remember = service.to_resume(grid, local)
        return deploy_to_folder(config, path, grid, remember=remember, say=say, **followers)


def resume(path: Path, told: Mapping[str, Any], sets: list[str], force: bool, display: Display) -> dict[str, Any]:
    """Continue the deployment in a folder; return the summary. told: what `fedtempo.deploy.run.remembered` returned."""
    from fedtempo.deploy.flower import need_flower

    need_flower()
    from fedtempo.deploy.flower import service
    from fedtempo.deploy.flower.grid import Session
    from fedtempo.deploy.run import check_identity, resume_deployment

    local = told.get("local")
    with RunFolder.resume(path) as folder:
        config = configuration(path, sets)
        check_identity(config, folder, force=force)
        former = None if told.get("session") is None else Session(**told["session"])
        with (
            _followed(config, path, display) as followers,
            service.grid(config, path, local, former, say=display.say) as grid,
        ):
            remember = service.to_resume(grid, local)
            return resume_deployment(config, folder, grid, remember=remember, force=force, say=display.say, **followers)


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

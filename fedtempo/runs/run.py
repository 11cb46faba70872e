"""One run: in memory, in a new folder, or continued in the folder where it was interrupted or killed."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record import Records, RunFolder, load_run, write_json
from fedtempo.record.journal import Journal, read_identity
from fedtempo.record.models import ModelFiles
from fedtempo.record.recorder import Observer
from fedtempo.record.run import Run as RecordedRun
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import Config, load
from fedtempo.runs.identity import identity, must_agree, settings
from fedtempo.runs.launch import Watch, make_executor, make_recorder, play, rare_collections
from fedtempo.runs.models import TrainedModels, Vector, write_models
from fedtempo.runs.world import World, build_world, training_of
from fedtempo.runtime.heartbeat import heartbeat

Loaded = Callable[[RecordedRun], None]


@dataclass(frozen=True)
class Run:
    """A configuration, ready to run.

    world: data, clients and fleet, built from the configuration if None. observers: receive events and
    affect nothing. watch: called with the run when it begins. page: whether a run in a folder gets its report.html.
    quiet: do not log warnings; the summary still lists them. loaded: called with a run in a folder when it is read
    from there, for its page or because it had already finished.
    """

    config: Config
    world: World | None = None
    observers: Iterable[Observer] = ()
    watch: Watch | None = None
    page: bool = True
    quiet: bool = False
    loaded: Loaded | None = None

    def in_memory(self) -> tuple[dict[str, Any], Records, TrainedModels]:
        """Run; return the summary, the records and the models."""
        summary, records, models = self._recorded(self._world(), self.watch)
        assert records is not None
        return summary, records, models

    def begin(self, path: Path) -> dict[str, Any]:
        """Run in a new folder, which is claimed before anything is computed; return the summary.

        Raises ConfigError if the folder holds something or the configuration is not usable; nothing is left then,
        unless the run had already committed a model or a user's code failed in it.
        """
        folder = RunFolder.create(path, self.config.run.seed)
        try:
            with folder:
                write_text(folder.config, self.config.dump(), sync=True)
                world = self._world()
                journal = Journal.create(folder.journal, identity(self.config, world.dataset.sha256))
                return self._in_folder(folder, world, journal)
        except ConfigError as error:
            if not error.keeps_run:
                shutil.rmtree(folder.path)
            raise

    def resume(self, path: Path, *, force: bool = False) -> dict[str, Any]:
        """Continue the interrupted run in a folder; return the summary, the same as if it had never stopped.

        Raises ConfigError if the configuration, the data, package versions or the code have changed since the run
        began (force: ignore versions and code), RunError if the journal or a model is damaged.
        """
        with RunFolder.resume(path) as folder:
            world = self._world()
            now = identity(self.config, world.dataset.sha256)
            if folder.journal.exists():
                journal = Journal.resume(folder.journal)
                must_agree(folder.path, journal.identity, now, force)
            else:
                journal = Journal.create(folder.journal, now)
            folder.summary.unlink(missing_ok=True)
            return self._in_folder(folder, world, journal)

    def complete(self, path: Path, *, force: bool = False) -> dict[str, Any]:
        """Return the summary of the run in a folder: begun if there is none, continued if it is not finished."""
        folder = RunFolder(path)
        if not folder.config.exists():
            return self.begin(path)
        if not folder.finished:
            return self.resume(path, force=force)
        must_agree(path, settings(load(folder.config, own=False)), settings(self.config), force)
        recorded = load_run(path)
        summary = dict(recorded.summary or {})
        leave_results(folder)
        if self.loaded is not None:
            self.loaded(recorded)
        return summary

    def _world(self) -> World:
        return build_world(self.config) if self.world is None else self.world

    def _in_folder(self, folder: RunFolder, world: World, journal: Journal) -> dict[str, Any]:
        with heartbeat(folder.now, self.watch) as watch:
            summary, _, models = self._recorded(world, watch, folder.path, journal)
        finish(folder, summary, models, self.config.run.keep, page=self.page, loaded=self.loaded)
        return summary

    def _recorded(
        self, world: World, watch: Watch | None, folder: Path | None = None, journal: Journal | None = None
    ) -> tuple[dict[str, Any], Records | None, TrainedModels]:
        """Execute and record the run. The executor is created first, so its imports precede the run's first record."""
        config, training = self.config, training_of(self.config, world)
        with (
            rare_collections(len(world.clients)),
            make_executor(config, world) as executor,
            contextlib.closing(make_recorder(config, folder, world, self.observers, quiet=self.quiet)) as recorder,
        ):
            models = play(config, world, training, executor, recorder, watch=watch, folder=folder, journal=journal)
            return recorder.summary(), recorder.records() if folder is None else None, models


def run(
    config: Config, *, world: World | None = None, watch: Watch | None = None, quiet: bool = False
) -> tuple[dict[str, Any], Records, Vector | None]:
    """Run a configuration in memory; return the summary, the records and the final model (None without training)."""
    summary, records, models = Run(config, world, watch=watch, quiet=quiet).in_memory()
    return summary, records, models["last"].vector if models else None


def configuration(path: Path, sets: list[str]) -> Config:
    """Return the configuration of the run in a folder; sets: changes to it that `resume` allows.

    Raises ConfigError if there is no run, or a change is malformed.
    """
    folder = RunFolder(path)
    if not folder.config.exists():
        raise ConfigError(f"{path}: no run to resume here (no {folder.config.name})")
    label = read_identity(folder.journal).get("label")
    return load(folder.config, sets, own=False).with_changes({}, label=label)


def finish(
    folder: RunFolder,
    summary: dict[str, Any],
    models: TrainedModels,
    keep: Collection[str],
    *,
    page: bool = True,
    loaded: Loaded | None = None,
) -> None:
    """Write the results of a finished or interrupted run: its models, summary.json and the page.

    keep: the models to write, see `run.keep`. loaded: called with the run that the page shows.
    """
    write_models(folder.path, models, keep)
    write_json(folder.summary, summary)
    if summary["ended"] != "interrupted":
        leave_results(folder)
    if page:
        from fedtempo.report.html import write_report

        recorded = load_run(folder.path)
        write_report(folder.report, [recorded])
        if loaded is not None:
            loaded(recorded)


def leave_results(folder: RunFolder) -> None:
    """Delete the files of a finished run that only resuming needs: its journal and the models of checkpoints."""
    folder.journal.unlink(missing_ok=True)
    ModelFiles(folder.models).keep(())

"""One run: in memory, in a new folder, or continued in the folder where it was interrupted or killed."""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record import Records, RunFolder, load_run, write_json
from fedtempo.record.folder import must_keep_to_itself
from fedtempo.record.journal import Journal, keep_identity, read_identity
from fedtempo.record.models import ModelFiles
from fedtempo.record.recorder import Observer
from fedtempo.record.run import Run as RecordedRun
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import Config, load
from fedtempo.runs.extension import check_extension, extends, without_ends
from fedtempo.runs.identity import identity, must_agree, settings
from fedtempo.runs.launch import Watch, make_executor, make_recorder, play, rare_collections
from fedtempo.runs.models import TrainedModels, Vector, write_models
from fedtempo.runs.world import World, build_world, training_of
from fedtempo.runtime.heartbeat import heartbeat

log = logging.getLogger("fedtempo")

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
                journal = Journal.create(folder.journal, identity(self.config, world.data_sha256))
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
            now = identity(self.config, world.data_sha256)
            if folder.journal.exists():
                journal = Journal.resume(folder.journal)
                must_agree(folder.path, journal.identity, now, force)
            else:
                journal = Journal.create(folder.journal, now)
            if extends(load(folder.config, own=False).run, self.config.run):  # killed when it began to go on
                write_text(folder.config, self.config.dump(), sync=True)
            folder.summary.unlink(missing_ok=True)
            return self._in_folder(folder, world, journal)

    def extend(self, path: Path, *, force: bool = False) -> dict[str, Any]:
        """Continue the finished run in a folder to a later end; return the summary, that of a run with this end.

        If the run kept no state (`run.keep`), it is repeated from its start. Raises ConfigError as `resume`, or if the
        later end would change what the run has already done.
        """
        with RunFolder.reopen(path) as folder:
            before = may_go_on(path, self.config)
            world = self._world()
            began_with, now = read_identity(folder.journal), identity(self.config, world.data_sha256)
            if not began_with:
                raise ConfigError(f"{path} cannot be continued: {folder.journal.name} is missing; begin a new run")
            must_agree(path, without_ends(began_with), without_ends(now), force)
            folder.summary.unlink()
            if "state" in before.run.keep:
                journal = Journal.resume(folder.journal)
                journal.extend(now)
            else:
                log.warning("%s: no state was kept (run.keep), so the run is repeated from its start", path)
                journal = Journal.create(folder.journal, now)
            write_text(folder.config, self.config.dump(), sync=True)
            return self._in_folder(folder, world, journal)

    def complete(self, path: Path, *, force: bool = False) -> dict[str, Any]:
        """Return the summary of the run in a folder: begun if there is none, continued if it is not finished.

        A finished run is continued if this configuration has a later end.
        """
        folder = RunFolder(path)
        if not folder.config.exists():
            return self.begin(path)
        if not folder.finished:
            return self.resume(path, force=force)
        before = load(folder.config, own=False)
        if extends(before.run, self.config.run):
            return self.extend(path, force=force)
        must_agree(path, settings(before), settings(self.config), force)
        recorded = load_run(path)
        summary = dict(recorded.summary or {})
        must_keep_to_itself(path)
        leave_results(folder, self.config.run.keep)
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


def may_go_on(path: Path, config: Config) -> Config:
    """Return the present configuration of the finished run in a folder.

    Raises ConfigError, saying why, if `config` has other ends (`extension.ENDS`) that the run cannot be continued to.
    """
    before = load(RunFolder(path).config, own=False)
    if extends(before.run, config.run):
        check_extension(path, load_run(path), before.run, config.run)
    return before


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
        leave_results(folder, keep)
    if page:
        from fedtempo.report.html import write_report

        recorded = load_run(folder.path)
        write_report(folder.report, [recorded])
        if loaded is not None:
            loaded(recorded)


def leave_results(folder: RunFolder, keep: Collection[str]) -> None:
    """Delete what only continuing a finished run needs, unless it is kept: operations and models of checkpoints."""
    if "state" not in keep:
        keep_identity(folder.journal)
        ModelFiles(folder.models).keep(())

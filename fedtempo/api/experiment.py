"""The Python API: what the command line does, with results as objects.

from fedtempo import Experiment

experiment = Experiment.from_toml("configs/fedhusky.toml")
print(experiment.compare(["fedhusky", "fedavg"], seeds=[1, 2]))
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.api.results import Comparison, Plan, Result, compared
from fedtempo.api.sweeps import Sweep, collect_sweep
from fedtempo.api.tuning import Tuning
from fedtempo.deploy.remembering import remembered
from fedtempo.errors import ConfigError, Interrupted, nearest
from fedtempo.parts.import_path import import_nothing_from
from fedtempo.parts.leftovers import remove_leftovers
from fedtempo.record import Run as RecordedRun
from fedtempo.record.strict_json import write_text
from fedtempo.report import frames
from fedtempo.runs.choosing import for_choosing
from fedtempo.runs.config import REGISTRIES, SECTIONS, Config, flat, load, name_of, parse, toml_value
from fedtempo.runs.elsewhere import without_new_store
from fedtempo.runs.run import Run, configuration
from fedtempo.runs.shipped import config_names, config_path
from fedtempo.studies import compare as comparison
from fedtempo.studies import sweep as sweeping
from fedtempo.studies.competitors import competitors, configured, whole_seeds
from fedtempo.studies.display import HIDDEN, Display
from fedtempo.studies.plan import predict
from fedtempo.studies.sweep import jobs_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure
    from pandas import DataFrame

    from fedtempo.runs.data_description import DataDescription
    from fedtempo.studies.advice.recommendation import Advice
    from fedtempo.studies.check import Check
    from fedtempo.studies.tuning.successive_halving import Rung
    from fedtempo.studies.tuning.trials import Changes

Part = str | Mapping[str, Any] | Any
"""A section of a configuration: a table, a name that stands for one, or an object."""

_NAMED_BY = {"strategy": "name", "data": "source", "model": "network", "fleet": "preset", "executor": "kind"}
"""The key of each section that a single word sets."""


class Experiment:
    """One configuration and what can be done with it. Immutable; `with_` makes another.

    Sections are those of the TOML: run, data, model, training, fleet, strategy, executor, server, deploy, compare. Each
    is a table, or an object of fedtempo's or your own (`strategy=FedAvg(clients_per_round=10)`), or the one word that
    says most of it: strategy="fedavg", data="digits", model="lenet", fleet="psfl-uniform", executor="inline".

        Experiment(strategy="fedavg", fleet="psfl-uniform", run={"horizon": 200.0})

    Raises ConfigError, in one line, for anything unknown, missing or out of range.
    """

    def __init__(self, **sections: Part) -> None:
        self._config = parse({name: _section(name, part) for name, part in sections.items()})

    @classmethod
    def from_toml(cls, path: Path | str, *sets: str) -> Experiment:
        """Return the experiment of a file; sets: "section.key=value" as for `--set`."""
        return cls.of(load(path, sets))

    @classmethod
    def shipped(cls, name: str, *sets: str) -> Experiment:
        """Return the experiment of a shipped configuration, such as "fedhusky"; there is one for every strategy.

        sets: as in `from_toml`. Raises ConfigError for an unknown name.
        """
        if name not in config_names():
            raise ConfigError(f"{name}: no such configuration{nearest(name, config_names())}")
        return cls.of(load(config_path(name), sets, own=False))

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> Experiment:
        """Return the experiment of a TOML file's tables, such as `Result.config`."""
        return cls.of(parse(tables))

    @classmethod
    def of(cls, config: Config) -> Experiment:
        """Return the experiment of a configuration."""
        made = cls.__new__(cls)
        made._config = config
        return made

    @property
    def config(self) -> Config:
        """The configuration, checked and complete."""
        return self._config

    @property
    def label(self) -> str:
        """Its name in tables and figures (default: its strategy)."""
        return self._config.label

    def with_(self, changes: Mapping[str, Any] | None = None, /, **sections: Part) -> Experiment:
        """Return the experiment with changes: dotted keys, as for `--set`, and sections of which the given keys change.

            experiment.with_({"training.lr": 0.1}, run={"seed": 7}, strategy="fedbuff")

        An object takes the place of its section as a whole, and a strategy of another name takes none of the settings
        of the one before. Raises ConfigError as the constructor.
        """
        whole, flattened = {}, {key: toml_value(value) for key, value in (changes or {}).items()}
        for name, part in sections.items():
            table = _section(name, part)
            if isinstance(part, str | Mapping):
                for key, value in table.items():
                    flattened |= flat(f"{name}.{key}", value)
            else:
                whole[name] = table
        replaced = dataclasses.replace(self._config, given={**self._config.given, **whole})
        return Experiment.of(replaced.with_changes(flattened))

    def toml(self) -> str:
        """Return the complete configuration as TOML."""
        return self._config.dump()

    def save(self, path: Path | str) -> Path:
        """Write `toml()` to a file. Raises RunError if it cannot be written."""
        write_text(Path(path), self.toml())
        return Path(path)

    def run(self, folder: Path | str | None = None, *, display: Display = HIDDEN) -> Result:
        """Run once, in memory or in a new folder, as `fedtempo run` leaves it.

        display: what follows the run; by default the trackers of `run.track`, if it is in a folder. After Ctrl-C
        `summary["ended"]` is "interrupted", and `resume` continues a run in a folder. Raises ConfigError or RunError
        for what cannot run, ConfigError if the folder holds something.
        """
        if folder is None:
            _untracked(self._config)
            return _in_memory(Run(self._config), display)
        path = Path(folder)
        read: list[RecordedRun] = []
        with display.observing(self._config, path) as observers, display.watching(self._config) as watch:
            summary = Run(self._config, None, observers, watch, loaded=read.append).begin(path)
        return _in_folder(read, summary)

    def compare(
        self,
        strategies: str | Iterable[str],
        seeds: int | Iterable[int] = 1,
        folder: Path | str | None = None,
        *,
        jobs: int | None = 1,
        display: Display = HIDDEN,
    ) -> Comparison:
        """Run several strategies on the same data, fleet and seeds, in memory or in a new folder (`fedtempo compare`).

        strategies: names, labels of `compare` tables, "all"; or one text with commas. jobs: number of parallel runs, in
        a folder only; as in `sweep`. display: as in `run`. Raises ConfigError as `run`, Interrupted after Ctrl-C;
        `resume` continues a comparison in a folder.
        """
        labels, numbers = competitors(strategies, self._config), whole_seeds(seeds)
        if folder is not None:
            parallel = jobs_for(self._config, jobs)
            runs = comparison.begin(Path(folder), self._config, labels, numbers, display, parallel)
            return compared(map(Result.of, runs), labels)
        if jobs != 1:
            raise ConfigError(f"jobs = {jobs}: parallel runs need a folder; name one")
        _untracked(self._config)
        results: dict[str, list[Result]] = {label: [] for label in labels}
        for config, world in comparison.runs_of(self._config, labels, numbers):
            result = _in_memory(Run(config, world), display)
            if result.summary["ended"] == "interrupted":
                raise Interrupted(f"{config.label}, seed {config.run.seed}: interrupted")
            results[config.label].append(result)
        return Comparison(results)

    def sweep(
        self,
        grid: Mapping[str, Sequence[Any]],
        folder: Path | str | None = None,
        *,
        strategies: str | Iterable[str] | None = None,
        seeds: int | Iterable[int] = 1,
        jobs: int | None = 1,
        display: Display = HIDDEN,
    ) -> Sweep:
        """Run every combination of settings in a folder, which is new or holds this sweep already (`fedtempo sweep`).

        grid: values by dotted key, {"training.lr": [0.1, 0.3]}. folder: by default one below runs/ whose name depends
        on the sweep, so that the same call finds it. strategies: as in `compare`; the experiment's own if None. The
        same call continues a sweep; with more values, seeds or strategies it adds their runs. jobs: number of parallel
        runs, each in a process of its own or, with `executor.kind = "ray"`, a task of the cluster; None for as many as
        there are CPUs or room. With more than one, a script guards its start with `if __name__ == "__main__"`.

        Raises ConfigError before anything runs for keys and values that are not usable, or a folder that holds anything
        else; Interrupted after Ctrl-C; RunError at the end if runs failed, which the same call repeats.
        """
        plan, parallel = sweeping.plan_sweep(self._config, grid, strategies, seeds), jobs_for(self._config, jobs)
        path = sweeping.default_folder(plan) if folder is None else Path(folder)
        return Sweep(path, *sweeping.run_sweep(path, plan, display, parallel))

    def slurm_sweep(
        self,
        grid: Mapping[str, Sequence[Any]],
        folder: Path | str | None = None,
        *,
        strategies: str | Iterable[str] | None = None,
        seeds: int | Iterable[int] = 1,
        jobs: int | None = None,
    ) -> Path:
        """Prepare a sweep for Slurm; return the script for `sbatch` (`fedtempo sweep --slurm`).

        The script has one task for each run that has not finished. jobs: number of tasks at the same time (no limit if
        None). Others as in `sweep`; `collect_sweep` reads the results. Raises ConfigError if all runs have finished.
        """
        plan = sweeping.plan_sweep(self._config, grid, strategies, seeds)
        return sweeping.slurm_script(sweeping.default_folder(plan) if folder is None else Path(folder), plan, jobs)

    def describe_data(self) -> DataDescription:
        """Return the data client by client, before anything trains (`fedtempo describe data CONFIG`).

        `frame()` returns it as a pandas frame, `save_figure(path)` draws it. Raises ConfigError if the data cannot be
        read, dealt or split.
        """
        from fedtempo.runs.data_description import describe_data

        return describe_data(self._config)

    def plan(self, strategies: str | Iterable[str] | None = None, *, display: Display = HIDDEN) -> Plan:
        """Predict schedules in seconds, without training: how busy clients are, groups alive, visits (`fedtempo plan`).

        strategies: as in `compare`; the experiment's own if None.
        """
        labels = () if strategies is None else competitors(strategies, self._config)
        predictions = {}
        for config in configured(self._config, labels) or [self._config]:
            with display.watching(config) as watch:
                predictions[config.label] = predict(config, watch)
        return Plan.of(predictions)

    def tune(
        self,
        strategies: str | Iterable[str] | None = None,
        lr: tuple[float, float] = (0.3, 0.001),
        *,
        factor: float = 3.0,
        seeds: int | Iterable[int] = (101, 102),
        budget: float | None = None,
        workers: int = 1,
        begins: Callable[[int, Rung, float], None] | None = None,
    ) -> Tuning:
        """Find each strategy's learning rate on one grid with the same budget, by successive halving (`fedtempo tune`).

        lr: the largest and the smallest; factor: from one to the next. seeds: others than those of the comparison that
        the settings are for. Trials are evaluated on the validation set if there is one. budget: horizons that each
        strategy may run a seed, see `successive_halving`. workers: parallel runs, in processes of their own; results do
        not depend on it, and with more than one a script guards its start with `if __name__ == "__main__"`. begins:
        called with the number of each rung, the rung and its horizon (s).
        """
        from fedtempo.studies.tuning.successive_halving import multiplicative_grid, successive_halving

        labels, choosing = competitors(strategies or [self._config.label], self._config), for_choosing(self._config)
        numbers = whole_seeds(seeds)
        points: list[Changes] = [{"training.lr": value} for value in multiplicative_grid(*lr, factor)]
        options = {} if begins is None else {"begins": begins}
        placed = successive_halving(choosing.config, labels, points, numbers, budget, workers=workers, **options)
        return Tuning(self, placed, numbers, points, choosing.note)

    def search(
        self,
        space: Mapping[str, str | Sequence[Any]],
        strategies: str | Iterable[str] | None = None,
        *,
        trials: int = 20,
        seeds: int | Iterable[int] = (101, 102),
        workers: int = 1,
        begins: Callable[[int, int], None] | None = None,
    ) -> Tuning:
        """Tune any keys with Optuna, with the same number of trials for each strategy (`fedtempo tune --over`).

        space: by dotted key a range, "0.001:0.3:log" or "5:20" (whole numbers), or a list of values; a key
        compare.<label>.<key> is for that strategy alone. trials: settings for each strategy, chosen by Optuna's TPE;
        each is run with all seeds to the horizon, or to the target. seeds: others than run.seed and those of the
        comparison. workers: as in `tune`; results do not depend on it. begins: called before each few trials with the
        number done and the number of all, per strategy.

        Raises ConfigError, before anything runs, for keys and values that are not usable, or if Optuna is not installed
        (extra `tune`).
        """
        from fedtempo.studies.search import Choice, parse_values_of, search

        labels, numbers = competitors(strategies or [self._config.label], self._config), whole_seeds(seeds)
        wanted = {
            key: parse_values_of(f"{key}={each}", each) if isinstance(each, str) else Choice(tuple(each))
            for key, each in space.items()
        }
        options = {} if begins is None else {"begins": begins}
        choosing = for_choosing(self._config)
        placed = search(choosing.config, labels, wanted, numbers, trials, workers=workers, **options)
        return Tuning(self, placed, numbers, note=choosing.note)

    def advise(
        self,
        strategies: str | Iterable[str] | None = None,
        *,
        budget: int | str | None = None,
        short_s: float | None = None,
        workers: int = 1,
        display: Display = HIDDEN,
    ) -> Advice:
        """Recommend a strategy from short trainings of all that fit (`fedtempo advise`).

        strategies: as in `compare`; all, and all labels of `compare` tables, if None. budget: short trainings, or real
        time as "5m". short_s: how long a training lasts, in simulated seconds; a quarter of the horizon if None.
        workers: as in `tune`.
        """
        from fedtempo.studies.advice.evidence import parse_budget
        from fedtempo.studies.advice.recommendation import advise

        wanted = parse_budget(budget) if isinstance(budget, str) else budget
        base = for_choosing(self._config).config
        return advise(base, strategies, budget=wanted, short_s=short_s, workers=workers, say=display.say)

    @property
    def chosen_on(self) -> str:
        """Which examples decide what `tune`, `search` and `advise` choose, in a line: validation or test examples."""
        return for_choosing(self._config).note

    def check(self, *, display: Display = HIDDEN) -> Check:
        """Compare the run's bits across executors: inline, with one, two and three workers, on Ray if configured.

        The answer is true if they agree (`fedtempo check`). Raises Interrupted after Ctrl-C.
        """
        from fedtempo.studies.check import check

        return check(self._config, display)

    def deploy(
        self,
        folder: Path | str,
        *,
        local: int | None = None,
        say: Callable[[str], None] | None = None,
        display: Display = HIDDEN,
    ) -> Result:
        """Run the same strategy once on real clients through Flower, in a new folder (`fedtempo deploy`).

        local: number of clients to start on this machine with a SuperLink; if None, clients of the SuperLink that the
        section deploy names. say: told of each client that joins (default: display.say). After Ctrl-C
        `summary["ended"]` is "interrupted", and `resume` continues. Raises ConfigError if Flower is not installed,
        RunError if too few clients join.
        """
        from fedtempo.api.deployment import deploy

        read: list[RecordedRun] = []
        summary = deploy(self._config, Path(folder), local, say or display.say, display, read.append)
        return _in_folder(read, summary)

    def measure_fleet(
        self,
        out: Path | str,
        *,
        local: int | None = None,
        visits: int = 3,
        display: Display = HIDDEN,
    ) -> Path:
        """Measure real clients with this model and data, and write them as a `[fleet]` (`fedtempo fleet measure`).

        out: a new TOML file, which is returned; it holds each client's median times in seconds. local: as in `deploy`.
        visits: number of visits per client. display: its `say` receives a line per client that joins. Raises
        ConfigError if the file exists or Flower is not installed, RunError if a client makes no visit.
        """
        from fedtempo.api.deployment import measure

        return measure(self._config, Path(out), local, visits, display.say)

    def fleet_figure(self) -> MatplotlibFigure:
        """Draw the fleet with Matplotlib (`fedtempo fleet plot`)."""
        from fedtempo.studies.fleet_figure import draw_fleet

        return draw_fleet(self._config)

    def clients(self) -> DataFrame:
        """Return one row per client: examples, mean seconds of a visit and of its parts, rates, place, power."""
        from fedtempo.studies.fleet import describe_fleet

        return frames.frame(describe_fleet(self._config))

    def export_fleet(self, path: Path | str) -> Path:
        """Write the clients as a new .csv, .parquet, .json or .toml file (`fedtempo fleet export`)."""
        from fedtempo.studies.fleet import export_fleet

        return export_fleet(self._config, Path(path))

    def __repr__(self) -> str:
        config = self._config
        return f"<Experiment {config.label}: {config.data.source}, seed {config.run.seed}>"

    def _repr_html_(self) -> str:
        from fedtempo.report.rendering import notebook_html

        return notebook_html(repr(self).strip("<>"), text=self.toml())


def resume(
    folder: Path | str,
    *,
    force: bool = False,
    sets: Iterable[str] = (),
    jobs: int | None = 1,
    display: Display = HIDDEN,
) -> Result | Comparison | Sweep:
    """Continue the run, deployment, comparison or sweep in a folder.

    A simulation ends with the same result as without the interruption, bit for bit. A finished simulation goes on if
    `sets` give it a later end (run.horizon=2000, run.max_commits, ...), and equals the longer run.

    sets: "section.key=value" changes of its end, or of what no result depends on, such as executor.workers=4. jobs: of
    a comparison or sweep, as in `Experiment.sweep`. Raises ConfigError if there is nothing to resume, if a finished run
    cannot go on, or if what a result depends on has changed (force: except versions and code); Interrupted if it is
    interrupted again.
    """
    folder = Path(folder)
    import_nothing_from(folder)
    remove_leftovers()
    if (folder / comparison.PLAN).exists():
        planned = comparison.read_plan(folder)
        parallel = jobs_for(planned.base, jobs)
        runs = comparison.resume(folder, sets, force=force, display=display, jobs=parallel)
        if planned.grid:
            return collect_sweep(folder)
        return compared(map(Result.of, runs), list(dict.fromkeys(run.label for run in runs)))
    read: list[RecordedRun] = []
    if (deployment := remembered(folder)) is not None:
        from fedtempo.api.deployment import resume

        return _in_folder(read, resume(folder, deployment, list(sets), force, display, read.append))
    config = without_new_store(configuration(folder, sets := list(sets)), sets)
    with display.observing(config, folder) as observers, display.watching(config) as watch:
        summary = Run(config, None, observers, watch, loaded=read.append).complete(folder, force=force)
    return _in_folder(read, summary)


def _in_folder(read: Sequence[RecordedRun], summary: Mapping[str, Any]) -> Result:
    """Return the result of a run in a folder, which was read from there once, for its page."""
    (run,) = read
    return Result(run, summary, run.config, run.folder)


def _untracked(config: Config) -> None:
    """Raise ConfigError for trackers of a run in memory: they need a folder."""
    if config.run.track:
        raise ConfigError(f"run.track = {list(config.run.track)}: trackers follow runs in folders; name one")


def _in_memory(run: Run, display: Display) -> Result:
    with display.watching(run.config) as watch:
        summary, records, models = dataclasses.replace(run, watch=watch).in_memory()
    return Result(records, summary, run.config.tables, None, models)


def _section(name: str, part: Part) -> dict[str, Any]:
    """Return a section's table. Raises ConfigError for an unknown section or an unusable value."""
    if name not in SECTIONS:
        raise ConfigError(f"{name}: unknown section{nearest(name, SECTIONS)}")
    if isinstance(part, str):
        if name not in _NAMED_BY:
            raise ConfigError(f"{name} = {part!r}: give a table of its keys")
        return {_NAMED_BY[name]: part}
    if isinstance(part, Mapping):
        return {key: toml_value(value) for key, value in part.items()}
    if name in ("strategy", "model") and (isinstance(part, type) or inspect.isfunction(part)):
        return {_NAMED_BY[name]: _name_of(part, name)}
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        raise ConfigError(f"{name} = {part!r}: give a table, a name or an object")
    given = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    table = {key: toml_value(value) for key, value in given.items() if value is not None}
    return {_NAMED_BY[name]: _name_of(type(part), name), **table} if name in ("strategy", "model") else table


def _name_of(maker: Any, section: str) -> str:
    """Return a configuration's name for a class, or for a function that makes a network."""
    if (name := name_of(maker, REGISTRIES["strategies" if section == "strategy" else "networks"])) is not None:
        return name
    if "." in maker.__qualname__:
        raise ConfigError(
            f"{section}: {maker.__qualname__} is not at the top level of a module, so no configuration can name it"
        )
    return f"{maker.__module__}:{maker.__qualname__}"

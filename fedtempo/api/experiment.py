"""The Python API: what the command line does, with results as objects.

from fedtempo import Experiment

experiment = Experiment.from_toml("configs/fedhusky.toml")
print(experiment.compare(["fedhusky", "fedavg"], seeds=[1, 2]))
"""

from __future__ import annotations

import dataclasses
import inspect
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.api.results import Comparison, Plan, Result, open_run
from fedtempo.deploy.run import remembered
from fedtempo.errors import ConfigError, RunError, nearest
from fedtempo.record import Recorder
from fedtempo.record.strict_json import write_text
from fedtempo.report import frames
from fedtempo.report.trackers.tracking import tracked
from fedtempo.runs import launch
from fedtempo.runs import resume as folders
from fedtempo.runs.config import REGISTRIES, SECTIONS, Config, flat, load, parse, toml_value
from fedtempo.runs.world import World, build_world
from fedtempo.studies import compare as comparing
from fedtempo.studies.advice.evidence import parse_budget
from fedtempo.studies.advice.recommendation import Advice, advise
from fedtempo.studies.check import Check, check
from fedtempo.studies.fleet import describe_fleet
from fedtempo.studies.plan import predict
from fedtempo.studies.tuning.successive_halving import Placed, multiplicative_grid, successive_halving
from fedtempo.studies.tuning.trials import Changes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure
    from pandas import DataFrame

Part = str | Mapping[str, Any] | Any
"""A section of a configuration: a table, the name that stands for one, or an object."""

_NAMED_BY = {"strategy": "name", "data": "source", "model": "network", "fleet": "preset", "executor": "kind"}
"""Which key of a section a single word is."""


class Experiment:
    """One configuration, and what can be done with it. It never changes: `with_` makes another.

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
        """The experiment of a file; sets: "section.key=value" as `--set` takes them."""
        return cls.of(load(path, sets))

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> Experiment:
        """The experiment of a TOML file's tables, such as `Result.config` holds."""
        return cls.of(parse(tables))

    @classmethod
    def of(cls, config: Config) -> Experiment:
        """The experiment of a configuration that was read before."""
        made = cls.__new__(cls)
        made._config = config
        return made

    @property
    def config(self) -> Config:
        """The configuration, checked and complete."""
        return self._config

    @property
    def label(self) -> str:
        """What tables and pictures call it: its strategy, where nothing else was said."""
        return self._config.label

    def with_(self, changes: Mapping[str, Any] | None = None, /, **sections: Part) -> Experiment:
        """The same experiment with changes: dotted keys, like `--set`, and sections of which the given keys change.

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
        """The configuration as TOML, complete, usable as it is."""
        return self._config.dump()

    def save(self, path: Path | str) -> Path:
        """Write `toml()` to a file, for the command line. Raises RunError where it cannot be written."""
        write_text(Path(path), self.toml())
        return Path(path)

    def run(self, folder: Path | str | None = None) -> Result:
        """One run, in memory or in a new folder, as `fedtempo run` leaves it, followed by the trackers of `run.track`.

        Ctrl-C ends it where it is; `summary["ended"]` is "interrupted" then, and `resume` goes on with one in a folder.
        Raises ConfigError or RunError for what cannot run, ConfigError where the folder holds something.
        """
        if folder is None:
            _untracked(self._config)
            return _in_memory(self._config, build_world(self._config))
        path = Path(folder)
        with tracked(self._config, path) as observers:
            folders.run_to_folder(self._config, path, observers=observers)
            return _left_in(path)

    def compare(
        self, strategies: str | Iterable[str], seeds: int | Iterable[int] = 1, folder: Path | str | None = None
    ) -> Comparison:
        """Several strategies over the same data, fleet and seeds, in memory or in a new folder (`fedtempo compare`).

        strategies: names, labels of `compare` tables, "all"; or one text with commas. Raises ConfigError as `run`,
        RunError where it was interrupted; `fedtempo resume` goes on with one in a folder.
        """
        labels, numbers = comparing.competitors(strategies, self._config), comparing.whole_seeds(seeds)
        results: dict[str, list[Result]] = {label: [] for label in labels}
        if folder is not None:
            if comparing.begin(Path(folder), self._config, labels, numbers) is None:
                raise RunError(
                    f"the comparison in {folder} was interrupted; `fedtempo resume {folder}` goes on with it"
                )
            for label in labels:
                runs = (comparing.run_folder(Path(folder), label, seed) for seed in numbers)
                results[label] = [open_run(run) for run in runs]
            return Comparison(results)
        _untracked(self._config)
        for config, world in comparing.runs_of(self._config, labels, numbers):
            result = _in_memory(config, world)
            if result.summary["ended"] == "interrupted":
                raise RunError(f"{config.label}, seed {config.run.seed}: interrupted")
            results[config.label].append(result)
        return Comparison(results)

    def plan(self, strategies: str | Iterable[str] | None = None) -> Plan:
        """Schedules without training, in seconds: how busy clients are, groups alive, visits (`fedtempo plan`).

        strategies: as in `compare`; the experiment's own where None.
        """
        if strategies is None:
            return Plan.of({self._config.label: predict(self._config)})
        labels = comparing.competitors(strategies, self._config)
        return Plan.of({config.label: predict(config) for config in comparing.configured(self._config, labels)})

    def tune(
        self,
        strategies: str | Iterable[str] | None = None,
        lr: tuple[float, float] = (0.3, 0.001),
        *,
        factor: float = 3.0,
        seeds: int | Iterable[int] = (101, 102),
        budget: float | None = None,
        workers: int = 1,
    ) -> Tuning:
        """Each strategy's learning rate on one grid with the same budget, by successive halving (`fedtempo tune`).

        lr: the largest and the smallest; factor: from one to the next. seeds: others than those of the comparison that
        the settings are for. budget: horizons that each strategy may run a seed, see `successive_halving`. workers:
        runs at once, in processes of their own; results do not depend on it, and with more than one a script guards its
        start with `if __name__ == "__main__"`.
        """
        labels = comparing.competitors(strategies or [self._config.label], self._config)
        numbers = comparing.whole_seeds(seeds)
        points: list[Changes] = [{"training.lr": value} for value in multiplicative_grid(*lr, factor)]
        return Tuning(self, successive_halving(self._config, labels, points, numbers, budget, workers=workers), numbers)

    def advise(
        self,
        strategies: str | Iterable[str] | None = None,
        *,
        budget: int | str | None = None,
        short_s: float | None = None,
        workers: int = 1,
    ) -> Advice:
        """Which strategy to use here, from short trainings of all that fit (`fedtempo advise`).

        strategies: as in `compare`; all, and all labels of `compare` tables, where None. budget: short trainings, or
        real time as "5m". short_s: how long a training lasts, of the run's clock; a quarter of the horizon where None.
        workers: as in `tune`.
        """
        wanted = parse_budget(budget) if isinstance(budget, str) else budget
        return advise(self._config, strategies, budget=wanted, short_s=short_s, workers=workers)

    def check(self) -> Check:
        """Whether the run has the same bits in this process, in one, two and three others, and on Ray where it asks for
        that (`fedtempo check`). The answer is true where they agree.

        Raises RunError where it was interrupted.
        """
        found = check(self._config)
        if found is None:
            raise RunError("the check was interrupted")
        return found

    def deploy(
        self, folder: Path | str, *, local: int | None = None, say: Callable[[str], None] = lambda line: None
    ) -> Result:
        """One run of the same strategy on real clients through Flower, in a new folder (`fedtempo deploy`).

        local: start so many clients and a SuperLink on this machine; the SuperLink that the section deploy names where
        None. say: told of each client that comes. `summary["ended"]` is "interrupted" after Ctrl-C; `fedtempo resume`
        goes on then. Raises ConfigError where Flower is not installed, RunError where too few clients come.
        """
        from fedtempo.deploy.flower import need_flower

        need_flower()
        from fedtempo.deploy.flower import service
        from fedtempo.deploy.run import deploy_to_folder

        if local is not None and local < 1:
            raise ConfigError(f"local = {local}: give the number of clients, 1 or more")
        config = self._config if local is None else self._config.with_changes({"data.clients": local}, self.label)
        path = Path(folder)
        with tracked(config, path) as observers:
            with service.grid(config, path, local, say=say) as grid:
                remember, recorder = service.to_resume(grid, local), partial(Recorder, observers=observers)
                deploy_to_folder(config, path, grid, remember=remember, say=say, recorder=recorder)
            return _left_in(path)

    def fleet_figure(self) -> MatplotlibFigure:
        """The fleet in one picture (`fedtempo fleet plot`), with Matplotlib."""
        from fedtempo.studies.fleet_figure import draw_fleet

        return draw_fleet(self._config)

    def clients(self) -> DataFrame:
        """A row a client of the fleet: examples, mean seconds of a visit and of its parts, rates, place, power."""
        return frames.frame(describe_fleet(self._config))

    def __repr__(self) -> str:
        config = self._config
        return f"<Experiment {config.label}: {config.data.source}, seed {config.run.seed}>"

    def _repr_html_(self) -> str:
        from fedtempo.report.markup import element, join

        return join(element("h4", repr(self).strip("<>")), element("pre", self.toml()))


@dataclass(frozen=True, eq=False)
class Tuning:
    """What tuning found. placed: of each strategy all settings, the best first; seeds: that they were tried on."""

    base: Experiment
    placed: Mapping[str, Sequence[Placed]]
    seeds: Sequence[int]

    @property
    def best(self) -> dict[str, Changes]:
        """The best setting of each strategy, as dotted keys."""
        return {label: dict(found[0].trial.changes) for label, found in self.placed.items()}

    @property
    def experiment(self) -> Experiment:
        """The experiment in which each strategy has its best setting: `tuning.experiment.compare(...)`."""
        tables = {}
        for label, changes in self.best.items():
            kept: Changes = {}
            for key, value in self.base.config.variants.get(label, {}).items():
                kept |= flat(key, value)
            tables[label] = kept | changes
        return Experiment.of(self.base.config.with_changes({f"compare.{label}": t for label, t in tables.items()}))

    def table(self) -> DataFrame:
        """A row a setting, the best of each strategy first: strategy, lr, how long it was tried (s), median time to
        target (s; infinite where most seeds did not reach it), mean of the best accuracies, runs that diverged."""
        return frames.frame(
            [
                {
                    "strategy": label,
                    "lr": place.trial.changes["training.lr"],
                    "tried_s": place.horizon_s,
                    "time_to_target_s": place.trial.median_s,
                    "best_accuracy": statistics.fmean(place.trial.accuracies),
                    "diverged": place.trial.diverged,
                }
                for label, found in self.placed.items()
                for place in found
            ]
        )


def resume(folder: Path | str, *, force: bool = False) -> Result:
    """Go on with the run in a folder that was interrupted or killed; the same as if it had never been.

    Raises ConfigError where there is none, or what it depends on has changed (force: but for versions and code), or it
    is on real clients: that is for `fedtempo resume`.
    """
    folder = Path(folder)
    if remembered(folder) is not None:
        raise ConfigError(f"{folder} holds a run on real clients: `fedtempo resume {folder}` goes on with it")
    config = folders.configuration(folder, [])
    with tracked(config, folder) as observers:
        folders.complete(config, folder, force=force, observers=observers)
        return _left_in(folder)


def _left_in(folder: Path) -> Result:
    """The run that has just ended in a folder, with its page written."""
    found = open_run(folder)
    if found.summary["ended"] != "interrupted":
        found.report(folder / "report.html")
    return found


def _untracked(config: Config) -> None:
    """Raises ConfigError for trackers of a run in memory: they follow what lies in a folder."""
    if config.run.track:
        raise ConfigError(f"run.track = {list(config.run.track)}: trackers follow runs in folders; name one")


def _in_memory(config: Config, world: World) -> Result:
    summary, records, model = launch.run(config, world=world)
    return Result(records, summary, config.tables, None, model)


def _section(name: str, part: Part) -> dict[str, Any]:
    """A section's table. Raises ConfigError for an unknown section, or what is no such thing."""
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
    """What a configuration calls a class, or a function that makes a network."""
    registry = REGISTRIES["strategies" if section == "strategy" else "networks"]
    for name, known in registry.items():
        if maker is known:
            return name
    if "." in maker.__qualname__:
        raise ConfigError(
            f"{section}: {maker.__qualname__} is not at the top of a module, so that no configuration can name it"
        )
    return f"{maker.__module__}:{maker.__qualname__}"

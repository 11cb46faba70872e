"""Results of runs and comparisons, for Python and notebooks: numbers, frames and figures."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from rich.console import Console

from fedtempo.api.figures import Pictures, Runs
from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.plain_console import PlainConsole
from fedtempo.record import Records, Run, load_run, summarise
from fedtempo.record.metric import Target, target_of, target_of_all
from fedtempo.report import frames, words
from fedtempo.report.columns import comparison_columns
from fedtempo.report.rendering import notebook_html
from fedtempo.report.table import run_rows, run_title
from fedtempo.runs.client_layers import ClientLayers, client_id
from fedtempo.runs.models import TrainedModel, TrainedModels, model_path, read_model
from fedtempo.studies import significance
from fedtempo.studies.compare import PLAN, new_folder
from fedtempo.studies.plan import Prediction
from fedtempo.studies.plan_explained import clients_in_order, explain_plan
from fedtempo.studies.tables.runs import plan_competitors

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor, nn

Model = npt.NDArray[np.float32]
M = TypeVar("M", bound="nn.Module")
_TEXT_WIDTH = 100


@dataclass(frozen=True, eq=False, repr=False)
class Result(Pictures):
    """One run that has ended or was read from its folder.

    records: its tables as arrays, and its facts. summary: it in a few numbers, see `fedtempo.record.summarise`. config:
    the tables of its configuration. folder: where it lies; None for a run in memory.
    """

    records: Records
    summary: Mapping[str, Any]
    config: Mapping[str, Any]
    folder: Path | None = None
    _models: TrainedModels = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> Result:
        """Return the result of a run that `fedtempo.record.load_run` has read; its summary is computed anew."""
        return cls(run, summarise(run), run.config, run.folder)

    @property
    def label(self) -> str:
        """Its name in tables and figures (default: its strategy)."""
        return self.records.label

    @property
    def seed(self) -> int:
        return int(self.summary["seed"])

    @property
    def model(self) -> Model | None:
        """The final model as a flat vector, in fedtempo's own order; None without training.

        Raises ConfigError if the run did not keep it, RunError if its file is damaged.
        """
        return None if self.summary["model_sha256"] is None else self._trained("last").vector

    def state_dict(self, model: str = "last", *, client: int | str | None = None) -> dict[str, Tensor]:
        """Return a trained model as `torch.nn.Module.load_state_dict` takes it: tensors by name, with ordinary strides.

        model: "last", the final one, which the run's final accuracy belongs to; or "best", the evaluated model with the
        best accuracy, if `run.keep` has it. client: id or name of a client, whose own layers (`model.local`) replace
        those of the last model, if `run.keep` has "clients"; they are those with which this model was evaluated. Raises
        ConfigError if there is no such model or client, RunError if its file is damaged.
        """
        from fedtempo.api.models import tensors

        return tensors(self._trained(model, client))

    def load_into(self, module: M, model: str = "last", *, client: int | str | None = None) -> M:
        """Copy a trained model into your own module of the run's network, and return the module.

        model, client: as in `state_dict`. Raises ConfigError naming the parameters and buffers that do not fit.
        """
        from fedtempo.learning.loading import load_named

        load_named(module, self.state_dict(model, client=client), f"the model of {self.label}")
        return module

    def network(self, model: str = "last", *, client: int | str | None = None) -> nn.Module:
        """Return the run's network with a trained model in it, ready for predictions (in evaluation mode).

        model, client: as in `state_dict`. A network of your own is imported as the run's configuration names it, so
        call this only for runs whose code you trust. Raises ConfigError as `load_into`.
        """
        from fedtempo.api.models import build_recorded_network

        network = build_recorded_network(self.config, self.records.facts)
        return self.load_into(network, model, client=client).eval()

    def curve(self) -> DataFrame:
        """Return one row per evaluation: time (s), version, accuracy (or the measure that summary["measure"] names),
        loss; for numeric labels also mae, the mean absolute error."""
        return frames.evaluations(self.records)

    def visits(self) -> DataFrame:
        """Return one row per visit: number, client, group, base_version, when it was queued, started, received,
        computed, finished (s), outcome, examples, loss."""
        return frames.visits(self.records)

    def commits(self) -> DataFrame:
        """Return one row per commit: version, time (s), staleness."""
        return frames.commits(self.records)

    def clients(self) -> DataFrame:
        """Return one row per client: examples, visits done, their mean length (s), busy share of the run."""
        return frames.clients(self.records)

    def metrics(self) -> DataFrame:
        """Return one row per evaluation and further measure (`run.metrics`): time (s), version, name, class (empty for
        measures with one value), value."""
        return frames.metrics(self.records)

    def client_evaluations(self) -> DataFrame:
        """Return one row per evaluation on a client's own test set (`data.client_test_share`): time (s), version, model
        ("clients": the global one, "own": the client's own), client, examples, accuracy, loss."""
        return frames.client_evaluations(self.records)

    def notes(self) -> DataFrame:
        """Return the strategy's notes in order: name, value."""
        return frames.notes(self.records)

    def report(self, path: Path | str) -> Path:
        """Write a self-contained page about the run. Raises RunError if it cannot be written."""
        from fedtempo.report.html import write_report

        write_report(path, [self.as_run()])
        return Path(path)

    def export(self, to: str = "parquet", folder: Path | str | None = None) -> list[Path]:
        """Write the tables as "parquet" or "csv" files (`fedtempo export`); return their paths.

        folder: where to write; `tables` in the run's folder if None. Raises ConfigError for another format, or if the
        run is in memory and no folder is given.
        """
        from fedtempo.record.export import export

        if folder is None and self.folder is None:
            raise ConfigError("folder: name one; the run is in memory")
        target = Path(folder) if folder is not None else Path(self.folder or "") / "tables"
        if folder is None and target.is_symlink():
            raise ConfigError(f"{target} leads to {target.resolve()}: name another folder")
        return export(self.as_run(), to, target)

    def export_model(
        self,
        to: str = "safetensors",
        model: str = "last",
        path: Path | str | None = None,
        *,
        client: int | str | None = None,
    ) -> Path:
        """Write a trained model to a file (`fedtempo export --model`); return the file.

        to: "safetensors", or "pt" (`torch.save`): the tensors of `state_dict`; or "onnx": the network and its
        parameters, for inputs of any batch size, named "input" and "output". model, client: as in `state_dict`. path:
        a new file; `models/<model>.<to>` or `models/<model>-client-<id>.<to>` in the run's folder if None. ONNX builds
        the network, as `network` does.

        Raises ConfigError for another format, if there is no such model, if `path` exists, or if a package is not
        installed.
        """
        from fedtempo.api.models import check_format, checked_kind, export_model

        check_format(to)
        if path is None:
            if self.folder is None:
                raise ConfigError("path: name a file; the run is in memory")
            number = "" if client is None else f"-client-{client_id(client, self.records.facts)}"
            path = model_path(self.folder, f"{checked_kind(model)}{number}").with_suffix(f".{to}")
            if not path.resolve().is_relative_to(self.folder.resolve()):
                raise ConfigError(f"{path} leads to {path.resolve()}: name another file")
        elif Path(path).exists():
            raise ConfigError(f"{path} already exists; choose another file (nothing was overwritten)")
        trained, facts = self._trained(model, client), self.records.facts
        return export_model(trained, to, Path(path), lambda: self.network(model, client=client), facts)

    def _trained(self, kind: str, client: int | str | None = None) -> TrainedModel:
        """Return a trained model, with a client's own layers if one is given. Raises ConfigError if there is none."""
        from fedtempo.api.models import checked_kind

        if client is not None:
            number = client_id(client, self.records.facts)
            if checked_kind(kind) != "last":
                raise ConfigError(f"client = {client!r}: clients' own layers are kept of the last model only")
            trained = self._trained(kind)
            layers = trained.layers or self._client_layers(trained)
            return TrainedModel(layers.personal(trained.vector, number), trained.naming)
        if checked_kind(kind) in self._models:
            return self._models[kind]
        facts = self.records.facts
        sha256 = facts.get("model_sha256") if kind == "last" else (facts.get("best_model") or {}).get("sha256")
        if self.folder is None or sha256 is None:
            hint = "; set run.keep = ['last', 'best']" if kind == "best" and facts.get("model_sha256") else ""
            raise ConfigError(f"{self.folder or self.label}: this run has no {kind} model{hint}")
        return read_model(self.folder, kind, sha256)

    def _client_layers(self, model: TrainedModel) -> ClientLayers:
        """Return what clients keep of the last model. Raises ConfigError if the run did not keep it."""
        facts = self.records.facts
        if self.folder is None or facts.get("client_layers") is None:
            why = (
                "the clients of a deployment keep their layers in their state_folder"
                if facts.get("deployment")
                else "set run.keep = ['last', 'clients'], and model.local for the layers"
            )
            raise ConfigError(f"{self.folder or self.label}: this run has no layers of its clients; {why}")
        return ClientLayers.read(self.folder, model.naming, facts["client_layers"]["sha256"])

    def as_run(self) -> Run:
        """Return the run as `fedtempo.record.load_run` reads it from a folder."""
        if isinstance(self.records, Run):
            return self.records
        tables = {field.name: getattr(self.records, field.name) for field in dataclasses.fields(Records)}
        return Run(**tables, folder=None, config=self.config, summary=self.summary, environment={})

    @property
    def shown_runs(self) -> Runs:
        return {self.label: [self.records]}

    @property
    def shown_target(self) -> Target | None:
        return target_of(self.summary)

    def __str__(self) -> str:
        rows = run_rows(self.summary)
        width = max(len(name) for name, _ in rows)
        return "\n".join([run_title(self.summary), *(f"  {name:<{width}}  {value}" for name, value in rows)])

    def __repr__(self) -> str:
        return f"<Result {run_title(self.summary)}>"

    def _repr_html_(self) -> str:
        return notebook_html(run_title(self.summary), rows=run_rows(self.summary), row_titles=True)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Pictures):
    """Strategies on the same data, fleet and seeds. results: by label, one per seed."""

    results: Mapping[str, Sequence[Result]]

    @property
    def facts(self) -> dict[str, Any]:
        """All strategies side by side, and what their seeds show; see `fedtempo.studies.significance.compared`."""
        summaries = {label: [result.summary for result in own] for label, own in self.results.items()}
        return significance.compared(summaries, significance.resolution_of([result.config for result in self]))

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        return words.headline(self.facts)[0]

    def __getitem__(self, label: str) -> Sequence[Result]:
        if label not in self.results:
            raise KeyError(f"{label!r}{nearest(label, self.results)}")
        return self.results[label]

    def __iter__(self) -> Iterator[Result]:
        return (result for own in self.results.values() for result in own)

    def __len__(self) -> int:
        return sum(map(len, self.results.values()))

    def runs(self) -> DataFrame:
        """Return one row per run: strategy, seed, and the numbers of its summary; nested ones as `busy_ratio.mean`."""
        return frames.frame([_row(result) for result in self])

    def table(self) -> DataFrame:
        """Return one row per strategy, over its seeds.

        Time to target (median, s; NaN if that seed did not reach it), how many seeds reached it, how many diverged,
        means of accuracy, busy ratio, staleness, visits, commits and bytes moved, and of further measures by their
        names. With several strategies and seeds also what the seeds show (see `facts`): relation to the first, and the
        ratio of times to those of the strategy named first (or the difference of final accuracies), with the 95 %
        interval.
        """
        facts = self.facts
        shown = (facts["statistics"] or {}).get("strategies", {})
        return frames.frame(
            [
                {"strategy": label, **over_seeds(fields), **(_shown(facts, label) if shown else {})}
                for label, fields in facts["strategies"].items()
            ]
        )

    def format_table(
        self,
        to: str = "markdown",
        rows: str | Iterable[str] | None = None,
        columns: str | Iterable[str] | None = None,
        **options: Any,
    ) -> str:
        """Return a table for a paper, as LaTeX, Markdown or CSV (`fedtempo table`); see `fedtempo.format_table`."""
        from fedtempo.api.tables import format_runs, table_runs

        return format_runs(table_runs(self), to, rows, columns, **options)

    def curve(self) -> DataFrame:
        """Return one row per evaluation: strategy, seed, time (s), version, accuracy, loss."""
        return self._joined(Result.curve)

    def metrics(self) -> DataFrame:
        """Return one row per evaluation and further measure: strategy, seed, and the columns of `Result.metrics`."""
        return self._joined(Result.metrics)

    def visits(self) -> DataFrame:
        """Return one row per visit: strategy, seed, and the columns of `Result.visits`."""
        return self._joined(Result.visits)

    def clients(self) -> DataFrame:
        """Return one row per client and run: strategy, seed, and the columns of `Result.clients`."""
        return self._joined(Result.clients)

    def report(self, path: Path | str) -> Path:
        """Write a self-contained page about all runs."""
        from fedtempo.report.html import write_report

        write_report(path, [result.as_run() for result in self], self.facts)
        return Path(path)

    def _joined(self, table: Callable[[Result], DataFrame]) -> DataFrame:
        return frames.joined([({"strategy": each.label, "seed": each.seed}, table(each)) for each in self])

    @property
    def shown_runs(self) -> Runs:
        return {label: [result.records for result in own] for label, own in self.results.items()}

    @property
    def shown_target(self) -> Target | None:
        return target_of_all(self.facts)

    def __str__(self) -> str:
        from fedtempo.report.table import comparison_table

        return _text(lambda console: console.print(comparison_table(self.facts, _TEXT_WIDTH)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"

    def _repr_html_(self) -> str:
        facts = self.facts
        columns = comparison_columns(facts)
        rows = [
            [Markup("<b>{}</b>").format(column.cells[i]) if i in column.best else column.cells[i] for column in columns]
            for i in range(len(columns[0].cells))
        ]
        return notebook_html(words.headline(facts)[0], head=[column.title for column in columns], rows=rows)


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Comparison):
    """Predicted schedules of strategies, without training. predictions: by label."""

    predictions: Mapping[str, Prediction] = dataclasses.field(default_factory=dict)

    def save_figures(self, folder: Path | str) -> list[Path]:
        """Draw the schedules, and what explains those of psfl and csgd, as PNG and SVG into a new folder; return the
        PNG files (`fedtempo plan --out`). Raises ConfigError if the folder holds something."""
        from fedtempo.studies.plan_figures import draw_plans

        return draw_plans(new_folder(Path(folder)), self.predictions)

    @classmethod
    def of(cls, predictions: Mapping[str, Prediction]) -> Plan:
        results = {
            label: [Result(each.records, each.summary, each.config.tables)] for label, each in predictions.items()
        }
        return cls(results, predictions)

    def explanation(self) -> str:
        """Return the order of named clients, and why psfl and csgd train as they do (solved structure, clusters).

        "" for other strategies and clients without names.
        """
        return _text(self.show_explanation)

    def show_explanation(self, console: Console) -> None:
        """Print the explanation to a console of Rich."""
        orders = {clients_in_order(prediction.world) for prediction in self.predictions.values()}
        for line in sorted(order for order in orders if order):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        for prediction in self.predictions.values():
            explain_plan(console, prediction.config, prediction.world)


def open_run(folder: Path | str) -> Result:
    """Open the run in a folder, finished or not. It may come from anybody: nothing in it is executed or imported.

    Raises ConfigError where there is no run that can be read; of a comparison's folder, see `open_comparison`.
    """
    folder = Path(folder)
    if (folder / PLAN).exists():
        raise ConfigError(f"{folder} holds a comparison: open_comparison reads it")
    return Result.of(load_run(folder))


def open_comparison(folder: Path | str) -> Comparison:
    """Open the runs directly in a folder, by label and seed; those of `fedtempo compare` or any others.

    Raises ConfigError where there is none, or one of them cannot be read.
    """
    folder = Path(folder)
    found = [open_run(path.parent) for path in sorted(folder.glob("*/run.sqlite")) if not path.parent.is_symlink()]
    if not found:
        raise ConfigError(f"{folder} holds no run folders")
    return compared(found, [each.label for each in plan_competitors(folder)])


def compared(results: Iterable[Result], labels: Sequence[str] = ()) -> Comparison:
    """Return the comparison of some runs: strategies in the order of `labels`, others by name, and runs by seed."""
    order = {label: position for position, label in enumerate(labels)}
    grouped: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda run: (order.get(run.label, len(order)), run.label, run.seed)):
        grouped.setdefault(result.label, []).append(result)
    return Comparison(grouped)


def _row(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {"strategy": result.label, "seed": result.seed}
    for name, value in result.summary.items():
        if isinstance(value, Mapping):
            row |= {f"{name}.{key}": inner for key, inner in value.items() if not isinstance(inner, Mapping | list)}
            if name == "metrics":
                row |= {key: inner["final"] for key, inner in value.items()}
            if name == "clients":
                row |= {f"{kind}-{key}": each for kind, inner in value.items() for key, each in inner.items()}
        elif name not in row and not isinstance(value, list):
            row[name] = value
    return _known(row)


def over_seeds(fields: Mapping[str, Any]) -> dict[str, Any]:
    time, final, moved = fields["time_to_target_s"], fields["final_accuracy"], fields["bytes"]
    ways = [moved[way]["mean"] for way in ("down", "up", "relay")]
    row = {
        "seeds": len(fields["seeds"]),
        "time_to_target_s": time["median"],
        "reached": time["reached"],
        "diverged": fields["failed"]["diverged"],
        "final_accuracy": final["mean"],
        "final_accuracy_std": final["std"],
        "best_accuracy": fields["best_accuracy"]["mean"],
        "busy_ratio": fields["busy_ratio"]["mean"]["mean"],
        "idlest_client": fields["busy_ratio"]["min"]["mean"],
        "groups_alive": fields["active_groups"]["mean"]["mean"],
        "staleness": fields["staleness"]["mean"]["mean"],
        "visits": fields["visits"]["mean"],
        "commits": fields["commits"]["mean"],
        "moved_bytes": sum(ways),
        **{name: values["final"]["mean"] for name, values in fields.get("metrics", {}).items()},
        **{
            f"{kind}-{name}": each["mean"]
            for kind, values in fields.get("clients", {}).items()
            for name, each in values.items()
        },
    }
    return _known(row)


def _shown(facts: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return what the seeds of a comparison show of a strategy."""
    statistics = facts["statistics"]
    own, of_times = statistics["strategies"][label], statistics["measure"] == "time_to_target_s"
    name, to_baseline = "ratio" if of_times else "difference", own["to_baseline"] or {}
    columns = {f"{name}_{part}": to_baseline.get(part) for part in ("mean", "low", "high")}
    return {"relation": own["relation"], **_known(columns)}


def _known(row: dict[str, Any]) -> dict[str, Any]:
    """Replace None by NaN, so that columns of numbers stay numeric."""
    return {name: math.nan if value is None else value for name, value in row.items()}


def _text(show: Callable[[Console], None]) -> str:
    file = io.StringIO()
    show(PlainConsole(file=file, width=_TEXT_WIDTH, color_system=None))
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().splitlines())

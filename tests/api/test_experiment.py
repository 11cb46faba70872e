"""The Python API: what the command line does, with the same numbers, as objects, frames and pictures."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedtempo
from fedtempo import Comparison, Experiment, Federation, Result, open_comparison, open_run, record
from fedtempo.data.partitions import Dirichlet
from fedtempo.errors import ConfigError, RunError
from fedtempo.fleet.compute import Compute
from fedtempo.fleet.distributions import Uniform
from fedtempo.runs.config import parse
from fedtempo.strategies.fedavg import FedAvg
from fedtempo.strategies.fedprox import FedProx
from fedtempo.strategies.psfl import Psfl
from fedtempo.studies.compare import runs_of
from fedtempo.studies.competitors import competitors

PARTS: dict[str, Any] = {
    "strategy": "fedavg",
    "fleet": "fedhusky",
    "data": {"source": "digits", "clients": 10, "examples_per_client": 20, "test_examples": 60, "tell_labels": True},
    "model": "logistic",
    "training": {"lr": 0.1},
    "run": {"horizon": 40.0, "target_accuracy": 0.4},
    "executor": "inline",
    "compare": {"hybrid": {"strategy.clusters": "labels"}, "momentum": {"strategy.name": "fedavg", "training.lr": 0.5}},
}


@dataclass(frozen=True)
class OneByOne:
    """Train one client after another."""

    pause_s: float = 0.0
    interrupt_at_s: ClassVar[float] = math.inf

    async def run(self, fed: Federation) -> None:
        while True:
            for client in fed.clients:
                if fed.now >= self.interrupt_at_s:
                    raise KeyboardInterrupt
                await fed.sleep_until(fed.now + self.pause_s)
                fed.commit((await fed.train(client, fed.model)).model)


def tiny_network(shape: Sequence[int], n_classes: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), n_classes))


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment(**PARTS)


@pytest.fixture(scope="module")
def result(experiment: Experiment) -> Result:
    return experiment.run()


@pytest.fixture(scope="module")
def comparison(experiment: Experiment) -> Comparison:
    return experiment.compare(["fedavg", "momentum"], seeds=[1, 2])


def test_importing_fedtempo_is_fast_and_does_not_load_torch() -> None:
    code = (
        "import sys, time; began = time.process_time(); import fedtempo; took = time.process_time() - began;"
        "from fedtempo import Federation;"
        "print(took, [m for m in ('torch', 'numpy', 'pandas', 'matplotlib', 'pydantic') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    took, loaded = out.split(maxsplit=1)
    assert loaded.strip() == "[]" or "torch" not in loaded
    assert float(took) < 0.3
    assert set(fedtempo.__all__) <= set(dir(fedtempo))
    with pytest.raises(AttributeError, match="no attribute 'Experimnt'"):
        _ = fedtempo.Experimnt


def test_names_tables_and_objects_are_equivalent(experiment: Experiment) -> None:
    by_object = experiment.with_(strategy=FedAvg(clients_per_round=3))
    by_table = experiment.with_(strategy={"name": "fedavg", "clients_per_round": 3})
    by_key = experiment.with_({"strategy.clients_per_round": 3})
    assert by_object.toml() == by_table.toml() == by_key.toml()
    assert by_object.config.strategy == FedAvg(clients_per_round=3)
    # An object is all of its section: what it does not say is not kept.
    assert by_object.with_(strategy=FedProx(mu=0.5)).config.strategy == FedProx(mu=0.5)
    assert experiment.with_(strategy="sequential").config.strategy_name == "sequential"
    assert experiment.config.strategy == FedAvg(), "an experiment never changes"
    fleet = {"compute": Compute(Uniform(1.0, 2.0), "s/visit"), "link": "none", "estimates": "exact"}
    made = Experiment(
        **{**PARTS, "fleet": fleet},
    ).with_({"data.partition": Dirichlet(0.5)})
    assert Experiment.from_tables(made.config.tables).toml() == made.toml()
    assert made.config.partition == Dirichlet(0.5)


def test_sections_are_changed_key_by_key(experiment: Experiment) -> None:
    changed = experiment.with_({"training.batch_size": 7}, run={"seed": 9}, data={"partition": {"kind": "one-label"}})
    assert (changed.config.run.seed, changed.config.run.horizon) == (9, 40.0)
    assert (changed.config.training.batch_size, changed.config.training.lr) == (7, 0.1)
    assert changed.config.data.clients == 10


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"strateggy": "fedavg"}, "strateggy: unknown section; did you mean 'strategy'"),
        ({"strategy": "fedavgg"}, "did you mean 'fedavg'"),
        ({"training": "sgd"}, "training = 'sgd': give a table"),
        ({"training": {"lr": -1.0}}, "training.lr = -1.0"),
        ({"data": 7}, "data = 7: give a table, a name or an object"),
        ({"run": {}}, "horizon is missing"),
    ],
)
def test_invalid_values_are_rejected_in_one_line(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Experiment(**{**PARTS, **parts})
    assert "\n" not in str(caught.value)


def test_a_users_objects_are_accepted_directly(experiment: Experiment) -> None:
    mine = experiment.with_(strategy=OneByOne(pause_s=1.0), model=tiny_network, run={"horizon": 15.0})
    assert mine.config.strategy_name == f"{__name__}:OneByOne"
    result = mine.run()
    assert result.summary["busy_ratio"]["mean"] < 1 / 10
    assert result.model is not None
    assert result.model.shape == (64 * 10 + 10,)

    @dataclass(frozen=True)
    class Hidden(OneByOne):
        pass

    with pytest.raises(ConfigError, match="is not at the top level of a module"):
        experiment.with_(strategy=Hidden())


def test_a_result_gives_its_records_as_data_frames(result: Result) -> None:
    curve, visits, commits, clients = result.curve(), result.visits(), result.commits(), result.clients()
    assert curve.time.tolist() == [5.0 * i for i in range(9)]
    assert curve.accuracy.iloc[-1] == result.summary["final_accuracy"]
    assert len(visits) == len(result.records.visits["number"])
    assert (visits.finished >= visits.started).all()
    assert commits.version.tolist() == list(range(1, result.summary["commits"] + 1))
    assert clients.visits.sum() == result.summary["visits"]
    assert clients.examples.tolist() == [20] * 10
    assert clients.busy_ratio.mean() == pytest.approx(result.summary["busy_ratio"]["mean"])
    done = visits[visits.outcome == "done"]
    means = (done.finished - done.started).groupby(done.client).mean()
    assert clients.mean_visit_s.tolist() == pytest.approx(means.tolist())
    assert list(result.notes().columns) == ["name", "value"]


def test_visits_without_a_group_have_no_group_number(experiment: Experiment) -> None:
    visits = experiment.with_(strategy="fedasync", executor="none").run().visits()
    assert visits.group.isna().all()
    assert str(visits.group.dtype) == "Int64"


def test_a_run_in_a_folder_equals_one_from_the_command_line(
    experiment: Experiment, result: Result, tmp_path: Path
) -> None:
    kept = experiment.run(tmp_path / "run")
    assert kept.folder == tmp_path / "run"
    assert kept.summary["model_sha256"] == result.summary["model_sha256"]
    assert kept.summary["events_sha256"] == result.summary["events_sha256"]
    assert np.array_equal(kept.model, result.model)
    opened = open_run(tmp_path / "run")
    assert opened.curve().equals(result.curve())
    assert Experiment.from_tables(opened.config).toml() == experiment.toml()
    with pytest.raises(ConfigError, match="never overwritten"):
        experiment.run(tmp_path / "run")
    with pytest.raises(ConfigError, match="is not a run folder"):
        open_run(tmp_path)
    assert fedtempo.resume(tmp_path / "run").summary == kept.summary, "what has finished stays as it is"


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders whose rows have been read, one entry per time."""
    folders: list[Path] = []
    opened_records = record.run.opened_records

    def counted(folder: Path) -> Any:
        folders.append(folder)
        return opened_records(folder)

    monkeypatch.setattr(record.run, "opened_records", counted)
    return folders


def test_rows_of_a_folder_are_read_once(experiment: Experiment, tmp_path: Path, loads: list[Path]) -> None:
    schedule = experiment.with_(executor="none", run={"checkpoint_every": 0.0})
    kept = schedule.run(tmp_path / "run")
    assert kept.visits().equals(open_run(tmp_path / "run").visits())
    assert loads == 2 * [tmp_path / "run"], "for the page and the result, and to open it"
    loads.clear()
    fedtempo.resume(tmp_path / "run")
    assert loads == [tmp_path / "run"]
    loads.clear()
    compared = schedule.compare("fedavg,fedbuff", [1, 2], tmp_path / "both")
    folders = [result.folder for result in compared]
    assert sorted(loads) == sorted(folders) == sorted(path.parent for path in tmp_path.glob("both/*/run.sqlite"))
    opened = open_comparison(tmp_path / "both")
    assert list(opened.results) == list(compared.results)
    assert opened.runs().equals(compared.runs())


def test_an_interrupted_run_can_be_resumed(experiment: Experiment, tmp_path: Path, loads: list[Path]) -> None:
    broken = experiment.with_(strategy=OneByOne(pause_s=1.0), run={"checkpoint_every": 0.0})
    whole = broken.run()
    OneByOne.interrupt_at_s = 20.0
    try:
        half = broken.run(tmp_path / "run")
        for what in (broken.plan, lambda: broken.tune(lr=(0.1, 0.1), seeds=101), lambda: broken.advise([broken.label])):
            with pytest.raises(KeyboardInterrupt):
                what()
    finally:
        OneByOne.interrupt_at_s = math.inf
    assert half.summary["ended"] == "interrupted"
    assert half.summary["commits"] < whole.summary["commits"]
    loads.clear()
    gone_on = fedtempo.resume(tmp_path / "run")
    assert loads == [tmp_path / "run"]
    assert gone_on.summary["events_sha256"] == whole.summary["events_sha256"]
    assert gone_on.summary["model_sha256"] == whole.summary["model_sha256"]


def test_a_comparison_runs_strategies_side_by_side(comparison: Comparison) -> None:
    table, runs, curve = comparison.table(), comparison.runs(), comparison.curve()
    assert table.strategy.tolist() == ["fedavg", "momentum"]
    assert runs[["strategy", "seed"]].values.tolist() == [
        ["fedavg", 1],
        ["fedavg", 2],
        ["momentum", 1],
        ["momentum", 2],
    ]
    assert table.final_accuracy[0] == pytest.approx(runs.final_accuracy[:2].mean())
    assert len(curve) == sum(len(each.curve()) for each in comparison)
    assert set(curve.columns) == {"strategy", "seed", "time", "version", "accuracy", "loss"}
    assert len(comparison.visits()) == sum(len(each.visits()) for each in comparison)
    assert len(comparison) == 4
    assert comparison["momentum"][1].seed == 2
    with pytest.raises(KeyError, match="did you mean 'momentum'"):
        comparison["momentun"]
    assert comparison.headline in str(comparison)
    assert table.time_to_target_s.dtype == float


def test_a_comparison_in_a_folder_gives_the_same_result(
    experiment: Experiment, comparison: Comparison, tmp_path: Path
) -> None:
    kept = experiment.compare("fedavg,momentum", seeds=range(1, 3), folder=tmp_path / "both")
    assert kept.table().equals(comparison.table())
    assert json.loads((tmp_path / "both" / "comparison.json").read_text(encoding="utf-8"))["first"] == "fedavg"
    opened = open_comparison(tmp_path / "both")
    assert list(opened.results) == ["fedavg", "momentum"]
    assert opened.headline == comparison.headline
    with pytest.raises(ConfigError, match="open_comparison reads it"):
        open_run(tmp_path / "both")
    with pytest.raises(ConfigError, match="is not empty"):
        experiment.compare("fedavg", folder=tmp_path / "both")


@pytest.mark.parametrize(
    ("strategies", "seeds", "said"),
    [
        ("fedavg,fedavg", 1, "duplicate name 'fedavg'"),
        ([], 1, "name at least one"),
        ("fedavg", [1, 1], "duplicate seed 1"),
        ("fedavg", [], "give at least one"),
        ("fedavg", [1.5], "is not a whole number >= 0"),
        ("nonsense", 1, "no such strategy"),
    ],
)
def test_invalid_comparisons_are_rejected(experiment: Experiment, strategies: Any, seeds: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        experiment.compare(strategies, seeds)


def test_a_competitor_with_another_fleet_does_not_change_those_of_others() -> None:
    base = parse(
        {
            "run": {"horizon": 9.0},
            "data": {"clients": 4},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
            "strategy": {"name": "fedavg"},
            "compare": {"slow": {"strategy.name": "fedavg", "fleet.compute.speed": 3.0}},
        }
    )
    runs = list(runs_of(base, ["fedavg", "slow", "sequential"], [1, 2]))
    speeds = [(config.label, config.run.seed, world.fleet.speed.values[0]) for config, world in runs]
    assert speeds == [
        ("fedavg", 1, 1.0),
        ("slow", 1, 3.0),
        ("sequential", 1, 1.0),
        ("fedavg", 2, 1.0),
        ("slow", 2, 3.0),
        ("sequential", 2, 1.0),
    ]
    assert runs[0][1] is runs[2][1], "those that agree share the world of their seed"
    assert competitors(["all"], base)[0] == "fedavg"


def test_a_plan_holds_only_the_schedule(experiment: Experiment) -> None:
    plan = experiment.plan(["fedavg", "hybrid", "csgd"])
    table = plan.table()
    assert table.strategy.tolist() == ["fedavg", "hybrid", "csgd"]
    assert table.final_accuracy.isna().all()
    assert "clusters" in plan.explanation()
    trained = experiment.run()
    assert plan["fedavg"][0].summary["events_sha256"] == trained.summary["events_sha256"]
    assert experiment.plan().table().strategy.tolist() == ["fedavg"]
    assert experiment.with_(strategy=Psfl(width=2, length=2)).plan().explanation() == ""


def test_figures_of_a_plan_are_written_to_a_new_folder(experiment: Experiment, tmp_path: Path) -> None:
    figures = experiment.plan("fedavg,csgd").save_figures(tmp_path / "figures")
    assert [path.stem for path in figures] == ["alive", "busy", "calendars", "csgd-pipeline"]
    assert all(path.with_suffix(".svg").exists() for path in figures)
    with pytest.raises(ConfigError, match="is not empty"):
        experiment.plan().save_figures(tmp_path / "figures")


def test_a_shipped_configuration_is_opened_by_name() -> None:
    shipped = Experiment.shipped("fedbuff", "run.seed=7")
    assert (shipped.config.strategy_name, shipped.config.run.seed) == ("fedbuff", 7)
    with pytest.raises(ConfigError, match="fedbuf: no such configuration; did you mean 'fedbuff'"):
        Experiment.shipped("fedbuf")


def test_tuning_returns_an_experiment_with_the_tuned_settings(experiment: Experiment) -> None:
    tuning = experiment.tune(["momentum", "fedavg"], (0.3, 0.1), seeds=101)
    table = tuning.table()
    assert sorted(table.lr.tolist()) == [0.1, 0.1, 0.3, 0.3]
    better = tuning.experiment.config.for_comparison("momentum")
    assert better.strategy_name == "fedavg"
    assert (
        better.training.lr == tuning.best["momentum"]["training.lr"] == table[table.strategy == "momentum"].lr.iloc[0]
    )
    assert "hybrid" in tuning.experiment.config.variants
    pasted = tomllib.loads(tuning.toml())["compare"]
    assert {label: table["training"]["lr"] for label, table in pasted.items()} == {
        label: changes["training.lr"] for label, changes in tuning.best.items()
    }
    assert list(tomllib.loads(tuning.toml("fedavg"))["compare"]) == ["fedavg"]
    with pytest.raises(ConfigError, match="momentun: not tuned; did you mean 'momentum'"):
        tuning.toml("momentun")


def test_plots_return_figures_and_write_files(comparison: Comparison, result: Result, tmp_path: Path) -> None:
    figure = comparison.figure("accuracy")
    assert [trace.name for trace in figure.data if trace.showlegend] == ["fedavg", "momentum"]
    names = ("loss", "busy", "alive", "participation", "calendars", "labels")
    assert all(comparison.figure(name).data for name in names)
    for suffix, begins in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype html>")):
        path = comparison.save_figure("accuracy", tmp_path / f"accuracy.{suffix}")
        assert path.read_bytes().startswith(begins)
    with pytest.raises(ConfigError, match="did you mean 'accuracy'"):
        result.figure("acuracy")
    with pytest.raises(ConfigError, match="nothing to draw"):
        result.figure("places")
    assert result.save_figure("labels", tmp_path / "labels.png").read_bytes().startswith(b"\x89PNG")


def test_results_have_pages_and_notebook_views(
    comparison: Comparison, result: Result, experiment: Experiment, tmp_path: Path
) -> None:
    page = result.report(tmp_path / "one.html").read_text(encoding="utf-8")
    assert "size_bytes" not in page or "horizon = 40.0" in page
    assert "horizon = 40.0" in page, "the configuration of a run without a folder is there too"
    assert comparison.report(tmp_path / "two.html").stat().st_size > 1_000_000
    for shown in (result, comparison, experiment):
        html = shown._repr_html_()
        assert html.startswith("<h4>")
        assert "fedavg" in html
    assert "<b>" in comparison._repr_html_(), "the best of a column stands out"
    assert str(result).splitlines()[0] == "fedavg, seed 1"


def test_labels_are_escaped_in_html(experiment: Experiment) -> None:
    evil = experiment.with_(executor="none", run={"horizon": 9.0}).config.with_changes({}, label="<img onerror=x>")
    result = Experiment.of(evil).run()
    assert "<img" not in Comparison({result.label: [result]})._repr_html_()


def test_without_pandas_a_frame_says_what_to_install(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"pip install 'fedtempo\[pandas\]'"):
        result.curve()
    assert result.summary["commits"] > 0


def test_saved_experiments_are_read_back_unchanged(experiment: Experiment, tmp_path: Path) -> None:
    path = experiment.save(tmp_path / "mine.toml")
    assert Experiment.from_toml(path).toml() == experiment.toml()
    assert Experiment.from_toml(path, "run.seed=5").config.run.seed == 5
    with pytest.raises(RunError, match="could not be written"):
        experiment.save(tmp_path / "nowhere" / "mine.toml")


def test_clients_of_the_fleet_are_listed(experiment: Experiment) -> None:
    clients = experiment.clients()
    assert len(clients) == 10
    assert clients.compute_s.between(1, 10).all()
    assert np.allclose(clients.visit_s, clients.download_s + clients.compute_s + clients.upload_s)


def test_a_run_in_a_folder_is_followed_by_trackers(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.report.trackers.test_tracking import Remembers

    Remembers.instances.clear()
    followed = experiment.with_({"run.track": ["tests.report.trackers.test_tracking:Remembers"]})
    followed.run(tmp_path / "run")
    (tracker,) = Remembers.instances
    assert any("evaluation/accuracy" in point.values for point in tracker.points)
    assert tracker.files == ["config.toml", "environment.json", "summary.json", "report.html"]
    followed.compare(["fedavg", "momentum"], folder=tmp_path / "both")
    assert len(Remembers.instances) == 3
    for in_memory in (followed.run, lambda: followed.compare("fedavg")):
        with pytest.raises(ConfigError, match="trackers follow runs in folders; name one"):
            in_memory()


def test_a_resumed_run_is_followed_by_trackers_too(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.report.trackers.test_tracking import Remembers

    Remembers.instances.clear()
    stopping = experiment.with_({"run.track": ["tests.report.trackers.test_tracking:Remembers"]}, strategy=OneByOne)
    monkeypatch.setattr(OneByOne, "interrupt_at_s", 20.0)
    assert stopping.run(tmp_path / "run").summary["ended"] == "interrupted"
    assert (tmp_path / "run/report.html").exists()
    monkeypatch.setattr(OneByOne, "interrupt_at_s", math.inf)
    assert fedtempo.resume(tmp_path / "run", force=True).summary["ended"] == "horizon"
    assert [tracker.files[-1] for tracker in Remembers.instances] == ["report.html", "report.html"]


def test_a_check_reports_if_executors_agree(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    found = experiment.with_(run={"horizon": 10.0}).check()
    assert found
    assert found.table().executor.tolist() == ["inline", "processes, 1", "processes, 2", "processes, 3"]
    assert found.table().model_sha256.nunique() == 1
    assert str(found).startswith("every bit agrees\n  inline ")
    assert "<table" in found._repr_html_()
    other = fedtempo.Check([*found.ways, dataclasses.replace(found.ways[0], events_sha256="0" * 64)])
    assert not other
    assert other.headline == "the runs differ"


def test_a_figure_of_a_paper_is_reproduced_from_python(tmp_path: Path) -> None:
    there = fedtempo.reproducible()
    assert there["fedhusky/fig6"] == "busy ratio of each client"
    made = fedtempo.reproduce("csgd/example1", tmp_path / "example")
    assert made.verdict == "reached"
    assert [path.name for path in made.pictures] == ["fig3.png"]
    assert made.table().verdict.eq("reached").any()
    assert str(made).endswith("csgd/example1: reached")
    assert "<table" in made._repr_html_()
    with pytest.raises(ConfigError):
        fedtempo.index_results(tmp_path / "results")
    kept = fedtempo.reproduce("csgd/example1", results=tmp_path / "results")
    assert "csgd/example1" in fedtempo.index_results(tmp_path / "results").read_text(encoding="utf-8")
    assert (kept.folder, kept.rows) == (tmp_path / "results/csgd/example1", made.rows)
    for arguments, said in (
        ({"what": "csgd/example"}, "did you mean 'csgd/example1'"),
        ({"what": "csgd/example1", "scale": "huge"}, "scale huge: must be one of small, medium, full"),
        ({"what": "csgd/example1", "folder": tmp_path / "example"}, "is not empty"),
        ({"what": "csgd/example1", "folder": "a", "results": "b"}, "give one of them"),
    ):
        with pytest.raises(ConfigError, match=said):
            fedtempo.reproduce(**arguments)


def test_deployments_need_flower_to_begin_and_to_resume(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib import metadata

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(ConfigError, match="Flower is not installed"):
        experiment.deploy(tmp_path / "run", local=2)
    with pytest.raises(ConfigError, match="Flower is not installed"):
        experiment.measure_fleet(tmp_path / "fleet.toml", local=2)
    (tmp_path / "measured.toml").touch()
    with pytest.raises(ConfigError, match=r"measured\.toml already exists; choose another file"):
        experiment.measure_fleet(tmp_path / "measured.toml", local=2)
    (tmp_path / "deployed").mkdir()
    (tmp_path / "deployed/deployment.json").write_text("{}")
    with pytest.raises(ConfigError, match="Flower is not installed"):
        fedtempo.resume(tmp_path / "deployed")


@pytest.mark.parametrize("content", ["5", "[]", "{", '{"local": "x"}', '{"session": {"token": 1}}', '{"session": 5}'])
def test_a_damaged_file_of_a_deployment_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "deployment.json").write_text(content)
    with pytest.raises(ConfigError, match=r"deployment.json (cannot be read|is damaged)"):
        fedtempo.resume(tmp_path)

"""Metrics and clients' own test sets of a whole run: in its records, summary, tables, pages, trackers and targets."""

from __future__ import annotations

import json
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.api.results import Result, compared
from fedtempo.data.dataset import Dataset
from fedtempo.errors import ConfigError
from fedtempo.record import Records, load_run, time_to_target
from fedtempo.record.export import export
from fedtempo.record.fairness import spread
from fedtempo.report.html import write_report
from fedtempo.report.table import comparison_table, run_rows
from fedtempo.report.trackers.points import Point, Points
from fedtempo.runs.config import Config, load, parse
from fedtempo.runs.extension import _ran_out_s
from fedtempo.runs.run import Run, run
from fedtempo.runs.world import build_world
from fedtempo.runtime.patience import Patience

TABLES: dict[str, Any] = {
    "run": {"horizon": 8.0, "evaluate_every": 2.0},
    "data": {"clients": 4, "examples_per_client": 30, "test_examples": 60},
    "model": {"network": "mlp", "hidden": [8]},
    "training": {"lr": 0.1},
    "fleet": {"compute": {"unit": "s/visit", "speed": 2.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg", "clients_per_round": 3},
    "executor": {"kind": "inline"},
}
ASKED = {
    "run.metrics": ["f1-macro", "confusion", "by-class"],
    "data.client_test_share": 0.2,
    "run.personalise": {"steps": 2},
    "run.evaluate_clients": 2,
    "run.target": {"clients-worst-tenth": 0.05},
}


def config(changes: dict[str, Any] | None = None) -> Config:
    return parse(TABLES).with_changes(changes or {})


@cache
def measured() -> tuple[dict[str, Any], Records, list[Point]]:
    seen: list[Point] = []
    points = Points(4, horizon_s=8.0, max_commits=None, evaluates=True, take=seen.append)
    summary, records, _ = Run(config(ASKED), observers=[points]).in_memory()
    return summary, records, seen


def column(records: Records, name: str) -> list[float]:
    metrics = records.further["metrics"]
    values: list[float] = metrics["value"][metrics["name"] == name].tolist()
    return values


def test_the_records_hold_what_can_be_worked_out_again() -> None:
    summary, records, _ = measured()
    confusion, clients = records.further["confusion"], records.further["client_evaluations"]
    for time, accuracy in zip(records.evaluations["time"], records.evaluations["accuracy"]):
        rows = confusion["time"] == time
        right = confusion["examples"][rows & (confusion["class"] == confusion["predicted"])].sum()
        assert confusion["examples"][rows].sum() == 60
        assert right / 60 == pytest.approx(accuracy)
    assert set(clients["model"].tolist()) == {"clients", "own"}
    last = clients["version"] == clients["version"].max()
    whole = last & (clients["model"] == "clients")
    assert clients["client"][whole].tolist() == [0, 1, 2, 3]
    assert clients["examples"][whole].tolist() == [6, 6, 6, 6]
    assert int((last & (clients["model"] == "own")).sum()) == 2
    statistics = spread(clients["accuracy"][whole], clients["examples"][whole])
    assert summary["clients"]["clients"] == pytest.approx(statistics)
    assert column(records, "clients-mean")[-1] == statistics["mean"]
    assert summary["metrics"]["f1-macro"]["final"] == column(records, "f1-macro")[-1]
    assert summary["metrics"]["f1-macro"]["best"] == max(column(records, "f1-macro"))
    assert len(summary["by_class"]) == 10


def test_the_training_has_the_same_bits_with_and_without_measures() -> None:
    summary, records, _ = measured()
    held_out, plain, _ = run(config({"data.client_test_share": 0.2}))
    for name in ("model_sha256", "events_sha256", "final_accuracy", "final_loss", "examples_trained"):
        assert summary[name] == held_out[name]
    assert np.array_equal(records.evaluations["accuracy"], plain.evaluations["accuracy"])
    nothing, empty, _ = run(config())
    assert all(not table["time"].size for table in empty.further.values())
    assert not {"metrics", "measures", "clients", "client_measures", "by_class", "target"} & nothing.keys()


def test_worker_processes_record_the_same() -> None:
    _, expected, _ = measured()
    _, found, _ = run(config({**ASKED, "executor.kind": "processes", "executor.workers": 2}))
    for table, columns in expected.further.items():
        for name, values in columns.items():
            equal_nan = values.dtype.kind == "f"
            assert np.array_equal(found.further[table][name], values, equal_nan=equal_nan), (table, name)


def test_nobody_trains_on_a_clients_test_set() -> None:
    world = build_world(config({"data.client_test_share": 0.25}))
    assert world.client_tests is not None
    tests = np.concatenate(world.client_tests)
    assert list(map(len, world.client_tests)) == [8, 8, 8, 8]
    assert not np.isin(np.concatenate(world.owned), tests).any()
    assert [client.num_examples for client in world.clients] == [22, 22, 22, 22]
    assert sum(map(sum, world.histograms)) == 88
    assert world.data_sha256 == world.dataset.sha256


def test_the_time_to_the_target_is_about_the_measure_named() -> None:
    summary, records, _ = measured()
    metrics = records.further["metrics"]
    rows = metrics["name"] == "clients-worst-tenth"
    assert summary["target"] == {
        "name": "clients-worst-tenth",
        "value": 0.05,
        "better": "higher",
        "as_share": True,
    }
    assert summary["target_accuracy"] is None
    assert summary["time_to_target_s"] == time_to_target(metrics["time"][rows], metrics["value"][rows], 0.05)
    stopped, _, _ = run(config({"run.metrics": ["f1-macro"], "run.target": {"loss": 2.6}, "run.stop_at_target": True}))
    assert stopped["ended"] == "target"
    assert stopped["time_to_target_s"] is not None
    assert dict(run_rows(stopped))["time to loss\u00a02.6"] == f"{stopped['time_to_target_s']:g} s"


def test_trackers_tables_pages_and_files_have_every_measure(tmp_path: Path) -> None:
    summary, records, points = measured()
    values: dict[str, float] = {}
    for point in points:
        values |= point.values
    assert values["evaluation/f1-macro"] == column(records, "f1-macro")[-1]
    assert values["evaluation/own-jain-weighted"] == column(records, "own-jain-weighted")[-1]
    rows = dict(run_rows(summary))
    assert rows["at the clients"].startswith("mean ")
    assert {"final f1-macro", "own models at the clients"} <= rows.keys()
    result = Result(records, summary, config(ASKED).tables)
    both = compared([result])
    titles = [str(each.header) for each in comparison_table(both.facts, 400).columns]
    assert [title for title in titles if title.startswith(("f1", "clients"))] == [
        "f1-macro",
        "clients: mean",
        "clients: worst tenth",
        "clients: Jain's index",
    ]
    write_report(tmp_path / "page.html", [result.as_run()])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for title in ("f1-macro over time", "Accuracy of each class", "Confusion", "The global model at every client"):
        assert title in page
    assert "target clients-worst-tenth 5%" in page.replace("\\u00a0", " ").replace("\u00a0", " ")
    names_of_figures = ("f1-macro", "by-class", "confusion", "clients", "own", "clients-over-time", "own-over-time")
    for name in names_of_figures:
        assert both.figure(name).data
        both.save_figure(name, tmp_path / f"{name}.svg")
    assert both.table()["clients-jain"][0] == pytest.approx(summary["clients"]["clients"]["jain"])
    assert result.clients()["test_accuracy"].mean() == pytest.approx(summary["clients"]["clients"]["mean"])
    assert len(result.metrics()) == len(records.further["metrics"]["time"])
    names = {path.stem for path in export(result.as_run(), "csv", tmp_path / "tables")}
    assert {"metrics", "confusion", "client_evaluations"} <= names


def test_a_target_is_drawn_in_the_chart_of_its_measure() -> None:
    summary, records, _ = run(config({"run.target": {"loss": 2.6}}))
    result = Result(records, summary, config({"run.target": {"loss": 2.6}}).tables)
    lines = {name: [line.y0 for line in result.figure(name).layout.shapes] for name in ("accuracy", "loss")}
    assert lines == {"accuracy": [], "loss": [2.6]}


def test_a_run_in_a_folder_can_be_read_and_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    summary = Run(config(ASKED), page=False).begin(folder)
    assert json.loads((folder / "summary.json").read_text())["clients"] == summary["clients"]
    assert load(folder / "config.toml").run == config(ASKED).run
    records, expected = load_run(folder), measured()[1]
    assert column(records, "own-mean") == column(expected, "own-mean")
    with sqlite3.connect(folder / "run.sqlite") as database:
        database.execute("UPDATE client_evaluations SET client = 77 WHERE client = 3")
    database.close()
    with pytest.raises(ConfigError, match=r"client_evaluations\.client holds 77"):
        load_run(folder)


def test_totals_keep_statistics_but_no_rows_of_clients() -> None:
    summary, records, _ = run(config({**ASKED, "run.record": "totals"}))
    assert not records.further["client_evaluations"]["time"].size
    assert summary["clients"] == measured()[0]["clients"]


def own_tests(share: bool = True) -> Dataset:
    """Return data with three owners, of whom the last has no test examples."""
    x = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    y = np.arange(30) % 2
    owners = np.repeat([0, 1, 2], 8)
    return Dataset("mine", x[:24], y[:24], x[24:], y[24:], 2, owners, test_owners=np.array([1, 0, 0, 1, 1, 0]))


def test_the_data_may_have_each_clients_test_set() -> None:
    mine = {"data": {"source": f"{__name__}:own_tests", "client_test_share": "data"}, "model": {"network": "logistic"}}
    both = parse({**TABLES, **mine})
    world = build_world(both)
    assert [rows.tolist() for rows in world.client_tests or ()] == [[1, 2, 5], [0, 3, 4], []]
    assert world.data_sha256 != world.dataset.sha256
    summary, records, _ = run(both)
    rows = records.further["client_evaluations"]
    assert set(rows["client"].tolist()) == {0, 1}
    assert summary["clients"]["clients"]["mean"] == pytest.approx(summary["final_accuracy"])  # 3 test examples each
    with pytest.raises(ConfigError, match=r"clients are not those of the data, since data\.partition"):
        build_world(both.with_changes({"data.partition": "iid", "data.clients": 3}))
    with pytest.raises(ConfigError, match="clients are not those of the data"):
        build_world(config({"data.client_test_share": "data"}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.client_test_share": 1.0}, r"data\.client_test_share = 1\.0"),
        ({"data.client_test_share": "mine"}, r"data\.client_test_share: 'mine': give a share"),
        ({"run.evaluate_clients_every": 2}, r"run\.evaluate_clients_every: clients have no test sets of their own"),
        ({"run.personalise": {"steps": 5}}, r"run\.personalise: clients have no test sets of their own; set data\."),
        ({"run.personalise": {"step": 5}}, r"personalise: step"),
        ({"run.personalise": {"steps": 5}, "run.evaluate_clients": 0}, r"personalise: evaluates evaluate_clients"),
        ({"run.target": {"clients-mean": 0.5}}, r"clients have no test sets of their own"),
        ({"run.target": {"own-mean": 0.5}, "data.client_test_share": 0.2}, r"not measured; with these settings it is"),
        ({"run.target": {"f1-macro": 0.5}}, r"target: 'f1-macro' is not measured; add it to metrics"),
        ({"run.target": {"loss": 1.0}, "run.target_accuracy": 0.5}, r"target, target_accuracy: give one of them"),
        ({"run.target": {"loss": 1.0, "accuracy": 0.5}}, r"name one measure and its value"),
        ({"run.target": {"accuracy": 50}}, r"an accuracy is between 0 and 1"),
        ({"run.metrics": [{"function": "a:b", "name": "own-mean"}]}, r"'own-mean' is a statistic over clients"),
        ({"run.metrics": ["a:b"], "run.target": {"b": 1.0}}, r"which values of 'b' are better is not known"),
    ],
)
def test_settings_that_do_not_fit_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(changes)


def test_a_target_accuracy_may_be_written_either_way() -> None:
    facts = [
        run(config({key: value}))[0] for key, value in (("run.target_accuracy", 0.1), ("run.target.accuracy", 0.1))
    ]
    assert facts[0]["target_accuracy"] == facts[1]["target_accuracy"] == 0.1
    assert facts[0]["time_to_target_s"] == facts[1]["time_to_target_s"]


def test_a_metric_that_does_not_fit_the_data_is_rejected_before_the_run() -> None:
    with pytest.raises(ConfigError, match="'rmse' is not defined for digits, which has classes"):
        run(config({"run.metrics": ["rmse"]}))


@pytest.mark.parametrize("measure", ["f1-macro", "clients-worst-tenth"])
def test_patience_is_about_the_measure_named(measure: str, tmp_path: Path) -> None:
    patience = {"evaluations": 2, "measure": measure, "min_delta": 1.0}  # so only the first value improves
    changes = {"run.metrics": ["f1-macro"], "data.client_test_share": 0.2, "run.patience": patience}
    Run(config(changes), page=False, quiet=True).begin(tmp_path / "run")
    recorded = load_run(tmp_path / "run")
    metrics = recorded.further["metrics"]
    rows = metrics["name"] == measure
    versions, firsts = np.unique(metrics["version"][rows], return_index=True)
    third_s = metrics["time"][rows][firsts[2]]  # the second and third version do not improve on the first
    assert (recorded.summary or {})["ended"] == "patience"
    assert " did not improve by more than 1 in the last 2 evaluated versions" in (recorded.summary or {})["end_reason"]
    assert _ran_out_s(recorded, Patience(**patience)) == third_s
    assert _ran_out_s(recorded, Patience(evaluations=len(versions), measure=measure, min_delta=1.0)) is None


def test_patience_needs_a_measure_that_the_run_has() -> None:
    patience = {"evaluations": 2, "measure": "clients-mean"}
    with pytest.raises(ConfigError, match=r"run\.patience\.measure = 'clients-mean': clients have no test sets"):
        config({"run.patience": patience})
    with pytest.raises(ConfigError, match=r"run\.patience\.measure = 'own-mean': not measured; with these settings"):
        config({"run.patience": {**patience, "measure": "own-mean"}, "data.client_test_share": 0.2})
    with pytest.raises(ConfigError, match=r"run\.patience\.measure = 'f1-macro': these data have no such measure"):
        Run(config({"run.patience": {**patience, "measure": "f1-macro"}}), quiet=True).in_memory()

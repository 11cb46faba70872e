"""Runs that fail without an error: warnings in progress, and traces in their results."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo import Experiment
from fedtempo.cli.logs import JsonLines, RunLog
from fedtempo.report.trackers.points import Point, Points
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.studies.advice.collect import outcome
from fedtempo.studies.tuning.report import tuning_table
from fedtempo.studies.tuning.successive_halving import Placed, successive_halving
from fedtempo.studies.tuning.trials import Trial

TABLES: dict[str, Any] = {
    "run": {"horizon": 12.0, "target_accuracy": 0.7, "evaluate_every": 2.0},
    "data": {"clients": 10},
    "model": {"network": "mlp"},
    "training": {"lr": 0.1},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "inline"},
}


def ran(changes: dict[str, Any]) -> dict[str, Any]:
    return run(parse(TABLES).with_changes(changes))[0]


def test_divergence_from_a_step_size_of_a_million_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    summary, records, _ = run(parse(TABLES).with_changes({"training.lr": 1e6, "data.clients": 50}))
    assert summary["diverged"] == "evaluation"
    assert (summary["final_accuracy"], summary["final_loss"]) == (None, None)
    assert summary["not_finite"]["evaluations"] == int((~np.isfinite(records.evaluations["loss"])).sum()) == 6
    assert summary["not_finite"]["updates"] == summary["visits_lost"]["refused"] > 50
    assert np.isnan(records.evaluations["accuracy"][1:]).all()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == [f"fedavg, seed 1: {line}" for line in summary["warnings"]]
    assert [line[16:40] for line in said] == [  # once per kind
        "an update of client 0 wa",
        "10 updates in a row were",
        "training diverged: the l",
    ]
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


@pytest.mark.parametrize(
    ("lr", "diverged"),
    [(1e3, "loss"), (1e30, "updates"), (0.1, None), (5.0, None)],
)
def test_nonfinite_and_exploding_losses_count_as_divergence(lr: float, diverged: str | None) -> None:
    assert ran({"training.lr": lr})["diverged"] == diverged


def test_updates_lost_in_rounding_are_reported_as_a_stuck_model() -> None:
    # One client per round, because the average of ten equal models may differ by a rounding error.
    summary = ran({"training.lr": 1e-30, "strategy.clients_per_round": 1})
    assert (summary["diverged"], summary["still_since_s"]) == (None, 0.0)
    assert summary["warnings"] == ["the model stands still since t = 0 s: versions 0 to 10 have exactly the same loss"]


def test_nonfinite_server_steps_and_statistics_count_on_every_executor() -> None:
    changes = {"training.lr": 1e6, "executor.workers": 2}
    inline, processes = (ran({**changes, "executor.kind": kind}) for kind in ("inline", "processes"))
    assert inline.pop("wall_s") != processes.pop("wall_s")
    assert inline == processes


def test_injected_faults_are_not_divergence() -> None:
    summary = ran({"fleet.faults.nan": 1.0})
    assert (summary["diverged"], summary["not_finite"]["updates"]) == (None, 0)
    assert summary["visits_lost"]["refused"] == 60
    assert summary["warnings"] == [
        "nobody trains: no client has finished a visit by t = 5 s; a visit takes 1 s on average"
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"run.horizon": 0.5}, "nobody trained: no client finished a visit in 0.5 s; a visit takes 1 s on average"),
        (
            {"strategy.name": "fedcs", "strategy.deadline_s": 0.5},
            "nobody trains: no client has finished a visit by t = 5 s; a visit takes 1 s on average",
        ),
        (
            {"fleet.availability": {"kind": "dropout", "probability": 1.0}},
            "nobody trains: no client has finished a visit by t = 5 s; a visit takes 1 s on average",
        ),
        (
            {"fleet.availability": {"kind": "dropout", "probability": 1.0}, "executor.kind": "none"},
            "nobody trains: no client has finished a visit by t = 5 s; a visit takes 1 s on average",
        ),
    ],
)
def test_a_run_without_training_is_reported_once(
    changes: dict[str, Any], line: str, caplog: pytest.LogCaptureFixture
) -> None:
    summary = ran(changes)
    assert (summary["visits"], summary["warnings"]) == (0, [line])
    assert [record.getMessage() for record in caplog.records] == [f"{summary['strategy']}, seed 1: {line}"]


def test_a_replayed_run_repeats_its_warnings_but_records_them_once(tmp_path: Path) -> None:
    summary = Experiment.from_tables(TABLES).with_({"training.lr": 1e6}).run(tmp_path / "run").summary
    assert summary["warnings"] == json.loads((tmp_path / "run" / "summary.json").read_text())["warnings"]
    assert len(summary["warnings"]) == 2


def test_a_diverged_learning_rate_ranks_last_and_is_shown() -> None:
    points = [{"training.lr": lr} for lr in (1e6, 1e3, 0.1, 1e-4)]
    base = parse(TABLES)
    placed = successive_halving(base, ["fedavg"], points, [1, 2], budget=4.0, workers=1)["fedavg"]
    assert [entry.trial.changes["training.lr"] for entry in placed][:2] == [0.1, 1e-4]
    assert [entry.trial.diverged for entry in placed] == [0, 0, 2, 2]
    table = tuning_table("fedavg", placed, [1, 2])
    assert [column.header for column in table.columns][-1] == "diverged"
    assert list(table.columns[-1].cells) == ["", "", "2 of 2", "2 of 2"]
    early = Trial("a", {}, (1.0,), (0.9,), diverged=1)
    assert early.order > Trial("a", {}, (None,), (0.1,)).order


def test_advice_ranks_a_diverged_strategy_last() -> None:
    class Ended:
        def __init__(self, **changed: Any) -> None:
            self.summary = {"time_to_target_s": 5.0, "best_accuracy": 0.9, "visits": 3, "diverged": None, **changed}

    wild: Any = [Ended(), Ended(diverged="loss")]
    steady: Any = [Ended(time_to_target_s=None, best_accuracy=0.5)] * 2
    assert outcome(wild).diverged == 1
    assert outcome(steady).order < outcome(wild).order


def test_the_python_api_reports_divergence() -> None:
    base = Experiment.from_tables({**TABLES, "compare": {"wild": {"strategy.name": "fedavg", "training.lr": 1e6}}})
    comparison = base.compare("fedavg,wild", seeds=[1, 2])
    assert comparison.headline.endswith("; wild: 2 of 2 runs diverged")
    assert comparison.table()["diverged"].tolist() == [0, 2]
    assert "2 of 2 runs diverged" in " ".join(str(comparison).split())  # lines are wrapped
    assert "diverged: the last updates were all rejected: not finite" in str(comparison["wild"][0])


def test_json_logs_and_trackers_report_divergence(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "fedtempo.run"):
        RunLog().evaluation(2.0, 1, math.nan, math.inf, None)
    entry = json.loads(JsonLines().format(caplog.records[-1]))
    assert (entry["message"], entry["accuracy"], entry["loss"]) == ("version 1: the loss is not finite", None, None)
    taken: list[Point] = []
    points = Points(2, horizon_s=10.0, max_commits=None, evaluates=True, take=taken.append)
    points.evaluation(0.0, 0, 0.1, 2.3, None)
    points.evaluation(1.0, 1, math.nan, math.nan, None)
    points.evaluation(2.0, 2, 0.2, 2.0, None)
    assert [point.values for point in taken] == [
        {"evaluation/accuracy": 0.1, "evaluation/loss": 2.3},
        {"evaluation/not_finite": 1},
        {"evaluation/accuracy": 0.2, "evaluation/loss": 2.0, "evaluation/not_finite": 1},
    ]


def test_a_learning_rate_that_diverges_late_ranks_below_one_that_was_tried_less() -> None:
    far = Placed(Trial("a", {}, (1.0,), (0.9,), diverged=1), rung=1, horizon_s=10.0)
    near = Placed(Trial("a", {}, (None,), (0.1,)), rung=0, horizon_s=5.0)
    assert near.order < far.order
    assert Placed(far.trial, 1, 10.0).order < Placed(far.trial, 0, 5.0).order


def test_clients_that_leave_for_good_before_the_end_are_reported() -> None:
    windows = [[[0.0, 6.0]]] * 10
    lines = ["every client is away from t = 6 s on: windows without period_s are used once"]
    assert ran({"fleet.availability": {"kind": "windows", "windows": windows}})["warnings"] == lines
    periodic = {"kind": "windows", "windows": windows, "period_s": 10.0}
    assert ran({"fleet.availability": periodic})["warnings"] == []
    assert ran({"fleet.availability": {"kind": "windows", "windows": [[[0.0, 12.0]]] * 10}})["warnings"] == []

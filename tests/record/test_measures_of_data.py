"""A measure has the same name in progress, tables, pages, logs, trackers and advice."""

from __future__ import annotations

import io
import json
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from fedtempo import Experiment, open_comparison
from fedtempo.cli import app
from fedtempo.cli.logs import RunLog
from fedtempo.cli.progress import shown
from fedtempo.deploy.live.event_log import EventLog, OperationEnded
from fedtempo.record import load_run
from fedtempo.record.metric import CLASSES, NUMBERS, TOKENS
from fedtempo.report import charts, figures, words
from fedtempo.report.html import write_report
from fedtempo.report.table import run_rows
from fedtempo.report.trackers.points import Point, Points
from fedtempo.report.watch.reading import Reader
from fedtempo.report.watch.state import RunState
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import Run, run
from fedtempo.runtime.executors import Evaluation

FLEET = {
    "compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 3.0},
    "link": "none",
    "estimates": "exact",
}
RUN = {"horizon": 30.0, "target_accuracy": 0.5}


def tables(folder: Path, task: str) -> dict[str, Any]:
    """Return the configuration of a small run on a table of houses (numbers or classes) or on a text (tokens)."""
    rng = np.random.default_rng(5)
    model: dict[str, Any] = {"network": "mlp", "hidden": [8]}
    if task == "tokens":
        text = "".join(rng.choice(["to be ", "or not ", "the rest "]) for _ in range(600))
        (folder / "play.txt").write_text(text)
        data = {"source": f"text:{folder}/play.txt", "options": {"length": 16}, "clients": 3}
        model = {"network": "char-lstm", "hidden": 8, "n_layers": 1, "every_step": True}
    else:
        rooms, age = rng.uniform(1, 6, 240), rng.uniform(0, 1, 240)
        price = 2.5 * rooms - 3.0 * age + 0.1 * rng.standard_normal(240)
        label = (price > 7).astype(int) if task == "classes" else price
        lines = [
            f"{a:.4f},{b:.4f},{c:.4f}" if task == "numbers" else f"{a:.4f},{b:.4f},{c}"
            for a, b, c in zip(rooms, age, label)
        ]
        (folder / "houses.csv").write_text("rooms,age,price\n" + "\n".join(lines) + "\n")
        data = {"source": f"table:{folder}/houses.csv", "options": {"label": "price"}, "clients": 3}
    return {
        "run": RUN,
        "data": data,
        "model": model,
        "training": {"lr": 0.01, "epochs": 3},
        "fleet": FLEET,
        "strategy": {"name": "fedavg", "clients_per_round": 2},
        "executor": {"kind": "inline"},
    }


def config(folder: Path, task: str) -> Config:
    return parse(tables(folder, task))


@pytest.mark.parametrize(
    ("task", "measure", "beside"),
    [
        ("classes", CLASSES, []),
        ("tokens", TOKENS, ["final perplexity"]),
        ("numbers", NUMBERS, ["final RMSE", "final MAE"]),
    ],
)
def test_a_run_reports_the_name_of_its_measure(
    task: str, measure: Any, beside: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points_seen: list[Point] = []
    points = Points(3, horizon_s=30.0, max_commits=None, evaluates=True, take=points_seen.append)
    screen = Console(file=io.StringIO(), force_terminal=True, width=140)
    with caplog.at_level(logging.INFO, "fedtempo.run"), shown(screen, config(tmp_path, task)) as watch:
        seen = []

        def watch_and_keep(sim: Any, evaluations: Any) -> None:
            watch(sim, evaluations)
            seen.append(evaluations)

        summary = Run(config(tmp_path, task), watch=watch_and_keep, observers=[points, RunLog()]).begin(
            tmp_path / "run"
        )
    assert seen[0].measure == measure
    assert summary["measure"] == measure.key
    rows = dict(run_rows(summary))
    expected = [
        "time to R²\u00a00.5" if task == "numbers" else "time to 50%",
        f"final {measure.name}",
        f"best {measure.name}",
    ]
    assert {*expected, *beside} <= rows.keys()
    assert rows[f"final {measure.name}"].endswith("%") == measure.as_share
    evaluated = next(point for point in points_seen if "evaluation/loss" in point.values)
    assert f"evaluation/{measure.key}" in evaluated.values
    records = load_run(tmp_path / "run")
    assert np.isnan(records.evaluations["mae"]).all() == (task != "numbers")
    line = next(record for record in caplog.records if hasattr(record, "loss"))
    assert f": {measure.name} " in line.getMessage()
    assert getattr(line, measure.key) == evaluated.values[f"evaluation/{measure.key}"]
    state = RunState(records.facts)
    state.absorb(Reader(tmp_path / "run").read())
    assert state.row(None)["measure"] == {"name": measure.name, "as_share": measure.as_share}
    assert any(
        f": {measure.name} " in text for _, kind, text in state.detail(None, 0, 0, 0)["log"] if kind == "evaluation"
    )
    write_report(tmp_path / "report.html", [records])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{words.capital(measure.name)} over time" in page
    if task == "numbers":
        assert "ccuracy" not in page.partition("<h2>Configuration")[0].replace("target_accuracy", "")
        assert "ccuracy" not in json.dumps(state.detail(None, 0, 0, 0)["log"])


def test_progress_names_the_measure(tmp_path: Path) -> None:
    screen = io.StringIO()
    with shown(Console(file=screen, force_terminal=True, width=140), config(tmp_path, "numbers")) as watch:
        slow = config(tmp_path, "numbers").with_changes({"run.horizon": 300.0})
        run(slow, watch=watch)
    assert "R² " in screen.getvalue()
    assert "accuracy" not in screen.getvalue()


def test_numeric_labels_have_a_mean_absolute_error(tmp_path: Path) -> None:
    result = Experiment(**tables(tmp_path, "numbers")).run()
    curve = result.curve()
    assert list(curve) == ["time", "version", "accuracy", "loss", "mae"]
    assert (curve.mae <= np.sqrt(curve.loss)).all()  # by Jensen's inequality
    assert result.summary["final_mae"] == curve.mae.iloc[-1]
    assert 0.3 * math.sqrt(curve.loss.iloc[-1]) < curve.mae.iloc[-1]
    by_processes = Experiment(**{**tables(tmp_path, "numbers"), "executor": {"kind": "processes", "workers": 2}}).run()
    assert by_processes.curve().equals(curve)


def test_comparisons_tunings_and_advice_name_the_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tomli_w

    path = tmp_path / "houses.toml"
    path.write_text(tomli_w.dumps(tables(tmp_path, "numbers")))
    monkeypatch.setattr(app.console, "_width", 160)

    def output_of(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["fedtempo", *arguments])
        with pytest.raises(SystemExit) as ended:
            app.main()
        assert not ended.value.code
        return capsys.readouterr().out

    compared = output_of(
        "compare", str(path), "--strategies", "fedavg,sequential", "--seeds", "1,2", "--out", f"{tmp_path}/both"
    )
    assert "an R² of" in compared
    assert "final R²" in " ".join(compared.split())
    tuned = output_of(
        "tune", str(path), "--strategies", "fedavg", "--lr", "0.02:0.01", "--factor", "2", "--workers", "1"
    )
    assert "mean of the best R²" in " ".join(tuned.split())
    advised = output_of("advise", str(path), "--strategies", "fedavg,sequential", "--budget", "8", "--workers", "1")
    assert " R² " in advised
    for text in (compared, tuned, advised):
        assert "ccuracy" not in text
    comparison = open_comparison(tmp_path / "both")
    assert comparison.figure("accuracy").layout.yaxis.title.text == "test R²"
    assert "ccuracy" not in (tmp_path / "both/report.html").read_text(encoding="utf-8").partition("<h2>Configuration")[
        0
    ].replace("target_accuracy", "")


def test_figures_of_numeric_labels_have_no_percentages(tmp_path: Path) -> None:
    result = Experiment(**tables(tmp_path, "numbers")).run()
    figure = charts.accuracy(result.shown_runs, 0.5)
    assert figure.layout.yaxis.tickformat == ".2~f"
    assert figure.layout.annotations[0].text == "target R²\u00a00.5"
    figures.accuracy(result.shown_runs, tmp_path / "curve.svg", target=0.5)
    assert figures.panels({"all": result.shown_runs}, tmp_path / "panels.svg") is None


def test_each_measure_is_formatted_in_words() -> None:
    assert words.score(0.9721, CLASSES) == "97.2%"
    assert words.score(-0.2, NUMBERS) == "-0.200"
    assert words.score(None, NUMBERS) == "–"
    assert words.scored(0.5, TOKENS) == "50.0% token accuracy"
    assert words.scored(0.5, NUMBERS) == "an R² of 0.500"
    assert words.aim(0.8, NUMBERS) == "an R² of 0.8"
    assert words.mean_score(0.8, 0.01, NUMBERS) == "0.800 ± 0.010"
    assert words.mean_score(0.8, 0.0001, NUMBERS) == "0.800"
    assert words.mean_score(0.862, 0.006, CLASSES) == "86.2 ± 0.6%"


def test_journals_hold_the_absolute_error_and_older_journals_without_it_are_read() -> None:
    event_log = EventLog(None, None)
    row = event_log._event(OperationEnded(3, Evaluation(0.5, 1.25, 0.75)))
    assert event_log._read_event(row) == OperationEnded(3, Evaluation(0.5, 1.25, 0.75))
    earlier = event_log._read_event(["evaluation", 3, 0.5, 1.25])
    assert earlier == OperationEnded(3, Evaluation(0.5, 1.25, None))


def test_a_folder_of_an_earlier_version_is_read_and_written_back(tmp_path: Path) -> None:
    import sqlite3

    from fedtempo.record import Recorder

    Run(config(tmp_path, "numbers")).begin(tmp_path / "run")
    new = load_run(tmp_path / "run")
    with sqlite3.connect(tmp_path / "run/run.sqlite") as connection:
        connection.execute("ALTER TABLE evaluations DROP COLUMN mae")
    connection.close()
    old = load_run(tmp_path / "run")
    assert np.isnan(old.evaluations["mae"]).all()
    assert old.evaluations["loss"].tolist() == new.evaluations["loss"].tolist()
    assert Reader(tmp_path / "run").read().evaluations["loss"].tolist() == new.evaluations["loss"].tolist()
    recorder = Recorder(tmp_path / "run")
    recorder.evaluation(1.0, 0, 0.5, 1.0, 0.25)
    assert recorder.records().evaluations["mae"].tolist() == [0.25]
    recorder.close()

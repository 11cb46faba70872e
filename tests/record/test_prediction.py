"""A simulation compared with the deployment that it predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.prediction_page import Compared, Outcome, Used, facts, inserted, page, read
from fedtempo.cli.fleet import fleet_compare
from fedtempo.errors import ConfigError
from fedtempo.record import Recorder, load_run
from fedtempo.record.prediction import Predicted, prediction
from fedtempo.record.recorder import VisitRow

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def written(folder: Path, visit_s: float, target_at: int | None, strategy: str = "fedavg", **more: Any) -> Path:
    """Record a run of one client with three visits and a commit after each; one of them reaches the target.

    more: further facts.
    """
    folder.mkdir()
    recorder = Recorder(folder)
    facts = {"strategy": strategy, "seed": 1, "n_clients": 1, "target_accuracy": 0.85, "elapsed_s": 4 * visit_s}
    for name, value in {**facts, "ended": "budget", "horizon_s": None, **more}.items():
        recorder.fact(name, value)
    for number in range(3):
        start = number * visit_s
        received, computed, end = (start + part * visit_s for part in (0.25, 0.75, 1.0))
        recorder.visit(VisitRow(number, 0, None, number, start, start, received, computed, end, "done", 10, 0.1))
        recorder.commit(number + 1, end, 0)
    for number in range(5):
        reached = target_at is not None and number >= target_at
        recorder.evaluation(number * visit_s, number, 0.9 if reached else 0.1, 1.0)
    recorder.close()
    return folder


def test_both_measures_and_their_difference_are_shown(tmp_path: Path) -> None:
    simulated, deployed = written(tmp_path / "a", 2.0, 1), written(tmp_path / "b", 2.5, 2)
    by_name = {measure.name: measure for measure in prediction(load_run(simulated), load_run(deployed))}
    between = by_name["time between commits, mean, s"]
    assert (between.predicted, between.real, between.error) == (2.0, 2.5, pytest.approx(0.25))
    assert by_name["time of a visit, mean, s"].error == pytest.approx(0.25)
    assert by_name["busy ratio, mean"].error == pytest.approx(0.0)
    assert by_name["busy ratio, mean"].real == pytest.approx(0.75)
    target = by_name["time to target, s"]
    assert (target.predicted, target.real) == (2.0, 5.0)


def test_a_measure_that_one_run_lacks_has_no_error(tmp_path: Path) -> None:
    measures = prediction(load_run(written(tmp_path / "a", 2.0, 1)), load_run(written(tmp_path / "b", 2.0, None)))
    assert measures[-1] == Predicted("time to target, s", 2.0, None)
    assert measures[-1].error is None


def test_runs_of_other_configurations_are_rejected(tmp_path: Path) -> None:
    one, other = written(tmp_path / "a", 2.0, 1), written(tmp_path / "b", 2.0, 1, strategy="hybrid")
    with pytest.raises(ConfigError, match="strategy is 'fedavg' in the simulation but 'hybrid' in the deployment"):
        prediction(load_run(one), load_run(other))


def test_the_command_warns_of_another_load_than_in_the_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = {"server": [1.0, 2], "clients": [[8.0, 2]]}
    simulated = written(tmp_path / "a", 2.0, 1)
    deployed = written(tmp_path / "b", 2.5, 1, client_names=["[ward]"], loads=loads)
    fleet = tmp_path / "fleet.toml"
    fleet.write_text('[fleet]\n[measured]\nserver = [0.5, 2]\nclients = {"[ward]" = [0.5, 2]}\n')
    fleet_compare(simulated, deployed, fleet)
    assert "client [ward]: load 0.5 on 2 processors when measured, 8.0 on 2 processors in" in capsys.readouterr().out
    fleet_compare(simulated, deployed)
    assert "load" not in capsys.readouterr().out
    fleet.write_text("[fleet]\n")  # as written by earlier versions
    fleet_compare(simulated, deployed, fleet)
    assert "load" not in capsys.readouterr().out


def test_the_command_shows_both_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet_compare(written(tmp_path / "a", 2.0, 1), written(tmp_path / "b", 2.5, 1))
    assert "+25.0%" in capsys.readouterr().out


@pytest.mark.skipif(not (RESULTS / "prediction.json").exists(), reason="it has not been measured")
def test_the_committed_table_agrees_with_the_committed_numbers() -> None:
    committed = json.loads((RESULTS / "prediction.json").read_text(encoding="utf-8"))
    text = (RESULTS / "prediction.md").read_text(encoding="utf-8")
    assert page(committed) in text
    assert inserted(text, committed) == text


def test_numbers_survive_a_round_trip_through_their_file() -> None:
    quiet = Used((0.1, 0.4), 0.25)
    measures = [Predicted("busy ratio, mean", None, 0.5), Predicted("time to target, s", 100.0, 104.0)]
    found = [Compared(0, quiet, {"fedavg": Outcome(measures, quiet)})]
    read_back = json.loads(json.dumps(facts(found, 20, (1.0, 5.0))))
    assert read(read_back) == found
    assert "| 0 | fedavg | 100 | 104 | +4.0% | 0.1 to 0.4, 25% of the processors | 0.1 to 0.4" in page(read_back)
    assert "| fedavg | busy ratio, mean | - | 0.5 | - |" in page(read_back)
    assert "largest error of a time to target is 4.0%; the aim of 5% is reached" in page(read_back)
    assert "Warning" not in page(read_back)


def test_the_page_says_what_was_missed_and_where_the_load_differed() -> None:
    quiet, busy = Used((0.1, 0.4), 0.25), Used((8.0, 12.0), 1.0)
    target = "time to target, s"
    strategies = {
        "fedavg": Outcome([Predicted(target, 100.0, 140.0)], busy, ["the server: load 0.1 on 2 processors ..."]),
        "fedbuff": Outcome([Predicted(target, 100.0, None)], quiet),
    }
    shown = page(facts([Compared(8, quiet, strategies)], 20, (1.0, 5.0)))
    assert "largest error of a time to target is 40.0%; the aim of 15% is **not reached**" in shown
    assert "1 of 2 targets were not reached in both" in shown
    assert (
        "**Warning**: with 8 busy processes, the load in the run was not that of the measurement for fedavg." in shown
    )
    assert "100% of the processors (differs) |" in shown

"""A simulation compared with the deployment that it predicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.prediction_page import facts, page, read
from fedtempo.cli.fleet import fleet_compare
from fedtempo.errors import ConfigError
from fedtempo.record import Recorder, load_run
from fedtempo.record.prediction import Predicted, prediction
from fedtempo.record.recorder import VisitRow

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def written(folder: Path, visit_s: float, target_at: int | None, strategy: str = "fedavg") -> Path:
    """Record a run of one client with three visits and a commit after each; one of them reaches the target."""
    folder.mkdir()
    recorder = Recorder(folder)
    facts = {"strategy": strategy, "seed": 1, "n_clients": 1, "target_accuracy": 0.85, "elapsed_s": 4 * visit_s}
    for name, value in {**facts, "ended": "budget", "horizon_s": None}.items():
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


def test_the_command_shows_both_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet_compare(written(tmp_path / "a", 2.0, 1), written(tmp_path / "b", 2.5, 1))
    assert "+25.0%" in capsys.readouterr().out


@pytest.mark.skipif(not (RESULTS / "prediction.json").exists(), reason="it has not been measured")
def test_the_committed_table_agrees_with_the_committed_numbers() -> None:
    committed = json.loads((RESULTS / "prediction.json").read_text(encoding="utf-8"))
    assert page(read(committed)) in (RESULTS / "prediction.md").read_text(encoding="utf-8")


def test_numbers_survive_a_round_trip_through_their_file() -> None:
    measures = {"fedavg": [Predicted("time to target, s", 10.0, 11.0), Predicted("busy ratio, mean", None, 0.5)]}
    read_back = json.loads(json.dumps(facts(measures, [0.1, 2.0])))
    assert read(read_back) == measures
    assert "| fedavg | time to target, s | 10 | 11 | +10.0% |" in page(read(read_back))
    assert "| fedavg | busy ratio, mean | - | 0.5 | - |" in page(measures)

"""Advice: the strategy that is best in short trainings is recommended, with what it costs and what would change it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fedtempo import Advice, Experiment
from fedtempo.cli import app
from fedtempo.errors import ConfigError
from fedtempo.record import Records
from fedtempo.runs.config import parse
from fedtempo.studies.advice.collect import _Candidate, _tuned, gather
from fedtempo.studies.advice.evidence import (
    EFFORTS,
    ESTIMATES,
    LOSSES,
    Cost,
    Effort,
    Evidence,
    Outcome,
    Setting,
    parse_budget,
    scenario_changes,
)
from fedtempo.studies.advice.recommendation import Advice as Made
from fedtempo.studies.tuning.trials import FinishedRun

PARTS: dict[str, Any] = {
    "strategy": "fedavg",
    "fleet": {
        "compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 6.0, "watts": 4.0},
        "link": {"kind": "rates", "download_bps": 2e6, "upload_bps": 5e5, "watts": 1.0},
        "estimates": "exact",
    },
    "data": {"source": "digits", "clients": 6, "examples_per_client": 40, "test_examples": 100},
    "model": "logistic",
    "training": {"lr": 0.3},
    "run": {"horizon": 80.0, "target_accuracy": 0.6},
    "compare": {"hopeless": {"strategy.name": "fedavg", "training.lr": 1e-6}},
}


NOTHING = Records({}, {}, {}, (), {})
LABELS = ["hopeless", "fedavg", "psfl", "centralized"]


@pytest.fixture(scope="module")
def advice() -> Advice:
    return Experiment(**PARTS).advise(LABELS, budget=32)


def test_the_best_strategy_of_short_trainings_is_recommended(advice: Advice) -> None:
    labels = [each.label for each in advice.evidence]
    assert set(labels) == {"hopeless", "fedavg", "psfl"}
    assert labels[-1] == "hopeless"
    assert advice.best.label in ("fedavg", "psfl")
    assert advice.best.trained.time_s is not None
    assert advice.evidence[-1].trained.time_s is None
    orders = [each.trained.order for each in advice.evidence]
    assert orders == sorted(orders)
    assert advice.headline.startswith(f"{advice.best.label}: reaches 60% accuracy after ")


def test_a_strategy_that_cannot_run_is_left_out_with_its_reason(advice: Advice) -> None:
    assert list(advice.left_out) == ["centralized"]
    assert "no client agreed to upload examples" in advice.left_out["centralized"]
    # psfl has no schedule without training, since it measures gradients first: it is trained all the same.
    psfl = next(each for each in advice.evidence if each.label == "psfl")
    assert psfl.visits == {}
    assert psfl.visits_change(ESTIMATES) is None
    assert psfl.busy_ratio > 0


def test_learning_rates_are_tried_with_a_separate_seed(advice: Advice) -> None:
    assert advice.setting.effort == EFFORTS[3]
    assert advice.setting.seeds == (1, 2)
    assert advice.setting.tuning_seed not in advice.setting.seeds
    hopeless = advice.evidence[-1]
    assert hopeless.edge
    assert hopeless.changes["training.lr"] in (3.3e-07, 1e-06, 3e-06)


def test_costs_count_until_the_target(advice: Advice) -> None:
    for each in advice.evidence:
        assert each.cost.moved_bytes > 0
        assert each.cost.energy_wh == pytest.approx(4.0 * each.cost.client_hours, rel=0.4)
    best, hopeless = advice.best, advice.evidence[-1]
    assert best.cost.client_hours < hopeless.cost.client_hours, "it ends when it is there"


def test_losses_cost_visits_and_finalists_train_again(advice: Advice) -> None:
    fedavg = next(each for each in advice.evidence if each.label == "fedavg")
    assert fedavg.visits_change(ESTIMATES) == 0
    change = fedavg.visits_change(LOSSES)
    assert change is not None
    assert -0.3 < change < 0
    assert set(fedavg.under) == {ESTIMATES, LOSSES}
    assert any("With 10% of the visits lost it" in line for line in advice.details)


def test_budgets_that_buy_the_same_trainings_give_the_same_advice(advice: Advice) -> None:
    again = Experiment(**PARTS).advise(LABELS, budget=advice.setting.trainings + 1)
    assert again.facts() == advice.facts()
    assert json.loads(json.dumps(advice.facts(), allow_nan=False)) == advice.facts()


@pytest.mark.slow
def test_advice_does_not_depend_on_the_number_of_workers(advice: Advice) -> None:
    again = Experiment(**PARTS).advise(LABELS, budget=advice.setting.trainings, workers=2)
    assert again.facts() == advice.facts()


def test_a_learning_rate_that_cannot_train_is_not_chosen() -> None:
    config = Experiment(**PARTS).config

    def train(asked: Any, seeds: Any) -> list[Any]:
        assert seeds == [101]
        assert [changes["training.lr"] for _, changes in asked] == [0.1, 0.3, 0.9] * 2
        summary = {"time_to_target_s": None, "visits": 1}
        good = [[FinishedRun({**summary, "best_accuracy": accuracy}, NOTHING)] for accuracy in (0.5, 0.4)]
        return [*good, "it grew without bound", *["nothing trains"] * 3]

    left_out: dict[str, str] = {}
    candidates = [_Candidate(label, config, {}, {}) for label in ("a", "b")]
    assert _tuned(train, candidates, 3, 101, left_out) == {"a": ({"training.lr": 0.1}, True)}
    assert left_out == {"b": "nothing trains"}


def test_advice_is_shown_as_a_table_as_lines_and_as_a_page(advice: Advice) -> None:
    table = advice.table()
    assert table.strategy.tolist() == [each.label for each in advice.evidence]
    assert table.time_to_target_s.isna().tolist() == [False, False, True]
    changed = parse({**Experiment(**PARTS).config.given, "compare": {}})
    assert changed.variants == {}
    assert advice.toml().startswith(f"[compare.{advice.best.label}]\n")
    assert "training.lr = " in advice.toml()
    assert "<table" in advice._repr_html_()
    assert str(advice).splitlines()[0] == advice.headline


@pytest.mark.parametrize(
    ("text", "value"), [("80", 80), ("90s", 90.0), ("5m", 300.0), ("1.5h", 5400.0), (" 2 m ", 120.0)]
)
def test_budgets_are_given_as_trainings_or_times(text: str, value: float) -> None:
    assert parse_budget(text) == value
    assert isinstance(parse_budget(text), type(value))


@pytest.mark.parametrize("text", ["", "0", "-3", "1.5", "5 days", "m"])
def test_invalid_budgets_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="write a number of short trainings"):
        parse_budget(text)


def test_efforts_grow_and_count_trainings() -> None:
    for strategies in (1, 3, 14):
        counts = [effort.trainings(strategies) for effort in EFFORTS]
        assert counts == sorted(counts)
    assert Effort(1, 1, 0).trainings(14) == 14
    assert Effort(3, 2, 3).trainings(14) == 3 * 14 + 2 * 14 + 2 * 2 * 3


def test_additional_losses_are_combined_with_those_of_the_fleet() -> None:
    fleet = {**PARTS["fleet"], "availability": {"kind": "dropout", "probability": 0.5}}
    changes = scenario_changes(Experiment(**{**PARTS, "fleet": fleet}).config, LOSSES)
    assert changes == {"fleet.availability": {"kind": "dropout", "probability": pytest.approx(0.55)}}
    away = {**fleet, "availability": {"kind": "on-off", "mean_on_s": 9.0, "mean_off_s": 9.0}, "faults": {"nan": 0.2}}
    assert scenario_changes(Experiment(**{**PARTS, "fleet": away}).config, LOSSES) == {
        "fleet.faults.nan": pytest.approx(0.3)
    }


def evidence(label: str, times: tuple[float | None, ...], accuracies: tuple[float, ...]) -> Evidence:
    return Evidence(
        label=label,
        changes={"training.lr": 0.1},
        edge=False,
        busy_ratio=0.5,
        idlest=0.1,
        staleness=None,
        visits={},
        trained=Outcome(times, accuracies, 10.0),
        cost=Cost(1e6, 2.0, None),
        under={},
    )


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (((10.0, 12.0), (0.9, 0.9)), ((13.0, 14.0), (0.9, 0.9)), "clear"),
        (((10.0, 12.0), (0.9, 0.9)), ((11.0, 14.0), (0.9, 0.9)), "close"),
        (((10.0, 12.0), (0.9, 0.9)), ((None, None), (0.5, 0.6)), "clear"),
        (((10.0, None), (0.9, 0.55)), ((None, None), (0.5, 0.6)), "close"),
        (((None, None), (0.70, 0.72)), ((None, None), (0.5, 0.6)), "clear"),
        (((None, None), (0.70, 0.72)), ((None, None), (0.69, 0.70)), "close"),
        (((10.0,), (0.9,)), ((13.0,), (0.9,)), "one seed"),
    ],
)
def test_the_confidence_of_advice_is_stated(first: Any, second: Any, verdict: str) -> None:
    seeds = tuple(range(len(first[0])))
    setting = Setting(0.8, 100.0, 25.0, seeds, 101, EFFORTS[0], 2)
    made = Made(parse_parts(), setting, [evidence("a", *first), evidence("b", *second)], {})
    assert made.verdict == verdict
    assert Made(made.config, setting, made.evidence[:1], {}).verdict == "alone"


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((None, None), "No short training reached 80% accuracy: "),
        ((10.0, None), "No strategy reached 80% accuracy in most of its short trainings: "),
    ],
)
def test_a_missed_target_is_reported_with_the_number_of_runs(times: tuple[float | None, ...], said: str) -> None:
    setting = Setting(0.8, 100.0, 25.0, (1, 2), 101, EFFORTS[0], 2)
    made = Made(parse_parts(), setting, [evidence("a", times, (0.9, 0.6)), evidence("b", (None, None), (0.5, 0.5))], {})
    assert next(each for each in made.details if each.startswith("No ")).startswith(said)


def parse_parts() -> Any:
    return Experiment(**PARTS).config


@pytest.mark.parametrize(
    ("changes", "arguments", "said"),
    [
        ({"run": {"max_commits": 3}}, {}, "run.horizon is missing"),
        ({}, {"budget": 1}, "2 strategies need at least 2 trainings"),
        ({}, {"short_s": 90.0}, "at most run.horizon = 80"),
        ({}, {"strategies": ["nonsense"]}, "no strategy fits this configuration: nonsense: "),
    ],
)
def test_unsuitable_configurations_are_rejected(changes: dict[str, Any], arguments: dict[str, Any], said: str) -> None:
    config = Experiment(**{**PARTS, **changes}).config
    with pytest.raises(ConfigError, match=said):
        gather(config, arguments.pop("strategies", ["fedavg", "sequential"]), **arguments)


def test_a_time_budget_buys_as_many_trainings_as_fit() -> None:
    config = Experiment(**PARTS).config
    setting, _, _ = gather(config, ["fedavg"], budget=3600.0, short_s=10.0)
    assert setting.effort == EFFORTS[-1]
    with pytest.raises(ConfigError, match="take about"):
        gather(config, ["fedavg"], budget=1e-9, short_s=10.0)


def test_the_command_prints_advice_as_text_and_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Experiment(**PARTS).save(tmp_path / "config.toml")
    monkeypatch.setenv("COLUMNS", "100")
    arguments = ["advise", str(path), "--strategies", "fedavg,hopeless", "--budget", "2", "--short", "20"]
    app.app([*arguments, "--workers", "1"], standalone_mode=False)
    out = capsys.readouterr().out
    assert re.search(r"fedavg: reaches (60% accuracy after|\d+\.\d% accuracy in) ", out)
    assert "--budget 2" in out
    assert "[compare.fedavg]" in out
    app.app([*arguments, "--workers", "1", "--json"], standalone_mode=False)
    facts = json.loads(capsys.readouterr().out)
    assert facts["recommended"] == "fedavg"
    assert facts["verdict"] == "one seed"
    assert facts["strategies"]["fedavg"]["cost"]["energy_wh"] > 0

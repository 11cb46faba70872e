"""`fedtempo tune`: grids, how a budget is shared out, what is printed, and that what is printed can be pasted."""

from __future__ import annotations

import itertools
import math
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.cli import app
from fedtempo.errors import ConfigError
from fedtempo.runs.config import Config, parse
from fedtempo.studies.tuning import successive_halving as halving
from fedtempo.studies.tuning.report import comparison_lines
from fedtempo.studies.tuning.successive_halving import multiplicative_grid, rungs, successive_halving
from fedtempo.studies.tuning.trials import Changes, Trial

TABLES: dict[str, Any] = {
    "run": {"horizon": 12.0, "target_accuracy": 0.5, "evaluate_every": 2.0},
    "data": {"clients": 4, "examples_per_client": 20, "test_examples": 50, "tell_labels": True},
    "model": {"network": "logistic"},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
    "compare": {
        "hybrid": {"strategy": {"clusters": "labels"}, "data": {"partition": {"kind": "dirichlet", "alpha": 0.5}}},
        "two words": {"strategy": {"name": "fedavg"}},
    },
}


def test_grids_are_multiplicative_in_two_digits() -> None:
    assert multiplicative_grid(0.3, 0.001, 3) == [0.3, 0.1, 0.033, 0.011, 0.0037, 0.0012]
    assert multiplicative_grid(1.0, 0.001, 10) == [1.0, 0.1, 0.01, 0.001]
    assert multiplicative_grid(0.1, 0.1, 2) == [0.1]
    for arguments, message in [
        ((0.1, 0.3, 3.0), "lr = 0.1:0.3: give the largest and the smallest"),
        ((0.1, 0.0, 3.0), "both positive"),
        ((0.1, 0.01, 1.0), "factor = 1: must be above 1"),
        ((0.1, 0.01, 1.001), "agree in two digits"),
    ]:
        with pytest.raises(ConfigError, match=message):
            multiplicative_grid(*arguments)


@given(points=st.integers(1, 60), budget=st.floats(2.01, 80.0))
def test_a_budget_is_used_up_but_never_exceeded(points: int, budget: float) -> None:
    plan = rungs(points, budget)
    spent = sum(rung.points * rung.share for rung in plan)
    assert plan[0].points == points
    assert plan[-1].share == 1.0
    assert spent <= budget * (1 + 1e-9)
    if budget >= points:
        assert len(plan) == 1
        return
    assert plan[-1].points == 2
    pairs = list(itertools.pairwise(plan))
    assert all(after.points == math.ceil(before.points / 2) for before, after in pairs)
    growth = [after.share / before.share for before, after in pairs]
    assert growth == pytest.approx([growth[0]] * len(growth))
    assert spent == pytest.approx(budget) or growth[0] == pytest.approx(1.0)


def test_too_small_a_budget_is_rejected() -> None:
    with pytest.raises(ConfigError, match="budget = 2: must be above 2 horizons"):
        rungs(6, 2.0)


def fake_trials(optimum: dict[str, float]) -> tuple[Any, list[tuple[str, float, float, tuple[int, ...]]]]:
    """In place of training: accuracy falls with the distance from each competitor's optimum; and what was asked."""
    asked_for: list[tuple[str, float, float, tuple[int, ...]]] = []

    def run_trials(
        base: Config, asked: Sequence[tuple[str, Changes]], seeds: Sequence[int], common: Changes, *, workers: int
    ) -> list[Trial]:
        trials = []
        for label, changes in asked:
            lr = changes["training.lr"]
            asked_for.append((label, lr, common["run.horizon"], tuple(seeds)))
            accuracy = 1.0 - 0.1 * abs(math.log(lr / optimum[label]))
            time = 5.0 if accuracy > 0.95 and common["run.horizon"] > 5.0 else None
            trials.append(Trial(label, changes, tuple(time for _ in seeds), tuple(accuracy for _ in seeds)))
        return trials

    return run_trials, asked_for


def test_every_competitor_finds_its_best_setting_with_the_same_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    run_trials, asked = fake_trials({"fedavg": 0.1, "hybrid": 0.0037})
    monkeypatch.setattr(halving, "run_trials", run_trials)
    points = [{"training.lr": lr} for lr in multiplicative_grid(0.3, 0.001, 3)]
    placed = successive_halving(parse(TABLES), ["fedavg", "hybrid"], points, [101, 102], 4.0, workers=1)
    assert [placed[label][0].trial.changes["training.lr"] for label in ("fedavg", "hybrid")] == [0.1, 0.0037]
    for label in ("fedavg", "hybrid"):
        assert sorted(place.trial.changes["training.lr"] for place in placed[label]) == sorted(
            point["training.lr"] for point in points
        )
        spent = sum(horizon for name, _, horizon, _ in asked if name == label)
        assert spent == pytest.approx(4.0 * 12.0)
        assert [place.rung for place in placed[label]] == [2, 2, 1, 0, 0, 0]
        assert placed[label][0].horizon_s == 12.0
    assert {seeds for *_, seeds in asked} == {(101, 102)}


def test_short_rungs_have_at_least_five_evaluations_and_include_the_configured_times() -> None:
    seen: list[tuple[float, float]] = []

    def run_trials(base: Config, asked: Any, seeds: Any, common: Changes, *, workers: int) -> list[Trial]:
        seen.append((common["run.horizon"], common["run.evaluate_every"]))
        return [Trial(label, changes, (None,), (0.5,)) for label, changes in asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(halving, "run_trials", run_trials)
        points = [{"training.lr": lr} for lr in multiplicative_grid(0.3, 0.001, 3)]
        successive_halving(parse(TABLES), ["fedavg"], points, [1], 3.0, workers=1)
    assert len(seen) == 3
    for horizon_s, every in seen:
        assert horizon_s / every >= 5 - 1e-9
        assert round(2.0 / every) == pytest.approx(2.0 / every)


def test_tuning_needs_a_horizon_and_training() -> None:
    endless = parse({**TABLES, "run": {"max_commits": 5}})
    with pytest.raises(ConfigError, match="horizon is missing"):
        successive_halving(endless, ["fedavg"], [{"training.lr": 0.1}], [1], 3.0, workers=1)
    untrained = parse({**TABLES, "executor": {"kind": "none"}})
    with pytest.raises(ConfigError, match="tuning needs training"):
        successive_halving(untrained, ["fedavg"], [{"training.lr": 0.1}], [1], 3.0, workers=1)


@pytest.mark.parametrize("label", ["fedavg", "hybrid", "two words"])
def test_printed_settings_can_be_pasted(label: str) -> None:
    base = parse(TABLES)
    pasted = tomllib.loads(comparison_lines(base, label, {"training.lr": 0.03}))["compare"]
    config = parse({**TABLES, "compare": {**TABLES["compare"], **pasted}}).for_comparison(label)
    assert config.training.lr == 0.03
    before = base.for_comparison(label)
    assert (config.strategy, config.partition) == (before.strategy, before.partition)


def fedtempo(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "argv", ["fedtempo", *map(str, arguments)])
    try:
        app.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_command_prints_tables_and_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(parse(TABLES).dump())
    run_trials, asked = fake_trials({"fedavg": 0.3, "hybrid": 0.03})
    monkeypatch.setattr(halving, "run_trials", run_trials)
    assert fedtempo(monkeypatch, "tune", path, "--strategies", "fedavg,hybrid", "--lr", "0.3:0.01") == 0
    printed = capsys.readouterr().out
    assert "fedavg: the best is at the end of the grid" in printed
    assert "hybrid: the best" not in printed
    assert "seed 101" in printed
    lines = printed[printed.index("[compare.fedavg]") :]
    found = tomllib.loads("\n".join(line for line in lines.splitlines()))["compare"]
    assert found["fedavg"]["training"]["lr"] == 0.3
    assert found["hybrid"] == {**TABLES["compare"]["hybrid"], "training": {"lr": 0.033}}
    assert all(len(line) <= 80 for line in printed[: printed.index("[compare.fedavg]")].splitlines())
    assert len(asked) == 2 * (4 + 2)
    for wrong, message in [
        (["--lr", "a:b"], "--lr a:b: write the largest and the smallest"),
        (["--seeds", "1,1"], "duplicate seed 1"),
        (["--budget", "1"], "budget = 1: must be above 2"),
    ]:
        assert fedtempo(monkeypatch, "tune", path, "--strategies", "fedavg", *wrong) == 2
        assert message in capsys.readouterr().err


def test_trials_train_models() -> None:
    points: list[Changes] = [{"training.lr": 0.3}, {"training.lr": 0.001}]
    best, worst = successive_halving(parse(TABLES), ["fedavg"], points, [7], 3.0, workers=1)["fedavg"]
    assert best.trial.changes["training.lr"] == 0.3
    assert best.trial.accuracies > worst.trial.accuracies


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes() -> None:
    points: list[Changes] = [{"training.lr": lr} for lr in multiplicative_grid(0.3, 0.01, 3)]
    one, three = (
        successive_halving(parse(TABLES), ["fedavg", "sequential"], points, [7, 8], 3.0, workers=workers)
        for workers in (1, 3)
    )
    assert one == three

"""What is tried beyond the papers: settings, statistics on values worked out by hand, strategies, and the page."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.studies.papers.ablation import removals, statement
from fedtempo.studies.papers.beyond import beyond_page
from fedtempo.studies.papers.beyond_parts import AdaptiveAsyncMemory, PsflHops, agreement
from fedtempo.studies.papers.cache import measured
from fedtempo.studies.papers.cells import Cell, read_contest
from fedtempo.studies.papers.contest_figures import draw_ratios
from fedtempo.studies.papers.contest_results import ContestBudget, TrialResult, read_results
from fedtempo.studies.papers.findings import CellFindings, findings
from fedtempo.studies.papers.grid_ends import grid_ends
from fedtempo.studies.papers.race import Race, run_race
from fedtempo.studies.papers.ranking import ratio, times_in_words
from fedtempo.studies.papers.reproduction import SCALES, SETTINGS, Request
from tests.runtime.world import play
from tests.studies.papers.contests import cell_result, entrant_result, results_of
from tests.studies.papers.repeated import results_of_two_runs

# Settings


def beyond_cells(scale: Any, data: str | None = None) -> dict[str, Cell]:
    return {cell.name: cell for cell in read_contest(Request(scale, Path(), data), "beyond").cells}


@pytest.mark.parametrize("scale", SCALES)
def test_everyone_has_as_many_settings(scale: Any) -> None:
    cells = beyond_cells(scale)
    ends = ["two-end"] if scale == "small" else ["two-end", "one-end"]
    assert [name for name, cell in cells.items() if cell.target_of is None] == ends
    for cell in cells.values():
        assert not set(cell.budget.seeds) & set(cell.budget.tuning_seeds)
        assert len(cell.points) > 4
        assert len({len(points) for points in cell.points.values()}) == 1


def test_each_setting_is_usable() -> None:
    seen = set()
    for cell in beyond_cells("medium").values():
        for label, points in cell.points.items():
            for point in points:
                if (key := (label, json.dumps(point))) not in seen:
                    seen.add(key)
                    cell.base.for_comparison(label).with_changes(point, label=label)


def test_momentum_at_the_server_is_written_as_an_optimizer() -> None:
    assert "server_momentum" not in (SETTINGS / "beyond.toml").read_text(encoding="utf-8")
    points = beyond_cells("medium")["two"].points["fedavg-momentum"]
    assert {point["server.optimizer.momentum"] for point in points} == {0.5, 0.7, 0.9, 0.95, 0.98}


def test_no_other_study_has_its_seeds() -> None:
    contest = [*beyond_cells("medium").values(), *beyond_cells("full").values()]
    seeds = {seed for cell in contest for seed in (*cell.budget.seeds, *cell.budget.tuning_seeds)}
    for path in SETTINGS.glob("*.toml"):
        if path.stem != "beyond":
            others = {int(number) for number in re.findall(r"\b\d+\b", path.read_text(encoding="utf-8"))}
            assert not seeds & others, path.name


def test_asked_for_data_take_the_place_of_digits_and_leave_out_cells_on_others() -> None:
    assert {cell.data for cell in beyond_cells("medium").values()} == {"digits", "fashion-mnist", "shakespeare"}
    cells = beyond_cells("medium", "mnist")
    assert {cell.data for cell in cells.values()} == {"mnist"}
    assert set(cells) == set(beyond_cells("medium")) - {"cnn", "lstm"}


@pytest.mark.parametrize("scale", SCALES)
def test_asynchronous_variants_share_who_is_at_work_and_have_as_many_settings_of_their_own(scale: Any) -> None:
    everyone, ten, fastest = (None, 1.0), (10, 1.0), (None, 0.4)
    for cell in beyond_cells(scale).values():
        for label, points in cell.points.items():
            if label.startswith(("fedavg", "group", "psfl-hops")):
                continue  # these have rounds, or groups that commit together
            own: dict[Any, int] = {}
            for point in points:
                at_work = point.get("strategy.clients_at_once"), point.get("strategy.reach", 1.0)
                own[at_work] = own.get(at_work, 0) + 1
            assert own == dict.fromkeys([everyone, fastest, ten, (10, 0.4)], len(points) // 4), (cell.name, label)


def test_fedbuff_combines_its_buffer_with_its_step_at_the_server() -> None:
    points = beyond_cells("medium")["two"].points["fedbuff"]
    tried = {(point.get("strategy.buffer", 10), point["strategy.server_lr"]) for point in points}
    assert tried >= {(5, 1.0), (5, 2.0), (10, 1.0), (10, 2.0), (10, 4.0)}


def test_the_reference_is_the_default_of_fedhusky() -> None:
    def bits(name: str) -> str:
        base = beyond_cells("medium")["two"].base.for_comparison("planned")
        changes = {"run.horizon": 20.0, "run.seed": 1, "strategy.name": name, "strategy.clusters": "labels"}
        return measured(base.with_changes({**changes, "executor.kind": "inline"}, label="planned").alone(), (0.9,)).bits

    assert bits("fedtempo.studies.papers.beyond_parts:FedHuskyHops") == bits("fedhusky")


# Statistics


def test_a_ratio_is_a_geometric_mean_with_students_interval() -> None:
    found = ratio([2.0, 8.0], [1.0, 1.0], 100.0)
    assert found.mean == pytest.approx(4.0)
    # Logarithms ln 2 and ln 8: standard error ln 2, and 12.706 of Student's with one degree of freedom.
    assert found.high == pytest.approx(4.0 * 2**12.7062, rel=1e-3)
    assert found.low == pytest.approx(4.0 / 2**12.7062, rel=1e-3)
    assert not found.bound


def test_runs_that_do_not_get_there_make_a_lower_bound() -> None:
    found = ratio([None, None], [10.0, 10.0], 100.0)
    assert (found.mean, found.bound) == (pytest.approx(10.0), True)
    assert found.words == "> 10.00 (10.00 to 10.00)"
    assert ratio([3.0], [3.0], 9.0).words == "1.00 (0.00 to inf)"


def test_times_are_told_with_their_range_and_the_seeds_that_got_there() -> None:
    assert times_in_words([40.0, 45.0, 152.4]) == "45 s (40 to 152)"
    assert times_in_words([40.0, None, 45.04]) == "45 s (2 of 3: 40 to 45)"
    assert times_in_words([None, 40.0, None]) == "never (1 of 3: 40 to 40)"
    assert times_in_words([None]) == "never"


def test_level_and_no_later_need_an_interval_within_the_margin() -> None:
    base = [10.0 + 0.1 * seed for seed in range(20)]

    def finding(*factors: float, resolution_s: float = 0.0) -> str:
        times = [time * factors[seed % len(factors)] for seed, time in enumerate(base)]
        return findings([(times, base, 100.0, resolution_s)])[0]

    # Logarithms +-ln 1.1: the 90 % interval is 1.729 * ln 1.1 * sqrt(20 / 19) / sqrt(20) = 0.0378 either way.
    assert finding(1.1, 1 / 1.1) == "level"
    assert finding(1.05) == "level"  # a sure difference, but within the margin
    assert finding(1.2) == "later"
    assert finding(0.8) == "sooner"
    assert finding(1.6, 1 / 1.6) == "not shown"  # -0.186 to 0.186
    # Around ln 0.9 = -0.105 with +-ln 1.35: -0.105 +- 0.119 by 90 %, which ends below ln 1.1; +- 0.144 by 95 %.
    assert finding(0.9 * 1.35, 0.9 / 1.35) == "no later"
    # One evaluation more changes ten seconds by a fifth, which is beyond the margin.
    assert finding(1.1, 1 / 1.1, resolution_s=2.0) == "not shown"


def test_who_misses_the_target_is_neither_level_nor_no_later() -> None:
    times: list[float | None] = [10.0] * 20
    assert findings([([*times[1:], None], times, 10.0, 0.0)]) == ["not shown"]


def ablation(**times: list[float | None]) -> list[Any]:
    tried = {label.replace("_", "-"): {"times": values} for label, values in times.items()}
    return [cell_result(tried), cell_result(tried, title="two labels")]


WITH = [10.0, 11.0, 12.0, 10.5, 11.5, 12.5]


def slower(factor: float, spread: float = 1.01) -> list[float | None]:
    return [time * factor * (spread if seed % 2 else 1 / spread) for seed, time in enumerate(WITH)]


def test_the_ablation_names_the_part_whose_removal_costs_the_most() -> None:
    cells = ablation(async_memory=[*WITH], async_unweighted=slower(1.5), async_undamped=slower(2.0))
    most, other = removals(cells)
    assert (most.part, most.base, most.cells, most.shown) == ("a damped memory", "async-undamped", 2, True)
    assert most.cost.mean == pytest.approx(2.0)
    # Logarithms +-ln 1.01 over six seeds: standard error ln 1.01 * sqrt(6 / 5) / sqrt(6), and 2.5706 of Student's.
    assert most.cost.high == pytest.approx(2.0 * math.exp(2.5706 * math.log(1.01) / math.sqrt(5)), rel=1e-4)
    assert (other.base, other.shown) == ("async-unweighted", True)
    words = statement([most, other])
    assert words.startswith(
        "What makes the difference: without “a damped memory” the target takes 2.00 times as long ("
    )
    assert "Also shown to cost time if removed: “weights that fall with staleness”, 1.50 times as long (" in words
    assert words in beyond_page(results_of(cells), "fedtempo reproduce all/beyond", {})


def test_the_ablation_says_when_no_part_is_shown_to_matter() -> None:
    (one,) = removals(ablation(async_memory=[*WITH], async_undamped=slower(1.05, spread=1.5)))
    assert not one.shown
    assert statement([one]).startswith("No part is shown to make `async-memory` sooner.")
    found = removals(ablation(async_memory=[*WITH], async_undamped=slower(1.3, spread=2.0), async_buffered=slower(1.2)))
    assert [each.shown for each in found] == [False, True]
    assert statement(found).startswith(
        "What makes the difference: without “a buffer of one” the target takes 1.20 times"
    )
    assert "The largest cost, which is not shown: without “a damped memory” 1.30 times as long (" in statement(found)
    (sooner,) = removals(ablation(async_memory=[*WITH], async_undamped=slower(0.5)))
    assert "Shown to be sooner without it: “a damped memory”, 0.50 times as long (" in statement([sooner])


def test_more_parts_need_more_evidence_and_a_missed_target_is_a_bound() -> None:
    # ln 1.05 = 0.0488; ln 1.037 / sqrt(5) times Student's: 0.0418 with 2.571 (95 %), 0.0574 with 3.534 (98.3 %).
    barely = slower(1.05, spread=1.037)
    (alone,) = removals(ablation(async_memory=[*WITH], async_undamped=barely))
    three = ablation(async_memory=[*WITH], async_undamped=barely, async_buffered=barely, async_unweighted=barely)
    assert alone.shown
    assert [each.shown for each in removals(three)] == [False] * 3
    (missed,) = removals(ablation(async_memory=[*WITH], async_undamped=[*slower(2.0)[1:], None]))
    assert missed.words.startswith("at least ")


# Strategies


def test_the_gain_rises_where_changes_agree_with_the_models_way() -> None:
    start = np.zeros(2)
    assert agreement(np.array([1.0, 0.0]), start, np.array([3.0, 0.0])) == pytest.approx(1.0)
    assert agreement(np.array([1.0, 0.0]), start, np.array([-3.0, 0.0])) == pytest.approx(-1.0)
    assert agreement(start, start, np.array([1.0, 0.0])) == 0.0


@pytest.mark.parametrize(
    "strategy",
    [
        AdaptiveAsyncMemory(),
        PsflHops(clusters=1, width=2, length=2, clients_per_round=4),
    ],
    ids=["adaptive", "psfl-hops"],
)
def test_what_is_not_kept_runs_and_commits_every_visit(strategy: Any) -> None:
    _, records = play(strategy, clients=6, horizon=60.0, availability={"kind": "dropout", "probability": 0.1})
    done = int((records.visits["outcome"] == "done").sum())
    assert done > 100
    assert len(records.commits["version"]) == done


# Results


def made_up() -> Any:
    tried = {
        "base": {"times": [10.0, 20.0, 40.0]},
        "fast": {"times": [5.0, 10.0, 20.0]},
        "never": {"times": [None, None, None]},
    }
    ends = {"base": {"late": [0.9, 0.92]}, "high": {"late": [0.93, 0.96], "lr": 0.1}}
    return results_of([cell_result(tried), cell_result(ends, title="two labels")])


def test_the_page_says_what_is_sooner_and_what_ends_higher(tmp_path: Path) -> None:
    options = dict.fromkeys(made_up().entrants, "`kept`")
    page = beyond_page(made_up(), "fedtempo reproduce all/beyond", options)
    assert "| `base` | 20 s (10 to 40) |" in page
    assert "| `fast` | **0.50 (0.50 to 0.50)** |" in page
    assert "| `never` | > 5.00 (0.89 to 27.97) |" in page
    assert "| `fast` | the fast one | 1 | 1 | 0 | 0 | 0 | `kept` |" in page
    # Differences 0.03 and 0.04: mean 0.035, standard error 0.005, and 12.706 of Student's with one degree of freedom.
    assert "| two labels | `high` | 0.945 (0.930 to 0.960) | +0.035 (-0.029 to 0.099) | 0.473 | lr 0.1 |" in page
    assert "| `high` |  |" not in page
    assert "2001 to 2005; **some of them are** used here." in page
    (cell, *_) = results_of([cell_result({"base": {"times": [1.0]}})]).cells
    fresh = replace(cell, budget=ContestBudget(seeds=(7001,), tuning_seeds=(8001,), lr=(0.3,)))
    assert "2001 to 2005; none of them is used here." in beyond_page(results_of([fresh]), "command", {})
    assert "UAV, digits: 3 seeds instead of 20, since a run takes 1 to 1 s of processor time." in page
    for name in ("one.svg", "two.svg", "one.png"):
        draw_ratios(list(made_up().entrants), [CellFindings.of(cell) for cell in made_up().races], tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def tuned(chosen: dict[str, float], *tried: dict[str, float], times: tuple[float | None, ...] = (1.0,)) -> Any:
    trials = [TrialResult(changes, times, (0.9,)) for changes in (chosen, *tried)]
    return replace(entrant_result(times), chosen=chosen, trials=trials)


def test_choices_at_the_end_of_their_grid_are_counted_and_named() -> None:
    def at(gain: float, buffer: float = 10) -> dict[str, float]:
        return {"strategy.gain": gain, "strategy.buffer": buffer, "training.lr": 0.3}

    tried = {
        "low": tuned(at(1), at(2), at(4)),
        "inside": tuned(at(2), at(1), at(4)),
        "high": tuned(at(4), at(1), at(2)),
        "high-for-its-buffer": tuned(at(4, 5), at(1, 5), at(2, 5), at(8, 10)),
        "two-values": tuned(at(2), at(1)),
        "never": tuned(at(4), at(1), at(2), times=(None,)),
    }
    cell = replace(cell_result({"base": {"times": [1.0]}}), tried=tried)
    (ends,) = grid_ends([cell])
    assert (ends.setting, ends.of) == ("gain", 4)
    assert [choice.label for choice in ends.lowest] == ["low"]
    assert [choice.label for choice in ends.highest] == ["high", "high-for-its-buffer"]
    assert [choice.label for choice in ends.narrow] == ["two-values"]
    page = beyond_page(results_of([cell]), "fedtempo reproduce all/beyond", {})
    words = (
        "of 4 choices of the gain among three values or more, 1 at the lowest (`low`) and 2 at the highest (`high` and"
    )
    assert words in page
    assert "Choices of the gain between two values, each of which is an end: 1." in page
    assert 'Choices of the reference `low` at the end of three values or more: its gain in "UAV, digits".' in page


@pytest.mark.parametrize("scale", ["medium", "full"])
def test_gains_and_learning_rates_go_beyond_what_was_chosen_before(scale: Any) -> None:
    for name, cell in beyond_cells(scale).items():
        assert len(cell.budget.lr) >= 2
        if cell.data == "digits":
            assert max(cell.budget.lr) > 0.3
        for label, points in cell.points.items():
            gains = {point.get("strategy.gain", 0.0) for point in points}
            if label.startswith("planned") and cell.data == "digits":
                assert sum(gain > 4.0 for gain in gains) >= (2 if cell.target_of else 1), (name, label)
            if label in ("async-memory", "async-unsteady", "async-adjusted") and cell.data == "digits":
                assert sum(gain > 2.0 for gain in gains) >= (2 if cell.target_of else 1), (name, label)


def test_a_run_to_the_end_takes_the_setting_that_ends_highest(tmp_path: Path) -> None:
    base = beyond_cells("small")["two-end"].base.with_changes({"run.horizon": 40.0})
    points = {"fedavg": [{"strategy.clients_per_round": 2, "training.lr": lr} for lr in (0.001, 0.3)]}
    cost = ContestBudget(seeds=(1, 2), tuning_seeds=(101, 102), lr=(9.0,))
    result, _ = run_race(Race(Cell("tiny", "tiny", "tiny", base, cost, points, None), "fedavg", None, None))
    best, other = result.trials
    assert best.accuracies[0] > other.accuracies[0]
    assert len(best.accuracies) == 2
    assert result.chosen == best.changes == points["fedavg"][1]
    assert [run.times_s for run in result.runs] == [(), ()]
    assert len(result.late_accuracies) == 2


def test_results_that_are_not_a_contests_are_named(tmp_path: Path) -> None:
    path = tmp_path / "beyond.json"
    path.write_text('{"scale": "small", "entrants": {}, "cells": [{"name": 3}]}')
    with pytest.raises(ConfigError, match=r"beyond.json: not the results of a contest: cells.0.name"):
        read_results(path)


@pytest.mark.slow
def test_it_runs_at_small_scale_and_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = results_of_two_runs("all/beyond", "beyond.json", tmp_path, monkeypatch)
    assert results[0] == results[1]
    assert all(math.isfinite(cell["horizon_s"]) for cell in results[0]["cells"])

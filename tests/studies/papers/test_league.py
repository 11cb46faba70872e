"""The league: statistics on values worked out by hand, races, what is kept on the disk, and its page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedtempo.errors import ConfigError
from fedtempo.runs.config import parse
from fedtempo.strategies import STRATEGIES
from fedtempo.studies.papers import cache, ranking
from fedtempo.studies.papers.cache import Cache, Limits, gini
from fedtempo.studies.papers.cells import Cell, read_contest
from fedtempo.studies.papers.contest_figures import draw_times
from fedtempo.studies.papers.contest_results import ContestResults, Target
from fedtempo.studies.papers.index import contest_page
from fedtempo.studies.papers.league import league_page
from fedtempo.studies.papers.output import run_exhibit
from fedtempo.studies.papers.race import Race, run_race
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import SCALES, Budget, Request
from fedtempo.studies.papers.standings import records, standings_of, statement
from tests.studies.papers.contests import cell_result, results_of

RESULTS = Path(__file__).parents[3] / "docs" / "results"
TINY: dict[str, Any] = {
    "run": {"horizon": 40.0, "evaluate_every": 1.0, "target_accuracy": 0.5, "stop_at_target": True},
    "data": {"source": "digits", "clients": 6, "examples_per_client": 10},
    "model": {"network": "logistic"},
    "training": {"lr": 0.3, "batch_size": 5},
    "fleet": {
        "compute": {"speed": {"kind": "uniform", "low": 1.0, "high": 2.0}, "unit": "s/visit"},
        "link": "none",
        "estimates": "exact",
    },
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "inline"},
}


# Statistics


def test_a_run_that_misses_the_target_ranks_after_all_others() -> None:
    assert ranking.median([3.0, None, 1.0]) == 3.0
    assert math.isinf(ranking.median([3.0, None, None]))
    assert ranking.ranks({"a": [1.0], "b": [None], "c": [2.0], "d": [None]}) == {"a": 1, "b": 3.5, "c": 2, "d": 3.5}


def test_the_range_of_seven_values_encloses_the_median_in_63_of_64_cases() -> None:
    assert ranking.median_coverage(7) == 1 - 2 / 2**7
    assert ranking.median_coverage(1) == 0


def test_factors_pair_seeds_and_are_lower_bounds_if_the_median_is_unknown() -> None:
    assert ranking.factor([2.0, 6.0, 10.0], [1.0, 2.0, 10.0], 100.0) == (2.0, False)
    assert ranking.factor([None, None, 10.0], [10.0, 20.0, 10.0], 100.0) == (5.0, True)


def test_the_signed_rank_test_has_its_lowest_value_if_all_seeds_agree() -> None:
    base = [1.0, 2.0, 3.0, 4.0, 5.0]
    later = [time * (1.5 + 0.1 * place) for place, time in enumerate(base)]
    assert ranking.p_value_of_later(later, base, 100.0) == pytest.approx(2**-5)
    assert ranking.p_value_of_later(base, later, 100.0) == 1.0
    assert ranking.p_value_of_later(base, base, 100.0) == 1.0
    # Differences of logarithms with ranks 1 and -2, 3, 4, 5: W+ = 13, and 3 of 32 sums are as large or larger.
    mixed = [time * step for time, step in zip(base, (1.1, 1 / 1.2, 1.3, 1.4, 1.5), strict=True)]
    assert ranking.p_value_of_later(mixed, base, 100.0) == pytest.approx(3 / 32)


def test_strategies_not_shown_to_be_slower_that_reach_the_target_tie_with_the_first() -> None:
    times = {
        "first": [1.0, 2.0, 3.0, 4.0, 5.0],
        "near": [1.1, 1.9, 3.1, 4.1, 4.9],
        "late": [2.0, 4.1, 6.2, 8.3, 10.4],
        "never": [1.0, 2.0, None, None, None],
    }
    assert ranking.first(times) == "first"
    assert ranking.level_with_first(times, 100.0) == ["first", "near"]
    assert ranking.level_with_first({"a": [None], "b": [None]}, 100.0) == []
    assert ranking.share_within({"a": [1.0, 3.0, math.inf]}, 3.0) == {"a": 2 / 3}


def test_gini_is_zero_for_equal_shares_and_near_one_for_a_single_owner() -> None:
    assert gini([3, 3, 3]) == 0
    assert gini([0, 0, 0]) == 0
    assert gini([0, 0, 0, 8]) == pytest.approx(3 / 4)
    assert gini([1, 3]) == pytest.approx(1 / 4)


def test_targets_are_shares_of_the_reference_in_whole_percents() -> None:
    assert Target.of(0.9587) == Target(0.9587, 0.76, 0.91)
    assert Target.of(1.0) == Target(1.0, 0.8, 0.95)


# Who competes


def league_cells(scale: Any, data: str | None = None) -> list[Cell]:
    return list(read_contest(Request(scale, Path(), data), "league").cells)


def test_every_strategy_with_clients_competes() -> None:
    for cell in league_cells("medium"):
        names = {cell.base.for_comparison(label).strategy_name for label in cell.points}
        assert names == set(STRATEGIES) - {"centralized", "fedhusky-paper"}


@pytest.mark.parametrize("scale", SCALES)
def test_all_competitors_have_equally_many_valid_settings(scale: Any) -> None:
    for cell in league_cells(scale):
        assert not set(cell.budget.seeds) & set(cell.budget.tuning_seeds)
        for label, points in cell.points.items():
            assert len(points) == 2
            assert len(cell.settings(label)) == 2 * len(cell.budget.lr)
            for point in points:
                cell.base.for_comparison(label).with_changes(point, label=label)


def test_a_cell_has_its_fleets_clients_and_its_data() -> None:
    cells = {cell.name: cell for cell in league_cells("full")}
    assert len(cells) == 8
    lte, zipf = cells["lte-fashion-mnist"], cells["zipf-digits"]
    assert (lte.group, lte.title, lte.target_of) == (
        "lte",
        "LTE cell, 1000 clients, Fashion-MNIST",
        "uav-fashion-mnist",
    )
    assert (lte.base.data.clients, lte.data, lte.base.data.examples_per_client) == (1000, "fashion-mnist", 100)
    assert (zipf.data, zipf.base.fleet.preset) == ("digits", "fch-zipf")
    for scale in SCALES:
        assert [cell.data for cell in league_cells(scale, "fashion-mnist")] == ["fashion-mnist"] * 4
    assert {cell.data for cell in league_cells("small")} == {"digits"}
    with pytest.raises(ConfigError, match="league runs on digits, fashion-mnist only"):
        league_cells("small", "emnist")


def test_points_take_the_numbers_of_their_cell_and_a_cell_may_have_its_own() -> None:
    cells = {cell.name: cell for cell in league_cells("medium")}
    zipf, lte = cells["zipf-digits"], cells["lte-digits"]
    assert zipf.points["psfl"][0] == {
        "strategy.clients_per_round": 20,
        "strategy.width": 10,
        "strategy.length": 2,
    }
    assert zipf.points["fedbuff"][1] == {"strategy.clients_at_once": 200}
    assert zipf.points["fedhusky-free"][1] == {"strategy.correction": False}
    assert lte.points["fedhusky-free"][1] == {"strategy.clients_at_once": 10, "strategy.reach": 0.1}


SETTINGS = """
[run]
horizon = 10.0
[data]
source = "digits"
[fleet]
preset = "fedhusky"
[strategy]
name = "fedavg"
[entrants.fedavg]
points = [{ strategy.clients_per_round = "$few" }]
[entrants.fedbuff]
points = [{}]
[cells.one]
numbers = { few = 3 }
[scale]
[contest.small]
most_visits = 9
[study]
small = { seeds = [1], tuning_seeds = [101], lr = [0.1, 0.3] }
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("points = [{}]", "points = [{}, {}]", "different numbers of settings"),
        ("few = 3", "fwe = 3", "strategy.clients_per_round needs few"),
        ("few = 3 }", 'few = 3 }\ntarget_of = "two"', "target_of: two is no cell"),
        ("few = 3 }", "few = 3 }\nentrants = ['fedbuf']", "cells.one.entrants: fedbuf is not in the settings"),
        ("few = 3 }", "few = 3 }\nparts = ['uav']", "cells.one.parts: uav is not in the settings"),
        ("few = 3 }", "few = 3 }\ntitel = 'x'", "cells.one.titel: unknown key"),
        ("[entrants.fedavg]", "[entrants.fedprox]", "fedavg must compete here"),
        ("horizon = 10.0", "max_commits = 5", "run.horizon is missing"),
    ],
)
def test_settings_that_make_no_contest_are_named(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedtempo.studies.papers.reproduction.SETTINGS", tmp_path)
    request = Request("small", tmp_path)
    (tmp_path / "contest.toml").write_text(SETTINGS)
    (cell,) = read_contest(request, "contest").cells
    assert cell.settings("fedavg")[1] == {"strategy.clients_per_round": 3, "training.lr": 0.3}
    (tmp_path / "contest.toml").write_text(SETTINGS.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        read_contest(request, "contest")


# Runs that are kept


def test_outcomes_are_found_again_and_truncated_lines_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    config, limits = parse(TINY), Limits(1000)
    made = Cache(path).outcome(config, (0.3, 0.5), limits)
    assert made.ended == "target"
    early, full = made.times_s
    assert early is not None
    assert full is not None
    assert early <= full < made.end_s
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "half')
    monkeypatch.setattr(cache, "run", None)  # nothing runs any more
    again = Cache(path)
    assert again.outcome(config, (0.3, 0.5), limits) == made
    assert again.earlier_s == made.cpu_s
    with pytest.raises(TypeError):
        again.outcome(config.with_changes({"run.seed": 2}), (0.3, 0.5), limits)


def test_limits_end_a_run_without_changing_its_horizon() -> None:
    config = parse(TINY).with_changes({"run.target_accuracy": 1.0})
    whole = cache.measured(config, (1.0,), Limits(10**6))
    assert (whole.ended, whole.end_s) == ("horizon", 40.0)
    assert not whole.cut
    timed = cache.measured(config, (1.0,), Limits(10**6, 7.5))
    assert timed.cut
    assert timed.end_s == 7.5
    counted = cache.measured(config, (1.0,), Limits(10))
    assert counted.cut
    assert counted.visits <= 18  # one round of six more, since visits are looked at once a second
    assert counted.times_s == (None,)


def test_a_strategy_that_cannot_run_has_an_outcome_with_its_reason() -> None:
    config = parse(TINY).with_changes({"strategy.name": "hybrid", "strategy.clusters": "labels"})
    outcome = cache.measured(config, (0.5,), Limits(1000))
    assert outcome.ended == "refused"
    assert "tell_labels" in outcome.error
    assert outcome.times_s == (None,)


def test_a_race_finds_the_same_setting_as_full_runs(tmp_path: Path) -> None:
    base = parse({**TINY, "strategy": {"name": "fedavg"}})
    points = [{"strategy.clients_per_round": count} for count in (2, 6)]
    cost = Budget(seeds=(1, 2), tuning_seeds=(101, 102), lr=(0.01, 0.3))
    cell = Cell("tiny", "tiny", "tiny, digits", base, cost, {"fedavg": points}, "tiny")
    result, _ = run_race(Race(cell, "fedavg", Target(0.6, 0.3, 0.5), 1000, tmp_path / "runs.jsonl"))
    slow = cache.measured
    times = {}
    for trial in result.trials:
        changes = {**trial.changes, "run.seed": 101, "run.target_accuracy": 0.5, "run.stop_at_target": True}
        times[json.dumps(trial.changes)] = slow(base.with_changes(changes), (0.5,), Limits(1000)).times_s[0]
    firsts = [trial.times_s[0] for trial in result.trials if trial.times_s[0] is not None]
    assert min(firsts) == min(time for time in times.values() if time is not None)
    assert result.chosen == result.trials[0].changes
    assert result.lr == 0.3
    assert [run.seed for run in result.runs] == [1, 2]
    assert None not in result.times_s


# Standings and the page


def made_up(fast: list[float | None]) -> ContestResults:
    slow: list[float | None] = [12.0, 24.0, 36.0, 48.0, 60.5]
    tried = {
        "fast": {"times": fast, "visits": 50},
        "slow": {"times": slow, "mb": 5.0},
        "never": {"times": [None] * 5},
        "hybrid-fl": {"times": [1.0] * 5},
    }
    return results_of([cell_result(tried, lr=(0.1, 0.3, 1.0))], unranked=["hybrid-fl"])


def test_standings_name_the_first_the_cheapest_and_unranked_strategies() -> None:
    (standing,) = standings = standings_of(made_up([6.0, 12.0, 18.0, 24.0, 30.0]))
    assert standing.first is not None
    assert standing.first.label == standing.first_early == "fast"
    assert standing.cheapest is not None
    assert standing.cheapest.label == "slow"
    assert standing.of("slow").factor == pytest.approx(2.0)
    assert not standing.of("slow").level
    never = standing.of("never")
    assert (never.result.reached, never.bound, never.words) == (0, True, "never (40% at best)")
    assert standing.of("fast").words == "18 s (6 to 30)"
    assert not standing.of("hybrid-fl").ranked
    fast, slow, worst = records(standings)
    assert (fast.label, fast.firsts, fast.worst) == ("fast", 1, 1.0)
    assert (slow.within_2, slow.mean_rank, slow.level) == (1.0, 2.0, 0)
    assert math.isinf(worst.worst)
    assert statement(standings) == (True, "fast: first or level in 1 of 1 rows")


def test_no_strategy_is_first_if_none_reaches_the_target() -> None:
    tried = {"fast": {"times": [None] * 5}}
    results = results_of([cell_result(tried, lr=(0.1, 0.3, 1.0))])
    (standing,) = standings = standings_of(results)
    assert standing.first is None
    assert statement(standings) == (False, "no row is decided")
    assert "No strategy reaches 85% in 100 s on most seeds." in league_page(results, "fedtempo reproduce all/league")


def test_the_page_states_winner_reason_and_price(tmp_path: Path) -> None:
    results = made_up([6.0, 12.0, 18.0, 24.0, 30.0])
    page = league_page(results, "fedtempo reproduce all/league --scale small")
    assert "fast is first to reach 85%: 18 s (6 to 30). slow takes 2× as long:" in page
    assert "fast needs 0.5× as many visits as slow (50 and 100)" in page
    assert "makes 1× as many per second (3.0 and 3.0 clients at work)" in page
    assert "slow: 5 MB, 2×" in page
    assert "Target never reached: never." in page
    for name in ("one.svg", "two.svg", "one.png"):
        draw_times(standings_of(results), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize("name", ["all/league", "all/beyond"])
def test_the_committed_page_agrees_with_the_committed_numbers(name: str) -> None:
    exhibit = EXHIBITS[name]
    assert (RESULTS / f"{exhibit.stem}.md").read_text(encoding="utf-8") == contest_page(exhibit, RESULTS)


@pytest.mark.slow
def test_the_league_runs_at_small_scale_and_resumes_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    results = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        run_exhibit(EXHIBITS["all/league"], Request("small", tmp_path / name))
        results.append(json.loads((tmp_path / name / "result.json").read_text()))
    one, two = results
    assert one["rows"] == two["rows"]
    assert len(one["rows"]) == sum(len(cell.points) for cell in league_cells("small")) + 1
    drawn = {path.name for path in (tmp_path / "one").glob("league-*")}
    assert drawn == {
        f"league-{fleet}.{suffix}" for fleet in ("uav", "discrete", "lte", "zipf") for suffix in ("png", "svg")
    }

"""The league: statistics on values worked out by hand, races, what is kept on the disk, and its page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedtempo.runs.config import parse
from fedtempo.strategies import STRATEGIES
from fedtempo.studies.papers import cache, ranking
from fedtempo.studies.papers.cache import Cache, Limits, gini
from fedtempo.studies.papers.index import LEAGUE, written_league
from fedtempo.studies.papers.league_entrants import NEEDS_EXAMPLES, LeagueRow, budget, most_visits, rows
from fedtempo.studies.papers.league_figures import draw_times
from fedtempo.studies.papers.league_page import league_page
from fedtempo.studies.papers.output import run_exhibit
from fedtempo.studies.papers.race import Race, Target, run_race
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import SCALES, Budget, Request
from fedtempo.studies.papers.standings import read_standings, records, statement

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


def test_a_run_that_does_not_get_there_is_later_than_all_others() -> None:
    assert ranking.median([3.0, None, 1.0]) == 3.0
    assert math.isinf(ranking.median([3.0, None, None]))
    assert ranking.ranks({"a": [1.0], "b": [None], "c": [2.0], "d": [None]}) == {"a": 1, "b": 3.5, "c": 2, "d": 3.5}


def test_the_least_and_the_greatest_of_seven_enclose_the_median_in_63_of_64_cases() -> None:
    assert ranking.median_coverage(7) == 1 - 2 / 2**7
    assert ranking.median_coverage(1) == 0


def test_factors_pair_the_seeds_and_are_lower_bounds_where_the_median_is_not_known() -> None:
    assert ranking.factor([2.0, 6.0, 10.0], [1.0, 2.0, 10.0], 100.0) == (2.0, False)
    assert ranking.factor([None, None, 10.0], [10.0, 20.0, 10.0], 100.0) == (5.0, True)


def test_the_signed_rank_test_has_its_least_value_where_all_seeds_agree() -> None:
    base = [1.0, 2.0, 3.0, 4.0, 5.0]
    later = [time * (1.5 + 0.1 * place) for place, time in enumerate(base)]
    assert ranking.p_value_of_later(later, base, 100.0) == pytest.approx(2**-5)
    assert ranking.p_value_of_later(base, later, 100.0) == 1.0
    assert ranking.p_value_of_later(base, base, 100.0) == 1.0
    # Differences of logarithms with ranks 1 and -2, 3, 4, 5: W+ = 13, and 3 of 32 sums are as large or larger.
    mixed = [time * step for time, step in zip(base, (1.1, 1 / 1.2, 1.3, 1.4, 1.5), strict=True)]
    assert ranking.p_value_of_later(mixed, base, 100.0) == pytest.approx(3 / 32)


def test_level_with_the_first_is_who_is_not_shown_to_be_later_and_gets_there() -> None:
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


def test_gini_is_nothing_for_equal_shares_and_near_one_where_one_has_all() -> None:
    assert gini([3, 3, 3]) == 0
    assert gini([0, 0, 0]) == 0
    assert gini([0, 0, 0, 8]) == pytest.approx(3 / 4)
    assert gini([1, 3]) == pytest.approx(1 / 4)


def test_targets_are_shares_of_the_reference_in_whole_percents() -> None:
    assert Target.of(0.9587) == Target(0.9587, 0.76, 0.91)
    assert Target.of(1.0).levels == (0.8, 0.95)


# Who competes


def test_every_strategy_competes_but_the_one_without_clients_and_fedhuskys_literal_version() -> None:
    for row in rows(Request("medium", Path())):
        names = {row.base.for_comparison(label).strategy_name for label in row.points}
        assert names == set(STRATEGIES) - {"centralized", "fedhusky-paper"}


@pytest.mark.parametrize("scale", ["small", "medium", "full"])
def test_everyone_has_as_many_settings_and_each_is_usable(scale: Any) -> None:
    request = Request(scale, Path())
    for data in ("digits", "fashion-mnist"):
        assert not set(budget(request, data).seeds) & set(budget(request, data).tuning_seeds)
    assert most_visits(request) > 0
    for row in rows(request):
        for label, points in row.points.items():
            assert len(points) == 2
            for point in points:
                row.base.for_comparison(label).with_changes(point, label=label)


def test_a_row_has_its_fleets_clients_and_its_data() -> None:
    found = {row.name: row.base for row in rows(Request("full", Path()))}
    assert len(found) == 8
    left_out = Request("medium", Path()).table("league", "league")["medium"].get("without", [])
    assert set(left_out) <= set(found)
    assert [row.name for row in rows(Request("medium", Path()))] == [name for name in found if name not in left_out]
    assert found["lte, fashion-mnist"].data.clients == 1000
    assert found["lte, fashion-mnist"].data.source == "fashion-mnist"
    assert found["zipf, digits"].fleet.preset == "fch-zipf"
    for scale in SCALES:
        assert [row.data for row in rows(Request(scale, Path(), "fashion-mnist"))] == ["fashion-mnist"] * 4


# Runs that are kept


def test_an_outcome_is_found_again_and_a_line_that_was_cut_off_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_strategy_that_cannot_run_is_an_outcome_with_its_reason() -> None:
    config = parse(TINY).with_changes({"strategy.name": "hybrid", "strategy.clusters": "labels"})
    outcome = cache.measured(config, (0.5,), Limits(1000))
    assert outcome.ended == "refused"
    assert "tell_labels" in outcome.error
    assert outcome.times_s == (None,)


def test_a_race_finds_the_setting_that_full_runs_would(tmp_path: Path) -> None:
    base = parse({**TINY, "strategy": {"name": "fedavg"}})
    points = [{"strategy.clients_per_round": count} for count in (2, 6)]
    row = LeagueRow("tiny", "digits", "tiny, digits", base, {"fedavg": points})
    cost = Budget(seeds=(1, 2), tuning_seeds=(101, 102), lr=(0.01, 0.3))
    facts, _ = run_race(Race(row, "fedavg", cost, Target(0.6, 0.3, 0.5), 1000, tmp_path / "runs.jsonl"))
    slow = cache.measured
    times = {}
    for trial in facts["trials"]:
        changes = {**trial["changes"], "run.seed": 101, "run.target_accuracy": 0.5, "run.stop_at_target": True}
        times[json.dumps(trial["changes"])] = slow(base.with_changes(changes), (0.5,), Limits(1000)).times_s[0]
    firsts = [trial["times_s"][0] for trial in facts["trials"] if trial["times_s"][0] is not None]
    assert min(firsts) == min(time for time in times.values() if time is not None)
    assert facts["chosen"] == facts["trials"][0]["changes"]
    assert facts["chosen"]["training.lr"] == 0.3
    assert len(facts["runs"]["target_s"]) == 2


# Standings and the page


def runs(target_s: list[float | None]) -> dict[str, Any]:
    n = len(target_s)
    values = {"busy": 0.1, "staleness": 0.0, "took_part": 1.0, "gini": 0.0, "visits": 100, "mb": 10.0}
    return {
        "early_s": [None if time is None else time / 2 for time in target_s],
        "target_s": target_s,
        "ended": ["target"] * n,
        "end_s": [100.0 if time is None else time for time in target_s],
        "best_accuracy": [0.4] * n,
        "client_s": [300.0 if time is None else 3 * time for time in target_s],
        **{name: [value] * n for name, value in values.items()},
    }


def made_up(fast: list[float | None]) -> dict[str, Any]:
    slow: list[float | None] = [12.0, 24.0, 36.0, 48.0, 60.5]
    times = {"fast": fast, "slow": slow, "never": [None] * 5, NEEDS_EXAMPLES[0]: [1.0] * 5}
    entrants = {
        label: {"chosen": {"training.lr": 0.3, "strategy.count": 5}, "trials": [], "runs": runs(own)}
        for label, own in times.items()
    }
    entrants["fast"]["runs"]["visits"] = [50] * 5
    entrants["slow"]["runs"]["mb"] = [5.0] * 5
    return {
        "scale": "small",
        "budgets": {"digits": {"seeds": [1, 2, 3, 4, 5], "tuning_seeds": [101], "lr": [0.1, 0.3, 1.0]}},
        "most_visits": 1000,
        "targets": {"digits": {"reference": 0.9, "early": 0.72, "target": 0.85}},
        "rows": [{"fleet": "uav", "data": "digits", "title": "UAV, digits", "horizon_s": 100.0, "entrants": entrants}],
    }


def test_standings_say_who_is_first_who_is_cheapest_and_who_runs_beside() -> None:
    facts = made_up([6.0, 12.0, 18.0, 24.0, 30.0])
    (standing,) = read_standings(facts)
    assert standing.first is not None
    assert standing.first.label == standing.first_early == "fast"
    assert standing.cheapest is not None
    assert standing.cheapest.label == "slow"
    assert standing.of("slow").factor == pytest.approx(2.0)
    assert not standing.of("slow").level
    never = standing.of("never")
    assert (never.reached, never.bound, never.words) == (0, True, "never (40% at best)")
    assert standing.of("fast").words == "18 s (6 to 30)"
    assert not standing.of(NEEDS_EXAMPLES[0]).competes
    fast, slow, worst = records([standing])
    assert (fast.label, fast.firsts, fast.worst) == ("fast", 1, 1.0)
    assert (slow.within_2, slow.mean_rank, slow.level) == (1.0, 2.0, 0)
    assert math.isinf(worst.worst)
    assert statement(facts) == (True, "fast: first or level in 1 of 1 rows")


def test_nobody_is_first_where_nobody_gets_there() -> None:
    facts = made_up([None] * 5)
    facts["rows"][0]["entrants"] = {"fast": facts["rows"][0]["entrants"]["fast"]}
    (standing,) = read_standings(facts)
    assert standing.first is None
    assert statement(facts) == (False, "no row is decided")
    assert "No strategy reaches 85% in 100 s on most seeds." in league_page(facts, "fedtempo reproduce all/league")


def test_the_page_tells_winner_reason_and_price(tmp_path: Path) -> None:
    facts = made_up([6.0, 12.0, 18.0, 24.0, 30.0])
    page = league_page(facts, "fedtempo reproduce all/league --scale small")
    assert "fast is first to reach 85%: 18 s (6 to 30). slow takes 2× as long:" in page
    assert "fast needs 0.5× as many visits as slow (50 and 100)" in page
    assert "makes 1× as many per second (3.0 and 3.0 clients at work)" in page
    assert "slow: 5 MB, 2×" in page
    assert "Target never reached: never." in page
    for name in ("one.svg", "two.svg", "one.png"):
        draw_times(facts, "uav", tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.skipif(not (RESULTS / LEAGUE).exists(), reason="no league has been run")
def test_the_committed_page_says_what_the_committed_numbers_do() -> None:
    assert (RESULTS / "league.md").read_text(encoding="utf-8") == written_league(RESULTS)


@pytest.mark.slow
def test_the_league_runs_at_small_scale_and_goes_on_where_it_stopped(
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
    assert len(one["rows"]) == sum(len(row.points) for row in rows(Request("small", tmp_path))) + 1
    drawn = {path.name for path in (tmp_path / "one").glob("league-*")}
    assert drawn == {
        f"league-{fleet}.{suffix}" for fleet in ("uav", "discrete", "lte", "zipf") for suffix in ("png", "svg")
    }

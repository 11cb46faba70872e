"""The league: statistics on values worked out by hand, races, what is kept on the disk, and its page."""

from __future__ import annotations

import json
import math
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedtempo.errors import ConfigError
from fedtempo.federation import Client, Update
from fedtempo.fleet.traces import Trace
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.runtime.simulation import Simulation
from fedtempo.strategies import STRATEGIES
from fedtempo.studies.papers import cache, per_client, ranking, reproduction
from fedtempo.studies.papers.cache import Cache, gini
from fedtempo.studies.papers.cells import Cell, read_contest
from fedtempo.studies.papers.contest import ContestRequest, run_contest
from fedtempo.studies.papers.contest_figures import draw_row
from fedtempo.studies.papers.contest_results import ContestBudget, ContestResults, Target, TrialResult
from fedtempo.studies.papers.index import contest_page
from fedtempo.studies.papers.league import league_page
from fedtempo.studies.papers.race import Race, run_race
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import SCALES, Request
from fedtempo.studies.papers.standings import records, standings_of, statement
from fedtempo.studies.phones import PHONES, recorded_intervals
from tests.studies.papers.contests import cell_result, results_of
from tests.studies.papers.repeated import results_of_two_runs

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


def test_the_paired_test_is_students_on_logarithms() -> None:
    base = [1.0, 2.0, 4.0]
    later = [time * step for time, step in zip(base, (1.0, 2.0, 4.0), strict=True)]
    # Mean and deviation are ln 2: t = sqrt(3), with two degrees of freedom a tail of 1/2 - t / (2 sqrt(2 + t^2)).
    assert ranking.p_value_of_later(later, base, 100.0) == pytest.approx(0.5 - math.sqrt(3) / (2 * math.sqrt(5)))
    assert ranking.p_value_of_later(base, later, 100.0) == 1.0
    assert ranking.p_value_of_later(base, base, 100.0) == 1.0
    assert ranking.p_value_of_later([2.0], [1.0], 100.0) == 1.0  # one seed shows nothing
    assert ranking.p_value_of_later([2.0, 2.0], [1.0, 1.0], 100.0) == 0.0
    assert ranking.p_value_of_later([2.0, 2.0], [1.0, 1.0], 100.0, resolution_s=1.0) == 1.0  # one evaluation more


def test_p_values_are_corrected_by_holms_method() -> None:
    assert ranking.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert ranking.holm([0.5, 0.9]) == [1.0, 1.0]
    assert ranking.holm([]) == []


def test_a_competitor_is_level_only_if_the_interval_lies_within_the_margin() -> None:
    base = [10.0, 20.0, 30.0, 40.0, 50.0]
    near = [time * step for time, step in zip(base, (1.01, 0.99, 1.02, 0.98, 1.0), strict=True)]
    assert ranking.is_level(near, base, 100.0)
    assert not ranking.is_level(near, base, 100.0, resolution_s=3.0)  # of a mean of 30 s: a tenth
    assert not ranking.is_level([time * 1.2 for time in base], base, 100.0)
    assert ranking.is_no_later(base, [time * 1.2 for time in base], 100.0)
    scattered = [time * step for time, step in zip(base, (1.5, 0.6, 1.4, 0.7, 1.0), strict=True)]
    assert not ranking.is_level(scattered, base, 100.0)
    assert not ranking.is_level([None, *base[1:]], base, 100.0)


def test_who_is_neither_level_nor_later_is_not_told_apart() -> None:
    base = [10.0, 20.0, 30.0, 40.0, 50.0]
    times = {
        "first": base,
        "level": [time * step for time, step in zip(base, (1.01, 0.99, 1.02, 1.0, 1.0), strict=True)],
        "scattered": [time * step for time, step in zip(base, (1.5, 0.8, 1.4, 0.9, 1.2), strict=True)],
        "late": [time * step for time, step in zip(base, (2.0, 2.1, 2.2, 2.1, 2.0), strict=True)],
        "never": [None] * 5,
    }
    assert ranking.relations(times, 400.0) == {
        "first": "first",
        "level": "level",
        "scattered": "not told apart",
        "late": "later",
        "never": "later",
    }
    assert ranking.relations({"a": [None], "b": [None]}, 100.0) == {}
    assert ranking.share_within({"a": [1.0, 3.0, math.inf]}, 3.0) == {"a": 2 / 3}


def test_gini_is_nothing_for_equal_shares_and_near_one_where_one_has_all() -> None:
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


def test_every_strategy_competes_everywhere_but_those_that_make_no_global_model_of_the_clients() -> None:
    cells = league_cells("medium")
    assert len(cells) == 14
    for cell in cells:
        names = {cell.base.for_comparison(label).strategy_name for label in cell.points}
        assert names == set(STRATEGIES) - {"centralized", "fedhusky-paper", "ditto", "fedrep", "per-fedavg"}


def asked_by_strategies(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return a set that is filled with what strategies ask of the federation and of clients from now on."""
    asked: set[str] = set()

    def noting(what: str, function: Any) -> Any:
        def noted(*args: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            # Rounds wait when nobody has reported.
            in_vain = caller.f_code.co_qualname.startswith(("train_round", "first_reports"))
            if caller.f_globals["__name__"].startswith("fedtempo.strategies") and not in_vain:
                asked.add(what)
            return function(*args, **named)

        return noted

    for name, what in (("estimate", "times"), ("forecast", "presence"), ("upload_examples", "examples")):
        monkeypatch.setattr(Simulation, name, noting(what, getattr(Simulation, name)))
    seen = Client.__getattribute__

    def noted(client: Client, name: str) -> Any:
        if name == "label_histogram" and sys._getframe(1).f_globals["__name__"].startswith("fedtempo.strategies"):
            asked.add("labels")
        return seen(client, name)

    monkeypatch.setattr(Client, "__getattribute__", noted)

    class Noting(dict[str, float]):
        """Statistics of a visit, which are empty without training."""

        def noted(self, key: str) -> None:
            if key in LOSSES and sys._getframe(2).f_globals["__name__"].startswith("fedtempo.strategies"):
                asked.add("losses")

        def get(self, key: str, default: Any = None) -> Any:
            self.noted(key)
            return super().get(key, default)

        def __getitem__(self, key: str) -> float:
            self.noted(key)
            return super().__getitem__(key)

        def __contains__(self, key: object) -> bool:
            self.noted(str(key))
            return super().__contains__(key)

    made = Update.__init__

    def init(update: Update, *args: Any, **named: Any) -> None:
        made(update, *args, **named)
        update.__dict__["statistics"] = Noting(update.statistics)

    monkeypatch.setattr(Update, "__init__", init)
    return asked


LOSSES = {"loss", "squared_loss", "accuracy"}
"""Statistics of a visit that tell how well a model fits a client's examples."""


ENTRANTS = read_contest(Request("small", Path()), "league").entrants


@pytest.mark.long
@pytest.mark.parametrize("label", sorted(ENTRANTS))
def test_what_a_server_is_told_is_what_its_strategy_asks(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = league_cells("small")[0]
    asked = asked_by_strategies(monkeypatch)
    learns_first = label in ("fedhusky-models", "psfl")  # clusters from models, or the variance of gradients
    horizon, executor = (60.0, "inline") if learns_first else (15.0, "none")
    for point in cell.points[label]:
        changes = {
            **point,
            "run.horizon": horizon,
            "executor.kind": executor,
            "run.evaluate_every": 15.0,
        }
        run(cell.base.for_comparison(label).with_changes(changes, label=label).alone(), quiet=True)
    assert asked == set(ENTRANTS[label].told)


@pytest.mark.parametrize("scale", SCALES)
def test_everyone_has_as_many_settings_and_each_is_usable(scale: Any) -> None:
    for number, cell in enumerate(league_cells(scale)):
        assert not set(cell.budget.seeds) & set(cell.budget.tuning_seeds)
        for label, points in cell.points.items():
            assert len(points) == 6
            assert len(cell.settings(label)) == 6 * len(cell.budget.lr)
            tried = [] if scale == "full" else points if number == 0 else points[2:3]  # they differ by numbers alone
            for point in tried:
                cell.base.for_comparison(label).with_changes(point, label=label)


def test_a_cell_has_its_fleets_clients_and_its_data() -> None:
    cells = {cell.name: cell for cell in league_cells("full")}
    assert len(cells) == 14
    lte, zipf = cells["lte-fashion-mnist"], cells["zipf-digits"]
    assert (lte.group, lte.title, lte.target_of) == (
        "lte-1000",
        "LTE cell, 1000 clients, Fashion-MNIST",
        "uav-fashion-mnist",
    )
    assert (lte.base.data.clients, lte.data, lte.base.data.examples_per_client) == (1000, "fashion-mnist", 40)
    assert (zipf.data, zipf.base.fleet.preset) == ("digits", "fch-zipf")
    for scale in SCALES:
        assert {cell.data for cell in league_cells(scale, "fashion-mnist")} == {"fashion-mnist"}
    assert {cell.data for cell in league_cells("small")} == {"digits"}
    with pytest.raises(ConfigError, match="league runs on digits, fashion-mnist, shakespeare only"):
        league_cells("small", "emnist")


def test_the_cell_with_recorded_phones_has_all_of_them_for_its_whole_horizon() -> None:
    for scale in ("medium", "full"):
        cell = next(cell for cell in league_cells(scale) if cell.name == "phones")
        fleet, horizon = cell.base.fleet, cell.base.run.horizon
        assert isinstance(fleet.availability, Trace)
        assert fleet.availability.sample
        assert [list(each) for each in fleet.availability.intervals] == recorded_intervals(horizon or 0.0)
        assert (cell.target_of, cell.base.n_clients) == ("phones", len(PHONES))
        assert fleet.compute.speed.values == (2862.1, 1357.9, 1068.1)  # type: ignore[union-attr]
        assert all(part.watts is not None for part in (fleet.compute, fleet.link))  # type: ignore[attr-defined]


def test_a_cell_does_not_depend_on_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A further cell leaves the keys of earlier results as they were."""
    before = {cell.name: cell for cell in league_cells("medium")}
    settings = tomllib.loads((reproduction.SETTINGS / "league.toml").read_text())
    del settings["cells"]["phones"]
    del settings["parts"]["phones"]
    settings["contest"]["small"]["without"].remove("phones")
    (tmp_path / "league.toml").write_text(tomli_w.dumps(settings))
    monkeypatch.setattr(reproduction, "SETTINGS", tmp_path)
    without = league_cells("medium")
    assert {cell.name for cell in without} == set(before) - {"phones"}
    for cell in (without[0], without[-1]):
        keys = [Race(each, "fedavg", None, None).key for each in (cell, before[cell.name])]
        assert keys[0] == keys[1]
    assert all(cell.base.tables == before[cell.name].base.tables for cell in without)


def test_points_take_the_numbers_of_their_cell_and_a_cell_may_have_its_own() -> None:
    cells = {cell.name: cell for cell in league_cells("medium")}
    zipf, lte = cells["zipf-digits"], cells["lte-digits"]
    assert zipf.points["psfl"][3] == {
        "strategy.clients_per_round": 10,
        "strategy.width": 5,
        "strategy.length": 2,
    }
    assert zipf.points["fedbuff"][2] == {"strategy.clients_at_once": 60}
    assert lte.points["fedbuff"][3] == {"strategy.clients_at_once": 10, "strategy.reach": 0.4}
    assert lte.points["fedbuff"][4] == {"strategy.clients_at_once": 30, "strategy.server_lr": 0.3}
    assert cells["exponential-fashion-mnist"].points["ace"][2] == {"strategy.clients_at_once": 40}
    assert cells["cnn-500"].points["fedbuff"][2] == {"strategy.clients_at_once": 500}


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


def test_a_target_that_an_initial_model_reaches_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtempo.studies.papers.reproduction.SETTINGS", tmp_path)
    monkeypatch.setattr("fedtempo.studies.papers.contest.cache_file", lambda name: None)
    learns_nothing = """
evaluate_every = 0.01
[model]
network = "logistic"
[training]
lr = 0.1
[data]
clients = 5
"""
    settings = SETTINGS.replace("horizon = 10.0", "horizon = 0.05" + learns_nothing).replace("[data]\nsource", "source")
    (tmp_path / "contest.toml").write_text(settings)
    with pytest.raises(ConfigError, match=r"cells.one: the initial model of fedavg reaches a target on seed 1"):
        run_contest(Request("small", tmp_path), "contest")


@pytest.mark.parametrize("scale", SCALES)
def test_all_asynchronous_strategies_have_the_same_options_for_who_is_at_work(scale: Any) -> None:
    for cell in league_cells(scale):
        competing = [points for points in cell.points.values() if "strategy.clients_at_once" in points[0]]
        assert len(competing) == 10
        at_work = [[(p["strategy.clients_at_once"], p.get("strategy.reach")) for p in points] for points in competing]
        assert len({json.dumps(options) for options in at_work}) == 1
        assert not any("strategy.correction" in point for points in cell.points.values() for point in points)


@pytest.mark.parametrize(("contest", "since"), [("league", 7000), ("beyond", 11000)])
def test_seeds_are_fresh_and_at_least_three_tune(contest: str, since: int) -> None:
    for scale in ("medium", "full"):
        for cell in read_contest(Request(scale, Path()), contest).cells:  # type: ignore[arg-type]
            assert min(cell.budget.seeds) > since
            assert min(cell.budget.tuning_seeds) > since + 1000
            assert len(cell.budget.tuning_seeds) >= 3
            assert len(cell.budget.seeds) >= (10 if contest == "league" or cell.name == "cnn" else 20)


# Runs that are kept


def test_an_outcome_is_found_again_and_a_line_that_was_cut_off_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.jsonl"
    config = parse(TINY)
    made = Cache(path).outcome(config, (0.3, 0.5))
    assert made.ended == "target"
    early, full = made.times_s
    assert early is not None
    assert full is not None
    assert early <= full < made.end_s
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "half')
    monkeypatch.setattr(cache, "run", None)  # nothing runs any more
    again = Cache(path)
    assert again.outcome(config, (0.3, 0.5)) == made
    assert again.earlier_s == made.cpu_s
    with pytest.raises(TypeError):
        again.outcome(config.with_changes({"run.seed": 2}), (0.3, 0.5))


def test_a_run_can_end_early_without_changing_its_horizon() -> None:
    config = parse(TINY).with_changes({"run.target_accuracy": 1.0})
    whole = cache.measured(config, (1.0,))
    assert (whole.ended, whole.end_s) == ("horizon", 40.0)
    assert not whole.cut
    timed = cache.measured(config, (1.0,), 7.5)
    assert timed.cut
    assert timed.end_s == 7.5


def test_a_strategy_that_cannot_run_is_an_outcome_with_its_reason() -> None:
    config = parse(TINY).with_changes({"strategy.name": "hybrid", "strategy.clusters": "labels"})
    outcome = cache.measured(config, (0.5,))
    assert outcome.ended == "refused"
    assert "tell_labels" in outcome.error
    assert outcome.times_s == (None,)


@pytest.mark.long
def test_a_race_finds_the_setting_that_full_runs_would(tmp_path: Path) -> None:
    base = parse({**TINY, "strategy": {"name": "fedavg"}})
    points = [{"strategy.clients_per_round": count} for count in (2, 6)]
    cost = ContestBudget(seeds=(1, 2), tuning_seeds=(101, 102), lr=(0.01, 0.3))
    cell = Cell("tiny", "tiny", "tiny, digits", base, cost, {"fedavg": points}, "tiny")
    result, _ = run_race(Race(cell, "fedavg", Target(0.6, 0.3, 0.5), tmp_path / "runs.jsonl"))
    slow = cache.measured
    times = {}
    for trial in result.trials:
        changes = {**trial.changes, "run.seed": 101, "run.target_accuracy": 0.5, "run.stop_at_target": True}
        times[json.dumps(trial.changes)] = slow(base.with_changes(changes), (0.5,)).times_s[0]
    firsts = [trial.times_s[0] for trial in result.trials if trial.times_s[0] is not None]
    assert min(firsts) == min(time for time in times.values() if time is not None)
    assert result.chosen == result.trials[0].changes
    assert result.lr == 0.3
    assert [run.seed for run in result.runs] == [1, 2]
    assert None not in result.times_s


def tiny_race(folder: Path, points: list[dict[str, Any]], **budget: Any) -> Race:
    base = parse({**TINY, "strategy": {"name": "fedavg"}})
    cost = ContestBudget(seeds=(1, 2), tuning_seeds=(101, 102), lr=(0.3,), **budget)
    cell = Cell("tiny", "tiny", "tiny, digits", base, cost, {"fedavg": points}, "tiny", interpolated=True)
    return Race(cell, "fedavg", Target(0.6, 0.3, 0.5), folder / "runs.jsonl")


POINTS = [{"strategy.clients_per_round": count} for count in (2, 6, 3, 4)]


@pytest.mark.long
def test_tuning_ends_when_its_visits_are_used_up(tmp_path: Path) -> None:
    free, _ = run_race(tiny_race(tmp_path, POINTS))
    assert [len(trial.times_s) for trial in free.trials] == [2, 2, 2, 1]
    first = tiny_race(tmp_path, POINTS[:1])
    (only,) = run_race(first)[0].trials
    few, _ = run_race(tiny_race(tmp_path, POINTS, tuning_visits=2))
    assert [trial.changes for trial in few.trials] == [only.changes]  # one setting, on one seed: its visits are enough
    assert len(few.trials[0].times_s) == 1
    some, _ = run_race(tiny_race(tmp_path, POINTS, tuning_visits=free.tuning_visits))
    assert 1 < len(some.trials) <= 4
    assert some.tuning_visits < 2 * free.tuning_visits
    assert sum(trial.visits for trial in some.trials) == some.tuning_visits


@pytest.mark.long
def test_runs_to_the_horizon_give_final_accuracies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    race = tiny_race(tmp_path, POINTS[:1], final_seeds=1)
    result, _ = run_race(race)
    (final,) = result.finals
    whole_base = race.cell.base.with_changes({"run.stop_at_target": False})
    whole, _ = run_race(replace(race, target=None, cell=replace(race.cell, base=whole_base)))
    assert final.seed == 1
    assert final.clients == whole.clients[0]
    assert final.accuracy == result.final_accuracy > 0.5
    assert final.clients is not None
    assert result.worst_tenth == final.clients.worst_tenth
    monkeypatch.setattr(per_client, "run", None)  # nothing runs any more
    assert replace(run_race(race)[0], cpu_s=result.cpu_s) == result


def test_times_lie_between_evaluations(tmp_path: Path) -> None:
    race = tiny_race(tmp_path, POINTS[:1])
    between, _ = run_race(race)
    at, _ = run_race(replace(race, cell=replace(race.cell, interpolated=False)))
    for exact, evaluated in zip(between.times_s, at.times_s, strict=True):
        assert exact is not None
        assert evaluated is not None
        assert evaluated - 1.0 < exact <= evaluated


@pytest.mark.long
def test_results_that_are_up_to_date_are_kept_and_other_cells_may_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedtempo.studies.papers.reproduction.SETTINGS", tmp_path)
    monkeypatch.setattr("fedtempo.studies.papers.contest.cache_file", lambda name: None)
    tables = """
evaluate_every = 1.0
[model]
network = "logistic"
[training]
lr = 0.1
batch_size = 5
[data]
clients = 5
examples_per_client = 10
"""
    settings = SETTINGS.replace("horizon = 10.0", "horizon = 30.0" + tables).replace("[data]\nsource", "source")
    settings += "[cells.two]\nnumbers = { few = 2 }\nchanges = { run.horizon = 20.0 }\ntitle = 'the second'\n"
    (tmp_path / "contest.toml").write_text(settings)

    def contest(folder: str, cells: set[str] | None, earlier: str | None) -> ContestResults:
        (tmp_path / folder).mkdir()
        asked = None if cells is None else frozenset(cells)
        before = None if earlier is None else tmp_path / earlier
        return run_contest(ContestRequest("small", tmp_path / folder, cells=asked, earlier=before), "contest")

    one = contest("one", {"one"}, None)
    assert ([cell.name for cell in one.cells], one.missing) == (["one"], ["the second"])
    (cell,) = one.cells
    assert all(entrant.key and entrant.code and entrant.cpu_s > 0 for entrant in cell.tried.values())
    both = contest("both", {"two"}, "one")
    assert ([cell.name for cell in both.cells], list(both.missing)) == (["one", "two"], [])
    assert json.dumps(asdict(both.cells[0])) == json.dumps(asdict(one.cells[0]))
    ran: list[str] = []
    monkeypatch.setattr("fedtempo.studies.papers.contest.run_race", lambda race: ran.append(race.label))
    monkeypatch.setattr("fedtempo.studies.papers.contest.in_processes", lambda function, races: [*map(function, races)])
    assert json.dumps(asdict(contest("again", None, "both"))) == json.dumps(asdict(both))
    results, text = tmp_path / "again" / "contest.json", json.dumps(asdict(both))
    results.write_text(text.replace(cell.tried["fedbuff"].code, "made with earlier code"))
    assert json.dumps(asdict(contest("checked", set(), "again"))) == text
    results.write_text(results.read_text().replace(cell.tried["fedbuff"].runs[0].bits, "other bits"))
    with pytest.raises(ConfigError, match=r"whose runs have other bits now: one \(fedbuff\)\. Bits differ"):
        contest("other", set(), "again")
    assert ran == []
    (tmp_path / "contest.toml").write_text(settings.replace("points = [{}]", "points = [{ strategy.buffer = 3 }]"))
    (tmp_path / "changed").mkdir()
    with pytest.raises(TypeError):  # the made-up race returns nothing
        run_contest(ContestRequest("small", tmp_path / "changed", earlier=tmp_path / "both"), "contest")
    assert ran == ["fedbuff", "fedbuff"]
    with pytest.raises(ConfigError, match=r"cell tow: there is none of this name at this scale; did you mean 'two'\?"):
        contest("unknown", {"tow"}, None)


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


def test_standings_say_who_is_first_who_is_cheapest_and_who_runs_beside() -> None:
    (standing,) = standings = standings_of(made_up([6.0, 12.0, 18.0, 24.0, 30.0]))
    assert standing.first is not None
    assert standing.first.label == standing.first_early == "fast"
    assert standing.cheapest is not None
    assert standing.cheapest.label == "slow"
    assert standing.of("slow").factor == pytest.approx(2.0)
    assert standing.of("slow").relation == "later"
    assert standing.of("fast").best
    never = standing.of("never")
    assert (never.result.reached, never.bound, never.words) == (0, True, "never (40% at best)")
    assert standing.of("fast").words == "18 s (6 to 30)"
    assert not standing.of("hybrid-fl").ranked
    fast, slow, worst = records(standings)
    assert (fast.label, fast.firsts, fast.worst) == ("fast", 1, 1.0)
    assert (slow.within_2, slow.mean_rank, slow.level, slow.later) == (1.0, 2.0, 0, 1)
    assert math.isinf(worst.worst)
    assert statement(standings) == (
        "reached",
        "fast is shown to be no later than every other in 1 of 1 rows, and has the lowest median in 1; it is shown to "
        "be later than another in 0",
    )


def test_the_lowest_median_alone_is_no_evidence() -> None:
    tried = {"a": {"times": [10.0, 30.0, 20.0]}, "b": {"times": [25.0, 21.0, 22.0]}}
    (standing,) = standings = standings_of(results_of([cell_result(tried)]))
    assert standing.first is not None
    assert standing.not_told_apart == ["b"]
    assert statement(standings)[0] == "not shown"


def test_if_every_strategy_is_later_somewhere_none_suits_all() -> None:
    early, late = {"times": [10.0, 20.0, 30.0, 40.0]}, {"times": [30.5, 60.0, 90.0, 99.0]}
    cells = [cell_result({"a": early, "b": late}), cell_result({"a": late, "b": early})]
    assert statement(standings_of(results_of(cells)))[0] == "not reached"


def test_nothing_is_judged_while_rows_are_missing() -> None:
    results = made_up([6.0, 12.0, 18.0, 24.0, 30.0])
    standings = standings_of(results)
    assert statement(standings)[0] == "reached"
    verdict, words = statement(standings, 2)
    assert verdict is None
    assert words.endswith("it is shown to be later than another in 0; 2 rows have not run yet")
    page = league_page(replace(results, missing=["LTE", "Zipf"]), "fedtempo reproduce all/league")
    assert "**Not run yet:** LTE; Zipf." in page
    assert "in every row? **Open**:" in page


def test_nobody_is_first_where_nobody_gets_there() -> None:
    tried = {"fast": {"times": [None] * 5}}
    results = results_of([cell_result(tried, lr=(0.1, 0.3, 1.0))])
    (standing,) = standings = standings_of(results)
    assert standing.first is None
    assert statement(standings) == (None, "no row is decided")
    assert "No strategy reaches 85% in 100 s on most seeds." in league_page(results, "fedtempo reproduce all/league")


def test_who_could_not_run_has_no_place_and_the_page_says_why() -> None:
    cell = cell_result({"fast": {"times": [10.0, 12.0]}, "picky": {"times": [None, None]}})
    picky = cell.tried["picky"]
    refused = replace(picky, runs=[replace(run, error="n_clusters = 76 must lie in 1..60") for run in picky.runs])
    results = results_of([replace(cell, tried={**cell.tried, "picky": refused})])
    (standing,) = standings_of(results)
    assert [place.label for place in standing.places] == ["fast"]
    page = league_page(results, "fedtempo reproduce all/league")
    assert "picky could not run: n_clusters = 76 must lie in 1..60." in page


def test_a_row_that_repeats_another_does_not_count_as_evidence() -> None:
    early, late = {"times": [10.0, 20.0, 30.0, 40.0]}, {"times": [30.5, 60.0, 90.0, 99.0]}
    first, other = cell_result({"a": early, "b": late}), cell_result({"a": late, "b": early})
    standings = standings_of(results_of([first, replace(other, name="errors", exact="uav-digits")]))
    assert [record.cells for record in records(standings)] == [1, 1]
    assert statement(standings)[0] == "reached"


def test_the_page_names_the_coarsest_times_and_who_lacked_visits() -> None:
    cell = replace(
        cell_result({"a": {"times": [10.0, 20.0, 30.0]}, "b": {"times": [90.0, 91.0, 92.0]}}), resolution_s=0.3
    )
    trial = TrialResult({"training.lr": 0.3}, [10.0], [0.9])
    tried = {"a": replace(cell.tried["a"], trials=[trial] * 2), "b": replace(cell.tried["b"], trials=[trial])}
    page = league_page(results_of([replace(cell, tried=tried)]), "fedtempo reproduce all/league")
    assert "at most 1.5% of the first's median (UAV, digits)" in page
    assert "The visits did not suffice for all settings of b (UAV, digits)." in page


def test_the_page_tells_winner_reason_and_price(tmp_path: Path) -> None:
    results = made_up([6.0, 12.0, 18.0, 24.0, 30.0])
    page = league_page(results, "fedtempo reproduce all/league --scale small")
    assert "fast has the lowest median time to 85%: 18 s (6 to 30). slow takes 2× as long:" in page
    assert "fast needs 0.5× as many visits as slow (50 and 100)" in page
    assert "makes 1× as many per second (3.0 and 3.0 clients at work)" in page
    assert "slow: 5 MB, 2×" in page
    assert "Target never reached: never." in page
    for name in ("one.svg", "two.svg", "one.png"):
        draw_row(standings_of(results)[0], tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize("name", ["all/league", "all/beyond"])
def test_the_committed_page_says_what_the_committed_numbers_do(name: str) -> None:
    exhibit = EXHIBITS[name]
    assert (RESULTS / f"{exhibit.stem}.md").read_text(encoding="utf-8") == contest_page(exhibit, RESULTS)


@pytest.mark.slow
def test_the_league_runs_at_small_scale_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = results_of_two_runs("all/league", "result.json", tmp_path, monkeypatch)
    assert one["rows"] == two["rows"]
    assert len(one["rows"]) == sum(len(cell.points) for cell in league_cells("small")) + 1
    drawn = {path.name for path in (tmp_path / "one").glob("league-*")}
    assert drawn == {f"league-{cell}-digits.{suffix}" for cell in ("uav", "lte") for suffix in ("png", "svg")}

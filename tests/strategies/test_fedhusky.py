"""FedHusky on the clock: groups of one client per cluster, no double bookings, the horizon, wrong estimates."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.parts.construct import construct
from fedtempo.record import Records
from fedtempo.record.measures import busy_ratios, group_spans
from fedtempo.runs.config import load, parse
from fedtempo.runs.run import run as simulate
from fedtempo.strategies import FedHusky, FedHuskyPaper, Hybrid
from fedtempo.studies.papers.beyond_parts import FedHuskyGroups, FedHuskyHops
from tests.runtime.world import play
from tests.strategies.test_every_strategy import BASE

PAPER = {"kind": "path-loss"}
CONFIGS = Path(__file__).parents[2] / "fedtempo" / "runs" / "configs"
SPEEDS = {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 10.0}}


def one_label(clients: int, classes: int) -> list[tuple[int, ...]]:
    return [tuple(10 if i % classes == c else 0 for c in range(classes)) for i in range(clients)]


def husky(**fields: Any) -> FedHusky:
    return FedHusky(clusters="labels", **fields)


def hops(**fields: Any) -> FedHuskyHops:
    return FedHuskyHops(clusters="labels", **fields)


def paper(**fields: Any) -> FedHuskyPaper:
    return FedHuskyPaper(clusters="labels", **fields)


def groups(**fields: Any) -> FedHuskyGroups:
    return FedHuskyGroups(clusters="labels", **fields)


def run(strategy: Any, clients: int, classes: int, **world: Any) -> Records:
    world = {"compute": SPEEDS, "link": "none", "horizon": 200.0, **world}
    return play(strategy, clients=clients, histograms=one_label(clients, classes), **world)[1]


def groups_of(records: Records) -> dict[int, list[tuple[int, float, float, str]]]:
    """Return the visits (client, start, end, outcome) of each group in order of time."""
    visits = records.visits
    rows = zip(*(visits[name].tolist() for name in ("group", "client", "started", "finished", "outcome")))
    found: dict[int, list[tuple[int, float, float, str]]] = {}
    for group, client, started, finished, outcome in rows:
        found.setdefault(group, []).append((client, started, finished, outcome))
    return {group: sorted(own, key=lambda visit: visit[1]) for group, own in found.items()}


def assert_clients_do_one_thing_at_a_time(records: Records) -> None:
    visits = records.visits
    for client in np.unique(visits["client"]):
        own = visits["client"] == client
        spans = sorted(zip(visits["started"][own], visits["finished"][own]))
        assert all(end <= begin + 1e-9 for (_, end), (begin, _) in itertools.pairwise(spans))


@settings(max_examples=25, deadline=None)
@given(
    clients=st.integers(4, 16),
    classes=st.integers(2, 4),
    seed=st.integers(0, 10_000),
    mix=st.sampled_from(["hops", "change", "model"]),
    pace=st.sampled_from([None, 0.9]),
)
def test_every_group_has_one_client_of_each_cluster_and_ends_by_the_horizon(
    clients: int, classes: int, seed: int, mix: str, pace: float | None
) -> None:
    strategy = husky(pace=pace) if mix == "hops" else groups(mix=mix, pace=pace)
    records = run(strategy, clients, classes, seed=seed, horizon=120.0)
    cluster = records.note("clusters")
    found = groups_of(records)
    assert found
    for visits in found.values():
        assert all(outcome == "done" for *_, outcome in visits)
        assert sorted(cluster[client] for client, *_ in visits) == list(range(classes))
        assert visits[-1][2] <= 120.0 + 1e-9
        assert all(end <= begin + 1e-9 for (_, _, end, _), (_, begin, _, _) in itertools.pairwise(visits))
    assert_clients_do_one_thing_at_a_time(records)
    assert records.commits["version"].size == (classes * len(found) if mix == "hops" else len(found))


def test_without_waits_active_groups_equal_clients_times_busy_ratio_exactly() -> None:
    """If durations are whole ticks, calendars are exact: a group is active while one client works for it."""
    discrete = {"unit": "s/visit", "speed": {"kind": "discrete", "values": [1.0, 1.5, 2.5, 4.0, 7.5, 10.0]}}
    records = run(paper(), 50, 10, compute=discrete, horizon=1000.0)
    starts, ends = group_spans(records)
    assert (ends - starts).sum() / 1000.0 == pytest.approx(50 * busy_ratios(records).mean(), rel=1e-12)
    for visits in groups_of(records).values():
        assert all(end == pytest.approx(begin) for (_, _, end, _), (_, begin, _, _) in itertools.pairwise(visits))


@pytest.mark.parametrize("seed", [1, 2])
def test_clients_are_six_times_busier_than_in_hybrid_training_on_the_papers_setting(seed: int) -> None:
    literal = run(paper(), 50, 10, link=PAPER, size_bytes=1_700_000, horizon=1000.0, seed=seed)
    fixed = run(Hybrid(clusters="labels"), 50, 10, link=PAPER, size_bytes=1_700_000, horizon=1000.0, seed=seed)
    assert busy_ratios(literal).mean() >= 6 * busy_ratios(fixed).mean()
    starts, ends = group_spans(literal)
    # Durations are not whole ticks here: the model may wait for less than a tick at each of a group's nine hops.
    excess = (ends - starts).sum() / 1000.0 - 50 * busy_ratios(literal).mean()
    assert 0 <= excess + 1e-9 < len(starts) * 9 * 0.1 / 1000.0


def first_groups(seed: int, **fields: Any) -> list[list[int]]:
    """The clients of the first two groups, in order."""
    found = groups_of(run(paper(**fields), 20, 5, seed=seed, horizon=300.0))
    return [[client for client, *_ in found[number]] for number in (0, 1)]


def test_a_random_first_group_starts_with_the_first_client_and_visits_every_cluster_in_random_order() -> None:
    drawn = [first_groups(seed, first_group="random")[0] for seed in range(8)]
    clusters = [[client % 5 for client in group] for group in drawn]
    assert all(group[0] == 0 for group in drawn)
    assert all(sorted(order) == list(range(5)) for order in clusters)
    assert len({tuple(order) for order in clusters}) > 4
    assert len({tuple(sorted(group)) for group in drawn}) > 4
    assert drawn[0] == first_groups(0, first_group="random")[0]
    assert first_groups(0, first_group="random")[1][0] == 1  # the second group is planned, with client 2 as its head


def test_the_papers_first_group_is_random_and_that_of_other_readings_is_planned() -> None:
    assert paper().first_group == "random"
    assert load(CONFIGS / "fedhusky-paper.toml").strategy == paper()
    assert groups().first_group == "planned"
    assert first_groups(3)[0] == first_groups(3, first_group="random")[0] != first_groups(3, first_group="planned")[0]


def test_groups_after_a_random_first_one_are_planned_around_it() -> None:
    records = run(paper(first_group="random"), 20, 5, horizon=300.0)
    assert len(groups_of(records)) > 20
    assert_clients_do_one_thing_at_a_time(records)


def test_a_gradient_visit_is_one_step_on_all_examples_whatever_training_says() -> None:
    changes = {"strategy.clusters": "labels", "training.epochs": 5, "training.batch_size": 2}
    config = parse({**BASE, "strategy": {"name": "fedhusky-paper"}}).with_changes(changes)
    many, _, _ = simulate(config, quiet=True)
    one, _, _ = simulate(config.with_changes({"strategy.mode": "gradient"}), quiet=True)
    same, _, _ = simulate(config.with_changes({"training.epochs": 1, "training.batch_size": 10_000}), quiet=True)
    assert one["final_accuracy"] != many["final_accuracy"]
    assert one["final_accuracy"] == same["final_accuracy"]
    assert one["best_accuracy"] == same["best_accuracy"]


@pytest.mark.parametrize("rebook", [True, False])
@pytest.mark.parametrize("strategy", [FedHusky, FedHuskyPaper])
@pytest.mark.parametrize(
    "estimates",
    [
        {"kind": "noisy", "error": 0.5},
        {"kind": "noisy", "error": 0.5, "per": "client"},
        {"kind": "noisy", "error": 0.0, "bias": -0.5},
        {"kind": "observed", "prior_s": 3.0},
    ],
    ids=str,
)
def test_wrong_estimates_cause_delays_but_no_double_bookings_or_deadlocks(
    estimates: dict[str, Any], strategy: Any, rebook: bool
) -> None:
    labelled = strategy(clusters="labels", rebook=rebook)
    records = run(labelled, 20, 4, estimates=estimates, link=PAPER, horizon=300.0)
    assert_clients_do_one_thing_at_a_time(records)
    found = groups_of(records)
    assert len(found) > 10
    cluster = records.note("clusters")
    for visits in found.values():
        assert len({cluster[client] for client, *_ in visits}) == len(visits)
    complete = sum(len(visits) == 4 and visits[-1][3] == "done" for visits in found.values())
    assert complete > len(found) / 2


@pytest.mark.parametrize("clients", [2, 3, 5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_if_all_visits_are_early_the_next_group_waits_no_longer_than_the_bookings(clients: int, seed: int) -> None:
    """The last group ends while clients are still booked, so no release follows, but the run must continue."""
    compute = {**SPEEDS, "variation": 0.3}
    late = {"kind": "noisy", "error": 0.5, "bias": 2.0}
    records = run(husky(), clients, 2, compute=compute, estimates=late, horizon=600.0, seed=seed)
    assert_clients_do_one_thing_at_a_time(records)
    started = np.sort(records.visits["started"])
    assert started[-1] > 500.0
    assert np.diff(started).max() < 100.0


def test_groups_survive_clients_that_drop_out() -> None:
    records = run(paper(), 20, 4, availability={"kind": "dropout", "probability": 0.2})
    outcomes = records.visits["outcome"]
    assert 0.1 < (outcomes == "unavailable").mean() < 0.3
    assert (records.visits["finished"] <= 200.0).all()
    assert records.commits["version"].size > 10
    away = run(husky(), 20, 4, availability={"kind": "on-off", "mean_on_s": 40.0, "mean_off_s": 10.0})
    assert_clients_do_one_thing_at_a_time(away)
    assert away.commits["version"].size > 50


def test_attempts_can_be_spaced_apart() -> None:
    dense = run(paper(), 20, 4)
    thin = run(groups(min_attempt_gap=5.0), 20, 4)
    starts, _ = group_spans(thin)
    later = starts[starts > 0]
    assert (np.diff(later) >= 5.0 - 0.1).all()
    assert len(starts) < len(group_spans(dense)[0])


def test_rare_attempts_share_visits_more_evenly() -> None:
    often, rarely = (
        busy_ratios(run(groups(min_attempt_gap=gap), 50, 10, horizon=1000.0, seed=2)) for gap in (0.0, 1.5)
    )
    assert rarely.min() > 2 * often.min()
    assert rarely.mean() < often.mean()


def test_the_papers_schedule_keeps_clients_as_busy_as_published() -> None:
    """FedHusky's rules keep clients 66.8 % +- 2.5 busy over 20 seeds (here within 4 deviations); one is last."""
    records = run(paper(), 50, 10, horizon=1000.0)
    assert 0.568 < busy_ratios(records).mean() < 0.768
    cluster = records.note("clusters")
    last = np.bincount([cluster[visits[-1][0]] for visits in groups_of(records).values() if len(visits) == 10])
    assert last.max() > 0.9 * last.sum()


def test_a_paced_order_puts_every_cluster_at_every_position() -> None:
    records = run(husky(pace=0.6), 20, 4, horizon=2000.0)
    cluster = records.note("clusters")
    last = [cluster[visits[-1][0]] for visits in groups_of(records).values() if len(visits) == 4]
    counts = np.bincount(last, minlength=4)
    assert np.abs(counts - counts.mean()).max() < 5 * (counts.sum() * 0.25 * 0.75) ** 0.5


def test_contradictory_options_are_rejected() -> None:
    with pytest.raises(ValidationError, match="max_wait is for planned groups: leave out max_wait or pace"):
        FedHusky(pace=0.9, max_wait=1.0)


PARTS = "fedtempo.studies.papers.beyond_parts"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"preset": "paper"},
            'strategy.preset is gone: for "paper" set name = "fedhusky-paper", for "free" name = "async-memory"',
        ),
        (
            {"order": "paced"},
            'strategy.order is gone: for "paced" set pace = 0.9, for "free" name = "async-memory"',
        ),
        (
            {"commit": "group"},
            'strategy.commit is gone: for "group-model" set name = "fedhusky-paper", '
            f'for "group" name = "{PARTS}:FedHuskyGroups"',
        ),
        ({"mixing": "model"}, 'strategy.mixing is gone: for "model" set name = "fedhusky-paper"'),
        *(
            (
                {key: value},
                f'strategy.{key} is gone: delete it, or set name = "{PARTS}:FedHuskyHops" to keep it',
            )
            for key, value in {
                "even_speeds": True,
                "correct_by": "client",
                "cool": 0.5,
                "clients_at_once": 10,
                "reach": 0.1,
                "min_attempt_gap": 1.5,
                "length": 2,
            }.items()
        ),
    ],
    ids=str,
)
def test_old_names_are_rejected_with_the_new_one(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as refused:
        construct(FedHusky, fields, "strategy")
    assert str(refused.value) == line


def test_moved_options_are_found_where_their_error_says() -> None:
    moved = {field.name for field in dataclasses.fields(FedHuskyHops)} - {
        field.name for field in dataclasses.fields(FedHusky)
    }
    assert moved == {key for key, words in FedHusky.MOVED.items() if "FedHuskyHops" in words}
    assert construct(FedHuskyHops, {"cool": 0.5, "reach": 0.1}, "strategy") == FedHuskyHops(cool=0.5, reach=0.1)


@pytest.mark.parametrize("pace", [None, 0.9])
def test_clients_at_once_limits_parallel_training(pace: float | None) -> None:
    records = run(hops(pace=pace, clients_at_once=3), 20, 4)
    started, finished = records.visits["started"], records.visits["finished"]
    at_work = [int(((started <= t) & (t < finished)).sum()) for t in started]
    assert max(at_work) == 3
    assert len(started) > 20
    assert_clients_do_one_thing_at_a_time(records)


@pytest.mark.parametrize("pace", [None, 0.9])
def test_reach_excludes_slow_clients(pace: float | None) -> None:
    seconds = [1.0 + i for i in range(20)]
    speeds = {"unit": "s/visit", "speed": seconds}
    records = run(hops(pace=pace, reach=0.4), 20, 4, compute=speeds)
    # Clients i, i + 4, ... are of one label: of five the two fastest.
    assert sorted(set(records.visits["client"].tolist())) == list(range(8))


def test_clusters_of_equal_speed_keep_clients_busier() -> None:
    plain, even = (run(hops(even_speeds=on), 50, 10, horizon=300.0) for on in (False, True))
    sizes = [np.bincount(records.note("clusters")).tolist() for records in (plain, even)]
    assert sizes == [[5] * 10] * 2
    assert busy_ratios(even).mean() > 1.05 * busy_ratios(plain).mean()
    assert busy_ratios(even).min() > busy_ratios(plain).min()
    assert_clients_do_one_thing_at_a_time(even)


def test_groups_at_a_pace_may_visit_some_clusters_only() -> None:
    records = run(hops(pace=0.9, length=2), 20, 4)
    lengths = {len(visits) for visits in groups_of(records).values()}
    assert lengths == {2}
    counts = np.bincount([records.note("clusters")[client] for client in records.visits["client"].tolist()])
    assert np.ptp(counts) <= 2


def test_changes_are_remembered_per_cluster_or_per_client() -> None:
    with pytest.raises(ValidationError, match="correct_by"):
        FedHuskyHops(correct_by="nobody")
    name = f"{PARTS}:FedHuskyHops"
    tables = {**BASE, "executor": {"kind": "inline"}}
    summaries = [
        simulate(parse({**tables, "strategy": {"name": name, "clusters": "labels", "correct_by": choice}}))[0]
        for choice in ("cluster", "client")
    ]
    by_cluster, by_client = (summary["model_sha256"] for summary in summaries)
    assert by_cluster != by_client

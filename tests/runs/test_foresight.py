"""Messages before a run starts, and rejection of runs that would not end."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from fedtempo.errors import ConfigError
from fedtempo.runs import foresight, launch
from fedtempo.runs.config import parse
from fedtempo.runs.foresight import VisitTimes, check_length, duration, visit_times
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world, training_of

TABLES: dict[str, Any] = {
    "run": {"horizon": 10.0, "evaluate_every": 2.0},
    "data": {"clients": 10},
    "model": {"network": "logistic"},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "inline"},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training.epochs": 10**20}, "training.epochs = 100000000000000000000: input should be less than or equal to"),
        ({"training.batch_size": 10**12}, "training.batch_size = 1000000000000: input should be less than or equal to"),
        ({"training.steps": 10**12}, "training.steps = 1000000000000: input should be less than or equal to"),
        ({"run.max_commits": 10**12}, "run.max_commits = 1000000000000: input should be less than or equal to"),
        ({"run.horizon": 1e308}, "horizon = 1e\\+308: must be at most 1e\\+30 s"),
    ],
)
def test_impossible_values_are_rejected(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(TABLES).with_changes(changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"run.horizon": 1e9, "fleet.compute.speed": 0.001},
            r"run.horizon = 1e\+09: about 1e\+13 visits, each of 0.001 s on the run's clock and .* years of real time; "
            "shorten the run or its visits",
        ),
        ({"run.horizon": 1e30}, r"run.horizon = 1e\+30: about 1e\+31 visits"),
        ({"training.epochs": 2 * 10**9}, "about 100 visits, each of 1 s on the run's clock and .* steps; .* years"),
        ({"run.evaluate_every": 1e-9}, r"run.evaluate_every = 1e-09: about 1e\+10 evaluations; .* at most 1e\+09"),
        ({"run.evaluate_every": 1e-300}, r"run.evaluate_every = 1e-300: about 1e\+301 evaluations"),
        (
            {"run.horizon": 1e9, "fleet.compute.speed": 0.001, "executor.kind": "none"},
            r"about 1e\+13 visits",
        ),
    ],
)
def test_endless_runs_are_rejected_before_they_start(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(parse(TABLES).with_changes(changes))


def test_a_long_run_is_announced_and_started(monkeypatch: pytest.MonkeyPatch) -> None:
    said = checked({"run.horizon": 1e6})
    assert len(said) == 1
    assert said[0].startswith("run.horizon = 1e+06: about 1e+07 visits, each of 1 s on the run's clock and ")
    assert said[0].endswith(" of real time, by a rough estimate")
    # A run with a target may end at any time: it is announced but never rejected.
    target = {"run.target_accuracy": 0.9, "run.stop_at_target": True}
    assert len(checked({"run.horizon": 1e9, "fleet.compute.speed": 0.001, **target})) == 1


def checked(changes: dict[str, Any]) -> list[str]:
    said: list[str] = []
    config = parse(TABLES).with_changes(changes)
    world = build_world(config)
    times = visit_times(world, config.training, 1000, 1000)
    check_length(
        config,
        world,
        training_of(config, world),
        times,
        lambda: launch.make_job(config, world),
        lambda: launch._pace(config, times.longest_s),
        said.append,
    )
    return said


def test_the_number_of_visits_is_predicted_from_the_schedule() -> None:
    """With one client per round there are a tenth of all visits, and with a strategy that pauses even fewer."""
    everybody, one = (launch._pace(parse(TABLES).with_changes(c), 1.0) for c in ({}, {"strategy.clients_per_round": 1}))
    assert everybody is not None
    assert one is not None
    assert everybody.visits == pytest.approx(10, rel=0.1)
    assert everybody.commits == pytest.approx(one.commits, rel=0.1) == pytest.approx(one.visits, rel=0.1)
    assert (
        "about 1e+06 visits" in checked({"run.horizon": 1e6, "strategy.clients_per_round": 1, "training.epochs": 99})[0]
    )


def test_a_large_fleet_of_which_few_clients_train_is_not_a_long_run(caplog: pytest.LogCaptureFixture) -> None:
    changes = {"strategy.clients_per_round": 1, "run.horizon": 2e4, "data.clients": 1000, "run.evaluate_every": 1e4}
    assert checked(changes) == []


def test_large_but_feasible_runs_start_without_a_message(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for changes in (
            {"training.batch_size": 2**31 - 1},
            {"run.max_commits": 2**31 - 1},
            {"run.evaluate_every": 1e308},
            {"run.checkpoint_every": 1e308},
            {"run.horizon": None, "run.max_commits": 3},
        ):
            config = parse(TABLES).with_changes(changes)
            assert run(config)[0]["visits"] >= 30
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_check_of_ordinary_runs_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(foresight, "_measured_s", never)
    monkeypatch.setattr(launch, "_pace", never)
    assert run(parse(TABLES))[0]["visits"] == 100


def test_visit_times_are_predicted() -> None:
    config = parse(TABLES).with_changes(
        {
            "fleet.compute.speed": [float(i) for i in range(1, 11)],
            "fleet.link": {"kind": "fixed", "download_s": 0.5, "upload_s": 0.5},
        }
    )
    assert visit_times(build_world(config), config.training, 10, 10) == VisitTimes(2.0, 6.5, 11.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (30.0, "about 30 seconds"),
        (7200.0, "about 2 hours"),
        (1e6, "about 12 days"),
        (1e10, "about 317 years"),
        (1e30, "about 3e+22 years"),
    ],
)
def test_durations_are_written_in_suitable_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text

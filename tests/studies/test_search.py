"""Tuning by Optuna: what can be tried, the same number of trials for each strategy, and the same result every time."""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Sequence
from typing import Any

import pytest

from fedtempo.api.experiment import Experiment
from fedtempo.errors import ConfigError
from fedtempo.runs.config import Config, parse
from fedtempo.studies import search as searching
from fedtempo.studies.search import Choice, Range, at_ends, parse_space, score, search, search_table
from fedtempo.studies.tuning.trials import Changes, Trial
from tests.studies.tuning.test_tuning_command import TABLES

SPACE = parse_space(["training.lr=0.001:0.3:log", "strategy.clients_per_round=1:4"])


@pytest.fixture
def base() -> Config:
    return parse(TABLES)


def fake_trials(asked: list[tuple[str, Changes, tuple[int, ...], Changes]]) -> Any:
    """Return a function in place of training: the target takes longer the further the rate is from 0.05."""

    def run_trials(
        base: Config, settings: Sequence[tuple[str, Changes]], seeds: Sequence[int], common: Changes, *, workers: int
    ) -> list[Trial]:
        asked.extend((label, changes, tuple(seeds), common) for label, changes in settings)
        far = [abs(math.log(changes["training.lr"] / 0.05)) for _, changes in settings]
        return [
            Trial(label, changes, (1.0 + distance,) * len(seeds), (0.9,) * len(seeds))
            for (label, changes), distance in zip(settings, far)
        ]

    return run_trials


def test_spaces_are_ranges_or_choices() -> None:
    texts = ["training.lr=0.001:0.3:log", "strategy.n=5:20", "training.momentum=0:0.9", "training.optimizer=sgd,adam"]
    space = parse_space([*texts, "training.loss=my_module:Loss,other:Loss", "server.on=true"])
    assert list(space.values()) == [
        Range(0.001, 0.3, log=True),
        Range(5, 20),
        Range(0, 0.9),
        Choice(("sgd", "adam")),
        Choice(("my_module:Loss", "other:Loss")),
        Choice((True,)),
    ]
    assert [each.whole for each in list(space.values())[:3] if isinstance(each, Range)] == [False, True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.lr", "--over training.lr: write section.key=low:high"),
        ("training.lr=0.3:0.001", "0.3 must be below 0.001"),
        ("training.lr=0:0.3:log", "a logarithmic range must be above 0"),
        ("training.lr=0.1:0.3:lg", "write a range as low:high or low:high:log"),
        ("training.lr=a:b", "write a range as low:high or low:high:log"),
        ("training.lr=0.1:nan", "0.1 must be below nan"),
    ],
)
def test_what_is_neither_a_range_nor_a_choice(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_space([text])
    assert message in str(raised.value)


def test_scores_order_trials_as_tuning_does() -> None:
    trials = [
        Trial("x", {}, (2.0, 4.0, 6.0), (0.5,) * 3),
        Trial("x", {}, (2.0, None, 12.0), (0.5,) * 3),
        Trial("x", {}, (None, None, 1.0), (0.9,) * 3),
        Trial("x", {}, (None, None, None), (0.8,) * 3),
        Trial("x", {}, (None, None, None), (-50.0,) * 3),
        Trial("x", {}, (1.0, 1.0, 1.0), (0.9,) * 3, diverged=1),
        Trial("x", {}, (None, None, None), (-1.0,) * 3, diverged=3),
    ]
    scores = [score(trial, 12.0) for trial in trials]
    assert scores[:4] == pytest.approx([4 / 12, 1.0, 1.1, 1.2])
    assert scores == sorted(scores)
    assert sorted(trials, key=lambda trial: trial.order) == trials


@pytest.mark.parametrize(
    ("space", "labels", "seeds", "trials", "message"),
    [
        (["training.lrr=0.1:0.3"], ["fedavg"], [101], 4, "fedavg: training.lrr: unknown key; did you mean 'lr'"),
        (["training.lr=-0.1:0.3"], ["fedavg"], [101], 4, "fedavg: training.lr = -0.1"),
        (["data.clients=2:4"], ["fedavg"], [101], 4, "over data.clients: part of the problem"),
        (["run.seed=1:4"], ["fedavg"], [101], 4, "run.seed: give the seeds"),
        (["strategy.buffer_size=2:4"], ["fedavg", "fedbuff"], [101], 4, "(compare.fedavg.strategy.buffer_size is for"),
        (["compare.fedbuff.training.lr=0.1:1.0"], ["fedavg", "fedbuff"], [101], 4, "fedavg: nothing to tune"),
        (["compare.oort.training.lr=0.1:1.0"], ["fedavg"], [101], 4, "oort is not one of the strategies fedavg"),
        (["training.lr=0.1:0.3"], ["fedavg"], [101, 1], 4, "seeds = 101, 1: run.seed = 1 is a seed of the runs"),
        (["training.lr=0.1:0.3"], ["fedavg"], [101], 0, "trials = 0: must be at least 1"),
    ],
)
def test_mistakes_are_reported_before_anything_runs(
    base: Config,
    monkeypatch: pytest.MonkeyPatch,
    space: list[str],
    labels: list[str],
    seeds: list[int],
    trials: int,
    message: str,
) -> None:
    monkeypatch.setattr(searching, "run_trials", None)
    with pytest.raises(ConfigError) as raised:
        search(base, labels, parse_space(space), seeds, trials, workers=1)
    assert message in str(raised.value)


def test_without_optuna_the_extra_is_named(base: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"tuning over keys needs Optuna: pip install 'fedtempo\[tune\]'"):
        search(base, ["fedavg"], SPACE, [101], 4, workers=1)


@pytest.mark.tune
def test_every_strategy_gets_the_same_number_of_trials_and_seeds(base: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Changes, tuple[int, ...], Changes]] = []
    monkeypatch.setattr(searching, "run_trials", fake_trials(asked))
    placed = search(base, ["fedavg", "two words"], SPACE, [101, 102], 18, workers=1)
    assert [sum(label == each for label, *_ in asked) for each in placed] == [18, 18]
    assert {seeds for _, _, seeds, _ in asked} == {(101, 102)}
    assert all(common == {"run.stop_at_target": True} for *_, common in asked)
    assert asked[0][1]["training.lr"] == base.training.lr  # the configuration's own setting comes first
    for places in placed.values():
        orders = [place.order for place in places]
        assert orders == sorted(orders)
        assert {place.horizon_s for place in places} == {12.0}
        assert all(0.001 <= place.trial.changes["training.lr"] <= 0.3 for place in places)
        assert {type(place.trial.changes["strategy.clients_per_round"]) for place in places} == {int}
        # Of 18 rates spread evenly over 5.7 units of log, the best would be 0.16 from 0.05 on average.
        assert abs(math.log(places[0].trial.changes["training.lr"] / 0.05)) < 0.5
    again = search(base, ["fedavg", "two words"], SPACE, [101, 102], 18, workers=4)
    assert again == placed


@pytest.mark.tune
def test_a_setting_that_is_chosen_again_runs_once(base: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Changes, tuple[int, ...], Changes]] = []
    monkeypatch.setattr(searching, "run_trials", fake_trials(asked))
    space = parse_space(["training.lr=0.1,0.05", "compare.hybrid.training.lr=0.2,0.4"])
    placed = search(base, ["fedavg", "hybrid"], space, [101], 12, workers=1)
    assert {label: len(places) for label, places in placed.items()} == {"fedavg": 2, "hybrid": 2}
    assert len(asked) == 4
    assert placed["fedavg"][0].trial.changes == {"training.lr": 0.05}
    assert placed["hybrid"][0].trial.changes == {"training.lr": 0.2}
    assert at_ends(SPACE, "fedavg", {"training.lr": 0.3, "strategy.clients_per_round": 2}) == ["training.lr"]
    assert not at_ends(space, "fedavg", {"training.lr": 0.1})


@pytest.mark.tune
def test_real_runs_are_tuned_and_pasted() -> None:
    experiment = Experiment.from_tables({**TABLES, "compare": {}})
    tuning = experiment.search({"training.lr": "0.01:1.0:log", "training.batch_size": [5, 10]}, trials=5, seeds=[101])
    assert list(tuning.table().columns) == [
        "strategy",
        "lr",
        "batch_size",
        "tried_s",
        "time_to_target_s",
        "best_accuracy",
        "diverged",
    ]
    pasted = tomllib.loads(tuning.toml())["compare"]["fedavg"]["training"]
    assert {f"training.{key}": value for key, value in pasted.items()} == tuning.best["fedavg"]
    assert tuning.experiment.config.variants["fedavg"]
    table = search_table("fedavg", tuning.placed["fedavg"], [101])
    assert [str(column.header) for column in table.columns] == ["trial", "lr", "batch_size", "seed\u00a0101", "best"]

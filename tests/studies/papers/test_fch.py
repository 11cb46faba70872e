"""FCH-FL's entries: what made-up runs show, contradict, or leave open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.runs.config import Config
from fedtempo.studies.papers import fch, fch_panels
from fedtempo.studies.papers.directions import TAILS, loss_rows
from fedtempo.studies.papers.fch_panels import budget_of, grid_of
from fedtempo.studies.papers.fch_selection import alike_row, dilemma_rows, fewer_row, rise_row, skewed_by_class
from fedtempo.studies.papers.reproduction import SCALES, Request, Scale
from fedtempo.studies.papers.verdicts import Verdict, overall_verdict
from fedtempo.studies.tuning.study import Study
from fedtempo.studies.tuning.trials import Grid, Trial, grid_points
from tests.studies.papers.ending_runs import ending_study, racing_study

R, D, S, N = Verdict.REACHED, Verdict.DIRECTION, Verdict.NOT_SHOWN, Verdict.NOT_REACHED
FEDAVG = [70.0, 72.0, 71.0, 69.0, 70.5]
NULL = [-0.55, 1.47, 0.2, 0.5, -0.07]
"""Gains of 0.31 points in the mean that differ more than that between seeds."""


def study_of_gains(ours: str, gains: list[float], **others: list[float]) -> Study:
    ends = {label: [f + gain for f, gain in zip(FEDAVG, values, strict=True)] for label, values in others.items()}
    return ending_study({"fedavg": FEDAVG, ours: [f + gain for f, gain in zip(FEDAVG, gains, strict=True)]} | ends)


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([2.7, 2.9, 2.5, 2.6, 2.8], R),
        ([1.0, 1.2, 0.9, 1.1, 0.8], D),
        (NULL, S),
        ([0.0] * 5, S),
        ([-1.0, -1.2, -0.9, -1.1, -0.8], N),
    ],
)
def test_figure_3_is_no_better_than_the_gain_over_fedavg(gains: list[float], verdict: Verdict) -> None:
    oort = [gain + 1.0 + 0.01 * seed for seed, gain in enumerate(gains)]
    rows = fch.gain_rows("fig3", {"cifar10": study_of_gains("fch", gains, oort=oort)}, "fch")
    assert [row.headline for row in rows] == [True, False]
    assert rows[0].verdict is verdict
    assert rows[1].verdict is R  # the paper has Oort above by a point
    assert overall_verdict(rows) is verdict


def test_each_panel_has_its_headline_and_the_worst_counts() -> None:
    good, null = ([14.0, 15.0, 14.5, 14.2, 14.8], NULL)
    panels = {
        "fashion-mnist": study_of_gains("fch-selection", good, oort=[11.0] * 5),
        "fashion-mnist, convolutions": study_of_gains("fch-selection", null, oort=[-3.0] * 5),
    }
    rows = fch.gain_rows("fig5", panels, "fch-selection")
    assert [row.verdict for row in rows if row.headline] == [R, S]
    assert overall_verdict(rows) is S


def test_other_readings_are_shown_with_their_interval_and_not_judged() -> None:
    study = study_of_gains("fch-c010", [1.0, 1.2, 0.9, 1.1, 0.8])
    (row,) = fch.reading_rows({"digits": study}, [("fch-c010", "fedavg")])
    assert (row.paper, row.verdict) == ("-", None)
    assert row.measured == "+1.00 (0.80 to 1.20)"


def test_table_1_does_not_count_a_null_difference_as_the_papers() -> None:
    study = study_of_gains("fch-loss", NULL, fedprox=[0.0, 0.1, -0.1, 0.05, -0.03], oort=[4.4, 4.6, 4.5, 4.3, 4.7])
    rows = fch.accuracy_rows("fashion-mnist", "long tail", study, "fch-loss")
    judged = [(row.verdict, row.headline) for row in rows if row.verdict is not None]
    assert judged == [(S, False), (R, False), (S, True)]
    assert overall_verdict(rows) is S


def test_table_1_judges_accuracies_on_the_papers_data() -> None:
    study = study_of_gains("fch", [2.7] * 4 + [2.8], fedprox=[1.9] * 5, oort=[3.7] * 5)
    rows = fch.accuracy_rows("cifar10", "IID", study, "fch")
    assert [row.verdict for row in rows if row.quantity == "cifar10, IID, fedavg"] == [N]  # 70.5 % for 74.13 %
    assert sum(row.verdict is not None for row in rows) == 7


@pytest.mark.parametrize(
    ("ours", "oort", "verdict"),
    [
        ([600.0, 620.0, 610.0, 590.0, 605.0], [900.0, 910.0, 890.0, 880.0, 905.0], R),
        ([243.0, 250.0, 236.0, 260.0, 229.0], [241.0, 240.0, 246.0, 238.0, 250.0], S),
        ([900.0, 910.0, 890.0, 880.0, 905.0], [600.0, 620.0, 610.0, 590.0, 605.0], N),
        ([math.inf] * 5, [math.inf] * 5, S),
        ([math.inf] * 5, [500.0, 520.0, 510.0, 490.0, 505.0], N),
    ],
)
def test_races_are_decided_by_the_ratio_of_times_seed_by_seed(
    ours: list[float], oort: list[float], verdict: Verdict
) -> None:
    study = racing_study({"fch": ours, "oort": oort})
    assert fch.race(study, "fch", "oort", 0.9).effect.verdict is verdict


def test_a_run_that_ends_early_is_not_said_to_be_first() -> None:
    early = racing_study({"fch": [math.inf] * 2}, end_s=300.0)
    late = racing_study({"oort": [500.0, 200.0]})
    race = fch.race(Study({}, {**early.runs, **late.runs}), "fch", "oort", 0.9)
    assert race.ratios == [1.0, 1.5]
    assert not race.whole


def test_figure_6_needs_fch_first_at_the_end() -> None:
    times = {"oort": [241.0, 240.0, 246.0, 238.0, 250.0], "fch": [243.0, 250.0, 236.0, 260.0, 229.0]}
    rows = fch.race_rows("digits", racing_study(times))
    assert [(row.paper, row.verdict, row.headline) for row in rows] == [
        ("oort first", S, False),
        ("fch first", S, True),
    ]
    assert overall_verdict(rows) is S


def test_readings_of_the_selection_have_no_verdict_on_times() -> None:
    study = racing_study({"oort": [1000.0] * 5, "fch-one-stage": [690.0] * 5}, end_s=2000.0)
    rows = [of("digits", study, "fch-one-stage", judged=False) for of in (fch.race_rows, fch.time_rows)]
    assert {(row.verdict, row.headline) for several in rows for row in several} == {(None, False)}


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([690.0, 700.0, 680.0, 695.0, 685.0], [N, R, R]),  # 1.15, 0.73 and 0.69 in the paper
        ([500.0, 510.0, 490.0, 505.0, 495.0], [N, D, D]),
        ([1150.0, 1160.0, 1140.0, 1155.0, 1145.0], [R, N, N]),
        ([900.0, 1200.0, 700.0, 1100.0, 1050.0], [S, S, S]),
    ],
)
def test_table_2_is_judged_by_ratios_of_times(ours: list[float], verdict: list[Verdict]) -> None:
    study = racing_study({"oort": [1000.0] * 5, "fch": ours}, end_s=2000.0)
    rows = fch.time_rows("digits", study)
    assert [row.verdict for row in rows] == verdict
    assert [row.headline for row in rows] == [False, False, True]


def test_a_bound_on_a_ratio_is_no_printed_number() -> None:
    study = racing_study({"oort": [math.inf] * 5, "fch": [690.0, 700.0, 680.0, 695.0, 685.0]})
    assert [row.verdict for row in fch.time_rows("digits", study)] == [N, D, D]


def test_figure_1_compares_the_ends_of_a_range() -> None:
    low, high = [0.70, 0.71, 0.69], [0.80, 0.82, 0.81]
    assert rise_row("q", "rises", {"0.1": low, "1": [0.5] * 3, "10": high}).verdict is R
    assert rise_row("q", "rises", {"0.1": high, "10": low}).verdict is N
    assert rise_row("q", "rises", {"0.1": low, "10": [0.69, 0.72, 0.70]}).verdict is S


def test_alike_needs_an_interval_within_the_margin() -> None:
    assert alike_row("q", "", [0.5, -0.4, 0.8, 0.1, -0.2]).verdict is R
    assert alike_row("q", "", [9.0, -8.0, 7.0, 1.0, -2.0]).verdict is S
    assert alike_row("q", "", [5.0, 5.2, 4.9, 5.1, 5.3]).verdict is N


def test_fewer_is_judged_against_a_share() -> None:
    assert fewer_row("q", "", [0.5, 0.6, 0.55], [1.0, 1.1, 1.05], 0.9).verdict is R
    assert fewer_row("q", "", [0.95, 0.85, 0.9], [1.0] * 3, 0.9).verdict is S
    assert fewer_row("q", "", [1.0, 1.01, 0.99], [1.0] * 3, 0.9).verdict is N


@pytest.mark.parametrize(("of_slow", "verdict"), [(0.1, R), (1.0, N)])
def test_the_dilemma_is_that_slow_clients_with_good_data_are_not_picked(of_slow: float, verdict: Verdict) -> None:
    seconds = [np.arange(9.0)] * 3
    evenness = [np.array([0.1, 0.9, 0.2, 0.8, 0.3, 0.4, 0.5, 0.7, 0.6])] * 3  # client 7 is slow and good
    slow = np.arange(9) >= 6
    picks = {
        "fedavg": [np.full(9, 10.0)] * 3,
        "oort": [np.where(slow, 10.0 * of_slow, 10.0) + 0.01 * seed for seed in range(3)],
        "fch": [np.full(9, 10.0)] * 3,
    }
    rows = dilemma_rows(seconds, evenness, picks)
    assert [row.headline for row in rows] == [False, True, False]
    assert [row.verdict for row in rows] == [verdict] * 3


def test_without_slow_clients_that_have_good_data_there_is_no_headline_of_figure_1() -> None:
    seconds, evenness = [np.arange(9.0)] * 3, [np.arange(9.0)[::-1]] * 3
    rows = dilemma_rows(seconds, evenness, {label: [np.full(9, 10.0)] * 3 for label in ("fedavg", "oort", "fch")})
    assert rows[-1].verdict is None


@pytest.mark.parametrize("scale", SCALES)
def test_readings_differ_from_the_papers_in_what_their_names_say(scale: str, tmp_path: Path) -> None:
    request = Request(scale, tmp_path)  # type: ignore[arg-type]
    config = request.settings("fch")
    for ours in ("fch", "fch-selection"):
        for suffix, width in (("", 1.0), ("-c010", 0.1), ("-c003", 0.03), ("-c000", 0.0)):
            assert config.for_comparison(f"{ours}{suffix}").strategy.exploration == width  # type: ignore[attr-defined]
    both, twice = config.for_comparison("fch").strategy, config.for_comparison("fedavg-twice").strategy
    assert twice.clients_per_round == both.clients_per_round * both.screened  # type: ignore[attr-defined]
    assert config.for_comparison("fch-loss-own-prior").training.loss == "batch-adjusted"
    assert config.for_comparison("fch-loss").training.loss == "logit-adjusted"


def test_panels_whose_runs_take_longer_have_fewer_seeds(tmp_path: Path) -> None:
    request = Request("medium", tmp_path)
    assert len(budget_of(request, "fashion-mnist").seeds) == 10
    for panel in ("fashion-mnist, convolutions", "fashion-mnist, by class"):
        assert len(budget_of(request, panel).seeds) == 5


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("of", ["study", "dear"])
def test_other_methods_are_tried_with_at_least_as_many_settings_as_fch_fl(
    scale: Scale, of: str, tmp_path: Path
) -> None:
    request = Request(scale, tmp_path)
    budget = request.budget("fch", of)
    tried = {label: grid_of(request, label, budget) for label in request.settings("fch").variants}
    sizes = {label: len(grid_points(grid)) for label, grid in tried.items()}
    assert sizes.pop("fedprox") == 1.5 * sizes["fch"]
    assert set(sizes.values()) == {len(budget.lr)}
    assert tried["fedprox"]["strategy.mu"] == [0.01, 0.1, 1.0]
    assert tried["oort"]["strategy.over_commitment"] == [1.0, 1.3]
    for own in ("fedprox", "oort"):  # the same range of rates, more coarsely
        assert set(tried[own]["training.lr"]) < set(budget.lr)


def test_each_competitor_runs_with_the_best_of_its_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: dict[str, dict[str, object]] = {}

    def best_is_last(base: Config, labels: Sequence[str], grid: Grid, seeds: Sequence[int]) -> dict[str, list[Trial]]:
        points = grid_points(grid)[::-1]
        return {label: [Trial(label, point, (None,), (0.5,)) for point in points] for label in labels}

    def run_settings(
        base: Config, settings: dict[str, dict[str, object]], seeds: Sequence[int]
    ) -> dict[str, list[Any]]:
        ran.update(settings)
        return {label: [] for label in settings}

    monkeypatch.setattr(fch_panels, "tune", best_is_last)
    monkeypatch.setattr(fch_panels, "run_settings", run_settings)
    monkeypatch.setattr(fch_panels, "save_panels", lambda *_: None)
    request = Request("medium", tmp_path)
    bases = {"fashion-mnist": request.settings("fch")}
    study = fch_panels.fch_panels(request, "fig3", bases, ("oort", "fedavg", "fedprox", "fch"))["fashion-mnist"]
    assert ran == {
        "oort": {"training.lr": 0.3, "strategy.over_commitment": 1.3},
        "fedavg": {"training.lr": 0.6},
        "fedprox": {"training.lr": 0.3, "strategy.mu": 1.0},
        "fch": {"training.lr": 0.6},
    }
    assert fch_panels.tuned_words(study, "oort", "fch") == "oort lr 0.3, over_commitment 1.3; fch lr 0.6"
    assert list(study.trials) == ["oort", "fedavg", "fedprox", "fch"]


def test_own_priors_are_tried_with_ten_times_the_images(tmp_path: Path) -> None:
    request = Request("medium", tmp_path, "fashion-mnist")
    many = fch._many_images(request, fch._bases(request, fch._SKEWED, convolutions=True))
    ((name, config),) = many.items()
    assert config.data.examples_per_client == 1000
    assert config.tables["data"]["partition"]["by"] == "client"
    assert config.run.max_commits == 40
    assert len(budget_of(request, name).seeds) == 5
    assert config.for_comparison("fch-loss-own-prior").training.loss == "batch-adjusted"
    assert not fch._many_images(Request("full", tmp_path), fch._bases(Request("full", tmp_path), fch._SKEWED))


def test_figure_5_has_own_priors_in_all_three_settings_without_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def panels(request: Request, stem: str, bases: dict[str, Config], labels: Sequence[str]) -> dict[str, Study]:
        return {name: ending_study(dict.fromkeys(labels, FEDAVG)) for name in bases}

    monkeypatch.setattr(fch, "fch_panels", panels)
    monkeypatch.setattr(fch, "draw_curves", lambda *_, **__: None)
    rows = fch.figure_5(Request("medium", tmp_path, "fashion-mnist"))
    own = {row.quantity.partition(": ")[0]: row.verdict for row in rows if "fch-loss-own-prior over" in row.quantity}
    panel = "fashion-mnist"
    assert own == dict.fromkeys((panel, f"{panel}, by class", f"{panel}, 1,000 images"))


def test_labels_skewed_by_class_take_all_examples(tmp_path: Path) -> None:
    request = Request("medium", tmp_path)
    base = request.settings("fch").with_changes({"data.partition": {"kind": "dirichlet", "alpha": 0.2, "by": "client"}})
    skewed = skewed_by_class(request, base, 0.2)
    assert base.data.examples_per_client == 100
    assert skewed.data.examples_per_client is None
    assert skewed.tables["data"]["partition"]["by"] == "class"
    assert (base.run.max_commits, skewed.run.max_commits) == (100, 40)
    assert set(skewed.variants) == set(base.variants)


def test_emnists_competitors_have_a_tenth_of_its_clients_or_twice_that(tmp_path: Path) -> None:
    bases = fch._bases(Request("full", tmp_path), {"kind": "iid"}, 360)
    config = bases["emnist"]
    numbers = {label: config.for_comparison(label).strategy.clients_per_round for label in config.variants}  # type: ignore[attr-defined]
    assert numbers.pop("fedavg-twice") == 72
    assert set(numbers.values()) == {36}


def test_the_direction_of_the_loss_is_judged_in_the_papers_setting_first() -> None:
    pairs = [("adjusted", "plain")]
    study = ending_study({"plain": FEDAVG, "adjusted": [f + g for f, g in zip(FEDAVG, NULL)], "own-prior": FEDAVG})
    rows = [row for name in TAILS for row in loss_rows(name, study, pairs)]
    judged = [(row.verdict, row.headline) for row in rows if row.verdict is not None]
    assert judged == [(S, True), (S, False), (S, False)]
    assert overall_verdict(rows) is S
    higher = ending_study({**dict.fromkeys(("plain", "own-prior"), FEDAVG), "adjusted": [75.0] * 5})
    rows = [row for name in TAILS for row in loss_rows(name, higher, pairs)]
    assert overall_verdict(rows) is R

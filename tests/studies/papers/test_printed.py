"""What entries make of measured runs: the share of rounds that clusters save, who is first, at which rates."""

from __future__ import annotations

import math
from pathlib import Path

from fedtempo.studies.papers.csgd import saved_rounds
from fedtempo.studies.papers.panels import learning_rates
from fedtempo.studies.papers.psfl_structure import everyone
from fedtempo.studies.papers.reproduction import Request, Verdict
from fedtempo.studies.tuning.study import Study
from fedtempo.studies.tuning.trials import Trial


def test_the_share_of_rounds_saved_by_clusters_is_compared_with_the_papers() -> None:
    row = saved_rounds("q", (186, 273), (31, 46))
    assert (row.paper, row.measured, row.ratio) == ("186 (32% saved)", "31 (33% saved)", "1.02")
    assert row.verdict is Verdict.REACHED
    assert saved_rounds("q", (178, 189), (25, 26)).verdict is Verdict.REACHED  # 6 % and 4 %: within five points
    assert saved_rounds("q", (131, 273), (40, 46)).verdict is Verdict.DIRECTION
    assert saved_rounds("q", (109, 152), (24, 24)).verdict is Verdict.NOT_REACHED


def test_clusters_that_reach_a_target_that_one_misses_agree_with_the_paper() -> None:
    assert saved_rounds("q", (131, 273), (40, math.inf)).verdict is Verdict.DIRECTION
    assert saved_rounds("q", (131, 273), (math.inf, 46)).verdict is Verdict.NOT_REACHED
    assert saved_rounds("q", (131, 273), (math.inf, math.inf)).verdict is Verdict.NOT_REACHED


def test_tuned_learning_rates_are_reported() -> None:
    trials = {label: [Trial(label, {"training.lr": lr}, (None,), (0.5,))] for label, lr in (("a", 0.1), ("b", 1.0))}
    assert learning_rates(Study(trials, {"a": [], "b": []})) == "lr a 0.1, b 1"
    assert learning_rates(Study({}, {"a": [], "b": []})) == ""


def test_both_structures_of_psfl_train_as_many_clients_per_round_as_the_others() -> None:
    config = everyone(Request("small", Path()).settings("psfl"), 50)
    strategies = {label: config.for_comparison(label).tables["strategy"] for label in ("psfl", "psfl-short", "fedavg")}
    assert strategies["psfl"]["clients_per_round"] == strategies["fedavg"]["clients_per_round"] == 50
    assert (strategies["psfl-short"]["width"], strategies["psfl-short"]["length"]) == (25, 2)
    nine = everyone(config, 9, width=3, length=3).for_comparison("psfl").tables["strategy"]
    assert (nine["width"], nine["length"], nine.get("constants")) == (3, 3, None)

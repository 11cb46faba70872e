"""Hybrid-FL's entries: what made-up runs show, contradict, or leave open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedtempo.studies.papers import hybrid_fl
from fedtempo.studies.papers.directions import uploads_rows
from fedtempo.studies.papers.reproduction import SCALES, Request
from fedtempo.studies.papers.verdicts import Verdict, overall_verdict
from fedtempo.studies.tuning.study import Study
from tests.studies.papers.ending_runs import ending_study

R, D, S, N = Verdict.REACHED, Verdict.DIRECTION, Verdict.NOT_SHOWN, Verdict.NOT_REACHED
FEDCS = [50.0, 52.0, 48.0, 51.0, 49.0, 50.5, 49.5, 53.0, 47.0, 50.0]
SPREAD = [1.1, -0.9, 0.6, -0.4, 0.8, -1.2, 0.3, -0.2, 0.5, -0.6]
"""Differences between seeds that average to 0."""
HYBRID = ("throughput-mincv", "iid-mincv", "throughput-clients", "iid-clients", "iid-mincv-all")


def study(*, balance: float = 0.0, rise: float = 0.0, centralized: float = -5.0, **gains: float) -> Study:
    """Runs of all strategies. gains over FedCS in points; balance: what minCV adds; rise: what all runs add."""
    ends = {"fedcs": FEDCS}
    for number, label in enumerate(HYBRID):
        gain = gains.get(label.replace("-", "_"), gains.get("gain", 12.5)) + balance * ("mincv" in label)
        ends[label] = [a + gain + (-1) ** number * b for a, b in zip(FEDCS, SPREAD, strict=True)]
    ends["centralized"] = [value + centralized for value in FEDCS]
    return ending_study({label: [value + rise for value in values] for label, values in ends.items()})


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [(12.5, R), (19.0, D), (0.1, S), (-6.0, N)],
)
def test_figure_3_is_no_better_than_the_gain_at_two_classes(gain: float, verdict: Verdict) -> None:
    studies = {1.0: study(rise=-20.0), 2.0: study(gain=gain, balance=0.0), 5.0: study(rise=20.0)}
    rows = hybrid_fl.classes_rows("fashion-mnist", studies)
    assert [row.verdict for row in rows if row.headline] == [verdict]
    by_quantity = {row.quantity: row.verdict for row in rows}
    assert by_quantity["FedCS at mu = 5 over mu = 1"] is R
    assert by_quantity["mu = 2: minCV above maxClient, means of two variants"] is S
    assert by_quantity["iid/minCV over FedCS at mu = 2, any client may upload, points"] is None
    overall = overall_verdict(rows)
    assert overall is (D if verdict is R else verdict)  # a row is not shown


def test_centralized_training_must_be_below_each_other_where_the_paper_says_so() -> None:
    studies = {1.0: study(), 2.0: study(centralized=-5.0), 5.0: study()}
    rows = hybrid_fl.classes_rows("cifar10", studies)
    lowest = [row.verdict for row in rows if row.paper == "centralized the lowest"]
    assert lowest == [R] * 5
    rows = hybrid_fl.classes_rows("cifar10", {**studies, 2.0: study(centralized=5.0)})
    assert [row.verdict for row in rows if row.paper == "centralized the lowest"] == [N, R, R, R, R]


@pytest.mark.parametrize(("balance", "verdict"), [(3.0, R), (0.0, S), (-3.0, N)])
def test_balance_pays_only_if_the_seeds_agree(balance: float, verdict: Verdict) -> None:
    assert hybrid_fl.balanced_row("mu = 2", study(balance=balance)).verdict is verdict


@pytest.mark.parametrize(
    ("centralized", "gain", "verdict"), [(-5.0, 4.0, R), (4.0, 4.0, S), (-5.0, 0.0, S), (9.0, 4.0, N)]
)
def test_figure_4_needs_hybrid_fl_above_both_with_the_fewest_uploaders(
    centralized: float, gain: float, verdict: Verdict
) -> None:
    studies = {0.01: study(centralized=centralized, gain=gain), 0.1: study(rise=15.0, gain=gain)}
    rows = hybrid_fl.uploaders_rows(studies)
    assert sum(row.headline and row.verdict is not None for row in rows) == 2
    assert all(row.verdict is None for row in rows if "iid-mincv-all" in row.quantity + row.paper)
    assert overall_verdict(rows) is verdict


@pytest.mark.parametrize(("fall", "verdicts"), [(3.0, [R, R]), (0.0, [S, R]), (-3.0, [N, R]), (45.0, [R, N])])
def test_fluctuation_costs_accuracy_but_not_most_of_it(fall: float, verdicts: list[Verdict]) -> None:
    calm = study()
    other = ending_study({"fedcs": FEDCS} | {label: _shifted(calm, label, -fall) for label in HYBRID})
    rows = hybrid_fl.fluctuation_rows({0.0: calm, 0.8: other})
    assert [row.verdict for row in rows if row.headline] == verdicts


def _shifted(of: Study, label: str, by: float) -> Sequence[float]:
    ends = [100 * run.summary["final_accuracy"] for run in of.runs[label]]
    return [end + by + 0.1 * offset for end, offset in zip(ends, SPREAD, strict=True)]


def test_table_1_leaves_equal_means_open() -> None:
    sigmas = (0.0, 0.7, math.inf)
    rows = hybrid_fl.variety_rows("fashion-mnist", {sigma: study(gain=13.0) for sigma in sigmas}, absolute=False)
    assert [row.verdict for row in rows if "minCV above maxClient" in row.quantity] == [S, S, S]
    assert [row.verdict for row in rows if row.headline] == [D, D, D]  # 4.8, 5.3 and 1.5 points in the paper
    assert overall_verdict(rows) is D
    rows = hybrid_fl.variety_rows("fashion-mnist", {sigma: study(gain=0.0) for sigma in sigmas}, absolute=False)
    assert overall_verdict(rows) is S


def test_table_1_judges_accuracies_where_the_setting_is_the_papers() -> None:
    rows = hybrid_fl.variety_rows("fashion-mnist", {0.0: study(rise=35.0, gain=4.0)}, absolute=True)
    absolute = [row.verdict for row in rows if row.quantity.count("over") == 0 and "minCV" not in row.quantity]
    assert absolute == [R] * 5


@pytest.mark.parametrize("scale", SCALES)
def test_candidates_upload_except_in_the_variant_that_says_so(scale: str, tmp_path: Path) -> None:
    for paper, named in (("hybrid-fl", "iid-mincv-all"), ("hybrid-fl-direction", "hybrid-fl-all")):
        request = Request(scale, tmp_path)  # type: ignore[arg-type]
        config = request.settings(paper)
        strategies = {label: config.for_comparison(label).strategy for label in config.variants}
        uploaders = {label: of.uploaders for label, of in strategies.items() if hasattr(of, "uploaders")}
        assert uploaders.pop(named) == "all"
        assert set(uploaders.values()) == {"candidates"}
        ours, other = strategies[named], strategies[named.removesuffix("-all")]
        assert ours.deadline_s == other.deadline_s  # type: ignore[attr-defined]
        assert strategies["centralized"].window == "first-model"  # type: ignore[attr-defined]
        if scale != "small":
            assert len(request.budget(paper).seeds) >= 10


@pytest.mark.parametrize(("gain", "verdict"), [(12.0, R), (0.0, S), (-4.0, N)])
def test_the_direction_of_uploads_is_the_gain_over_fedcs_with_the_fewest(gain: float, verdict: Verdict) -> None:
    few = {"hybrid-fl": [a + gain + b for a, b in zip(FEDCS, SPREAD)], "hybrid-fl-all": [70.0] * 10}
    rows = [
        *uploads_rows("2 upload", ending_study({"fedcs": FEDCS, "centralized": FEDCS, **few}), headline=True),
        *uploads_rows(
            "20 upload",
            ending_study({"fedcs": FEDCS, "centralized": FEDCS, **few, "hybrid-fl": [80.0] * 10}),
            headline=False,
        ),
    ]
    assert [row.verdict for row in rows if row.verdict is not None] == [verdict, R]
    assert overall_verdict(rows) is verdict

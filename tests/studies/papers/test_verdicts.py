"""Verdicts: what intervals over seeds show, contradict, or leave open."""

from __future__ import annotations

import math

import pytest

from fedtempo.studies.papers.verdicts import (
    Effect,
    Row,
    Verdict,
    consistent,
    holds,
    number,
    overall_verdict,
    shown,
)

CLEAR, NULL = [1.0, 1.2, 0.9, 1.1, 0.8], [0.31, -0.55, 1.47, 0.2, -0.4]


def test_the_interval_is_student_s() -> None:
    """Mean 3, standard deviation sqrt(2.5), t(0.975, 4) = 2.776445: 3 +- 2.776445 * sqrt(2.5 / 5) = 3 +- 1.963243."""
    effect = Effect.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert effect.mean == 3.0
    assert effect.low == pytest.approx(3 - 1.963243, abs=1e-6)
    assert effect.high == pytest.approx(3 + 1.963243, abs=1e-6)
    assert -effect == Effect(-effect.mean, -effect.high, -effect.low)


def test_an_interval_that_includes_no_effect_shows_nothing() -> None:
    assert Effect.of(CLEAR).verdict is Verdict.REACHED
    assert Effect.of(NULL).verdict is Verdict.NOT_SHOWN
    assert Effect.of([-value for value in CLEAR]).verdict is Verdict.NOT_REACHED


def test_one_seed_shows_nothing() -> None:
    assert Effect.of([5.0]).verdict is Verdict.NOT_SHOWN


def test_ties_show_nothing_and_a_tick_is_no_difference() -> None:
    assert Effect.of([0.0] * 5).verdict is Verdict.NOT_SHOWN
    assert Effect.of([25.0] * 5, resolution=25.0).verdict is Verdict.NOT_SHOWN
    assert Effect.of([75.0] * 5, resolution=25.0).verdict is Verdict.REACHED


def test_times_are_compared_by_their_ratio_and_missed_targets_count_as_the_horizon() -> None:
    effect = Effect.of_times([10.0, 20.0], [20.0, 40.0], 100.0)
    assert effect.mean == pytest.approx(math.log(2))
    assert effect.ratio_words == "0.50 (0.50 to 0.50)"
    assert Effect.of_times([None, None], [None, None], 100.0).verdict is Verdict.NOT_SHOWN
    assert Effect.of_times([50.0, None], [None, None], 100.0).mean == pytest.approx(math.log(2) / 2)
    assert Effect.of_times([875.0] * 5, [900.0] * 5, 1000.0, resolution=25.0).verdict is Verdict.NOT_SHOWN


@pytest.mark.parametrize(
    ("measured", "effect", "verdict"),
    [
        ([2.0, 2.2, 2.1], Effect(2.1, 1.9, 2.3), Verdict.REACHED),
        ([2.0, 2.2, 2.1], Effect(2.1, -0.1, 4.3), Verdict.NOT_SHOWN),
        ([9.0, 9.2, 9.1], Effect(9.1, 8.0, 10.0), Verdict.DIRECTION),
        ([-1.0, -1.1], Effect(-1.05, -1.7, -0.4), Verdict.NOT_REACHED),
        ([2.0], None, Verdict.REACHED),
        ([3.0], None, Verdict.NOT_REACHED),
    ],
)
def test_a_printed_number(measured: list[float], effect: Effect | None, verdict: Verdict) -> None:
    assert number("gain", 2.0, measured, within=0.25, effect=effect).verdict is verdict


def test_a_number_that_constants_were_fitted_to_is_not_judged() -> None:
    row = consistent("S by Eq. 21", 3.48, 3.481, within=0.005, digits=2)
    assert (row.verdict, row.remark) == (None, "consistent")
    assert consistent("S", 3.48, 4.0, within=0.005).remark == "not consistent"


def rows(*verdicts: Verdict | None, headline: Verdict = Verdict.REACHED) -> list[Row]:
    others = [Row("quantity", "1", "1", verdict=verdict) for verdict in verdicts]
    return [Row("main statement", "1", "1", verdict=headline).as_headline(), *others]


R, D, S, N = Verdict.REACHED, Verdict.DIRECTION, Verdict.NOT_SHOWN, Verdict.NOT_REACHED


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (rows(R, None), R),
        (rows(R, D), D),
        (rows(N, R, R, headline=N), N),  # easy rows do not outvote the headline
        (rows(R, R, R, headline=S), S),
        (rows(S, S), S),
        (rows(N, N, S), N),
        (rows(D, D, headline=D), D),
    ],
)
def test_an_entry_is_never_better_than_its_headline(given: list[Row], verdict: Verdict) -> None:
    assert overall_verdict(given) is verdict


def test_an_entry_without_statements_has_no_verdict_and_a_judged_one_needs_a_headline() -> None:
    assert overall_verdict([Row("busy", "-", "60 %")]) is None
    with pytest.raises(ValueError, match="no judged row is the headline"):
        overall_verdict([holds("hull", "(1, 10)", "(1, 10)", True)])


def test_a_statement_about_our_own_variant_is_not_judged() -> None:
    assert shown("time", "first", "10 s", Effect.of(CLEAR)).unjudged().verdict is None

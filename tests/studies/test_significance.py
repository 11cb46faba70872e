"""What the seeds of a comparison show: intervals, relations, the spread's advice, and their words."""

from __future__ import annotations

import math
from typing import Any

import pytest
import scipy

from fedtempo.report import words
from fedtempo.report.columns import comparison_columns
from fedtempo.studies.significance import compared, resolution_of

E = math.e


def runs(
    times: list[float | None] | None, scores: list[float | None] | None = None, **other: Any
) -> list[dict[str, Any]]:
    """Return one summary per seed: times to the target, or final accuracies of runs without a target."""
    values = times if times is not None else scores
    assert values is not None
    return [
        {
            "strategy": "s",
            "seed": seed,
            "horizon_s": 100.0,
            "elapsed_s": 100.0,
            "ended": "horizon",
            "final_accuracy": 0.8 if scores is None else scores[seed - 1],
            "target_accuracy": None if times is None else 0.8,
            "time_to_target_s": None if times is None else times[seed - 1],
            "first_time_at_target_s": None if times is None else times[seed - 1],
            "busy_ratio": {"mean": 0.5, "min": 0.1, "max": 0.9},
            "active_groups": {"mean": 1.0, "max": 2},
            "staleness": {"mean": 0.0, "max": 0},
            "bytes": {"down": 1, "up": 1, "relay": 0},
            "commits": 1,
            "visits": 1,
            "data": {"source": "digits"},
            **other,
        }
        for seed in range(1, len(values) + 1)
    ]


def test_intervals_of_ratios_by_hand() -> None:
    # Logarithms of the ratios to "a" are 1, 2 and 3: mean 2, deviation 1; t(0.975, 2) = 4.3027.
    shown = compared({"a": runs([1.0, 1.0, 1.0]), "b": runs([E, E**2, E**3])})["statistics"]
    reach = 4.302653 / math.sqrt(3)
    ratio = shown["strategies"]["b"]["to_first"]
    assert ratio["mean"] == pytest.approx(E**2)
    assert (ratio["low"], ratio["high"]) == pytest.approx((math.exp(2 - reach), math.exp(2 + reach)), rel=1e-5)
    assert (shown["first"], shown["seeds"], shown["comparisons"], ratio["bound"]) == ("a", [1, 2, 3], 1, "")
    # One-sided at 5 %: t(0.95, 2) = 2.9200; 2 / (1 / sqrt(3)) = 3.46 is beyond it.
    assert shown["strategies"]["b"]["relation"] == "later"
    assert shown["least_shown"] == pytest.approx(math.exp(2.919986 / math.sqrt(3)), rel=1e-5)


def test_the_baseline_is_the_strategy_named_first() -> None:
    shown = compared({"slow": runs([20.0, 22.0]), "fast": runs([10.0, 11.0])})["statistics"]
    assert shown["first"] == "fast"
    assert shown["strategies"]["fast"]["to_baseline"]["mean"] == pytest.approx(0.5)
    assert shown["strategies"]["slow"]["to_first"]["mean"] == pytest.approx(2.0)
    assert (shown["strategies"]["slow"]["to_baseline"], shown["strategies"]["fast"]["to_first"]) == (None, None)


def test_holm_corrects_for_the_number_of_comparisons() -> None:
    # t = 2.5 with 4 degrees of freedom: p = 0.0334, shown alone, and not beside an equally close competitor.
    spread = [math.exp(0.1 * step) for step in (-2, -1, 0, 1, 2)]  # deviation 0.1 * sqrt(2.5)
    mean = 2.5 * 0.1 * math.sqrt(2.5 / 5)
    later = [10 * math.exp(mean) * factor for factor in spread]
    alone = compared({"a": runs([10.0] * 5), "b": runs(later)})
    assert alone["statistics"]["strategies"]["b"]["relation"] == "later"
    both = compared({"a": runs([10.0] * 5), "b": runs(later), "c": runs(later)})
    assert [both["statistics"]["strategies"][label]["relation"] for label in "abc"] == [
        "first",
        "not told apart",
        "not told apart",
    ]


def test_level_within_a_tenth() -> None:
    times = [10.0, 12.0, 9.0, 11.0, 10.0]
    close = [time * factor for time, factor in zip(times, (1.01, 1.02, 1.0, 1.01, 1.02), strict=True)]
    shown = compared({"a": runs(times), "b": runs(close)})["statistics"]
    assert shown["strategies"]["b"]["relation"] == "level"
    # With two evaluations per time to target, one evaluation more or less is beyond the margin.
    coarse = compared({"a": runs(times), "b": runs(close)}, resolution_s=5.0)["statistics"]
    assert coarse["strategies"]["b"]["relation"] == "not told apart"


def test_runs_that_miss_the_target_count_at_the_horizon() -> None:
    facts = compared({"a": runs([10.0, 10.0]), "b": runs([None, 50.0]), "c": runs([None, None])})
    shown = facts["statistics"]
    assert shown["censored_s"] == 100.0
    assert shown["strategies"]["b"]["to_first"]["mean"] == pytest.approx(math.sqrt(10 * 5))
    assert [shown["strategies"][label]["to_first"]["bound"] for label in "bc"] == [">", ">"]
    assert shown["least_shown"] is None  # no spread is known: each competitor has a run that missed
    assert words.significance(facts) == (
        "2 paired seeds, 95% intervals; later: Student's paired test, Holm-corrected for 2 comparisons. Runs that "
        "missed the target count as reaching it at 100 s."
    )
    against = {column.title: column.cells for column in comparison_columns(facts)}["time against a (95% interval)"]
    assert [cell.split(" (")[0] for cell in against] == ["", "> 7.1×", "> 10.0×"]
    reverse = compared({"b": runs([None, 50.0]), "a": runs([10.0, 10.0]), "c": runs([None, None])})
    shown = reverse["statistics"]["strategies"]
    assert (shown["a"]["to_baseline"]["bound"], shown["c"]["to_baseline"]) == ("<", None)
    against = {column.title: column.cells for column in comparison_columns(reverse)}["time against b (95% interval)"]
    assert [cell.split(" (")[0] for cell in against] == ["", "< 0.14×", "–"]


def test_without_a_horizon_misses_count_at_the_last_time_known() -> None:
    facts = compared(
        {
            "a": runs([10.0, 10.0], horizon_s=None, elapsed_s=20.0),
            "b": runs([None, None], horizon_s=None, elapsed_s=40.0),
        }
    )
    assert facts["statistics"]["censored_s"] == 40.0
    assert facts["statistics"]["strategies"]["b"]["to_first"]["mean"] == pytest.approx(4.0)


def test_one_seed_tells_nothing() -> None:
    facts = compared({"a": runs([10.0]), "b": runs([99.0])})
    assert facts["statistics"]["strategies"] == {}
    assert words.significance(facts) == (
        "One seed: no difference can be told from chance. --seeds 1-5 would give each strategy five."
    )
    columns = {column.title: column.cells for column in comparison_columns(facts)}
    assert (columns["against a"], "beside the first" in columns) == (("", "9.9× as long"), False)


def test_only_seeds_that_all_have_are_paired() -> None:
    shown = compared({"a": runs([10.0, 10.0, 10.0]), "b": runs([20.0, 20.0])})["statistics"]
    assert shown["seeds"] == [1, 2]


@pytest.mark.parametrize(
    "facts",
    [
        compared({"a": runs([10.0, 20.0])}),
        compared({"a": runs([0.0, 1.0]), "b": runs([1.0, 2.0])}),
        compared({"a": runs(None, [None, None]), "b": runs(None, [None, None])}),
        compared({"a": runs(None, [0.5, None]), "b": runs(None, [0.5, 0.6])}),
    ],
)
def test_what_has_no_statistics(facts: dict[str, Any]) -> None:
    assert facts["statistics"] is None
    assert words.significance(facts) == ""


def test_final_accuracies_without_a_target() -> None:
    facts = compared({"a": runs(None, [0.70, 0.72, 0.71]), "b": runs(None, [0.81, 0.80, 0.82])})
    shown = facts["statistics"]
    differences = [-0.11, -0.08, -0.11]
    error = scipy.stats.sem(differences)
    low, high = scipy.stats.t.interval(0.95, 2, loc=-0.1, scale=error)
    assert (shown["measure"], shown["first"]) == ("final_accuracy", "b")
    assert shown["strategies"]["a"]["relation"] == "lower"
    assert shown["strategies"]["a"]["to_first"] == pytest.approx({"mean": -0.1, "low": low, "high": high})
    assert shown["strategies"]["b"]["to_baseline"]["mean"] == pytest.approx(0.1)
    assert shown["least_shown"] == pytest.approx(scipy.stats.t.isf(0.05, 2) * error)
    assert words.significance(facts) == (
        "3 paired seeds, 95% intervals; lower: Student's paired test, Holm-corrected for one comparison. "
        "With 3 seeds a difference under 2.9 points cannot be told."
    )
    columns = {column.title: column.cells for column in comparison_columns(facts)}
    assert columns["beside the first"] == ("lower", "first")


def test_advice_on_the_number_of_seeds() -> None:
    # Deviation 0.2 of the logarithms; t(0.95, 4) = 2.1318: exp(2.1318 * 0.2 / sqrt(5)) = 1.21.
    steps = [math.exp(0.2 * math.sqrt(2 / 5) * step) for step in (-2, -1, 0, 1, 2)]
    facts = compared({"a": runs([10.0] * 5), "b": runs([20 * step for step in steps])})
    assert facts["statistics"]["least_shown"] == pytest.approx(1.2101, abs=1e-4)
    enough = facts["statistics"]["seeds_for_margin"]
    assert scipy.stats.t.isf(0.05, enough - 1) * 0.2 / math.sqrt(enough) <= math.log(1.1)
    assert scipy.stats.t.isf(0.05, enough - 2) * 0.2 / math.sqrt(enough - 1) > math.log(1.1)
    assert words.significance(facts).endswith(
        f"With 5 seeds a difference under 21% cannot be told. {enough} would show 10%."
    )


def test_table_and_headline() -> None:
    # Logarithms of the ratios: 0.6931, 0.7732, 0.6466; mean 0.7043, deviation 0.0640, reach 4.3027 * 0.0640 / sqrt(3).
    facts = compared({"a": runs([10.0, 12.0, 11.0]), "b": runs([20.0, 26.0, 21.0])})
    columns = {column.title: column.cells for column in comparison_columns(facts)}
    assert columns["time against a (95% interval)"] == ("", "2.0× (1.7–2.4)")
    assert columns["beside the first"] == ("first", "later")
    title = words.headline(facts)[0]
    assert title == "a reaches 80% accuracy after 11 s, b after 21 s (2.0× as long, 1.7 to 2.4)"
    faster = compared({"b": runs([20.0, 26.0, 21.0]), "a": runs([10.0, 12.0, 11.0])})
    columns = {column.title: column.cells for column in comparison_columns(faster)}
    assert columns["time against b (95% interval)"] == ("", "0.49× (0.42–0.58)")


def test_the_time_between_evaluations() -> None:
    by_commit = {"run": {"evaluate": "commit", "evaluate_every": 9.0}}
    assert resolution_of([{"run": {"evaluate_every": 2.0}}, {"run": {"evaluate_every": 5.0}}, by_commit]) == 5.0
    assert resolution_of([by_commit, {}, {"run": "x"}, {"run": {"evaluate_every": "x"}}]) == 0.0

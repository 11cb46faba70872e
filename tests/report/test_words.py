"""Headlines, tables and numbers in words."""

import io

import pytest
from rich.console import Console

from fedtempo.record import comparison
from fedtempo.report import words
from fedtempo.report.columns import comparison_columns
from fedtempo.report.table import comparison_table, run_table


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.123, "0.12 s"), (4.24, "4.2 s"), (4.0, "4 s"), (212.5, "212 s"), (1254.0, "1,254 s")],
)
def test_seconds_are_written_in_suitable_units(value, text):
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (5.9, "5.9× as long"),
        (1 / 5.9, "5.9× as fast"),
        (1.0, "as fast"),
        (1.02, "1.02× as long"),
        (0.01, "100× as fast"),
    ],
)
def test_ratios_are_written_in_words(value, text):
    assert words.ratio(value) == text


def test_sizes_shares_lists_and_deviations_are_written_in_words():
    assert words.size(1_700_000) == "1.7 MB"
    assert words.size(2e15) == "2,000 TB"
    assert words.size(None) == "–"
    assert words.percent(0.8) == "80%"
    assert words.percent(0.825) == "82.5%"
    assert words.short("fedhusky", 8) == "fedhusky"
    assert words.short("fedhusky", 7) == "fedhus…"
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.whole_ranges([3, 1, 2, 7]) == "1–3, 7"
    assert words.mean_and_deviation(0.862, 0.0061, as_share=True) == "86.2 ± 0.6%"
    assert words.mean_and_deviation(1234.4, 20.6) == "1,234 ± 21"
    assert words.mean_and_deviation(14.0, 0.0) == "14"
    assert words.mean_and_deviation(6.4, 0.01) == "6.4"
    assert words.mean_and_deviation(None, None) == "–"


def summaries(times, accuracy=0.5, target=0.8, busy=0.5):
    return [
        {
            "strategy": "s",
            "seed": seed,
            "horizon_s": 100.0,
            "final_accuracy": accuracy,
            "target_accuracy": target,
            "time_to_target_s": time,
            "first_time_at_target_s": time,
            "busy_ratio": {"mean": busy, "min": busy / 2, "max": busy},
            "active_groups": {"mean": 2.0, "max": 3},
            "staleness": {"mean": None, "max": None},
            "bytes": {"down": 1000, "up": 500, "relay": 0},
            "commits": 3,
            "visits": 4,
        }
        for seed, time in enumerate(times, start=1)
    ]


def test_the_headline_names_the_fastest_strategy_and_its_lead():
    title, details = words.headline(
        comparison(
            {
                "slow": summaries([59.0, 59.0, None]),
                "fast": summaries([10.0] * 3),
                "never": summaries([None, None, 9.0]),
            }
        )
    )
    assert title == "fast reaches 80% accuracy after 10 s, slow after 59 s (5.9× as long)"
    assert details == [
        "never does not reach it.",
        "slow reaches it with 2 of 3 seeds.",
        "never reaches it with 1 of 3 seeds.",
    ]


def test_the_headline_covers_ties_single_winners_and_single_runs():
    tie = words.headline(comparison({"a": summaries([10.0]), "b": summaries([10.0])}))
    assert tie == ("a and b reach 80% accuracy after 10 s", [])
    at_start = words.headline(comparison({"a": summaries([0.0]), "b": summaries([10.0])}))
    assert at_start[0] == "a reaches 80% accuracy after 0 s, b after 10 s"
    close = words.headline(comparison({"a": summaries([1000.0]), "b": summaries([1004.0]), "c": summaries([1004.0])}))
    assert close == ("a reaches 80% accuracy after 1,000 s, b after 1,004 s", ["c needs 1,004 s."])
    alone = words.headline(comparison({"a": summaries([10.0]), "b": summaries([None])}))
    assert alone == ("a reaches 80% accuracy after 10 s; no other strategy does", [])
    assert words.headline(comparison({"a": summaries([10.0])}))[0] == "a reaches 80% accuracy after 10 s"


def test_the_headline_covers_unreached_and_absent_targets():
    both = {"a": summaries([None], 0.5), "b": summaries([None], 0.6)}
    assert words.headline(comparison(both))[0] == (
        "No strategy reaches 80% accuracy within 100 s; b ends highest, at 60.0%"
    )
    assert words.headline(comparison({"a": both["a"]}))[0] == (
        "The run does not reach 80% accuracy within 100 s; it ends at 50.0%"
    )
    free = {"a": summaries([None], 0.5, None), "b": summaries([None], 0.6, None)}
    assert words.headline(comparison(free))[0] == "b ends highest, at 60.0% accuracy"
    assert words.headline(comparison({"a": free["a"]}))[0] == "a ends at 50.0% accuracy"


def test_the_headline_covers_targets_that_only_some_seeds_reach():
    some = {"a": summaries([10.0, None], 0.84), "b": summaries([None, None], 0.6)}
    assert words.headline(comparison(some)) == (
        "No strategy reaches 80% accuracy within 100 s with most seeds; a ends highest, at 84.0%",
        ["a reaches it with 1 of 2 seeds."],
    )
    assert words.headline(comparison({"a": some["a"]})) == (
        "a does not reach 80% accuracy within 100 s with most seeds; it ends at 84.0%",
        ["a reaches it with 1 of 2 seeds."],
    )


def test_the_headline_of_runs_without_training_is_about_busy_clients():
    idle = {"a": summaries([None], None, None, 0.2), "b": summaries([None], None, None, 0.634)}
    assert words.headline(comparison(idle)) == (
        "b keeps clients busy the most: 63.4% of the time",
        ["The runs had no training."],
    )


def test_columns_mark_the_best_and_compare_each_with_the_first():
    columns = {
        column.title: column
        for column in comparison_columns(
            comparison(
                {"slow": summaries([59.0, 61.0], 0.81, busy=0.3), "fast": summaries([10.0, 10.0], 0.81, busy=0.6)}
            )
        )
    }
    assert columns["strategy"].cells == ("slow", "fast")
    assert columns["time to\u00a080%"].cells == ("60 s", "10 s")
    assert columns["time to\u00a080%"].best == {1}
    assert columns["against slow"].cells == ("", "6.0× as fast")
    assert columns["reached"].cells == ("2 of 2", "2 of 2")
    assert columns["final accuracy"].best == frozenset()
    assert columns["busy ratio"].best == {1}
    assert columns["moved"].cells == ("1.5 kB", "1.5 kB")


def test_columns_of_runs_without_training_omit_accuracy():
    titles = [
        c.title for c in comparison_columns(comparison({"a": summaries([None], None), "b": summaries([None], None)}))
    ]
    assert titles[:2] == ["strategy", "busy ratio"]


def printed(table, width):
    output = io.StringIO()
    Console(file=output, width=width).print(table)
    return output.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_table_fits_the_terminal_and_breaks_no_cell(by_strategy, width):
    compared = comparison({label: [run.summary for run in group] for label, group in by_strategy.items()})
    text = printed(comparison_table(compared, width), width)
    for column in comparison_columns(compared)[:3]:
        assert all(cell in text for cell in column.cells)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= 4 + 5 + len(by_strategy)


def test_tables_print_names_literally(by_strategy):
    name = "[red]x[/red]"
    group = [run.summary for run in by_strategy["fedhusky"]]
    assert name in printed(comparison_table(comparison({name: group, "y": group})), 100)
    text = printed(run_table(group[0] | {"strategy": name}), 100)
    assert name in text
    assert "time to 80%" in text
    assert "ended" in text

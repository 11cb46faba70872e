"""The tables of FedHusky's page agree with the committed numbers."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from typing import Any

import pytest

from tests.docs.tables import RESULTS, rows_of_tables

_TABLES = ("variants/variants-one-label", "variants/variants-Dir0.1", "fig5/fig5-lr", "fig5/fig5-tuned")


def on_page() -> list[tuple[str, ...]]:
    """Return the cells of the page's tables without the first column, which names the strategy in words."""
    return [row[1:] for row in rows_of_tables((RESULTS / "fedhusky.md").read_text(encoding="utf-8"))]


def median_and_all(times_s: Sequence[float | None]) -> str:
    median = statistics.median(math.inf if time is None else time for time in times_s)
    seeds = ", ".join("never" if time is None else f"{time:g}" for time in times_s)
    return f"{'never' if median == math.inf else f'{median:g}'} ({seeds})"


def expected_row(facts: dict[str, Any], label: str) -> tuple[str, ...]:
    """Return a row as the page shows it: tuned settings, times to the target, final accuracy, busy ratio."""
    measured, chosen = facts["strategies"][label], facts["chosen"].get(label, {})
    ends = [100 * end for end in measured["final_accuracy"]["values"]]
    return (
        *(f"{chosen[key]:g}" for key in ("training.lr", "training.batch_size") if key in chosen),
        median_and_all(measured["time_to_target_s"]["values"]),
        f"{statistics.fmean(ends):.1f} ± {statistics.stdev(ends):.1f} %",
        f"{100 * measured['busy_ratio']['mean']['mean']:.0f} %",
    )


@pytest.mark.parametrize("table", _TABLES)
def test_the_committed_tables_agree_with_the_committed_numbers(table: str) -> None:
    facts = json.loads((RESULTS / "fedhusky" / f"{table}.json").read_text(encoding="utf-8"))
    shown = on_page()
    assert len(facts["strategies"]) >= 5
    for label in facts["strategies"]:
        assert expected_row(facts, label) in shown, label


@pytest.mark.parametrize("what", ["mean", "lowest", "highest"])
def test_the_table_of_busy_ratios_agrees_with_the_committed_result(what: str) -> None:
    rows = json.loads((RESULTS / "fedhusky" / "fig6" / "result.json").read_text(encoding="utf-8"))["rows"]
    measured = {row["quantity"]: row["measured"] for row in rows}
    labels = ("fedhusky-paper", "fedhusky-thin", "fedhusky-paced", "fedhusky-even", "hybrid")
    row = tuple(measured[f"busy ratio, {what}, {label}"] for label in labels)
    assert row in {shown[1:] for shown in on_page()}

"""The page shows the figures of the result file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.figures import PAGE, RESULT, figures, section, shown
from tests.chaos.outcome import Outcome
from tests.chaos.plan import KINDS, Trial

ROOT = Path(__file__).parents[2]


def outcomes() -> list[Outcome]:
    first = Trial(1, 0, "simulation", "fedavg", "inline", False, ())
    second = Trial(1, 23, "processes", "fedbuff", "Flower", False, ())
    return [
        Outcome(first, Counter({"driver killed": 2, "clock jumped": 1}), 2, [], 1.0),
        Outcome(second, Counter({"proxy killed": 1}), 1, ["client 0 was never free again"], 2.0),
    ]


def test_figures_count_the_faults_that_hit() -> None:
    result = figures(outcomes(), 1, "python -m tests.chaos")
    assert (result["faults"], result["trials"], result["resumed"], result["seconds"]) == (4, 2, 3, 3)
    assert result["by_kind"]["simulation"] == {"driver killed": 2, "clock jumped": 1}
    assert result["by_kind"]["processes"] == {"proxy killed": 1}
    assert result["violations"] == {"1:23": ["client 0 was never free again"]}


def test_the_page_says_what_was_violated() -> None:
    text = section(figures(outcomes(), 1, "python -m tests.chaos"))
    assert text.startswith(
        "4 faults hit 2 runs of 2 strategies, which were resumed 3 times, in 0 minutes. 1 runs violated"
    )
    assert "(`python -m tests.chaos`)" in text
    assert "| driver killed | 2 | 0 | 0 |" in text
    assert "| **all** | **3** | **0** | **1** |" in text


def test_a_page_without_a_place_is_rejected() -> None:
    with pytest.raises(ValueError, match="no place for the figures"):
        shown("# Page\n", figures(outcomes(), 1, "python -m tests.chaos"))


def test_the_page_shows_the_result_file() -> None:
    page, result = (ROOT / PAGE).read_text(), json.loads((ROOT / RESULT).read_text())
    assert shown(page, result) == page
    assert result["faults"] == sum(sum(counts.values()) for counts in result["by_kind"].values())
    assert {kind for counts in result["by_kind"].values() for kind in counts} <= set(KINDS)

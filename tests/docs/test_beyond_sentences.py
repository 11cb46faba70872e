"""Sentences about all/beyond say what its numbers do, also in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedtempo.studies.papers.ablation import contrasts
from fedtempo.studies.papers.contest_results import ContestResults, read_results
from fedtempo.studies.papers.findings import CellFindings, Finding
from fedtempo.studies.papers.ranking import Ratio

ROOT = Path(__file__).parents[2]
WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@pytest.fixture(scope="module")
def results() -> ContestResults:
    return read_results(ROOT / "docs" / "results" / "all" / "beyond" / "beyond.json")


def words_of(page: str) -> str:
    return " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())


def against_planned(results: ContestResults, label: str) -> list[tuple[Ratio, Finding]]:
    cells = [CellFindings.of(cell) for cell in results.races]
    return [(relative, cell.findings[label]) for cell in cells if (relative := cell.ratios.get(label)) is not None]


def test_findings_say_in_how_many_cells_async_memory_is_sooner(results: ContestResults) -> None:
    compared = against_planned(results, "async-memory")
    sooner = [ratio.mean for ratio, finding in compared if finding is Finding.SOONER]
    later = sum(finding is Finding.LATER for _, finding in compared)
    page = words_of("results/findings.md")
    assert f"in {min(sooner):.2f} to {max(sooner):.2f} of the time that FedHusky's planned groups take in" in page
    assert f"take in {WORDS[len(sooner)]} of {WORDS[len(compared)]} cells" in page
    assert f"in {WORDS[later]} is it shown to be later" in page


@pytest.mark.parametrize(
    ("base", "words"), [("async-uncorrected", "sooner in"), ("async-unweighted", "shown to help in")]
)
def test_findings_say_in_how_many_cells_a_part_helps(results: ContestResults, base: str, words: str) -> None:
    (part,) = [each for each in contrasts(results.races) if (each.label, each.base) == ("async-memory", base)]
    sooner = sum(finding is Finding.SOONER for _, finding in part.cells.values())
    assert f"{words} {WORDS[sooner]} of {WORDS[len(part.cells)]} cells" in words_of("results/findings.md")


def test_findings_say_what_the_adjusted_loss_is_worth(results: ContestResults) -> None:
    compared = against_planned(results, "async-adjusted")
    means = [ratio.mean for ratio, _ in compared]
    words = f"takes {min(means):.2f} to {max(means):.2f} of planned groups' time in the {WORDS[len(means)]} cells"
    assert words in words_of("results/findings.md")


def test_other_pages_say_in_how_many_cells_variants_were_measured(results: ContestResults) -> None:
    assert f"on {WORDS[len(results.races)]} fleets, data sets and networks" in words_of("results/short.md")
    assert f"one change at a time on {WORDS[len(results.races)]} others" in words_of("strategies/fedhusky.md")

"""Counts that pages write in words are those of the results, such as the cells in which something is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest

from fedtempo.studies.papers.ablation import contrasts
from fedtempo.studies.papers.contest_results import ContestResults, read_results
from fedtempo.studies.papers.findings import CellFindings, Finding
from fedtempo.studies.papers.ranking import Ratio
from fedtempo.studies.papers.standings import Place, Standing, records, standings_of
from tests.docs.tables import RESULTS
from tests.docs.words import number_word as word

DOCS = RESULTS.parent
FINDINGS, FEDHUSKY, SHORT, MEMORY = (
    "results/findings.md",
    "results/fedhusky.md",
    "results/short.md",
    "strategies/async-memory.md",
)
OURS = "async-memory"


class Claim(NamedTuple):
    """What a page must say. begins: the words before the first count. right: what must follow them."""

    page: str
    begins: str
    right: str


@cache
def plain(page: str) -> str:
    """Return a page in one line, without links."""
    text = re.sub(r"\]\([^)]*\)", "]", (DOCS / page).read_text(encoding="utf-8"))
    return " ".join(text.replace("[", "").replace("]", "").split())


def rows(name: str) -> list[dict[str, Any]]:
    result = json.loads((RESULTS / name / "result.json").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = result["rows"]
    return found


def verdicts(name: str, quantity: str) -> list[str]:
    """Return the verdicts of an entry's judged rows whose quantity has this text."""
    return [row["verdict"] for row in rows(name) if quantity in row["quantity"] and row["verdict"]]


def share(count: int, of: int) -> str:
    return f"all {word(of)}" if count == of else f"{word(count) if count else 'none'} of {word(of)}"


def span(ratios: Sequence[Ratio]) -> str:
    means = sorted(ratio.mean for ratio in ratios)
    return f"{means[0]:.2f} to {means[-1]:.2f}"


def in_brackets(ratio: Ratio) -> str:
    """Return a ratio with its interval as running text has it inside brackets."""
    return ratio.words.replace(" (", ", ").removesuffix(")")


# -- the entries of papers


def of_papers() -> Iterator[Claim]:
    shortest, steadiest = verdicts("psfl/fig6", "mean of rounds"), verdicts("psfl/fig6", "spread of rounds")
    yield Claim(
        FINDINGS,
        "Sampling by classes of time gives the steadiest rounds in ",
        f"{share(steadiest.count('reached'), len(steadiest))} settings",
    )
    yield Claim(
        FINDINGS,
        "That holds in ",
        f"{word(shortest.count('reached'))} settings; in {word(shortest.count('not reached'))}, weighted rounds are",
    )
    trained = verdicts("psfl/table1", "S by training")
    not_shown = word(trained.count("not shown"))
    yield Claim(FINDINGS, "Against no sequences at all, ", f"{not_shown} are not shown to be sooner; with 20 clients,")
    above = verdicts("hybrid-fl/table1", "minCV above maxClient")
    only = ["not shown"] * (len(above) - 1) + ["reached"]
    yield Claim(
        FINDINGS, "+1.0 (0.4 to 1.7); ", "only the last one is shown" if above == only else f"verdicts: {above}"
    )
    figures = re.search(r"## The papers' (\d+ figures and tables)", plain("results/index.md"))
    assert figures is not None
    yield Claim(FINDINGS, "The index has a verdict for each of the ", figures[1])


def within_a_fifth(label: str) -> int:
    """Return to how many of the paper's numbers on FedHusky's schedule a reading comes within a fifth."""
    measured = [
        (first_number(row["paper"]), first_number(row["measured"]))
        for row in rows("fedhusky/fig6") + rows("fedhusky/fig7")
        if re.fullmatch(rf"(busy ratio, \w+|groups alive, mean), {label}", row["quantity"])
    ]
    assert len(measured) == 4
    return sum(abs(value / paper - 1) <= 0.2 for paper, value in measured)


def first_number(text: str) -> float:
    found = re.search(r"\d+(?:\.\d+)?", text)
    assert found is not None
    return float(found[0])


def of_fedhusky() -> Iterator[Claim]:
    thin, paced = within_a_fifth("fedhusky-thin"), within_a_fifth("fedhusky-paced")
    yield Claim(FINDINGS, "Attempts 1.5 s apart come within a fifth of ", f"{share(thin, 4)} numbers;")
    yield Claim(FINDINGS, "groups at a steady pace of ", f"{share(paced, 4) if paced == 4 else word(paced)} of them")
    yield Claim(FEDHUSKY, "One other reading comes within a fifth of ", f"{share(thin, 4)} numbers")
    yield Claim(FEDHUSKY, "at a steady pace come within a fifth of ", f"{word(paced)} of them")
    tuned = json.loads((RESULTS / "fedhusky/fig5/fig5-tuned.json").read_text(encoding="utf-8"))["strategies"]
    ends = tuned["fedhusky"]["final_accuracy"]["values"]
    missed = tuned["fedavg-momentum"]["time_to_target_s"]["values"].count(None)
    at_chance = sum(end < 0.15 for end in ends)
    yield Claim(FEDHUSKY, "the default never leaves chance level on ", f"{share(at_chance, len(ends))} seeds")
    yield Claim(FEDHUSKY, "with 0.1 momentum misses 50 % on ", f"{word(missed)}.")
    yield Claim(FEDHUSKY, "Tuned, no difference is shown.** ", f"{word(len(ends)).capitalize()} seeds give")


# -- beyond the papers


@cache
def beyond() -> ContestResults:
    return read_results(RESULTS / "all/beyond/beyond.json")


IN_WORDS = {
    "UAV cell, one label": "with one label per client",
    "UAV cell, a fifth of the visits fail": "if a fifth of the visits fail",
}
"""How the page names cells."""


def to_first(label: str) -> list[tuple[Ratio, Finding]]:
    """Return a variant's ratio to the planned groups, and what is shown of it, in each cell with both."""
    cells = [CellFindings.of(cell) for cell in beyond().races]
    return [(ratio, cell.findings[label]) for cell in cells if (ratio := cell.ratios.get(label)) is not None]


def answers(base: str) -> Mapping[str, tuple[Ratio, Finding]]:
    """Return what a part of async-memory is worth by cell, beside `base`, which lacks it."""
    found = contrasts(beyond().races)
    return next(contrast.cells for contrast in found if (contrast.label, contrast.base) == (OURS, base))


def sooner(cells: Mapping[str, tuple[Ratio, Finding]]) -> dict[str, Ratio]:
    return {title: ratio for title, (ratio, finding) in cells.items() if finding is Finding.SOONER}


def of_beyond() -> Iterator[Claim]:
    compared = to_first(OURS)
    shown = [ratio for ratio, relation in compared if relation is Finding.SOONER]
    later = [relation for _, relation in compared].count(Finding.LATER)
    unclear = len(compared) - len(shown) - later
    yield Claim(
        FINDINGS,
        "(`async-memory`), the target is reached in ",
        f"{span(shown)} of the time that FedHusky's planned groups take in {share(len(shown), len(compared))} cells. "
        f"In the other {word(unclear)} no difference is shown, and in {word(later) if later else 'none'} is it shown",
    )
    correction, weights = answers("async-uncorrected"), answers("async-unweighted")
    helps, hinders = (
        sooner(correction),
        [title for title, (_, relation) in correction.items() if relation is Finding.LATER],
    )
    where = [f"{IN_WORDS.get(title, title)} ({in_brackets(ratio)})" for title, ratio in helps.items()]
    listed = " and ".join(where).replace(", ", " of the time, ", 1)
    yield Claim(
        FINDINGS,
        "the correction is shown to be sooner in ",
        f"{share(len(helps), len(correction))} cells: {listed}. "
        + (f"It is later in {hinders}." if hinders else "Elsewhere nothing is shown."),
    )
    staleness = [in_brackets(ratio) for ratio in sooner(weights).values()]
    yield Claim(
        FINDINGS,
        "Weights that fall with staleness are shown to help in ",
        f"{share(len(staleness), len(weights))} cells ({' and '.join(staleness)}; beyond",
    )
    adjusted = [ratio for ratio, _ in to_first("async-adjusted")]
    yield Claim(
        FINDINGS,
        "With the logit-adjusted loss at the clients, `async-memory` takes ",
        f"{span(adjusted)} of planned groups' time in the {word(len(adjusted))} cells in which it was tried",
    )
    yield Claim(
        SHORT, "FedHusky improved step by step, on ", f"{word(len(beyond().races))} fleets, data sets and networks"
    )
    yield Claim("strategies/fedhusky.md", "one change at a time on ", f"{word(len(beyond().races))} others")


# -- the league


@cache
def league() -> ContestResults:
    return read_results(RESULTS / "all/league/league.json")


@cache
def standings() -> dict[str, Standing]:
    """Return the standings of the league's rows that some ranked entrant decides, by name."""
    return {standing.cell.name: standing for standing in standings_of(league()) if standing.first is not None}


def leads(place: Place) -> bool:
    return place.leads and place.best


FIRST_IN = {
    "uav-digits": "in the UAV cell with digits ({median} s)",
    "uav-digits-errors": "there with wrong estimates too",
    "uav-digits-failures": "if a fifth of the visits fail",
    "discrete-digits": "with discrete speeds",
    "phones": "with 38 phones that work in recorded hours of rest",
}
"""How the page names the rows in which async-memory has the lowest median and is shown to be no later than others."""

LATER_IN = {
    "lte-digits": "FedCS is first, with 60 clients and",
    "lte-fashion-mnist": "FedCS is first, with 60 clients and with 1,000",
    "uav-fashion-mnist": "`async-memory` without its correction is first, and with it takes {factor} times as long",
    "roles": "FADAS is first, and `async-memory` takes {factor} times as long",
}
"""What the page says of the rows in which async-memory is shown to be later."""

NAMES = {"fedcs": "FedCS is", "async-uncorrected": "`async-memory` without its correction is", "fadas": "FADAS is"}


def of_league() -> Iterator[Claim]:
    ours = next(record for record in records(list(standings().values())) if record.label == OURS)
    missing = len(league().missing)
    ran, total = len(league().races), len(league().races) + missing
    some_ran = f"{total} rows, of which {word(ran)} have run. " if missing else f"{total} rows. "
    yield Claim(
        FINDINGS,
        "but for `fedhusky-paper` and `centralized`, and ",
        f"{some_ran}In {word(ours.best)} of them `async-memory` has the lowest median time and is shown to be no later",
    )
    yield Claim(FINDINGS, "hours of rest (13 hours). In ", f"{word(ours.later)} it is shown to be later than another")
    undecided = standings()["zipf-digits"]
    yield Claim(
        FINDINGS,
        "With long-tail speeds, ",
        f"{word(1 + len(undecided.not_told_apart))} methods are not told apart",
    )
    rows_that_ran = (
        f"the {word(ran)} rows of the league that have run" if missing else f"the {word(ran)} rows of the league"
    )
    still = f"; {word(missing)} rows have not run yet" if missing else ""
    yield Claim(
        MEMORY,
        "It has the lowest median time in ",
        f"{word(ours.firsts)} of {rows_that_ran}, and is shown to be later than another in {word(ours.later)}{still}.",
    )


CLAIMS = [*of_papers(), *of_fedhusky(), *of_beyond(), *of_league()]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.page}: {claim.begins}")
def test_a_count_in_words_is_that_of_the_results(claim: Claim) -> None:
    text = plain(claim.page)
    assert text.count(claim.begins) == 1, f"{claim.page} says not once: {claim.begins}{claim.right}"
    says = text.split(claim.begins)[1][: len(claim.right)]
    assert says == claim.right, f"{claim.page} says: {claim.begins}{says}\nright is: {claim.begins}{claim.right}"


def test_the_page_names_the_rows_in_which_async_memory_leads() -> None:
    assert FIRST_IN.keys() == {name for name, standing in standings().items() if leads(standing.of(OURS))}
    for name, words in FIRST_IN.items():
        assert words.format(median=f"{standings()[name].of(OURS).result.median_s:.1f}") in plain(FINDINGS)


def test_the_page_names_the_rows_in_which_async_memory_is_later_and_who_is_first() -> None:
    assert LATER_IN.keys() == {name for name, standing in standings().items() if standing.of(OURS).later}
    for name, words in LATER_IN.items():
        standing = standings()[name]
        assert standing.first is not None
        assert NAMES[standing.first.label] in words, f"{name}: {standing.first.label} is first"
        assert words.format(factor=f"{standing.of(OURS).factor:.1f}") in plain(FINDINGS)


COUNT = "|".join(
    ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
)
COUNTED = re.compile(
    rf"\b(?:in|of|all|the|on) (?:the )?(?:{COUNT}|\d+)(?: of (?:the )?(?:{COUNT}|\d+))? (?:cells|rows|settings)\b"
    rf"|\b(?:{COUNT}) of (?:the )?(?:{COUNT})\b|\b(?!one\b)(?:{COUNT}) of them\b"
)
"""Counts of the cells, rows or settings of a result."""


@pytest.mark.parametrize("page", [FINDINGS, FEDHUSKY, SHORT, MEMORY, "../README.md"])
def test_every_count_of_cells_rows_and_settings_is_compared_with_results(page: str) -> None:
    left = plain(page)
    for claim in CLAIMS:
        if claim.page == page:
            left = left.replace(claim.begins + claim.right, " ")
    assert not [left[max(0, found.start() - 60) : found.end()] for found in COUNTED.finditer(left)]

"""Measured numbers in running text are numbers of the results that their paragraph links to, or else their section.

Counts in words are compared with results in `test_counts_in_words.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
IN_WORDS = ("findings.md", "directions.md", "fedhusky.md", "short.md")
"""Pages about results."""
TESTED_TABLES = ("directions.md", "fedhusky.md")
"""Pages whose tables are compared with results by tests of their own."""
SETTINGS = ROOT / "fedtempo" / "studies" / "papers" / "settings"
CONFIDENCE = 95.0

_LINK = re.compile(r"\]\(([^)#\s]+\.(?:md|toml|json))\)")
_QUANTITY = re.compile(
    r"(?<![\w.,/-])(?P<number>\d[\d,]*(?:\.\d+)?)(?P<unit> ?%| s\b| points?\b| times\b| of the time\b)?(?!\w)(?!\.\d)"
    r"(?! (?:MB|GB|km|Mbit))"
)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NAMES = re.compile(r"(?:Figs?|Tables?|Eqs?|Sections?|Example|Algorithm|Protocol)\.? [\dIV]+(?:(?:,| to| and) \d+)*")
_TABLE = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->|\b\d{4}\b(?= whose)", re.DOTALL)


def quantities(text: str) -> list[str]:
    """Return numbers with a unit or decimals, as they are printed; code, links and names of figures are no numbers."""
    plain = _NAMES.sub("", _CODE.sub("", text))
    return [
        match["number"] for match in _QUANTITY.finditer(plain) if match["unit"] is not None or "." in match["number"]
    ]


def value(number: str) -> float:
    return float(number.replace(",", ""))


def sources(text: str, page: Path) -> list[Path]:
    """Return the files of results that a text links to: a result with its configurations, or another page."""
    files: list[Path] = []
    for link in dict.fromkeys(_LINK.findall(text)):
        path = (page.parent / link).resolve()
        if path.is_relative_to(RESULTS):
            files.append(path)
            if path.name == "result.md":
                files += [*path.parent.glob("*.toml"), *SETTINGS.glob(f"{path.parents[1].name}*.toml")]
    return files


def numbers_of(files: list[Path]) -> set[float]:
    return {value(number) for file in files for number in _NUMBER.findall(file.read_text(encoding="utf-8"))}


def sections(page: Path) -> dict[str, str]:
    """Return the text below each heading of a page."""
    parts = re.split(r"^(#+ .*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(text: str) -> list[str]:
    """Return the paragraphs, items and tables of a text."""
    return re.split(r"\n\n|\n(?=- )", text)


def unsupported(text: str, page: Path, around: str = "") -> list[str]:
    """Return the numbers of a text that are not in the results it links to.

    around: the section that it is part of, whose links count if it has none; those of the page if this has none either.
    """
    files = sources(text, page) or sources(around, page) or sources(page.read_text(encoding="utf-8"), page)
    known = numbers_of(files) | {CONFIDENCE}
    if page.name in TESTED_TABLES:
        known |= {value(number) for row in _TABLE.findall(text + around) for number in _NUMBER.findall(row)}
        text = _TABLE.sub("", text)
    return [number for number in quantities(text) if value(number) not in known]


@pytest.mark.parametrize("name", IN_WORDS)
def test_numbers_in_a_paragraph_are_in_the_results_that_it_or_its_section_links_to(name: str) -> None:
    page = RESULTS / name
    wrong = {
        block: found
        for section in sections(page).values()
        for block in blocks(section)
        if (found := unsupported(block, page, section))
    }
    assert not wrong


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "strategies").glob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_numbers_beside_a_link_to_results_are_there(page: Path) -> None:
    linked = [block for block in blocks(page.read_text(encoding="utf-8")) if sources(block, page)]
    wrong = {block: found for block in linked if (found := unsupported(block, page))}
    assert not wrong


def test_what_counts_as_a_measured_number() -> None:
    text = "Fig. 3 shows 0.67 to 0.84 (`lr = 0.1`), 1,225 s and 12 % with 20 clients; Table I and Eq. 21 (Figs. 3 to 5)"
    assert quantities(text) == ["0.67", "0.84", "1,225", "12"]
    assert quantities("5 sequences of 4 need 3.2 times as long") == ["3.2"]

"""The tables of the page on four papers' claims agree with the committed results."""

from __future__ import annotations

import json
import math
import re

import pytest

from fedtempo.studies.papers.claims import EXHIBITS
from tests.docs.tables import RESULTS, rows_of_tables

_SECTIONS = {
    "psfl/direction": 7,
    "psfl/limits": 4,
    "fch/direction": 15,
    "csgd/direction": 4,
    "hybrid-fl/direction": 15,
}
"""Rows of each section's table."""


def table(name: str) -> list[tuple[str, ...]]:
    """Return the cells of the table after the heading that names an experiment, without its head."""
    page = (RESULTS / "directions.md").read_text(encoding="utf-8")
    section = page.split(f": `{name}`\n", 1)[1].split("\n#", 1)[0]
    return rows_of_tables(section)[2:]


def shown(measured: str) -> str:
    """Return how the page shows what was measured: of values in brackets, one per seed, the lowest and the highest."""
    found = re.fullmatch(r"(.+?) \((.+, .+)\)", measured)
    if found is None:
        return measured
    values = sorted(
        found[2].split(", "), key=lambda value: math.inf if value == "never" else float(value.rstrip("s %"))
    )
    return f"{found[1]} ({values[0]} to {values[-1]})"


@pytest.mark.parametrize("name", _SECTIONS)
def test_each_row_has_a_measured_value_and_the_tuned_learning_rate(name: str) -> None:
    result = json.loads((RESULTS / name / "result.json").read_text(encoding="utf-8"))
    measured = {(shown(row["measured"]), row["remark"] if "lr" in row["remark"] else "") for row in result["rows"]}
    rows = table(name)
    assert len(rows) == _SECTIONS[name]
    for cells in rows:
        value = next(cell for cell in reversed(cells) if re.fullmatch(r".* \(.* to .*\)", cell))
        rate = next((cell for cell in cells[1:4] if cell.replace(".", "").isdigit()), "")
        assert (value, f"lr {rate}" if rate else "") in measured, cells


def test_the_table_of_newer_methods_has_every_judged_row_of_every_claim() -> None:
    page = (RESULTS / "directions.md").read_text(encoding="utf-8")
    section = page.split("## Newer methods", 1)[1].partition("**What is not checked?**")[0]
    rows = rows_of_tables(section)[2:]
    expected = []
    for exhibit in EXHIBITS:
        if not (RESULTS / exhibit.name / "result.json").exists():
            assert f"`fedtempo reproduce {exhibit.name}`" in page  # says that it has not run
            continue
        result = json.loads((RESULTS / exhibit.name / "result.json").read_text(encoding="utf-8"))
        label = exhibit.name.partition("/")[0]
        medians = {
            row["quantity"].rpartition(", ")[2]: row["measured"].partition(" (")[0]
            for row in result["rows"]
            if row["verdict"] is None
        }
        expected += [
            (
                f"({exhibit.name}/result.md)",
                row["paper"],
                f"{medians[label]} and {medians[row['quantity'].rpartition(' of ')[2]]}",
                row["measured"],
                row["verdict"],
            )
            for row in result["rows"]
            if row["verdict"] is not None
        ]
    assert len(rows) == len(expected)
    for cells, (link, paper, both, ratio, verdict) in zip(rows, expected, strict=True):
        assert link in cells[0]
        assert (cells[1], *cells[4:]) == (paper, both, ratio, verdict)

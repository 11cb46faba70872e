"""What the pages of strategies say about departures from papers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs" / "strategies").glob("*.md"))
_SECTION = re.compile(r"^## Where this departs from the paper\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_RELATIVE = re.compile(r"\]\((\w[\w-]*\.md)#where-this-departs-from-the-paper\)")


def departures(page: Path) -> str:
    """Return the section of a page on departures from the paper; empty if it has none."""
    section = _SECTION.search(page.read_text(encoding="utf-8"))
    return "" if section is None else section[1]


def items_on_lost_clients(page: Path) -> list[str]:
    return re.findall(r"^- \*\*Lost clients\.\*\* (\S.*)$", departures(page), re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "index.md"], ids=lambda page: page.stem)
def test_departures_say_once_what_happens_to_lost_clients(page: Path) -> None:
    items = items_on_lost_clients(page)
    assert len(items) == 1
    for other in _RELATIVE.findall(items[0]):  # a reference must not end in another one
        assert not _RELATIVE.search(items_on_lost_clients(page.parent / other)[0])

"""The pages of strategies: departures from papers, the papers that they cite, and who says what it cannot do."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from fedtempo.strategies import STRATEGIES

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "strategies").glob("*.md"))
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
TITLES = [title.casefold() for title in re.findall(r'^    title: "(.+)"$', CITATION, re.MULTILINE)]
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


def text_of(name: str) -> str:
    return (ROOT / "docs" / "strategies" / f"{name}.md").read_text(encoding="utf-8")


def head(name: str) -> str:
    """Return the line of a strategy's page that names it and its source."""
    return next(line for line in text_of(name).splitlines() if line.startswith("`strategy.name"))


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_the_paper_of_a_strategy_is_in_the_citation_file(name: str) -> None:
    """By its title, which a page may shorten at the end, or by the number of its preprint."""
    preprints = [number for number in re.findall(r"arXiv (\d+\.\d+)", head(name)) if number in CITATION]
    for title in re.findall(r"\*([^*]+)\*", head(name)):
        assert preprints or any(known.startswith(title.casefold()) for known in TITLES), title


def test_the_papers_of_optimisers_at_the_server_are_in_the_citation_file() -> None:
    assert {"adaptive federated optimization"} <= set(TITLES)
    assert any(title.startswith("measuring the effects of non-identical data") for title in TITLES)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_pages_say_which_strategies_cannot_train_on_a_gpu(name: str) -> None:
    """A GPU runs no procedures of strategies at the clients; it does evaluate."""
    module = inspect.getmodule(STRATEGIES[name])
    assert module is not None
    has_procedure = "procedure=" in inspect.getsource(module)
    assert ("you train on a GPU: it cannot run procedures" in text_of(name)) == has_procedure


def test_directions_say_of_every_other_strategy_why_its_claim_is_not_checked() -> None:
    """The page links a result, or the strategy's own page in the table of what is not checked."""
    text = (ROOT / "docs" / "results" / "directions.md").read_text(encoding="utf-8")
    told = re.findall(r"\]\(([\w-]+)/direction/result\.md\)", text)
    unchecked = re.findall(r"\]\(\.\./strategies/([\w-]+)\.md\)", text.split("**What is not checked?**")[1])
    assert not set(told) & set(unchecked)
    baselines = {"fedavg", "sequential", "centralized", "hybrid"}
    with_pages_of_their_own = {"fedhusky", "fedhusky-paper", "async-memory"}
    assert set(STRATEGIES) - baselines - with_pages_of_their_own == set(told) | set(unchecked)

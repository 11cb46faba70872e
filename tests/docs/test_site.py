"""Inclusions of source code, links, calendars, and the check of a built site."""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from fedtempo.strategies import STRATEGIES
from tests.docs.blocks import PAGES, ROOT
from tools.site import pieces, reference
from tools.site.calendars import SECONDS, VISIT_S, calendar_figure, measures
from tools.site.check import flaws
from tools.site.links import rewritten
from tools.site.pieces import PIECES, code, expanded, fields


@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- site:" in page.read_text(encoding="utf-8")], ids=str)
def test_every_inclusion_on_a_page_exists(page: Path) -> None:
    text = expanded(page.read_text(encoding="utf-8"))
    assert "<!-- site:" not in text


@pytest.mark.parametrize(
    "piece", ["<!-- site: cod x -->", "<!-- site: code fedtempo.fleet:Nobody -->", "<!-- site: calendar x y -->"]
)
def test_a_missing_inclusion_is_an_error(piece: str) -> None:
    with pytest.raises(ValueError, match=re.escape(piece)):
        expanded(piece)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_has_a_page_with_its_code_calendar_and_fields(name: str) -> None:
    page = (ROOT / f"docs/strategies/{name}.md").read_text(encoding="utf-8")
    module = STRATEGIES[name].__module__
    assert f"<!-- site: code {module}:{STRATEGIES[name].__name__}.run" in page
    assert f"<!-- site: calendar {name} -->" in page
    assert f"<!-- site: fields {name} -->" in page
    assert f"]({name}.md)" in (ROOT / "docs/strategies/index.md").read_text(encoding="utf-8")
    assert f"strategies/{name}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation() -> None:
    lines = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").splitlines()
    listed = {line.split()[-1] for line in lines if line.strip().startswith("- ")}
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert {page for page in pages if not page.endswith("/result.md")} <= listed


def test_the_installation_page_explains_each_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) >= extras.keys()


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_calendar_shows_every_visit_within_its_frame_and_describes_itself_in_words(name: str) -> None:
    svg = ET.fromstring(calendar_figure(name)).find("svg")  # noqa: S314  our own text
    assert svg is not None
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    bars = svg.findall("./g/g")
    assert len(bars) >= measures(name)["visits"]
    for bar in svg.iterfind("./g/g/rect"):
        x, y = float(bar.attrib["x"]), float(bar.attrib["y"])
        assert x > 0
        assert x + float(bar.attrib["width"]) <= width
        assert y + float(bar.attrib["height"]) < height
    words = svg.findtext("desc") or ""
    assert f"{SECONDS:g} seconds" in words
    assert f"{measures(name)['busy']:.0%}" in words


def test_calendars_agree_with_the_text_of_their_pages() -> None:
    busy = {name: measures(name)["busy"] for name in ("sequential", "hybrid", "fedavg", "fedhusky", "fedasync")}
    assert list(busy) == sorted(busy, key=lambda name: busy[name]), "each leaves less time unused than the one before"
    assert busy["sequential"] == pytest.approx(1 / len(VISIT_S))
    assert busy["fedasync"] == pytest.approx(1.0)


def test_code_is_the_source_without_the_class_docstring() -> None:
    text = code("fedtempo.strategies.fedprox:FedProx")
    assert 'title="fedtempo/strategies/fedprox.py"' in text
    assert "while True" not in text
    assert "for round_number in itertools.count():" in text
    assert "MLSys" not in text


def test_fields_are_listed_with_meaning_and_default() -> None:
    assert "| `mu` | number, >= 0 | 0.01 | weight of the proximal term" in fields("fedprox")


def test_the_reference_names_every_command_section_and_part() -> None:
    commands, configuration, parts = reference.commands(), reference.configuration(), reference.parts()
    assert "## `fedtempo fleet measure`" in commands
    assert "`--checkpoint" not in commands
    assert "| `checkpoint_every` |" in configuration
    for name in ("path-loss", "dirichlet", "lenet", "diurnal", "digits"):
        assert f"### `{name}`" in parts
    assert "[compare.<label>]" in commands, "brackets of the terminal's markup are gone"


@pytest.mark.parametrize(
    ("markdown", "source", "expected"),
    [
        ("[x](docs/resume.md#room)", "README.md", "[x](resume.md#room)"),
        ("[x](../deploy/nginx.conf)", "docs/deploy.md", "[x](files/deploy/nginx.conf)"),
        ("[x](../SECURITY.md)", "docs/faq.md", "[x](security.md)"),
        ("[x](../../README.md)", "docs/strategies/index.md", "[x](../index.md)"),
        ("![x](fedhusky/fig6.png)", "docs/results/fedhusky.md", "![x](fedhusky/fig6.png)"),
        ("[x](fedhusky/)", "docs/results/fedhusky.md", "[x](fedhusky/files.md)"),
        ("[x](https://a.example/b.md)", "docs/faq.md", "[x](https://a.example/b.md)"),
        ("[x](nowhere.md)", "docs/faq.md", "[x](nowhere.md)"),
    ],
)
def test_links_within_the_repository_become_links_within_the_site(markdown: str, source: str, expected: str) -> None:
    assert rewritten(markdown, source) == expected


def test_the_check_of_a_site_finds_errors(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text(
        '<html lang="en"><a href="other.html#here">x</a><img src="p.png" alt="a picture">'
    )
    (tmp_path / "p.png").write_bytes(b"")
    (tmp_path / "other.html").write_text('<html lang="en"><p id="here">')
    assert list(flaws(tmp_path)) == []
    (tmp_path / "other.html").write_text(
        '<html><img src="https://cdn.example/x.png"><a href="good.html#there">x</a><a href="gone.html">x</a>'
    )
    messages = "\n".join(flaws(tmp_path))
    for words in ("no language", "without a text", "from elsewhere", "no such place", "gone.html leads nowhere"):
        assert words in messages


def test_inclusions_are_documented() -> None:
    assert all(f"- `{name} " in (pieces.__doc__ or "") for name in PIECES)

"""The index page of all results: one row per figure or table, with its verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.studies.papers.contest_results import read_results
from fedtempo.studies.papers.freshness import is_stale
from fedtempo.studies.papers.league_prior import write_prior
from fedtempo.studies.papers.output import RESULT, read_result
from fedtempo.studies.papers.pages import render
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import Exhibit, source_names
from fedtempo.studies.papers.verdicts import Verdict

_STALE = """\
> **These numbers are of an earlier version.** Code or settings that decide them have changed since. `fedtempo reproduce
> all --results docs/results` computes them again."""


def write_index(folder: Path) -> Path:
    """Write `index.md` over every `result.json` below a folder, and the pages of contests that were run.

    For the results that come with fedtempo, also write what advice reads of the league. Returns the path of the index.
    Raises ConfigError as `index_page` and `contest_page` do.
    """
    for exhibit in EXHIBITS.values():
        if exhibit.page is not None and (folder / exhibit.name / RESULT).exists():
            (folder / f"{exhibit.stem}.md").write_text(contest_page(exhibit, folder), encoding="utf-8")
    write_prior(folder)
    target = folder / "index.md"
    target.write_text(index_page(folder), encoding="utf-8")
    return target


def contest_page(exhibit: Exhibit, folder: Path) -> str:
    """Return the page of a contest as Markdown, from its results below a folder, with a warning if they are stale.

    Raises ConfigError if a file is not as the contest wrote it.
    """
    assert exhibit.page is not None
    results = read_results(folder / exhibit.name / f"{exhibit.stem}.json")
    result = read_result(folder / exhibit.name / RESULT)
    page = exhibit.page(results, result["command"])
    if not is_stale(result):
        return page
    heading, rest = page.split("\n", 1)
    return f"{heading}\n\n{_STALE}\n{rest}"


@dataclass(frozen=True)
class Entry:
    """A row of the index. data, measured_on: names of data sources.

    page: address of the result's own page, None (and the fields after it empty) if the exhibit was not run.
    cpu_minutes: None in results that were written before it was recorded. verdict_counts: rows of the result per
    verdict, in the order of `Verdict`. stale: whether code or settings that decided the result have changed since.
    checked: number of its runs that later code was shown to give the same bits, 0 if none ran again. few_seeds: whether
    it has no verdict because its runs have too few seeds.
    """

    name: str
    printed: str
    title: str
    data: str
    page: str | None = None
    measured_on: str = ""
    scale: str = ""
    cpu_minutes: float | None = None
    verdict_counts: Sequence[int] = ()
    verdict: Verdict | None = None
    stale: bool = False
    checked: int = 0
    few_seeds: bool = False


def index_page(folder: Path) -> str:
    """Return the index as Markdown, in the order of the registry, with the exhibits that were not run.

    Raises ConfigError if there is no result below the folder, if two have the same name, or if one is of an unknown
    figure or table.
    """
    results: dict[str, tuple[Path, Mapping[str, Any]]] = {}
    for path in sorted(folder.rglob(RESULT)):
        result = read_result(path)
        name = str(result.get("experiment"))
        if name not in EXHIBITS:
            raise ConfigError(f"{path}: no figure or table is called {name}")
        if name in results:
            raise ConfigError(f"{path}: {results[name][0]} is a result of {name} too; delete one of them")
        results[name] = path, result
    if not results:
        raise ConfigError(f"{folder}: no {RESULT} below it; run `fedtempo reproduce NAME --results {folder}` first")
    entries = [_entry(exhibit, folder, results) for exhibit in EXHIBITS.values()]
    return render(
        "index",
        verdicts=list(Verdict),
        all_entries=entries,
        pages=sorted(path.stem for path in folder.glob("*.md") if path.name != "index.md"),
        papers=[entry for entry in entries if entry.printed],
        others=[entry for entry in entries if not entry.printed],
    )


def _entry(exhibit: Exhibit, folder: Path, results: Mapping[str, tuple[Path, Mapping[str, Any]]]) -> Entry:
    entry = Entry(exhibit.name, exhibit.printed, exhibit.title, source_names(exhibit.data))
    if exhibit.name not in results:
        return entry
    path, result = results[exhibit.name]
    counts = Counter(row["verdict"] for row in result["rows"])
    return replace(
        entry,
        page=f"{path.parent.relative_to(folder).as_posix()}/result.md",
        measured_on=source_names(result["setting"].get("data.source", [])),
        scale=result["scale"],
        cpu_minutes=result["cpu_s"] / 60 if "cpu_s" in result else None,
        verdict_counts=[counts[verdict] for verdict in Verdict],
        verdict=result["verdict"],
        stale=is_stale(result),
        checked=result.get("checked", {}).get("runs", 0),
        few_seeds=result.get("few_seeds", False),
    )

"""One page over the results of many figures: what was asked for, and the verdict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.studies.papers.beyond_page import beyond_page
from fedtempo.studies.papers.league_page import league_page
from fedtempo.studies.papers.output import RESULT, read_result
from fedtempo.studies.papers.page_parts import markdown_table
from fedtempo.studies.papers.registry import EXPERIMENTS
from fedtempo.studies.papers.reproduction import Experiment, Verdict, named

_HEAD = """# Every figure and table, paper beside measured

Each row is one `fedtempo reproduce NAME`; behind its name are the picture, the table of the paper's numbers beside the
measured ones, the numbers as JSON with command and environment, and the configurations. This page is written from those
files by `fedtempo reproduce --index`.

- **Scale.** *full* is the paper's setting as far as it is printed, *medium* a reduced one, *small* a smoke run in a
  minute or so: few clients, small networks, other data where the paper's need a network. The title of each result says
  which data took whose place. Accuracies at small scale are no estimate of the paper's.
- **Verdicts** are computed, row by row, from tolerances that the experiments state. Of a row: *reached* (a number is
  within its tolerance, a statement holds), *same direction* (the order of things holds, with another factor), *not
  reached*. Of an entry: *reached* where all its rows are; *same direction* where at least half of them are one or the
  other; else *not reached*.
"""
_COLUMNS = (
    "name",
    "in the paper",
    "what",
    "the paper's data",
    "measured on",
    "scale",
    "CPU minutes",
    "rows: reached / same direction / not",
    "verdict",
)


LEAGUE, BEYOND = Path("all", "league"), Path("all", "beyond")
"""Where these results lie, below the folder of all results."""


def write_index(folder: Path) -> Path:
    """`index.md` over all `result.json` below a folder, `league.md` and `beyond.md` where these were run.

    Returns the index's path. Raises ConfigError as `index_page` does.
    """
    for place, written in ((LEAGUE, written_league), (BEYOND, written_beyond)):
        if (folder / place / RESULT).exists():
            (folder / f"{place.name}.md").write_text(written(folder), encoding="utf-8")
    target = folder / "index.md"
    target.write_text(index_page(folder), encoding="utf-8")
    return target


def written_league(folder: Path) -> str:
    """The league's page, from the numbers below a folder."""
    return _page(league_page, folder / LEAGUE)


def written_beyond(folder: Path) -> str:
    """The page of what goes beyond the papers, from the numbers below a folder."""
    return _page(beyond_page, folder / BEYOND)


def _page(page: Callable[[Mapping[str, Any], str], str], place: Path) -> str:
    facts = json.loads((place / f"{place.name}.json").read_text(encoding="utf-8"))
    return page(facts, read_result(place / RESULT)["command"])


def index_page(folder: Path) -> str:
    """The page, in the order of the registry; what was not run says so.

    Raises ConfigError where there is no result, two of one name, or one of an experiment that is not known.
    """
    found: dict[str, tuple[Path, Mapping[str, Any]]] = {}
    for path in sorted(folder.rglob(RESULT)):
        result = read_result(path)
        name = str(result.get("experiment"))
        if name not in EXPERIMENTS:
            raise ConfigError(f"{path}: no experiment is called {name}")
        if name in found:
            raise ConfigError(f"{path}: {found[name][0]} is a result of {name} too")
        found[name] = path, result
    if not found:
        raise ConfigError(f"{folder}: no {RESULT} below it; run `fedtempo reproduce NAME --results {folder}` first")
    papers = [experiment for experiment in EXPERIMENTS.values() if experiment.printed]
    others = [experiment for experiment in EXPERIMENTS.values() if not experiment.printed]
    pages = sorted(path.name for path in folder.glob("*.md") if path.name != "index.md")
    links = ", ".join(f"[{name.removesuffix('.md')}]({name})" for name in pages)
    notes = f"\nResults in words: {links}.\n" if links else ""
    return (
        f"{_HEAD}{notes}\n## The papers' {len(papers)} figures and tables\n\n{_table(papers, folder, found)}"
        f"\n## Beside the papers\n\n{_table(others, folder, found)}"
    )


def _table(experiments: Iterable[Experiment], folder: Path, found: Mapping[str, tuple[Path, Mapping[str, Any]]]) -> str:
    rows = []
    for experiment in experiments:
        name, measured = experiment.name, ("", "", "", "", "not run")
        if name in found:
            path, result = found[name]
            name = f"[{name}]({path.parent.relative_to(folder).as_posix()}/result.md)"
            verdicts = Counter(row["verdict"] for row in result["rows"])
            measured = (
                named(result["setting"].get("data.source", [])) or "-",
                result["scale"],
                f"{result['cpu_s'] / 60:.1f}" if "cpu_s" in result else "-",  # early results do not tell
                " / ".join(str(verdicts[verdict]) for verdict in Verdict),
                result["verdict"] or "no statement to reach",
            )
        rows.append((name, experiment.printed or "-", experiment.title, named(experiment.data) or "-", *measured))
    return markdown_table(_COLUMNS, rows)

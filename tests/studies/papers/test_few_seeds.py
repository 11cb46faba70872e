"""Results of few seeds show their numbers without a verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedtempo.studies.papers.index import index_page
from fedtempo.studies.papers.output import has_few_seeds, run_exhibit
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import Exhibit, Request
from fedtempo.studies.papers.verdicts import Effect, Row, shown
from fedtempo.studies.tuning.study import plain_study
from fedtempo.studies.tuning.trials import NotedRun

TUNING_SEEDS = (101,)
"""Those of CS-GD's study at small scale."""


def effect_over(seeds: Sequence[int], *sets: str) -> Exhibit:
    """An entry whose only row is judged; its runs take no time."""

    def reproduce(request: Request) -> list[Row]:
        base = request.settings("csgd", ["run.max_commits=1", "data.clients=8", *sets])
        plain_study(request.save_config(base, "runs"), ["csgd"], [*TUNING_SEEDS, *seeds], workers=1)
        return [shown("an effect", "positive", "1.0", Effect(1.0, 0.5, 1.5)).as_headline()]

    reproduce.__module__ = "fedtempo.studies.papers.csgd"
    return Exhibit("csgd/table3", "made up", reproduce, (1, 1, 1), ("mnist",), "Table III")


@pytest.mark.parametrize(
    ("seeds", "sets", "verdict"),
    [
        (range(1, 5), (), None),
        (range(1, 6), (), "reached"),
        (range(1, 5), ("executor.kind=none",), "reached"),  # nothing is trained
    ],
)
def test_a_verdict_needs_five_seeds_that_trained(
    seeds: Sequence[int], sets: Sequence[str], verdict: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / "csgd" / "table3"
    folder.mkdir(parents=True)
    _, rows = run_exhibit(effect_over(seeds, *sets), Request("small", folder))
    result = json.loads((folder / "result.json").read_text())
    assert result["verdict"] == verdict
    assert [row.verdict for row in rows] == [verdict]
    said = "No verdicts: competitors were trained with fewer than 5 seeds." in (folder / "result.md").read_text()
    assert said == result.get("few_seeds", False) == (verdict is None)
    index = index_page(tmp_path)
    assert ("| too few seeds |" in index) == ("1 with too few seeds" in index) == (verdict is None)


@pytest.mark.parametrize("name", [name for name, exhibit in EXHIBITS.items() if exhibit.page is not None])
def test_contests_have_too_few_seeds_at_small_scale_only(name: str, tmp_path: Path) -> None:
    noted: list[NotedRun] = []
    assert has_few_seeds(EXHIBITS[name], Request("small", tmp_path), noted)
    assert not has_few_seeds(EXHIBITS[name], Request("medium", tmp_path), noted)

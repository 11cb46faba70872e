"""What is tried beyond the papers: settings, statistics on values worked out by hand, strategies, and the page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.studies.papers.beyond import cell_studies, variants
from fedtempo.studies.papers.beyond_figures import draw_ratios
from fedtempo.studies.papers.beyond_page import beyond_page
from fedtempo.studies.papers.beyond_parts import AdaptiveAsyncMemory, PsflHops, agreement
from fedtempo.studies.papers.index import BEYOND, written_beyond
from fedtempo.studies.papers.output import run_exhibit
from fedtempo.studies.papers.race import Race, run_to_the_end
from fedtempo.studies.papers.ranking import ratio
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import SCALES, Request
from tests.runtime.world import play

RESULTS = Path(__file__).parents[3] / "docs" / "results"


# Settings


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("table", ["cells", "ends"])
def test_everyone_has_two_settings_and_each_is_usable(scale: Any, table: str) -> None:
    request = Request(scale, Path())
    known = {variant.label for variant in variants(request)}
    found = cell_studies(request, table)
    assert found
    for world in found:
        assert not set(world.budget.seeds) & set(world.budget.tuning_seeds)
        assert world.target_of in {other.cell.fleet for other in found}
        assert set(world.cell.points) <= known
        assert len(world.cell.points) > 4
        for label, points in world.cell.points.items():
            assert len(points) == 2
            for point in points:
                world.cell.base.for_comparison(label).with_changes(point, label=label)


def test_in_the_lte_cell_fedhuskys_variants_are_held_to_ten_of_the_fastest() -> None:
    lte = next(world.cell for world in cell_studies(Request("medium", Path()), "cells") if world.cell.fleet == "lte")
    free = lte.base.for_comparison("free").strategy
    assert (free.clients_at_once, free.reach, free.clusters) == (10, 0.1, None)  # type: ignore[attr-defined]
    planned = lte.base.for_comparison("planned").strategy
    assert (planned.clients_at_once, planned.reach, planned.tick_s) == (10, 0.1, 2.0)  # type: ignore[attr-defined]
    by_cluster = lte.base.for_comparison("free-by-cluster").strategy
    assert (by_cluster.clients_at_once, by_cluster.reach, by_cluster.exponent) == (10, 0.1, 1.0)  # type: ignore[attr-defined]
    assert lte.base.for_comparison("free-uncorrected").strategy.reach == 0.1  # type: ignore[attr-defined]
    assert lte.base.for_comparison("fedbuff").strategy.clients_at_once is None  # type: ignore[attr-defined]


# Statistics


def test_a_ratio_is_a_geometric_mean_with_students_interval() -> None:
    found = ratio([2.0, 8.0], [1.0, 1.0], 100.0)
    assert found.mean == pytest.approx(4.0)
    # Logarithms ln 2 and ln 8: standard error ln 2, and 12.706 of Student's with one degree of freedom.
    assert found.high == pytest.approx(4.0 * 2**12.7062, rel=1e-3)
    assert found.low == pytest.approx(4.0 / 2**12.7062, rel=1e-3)
    assert not found.bound


def test_runs_that_do_not_get_there_make_a_lower_bound() -> None:
    found = ratio([None, None], [10.0, 10.0], 100.0)
    assert (found.mean, found.bound) == (pytest.approx(10.0), True)
    assert found.words == "> 10.00 (10.00 to 10.00)"
    assert ratio([3.0], [3.0], 9.0).words == "1.00 (1.00 to 1.00)"


# Strategies


def test_the_gain_rises_where_changes_agree_with_the_models_way() -> None:
    start = np.zeros(2)
    assert agreement(np.array([1.0, 0.0]), start, np.array([3.0, 0.0])) == pytest.approx(1.0)
    assert agreement(np.array([1.0, 0.0]), start, np.array([-3.0, 0.0])) == pytest.approx(-1.0)
    assert agreement(start, start, np.array([1.0, 0.0])) == 0.0


@pytest.mark.parametrize(
    "strategy",
    [
        AdaptiveAsyncMemory(),
        PsflHops(clusters=1, width=2, length=2, clients_per_round=4),
    ],
    ids=["adaptive", "psfl-hops"],
)
def test_what_is_not_kept_runs_and_commits_every_visit(strategy: Any) -> None:
    _, records = play(strategy, clients=6, horizon=60.0, availability={"kind": "dropout", "probability": 0.1})
    done = int((records.visits["outcome"] == "done").sum())
    assert done > 100
    assert len(records.commits["version"]) == done


# Results


def made_up() -> dict[str, Any]:
    def tried(times: list[float | None]) -> dict[str, Any]:
        n = len(times)
        runs = {"target_s": times, "visits": [10] * n, "busy": [0.5] * n, "staleness": [None] * n}
        return {"chosen": {"training.lr": 0.3}, "runs": {**runs, "took_part": [1.0] * n, "mb": [5.0] * n}}

    told = {"name": "two", "title": "two labels", "data": "digits", "network": "mlp", "clients": 5, "horizon_s": 100.0}
    budget = {"seeds": [1, 2, 3], "tuning_seeds": [101], "lr": [0.3]}
    end = {"chosen": {"training.lr": 0.3}, "runs": {"late_accuracy": [0.9, 0.92]}}
    higher = {"chosen": {"training.lr": 0.1}, "runs": {"late_accuracy": [0.93, 0.96]}}
    return {
        "variants": {name: {"title": f"the {name} one"} for name in ("base", "fast", "never", "high")},
        "cells": [
            {
                **told,
                "reference": 0.95,
                "target": 0.9,
                "budget": budget,
                "tried": {
                    "base": tried([10.0, 20.0, 40.0]),
                    "fast": tried([5.0, 10.0, 20.0]),
                    "never": tried([None, None, None]),
                },
            }
        ],
        "ends": [{**told, "tried": {"base": end, "high": higher}}],
    }


def test_the_page_says_what_is_sooner_and_what_ends_higher(tmp_path: Path) -> None:
    kept = dict.fromkeys(made_up()["variants"], "`kept`")
    page = beyond_page(made_up(), "fedtempo reproduce all/beyond", kept)
    assert "| `base` | 20 s (10 to 40) |" in page
    assert "| `fast` | **0.50 (0.50 to 0.50)** |" in page
    assert "| `never` | > 5.00 (0.89 to 27.97) |" in page
    assert "| `fast` | the fast one | 1 | 1 | 0 | `kept` |" in page
    assert "| two labels | `high` | 0.945 (0.930 to 0.960) | +0.035 (+0.030 to +0.040) | lr 0.1 |" in page
    assert "| `high` |  |" not in page
    for name in ("one.svg", "two.svg", "one.png"):
        draw_ratios(made_up(), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_run_to_the_end_takes_the_setting_that_ends_highest(tmp_path: Path) -> None:
    world = cell_studies(Request("small", tmp_path), "ends")[0]
    points = {"fedavg": [{"strategy.clients_per_round": 2, "training.lr": lr} for lr in (0.001, 0.3)]}
    base = world.cell.base.with_changes({"run.horizon": 40.0})
    race = Race(type(world.cell)("tiny", "digits", "tiny", base, points), "fedavg", world.budget, None, 0, None)  # type: ignore[arg-type]
    facts, _ = run_to_the_end(race)
    best = max(facts["trials"], key=lambda trial: trial["late_accuracy"])
    assert facts["chosen"] == best["changes"]
    assert len(facts["runs"]["late_accuracy"]) == len(world.budget.seeds)


@pytest.mark.skipif(not (RESULTS / BEYOND).exists(), reason="it has not been run")
def test_the_committed_page_says_what_the_committed_numbers_do() -> None:
    assert (RESULTS / "beyond.md").read_text(encoding="utf-8") == written_beyond(RESULTS)


@pytest.mark.slow
def test_it_runs_at_small_scale_and_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    results = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        run_exhibit(EXHIBITS["all/beyond"], Request("small", tmp_path / name))
        results.append(json.loads((tmp_path / name / "beyond.json").read_text()))
    assert results[0] == results[1]
    assert all(math.isfinite(cell["horizon_s"]) for cell in results[0]["cells"])

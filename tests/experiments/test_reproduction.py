"""What reproducing says: verdicts, settings at every scale, and the entries that take no training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedtempo.config import load
from fedtempo.errors import ConfigError
from fedtempo.experiments.index import write_index
from fedtempo.experiments.registry import EXPERIMENTS
from fedtempo.experiments.reproduction import SCALES, SETTINGS, Asked, Row, Verdict, claim, number, overall, write_rows

PAPERS = sorted(path.stem for path in SETTINGS.glob("*.toml"))


def test_every_figure_and_table_of_the_five_papers_is_there() -> None:
    of = {
        name: [n.partition("/")[2] for n in EXPERIMENTS if n.startswith(f"{name}/")] for name in ("psfl", "fch", "csgd")
    }
    assert of["psfl"] == [*(f"fig{n}" for n in (1, 3, 4, 5, 6, 7, 8, 9)), "table1"]
    assert of["fch"] == [*(f"fig{n}" for n in (1, 3, 4, 5, 6)), "table1", "table2"]
    assert of["csgd"] == ["example1", "fig4", "table2", "table3", "table4", "table5"]
    assert [n for n in EXPERIMENTS if n.startswith("hybrid-fl/")] == [
        f"hybrid-fl/{what}" for what in ("fig3", "fig4", "fig5", "table1")
    ]
    assert [f"fedhusky/fig{n}" in EXPERIMENTS for n in (4, 5, 6, 7, 8)] == [True] * 5


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("scale", SCALES)
def test_settings_are_left_as_a_configuration_that_runs_by_itself(paper: str, scale: str, tmp_path: Path) -> None:
    asked = Asked(scale, tmp_path)  # type: ignore[arg-type]
    config = asked.settings(paper, ["run.horizon=5"])
    assert load(tmp_path / f"{paper}.toml").tables == config.tables
    assert config.run.horizon == 5
    for label in config.variants:
        assert config.for_comparison(label).label == label
    budget = asked.budget(paper)
    assert not set(budget.seeds) & set(budget.tuning_seeds)


def test_other_data_take_the_place_of_the_papers_only_when_asked(tmp_path: Path) -> None:
    assert Asked("medium", tmp_path).settings("psfl").data.source == "cifar10"
    asked = Asked("medium", tmp_path, "fashion-mnist")
    assert asked.settings("psfl").data.source == "fashion-mnist"
    title = EXPERIMENTS["psfl/fig1"].titled(asked)
    assert "on fashion-mnist in place of the paper's CIFAR-10" in title


def test_a_number_is_reached_within_its_tolerance_or_in_the_same_direction_or_not() -> None:
    assert number("q", 10.0, [9.0, 11.5], within=0.05).verdict is Verdict.REACHED
    row = number("q", 10.0, [8.0], within=0.05, direction=True, unit=" s")
    assert (row.verdict, row.paper, row.measured, row.ratio) == (Verdict.DIRECTION, "10.0 s", "8.0 s", "0.80")
    assert number("q", 10.0, [8.0], within=0.05).verdict is Verdict.NOT_REACHED
    assert number("q", 10.0, [float("inf")], within=0.05).verdict is Verdict.NOT_REACHED
    assert claim("q", "first", "second", False).verdict is Verdict.NOT_REACHED


def test_the_verdict_on_a_figure_is_that_of_its_rows_where_they_agree() -> None:
    yes, no, silent = claim("a", "", "", True), claim("b", "", "", False), Row("c", "-", "1")
    assert overall([yes, yes, silent]) is Verdict.REACHED
    assert overall([no, no]) is Verdict.NOT_REACHED
    assert overall([yes, no]) is Verdict.DIRECTION
    assert overall([silent]) is None


@pytest.mark.parametrize("name", ["csgd/example1", "fedhusky/fig4"])
def test_entries_without_training_leave_pictures_and_numbers(name: str, tmp_path: Path) -> None:
    asked = Asked("small", tmp_path)
    rows = EXPERIMENTS[name].reproduce(asked)
    write_rows(EXPERIMENTS[name], asked, rows)
    result = json.loads((tmp_path / "result.json").read_text())
    assert len(result["rows"]) == len(rows) > 0
    assert result["verdict"] in ("reached", None)
    assert sorted(path.suffix for path in tmp_path.glob("fig*") if path.suffix != ".json") == [".png", ".svg"]


def test_the_index_says_of_every_entry_what_was_found_or_that_it_was_not_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no result"):
        write_index(tmp_path)
    folder = tmp_path / "csgd" / "example1"
    folder.mkdir(parents=True)
    asked = Asked("small", folder)
    write_rows(EXPERIMENTS["csgd/example1"], asked, EXPERIMENTS["csgd/example1"].reproduce(asked))
    lines = write_index(tmp_path).read_text().splitlines()
    rows = {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("| ")}
    assert rows["[csgd/example1](csgd/example1/result.md)"].endswith("| small | reached |")
    assert rows["psfl/fig3"].endswith("| not run |")
    assert len(rows) == 1 + len(EXPERIMENTS)

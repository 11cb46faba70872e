"""What the README says about the demo and the league is what the stored results say."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.demo import COMPARISONS, SEEDS
from fedtempo.api.experiment import Experiment
from fedtempo.report.table import comparison_table
from fedtempo.strategies import STRATEGIES
from fedtempo.studies.papers.cells import read_contest
from fedtempo.studies.papers.reproduction import Request
from tests.docs.tables import RESULTS
from tests.docs.words import number_word

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
WORDS = " ".join(README.split())
COLUMNS = 80


def facts(name: str) -> dict[str, Any]:
    """Return a stored comparison."""
    stored = json.loads((RESULTS / "demo.json").read_text(encoding="utf-8"))
    comparison: dict[str, Any] = stored["comparisons"][name]
    return comparison


def shown(comparison: dict[str, Any]) -> str:
    """Return what a terminal shows of a comparison."""
    console = Console(file=io.StringIO(), width=COLUMNS)
    console.print(comparison_table(comparison, COLUMNS))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_the_demos_table_is_that_of_the_stored_comparison() -> None:
    block = README.split(f"A terminal with {COLUMNS} columns shows:\n\n```text\n")[1].split("\n```")[0]
    assert block == shown(facts("demo"))


def test_the_number_of_runs_is_that_of_the_stored_comparison() -> None:
    demo = facts("demo")
    strategies, seeds = len(demo["strategies"]), len(SEEDS)
    assert (
        f"It makes {number_word(strategies * seeds)} runs of {demo['horizon_s']:,.0f} simulated seconds: "
        f"{number_word(strategies)} strategies, each with {number_word(seeds)} seeds." in WORDS
    )


def test_momentum_is_as_fast_as_the_stored_comparison_says() -> None:
    medians = {label: each["time_to_target_s"]["median"] for label, each in facts("momentum")["strategies"].items()}
    assert set(medians) == {"fedhusky", "fedavg-momentum"}
    assert len(set(medians.values())) == 1, medians
    assert (
        f"`fedtempo compare configs/fedhusky.toml --strategies {COMPARISONS['momentum']} --seeds 1-3` gives " in WORDS
    )
    assert f"gives {medians['fedhusky']:g} s for both" in WORDS


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_stored_comparison_has_the_strategies_seeds_and_settings_of_the_command(name: str) -> None:
    comparison, config = facts(name), Experiment.shipped("fedhusky").config
    assert list(comparison["strategies"]) == COMPARISONS[name].split(",")
    assert all(each["seeds"] == list(SEEDS) for each in comparison["strategies"].values())
    assert (comparison["horizon_s"], comparison["target_accuracy"]) == (config.run.horizon, config.run.target_accuracy)


def test_the_readme_names_the_strategies_that_do_not_compete_in_the_league(tmp_path: Path) -> None:
    contest = read_contest(Request("medium", tmp_path), "league")
    competing = {cell.base.for_comparison(label).strategy_name for cell in contest.cells for label in cell.points}
    sentence = re.search(r"All compete but (.*?)\. (`[\w-]+`), whose server receives raw examples, is listed", WORDS)
    assert sentence is not None
    assert set(re.findall(r"`([\w-]+)`", sentence[1])) == STRATEGIES.keys() - competing
    assert [f"`{label}`" for label, entrant in contest.entrants.items() if not entrant.ranked] == [sentence[2]]

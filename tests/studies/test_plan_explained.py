"""What `fedtempo plan` explains: PSFL's objective with its optimum, CS-GD's clusters and frames."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fedtempo.cli import studies
from fedtempo.errors import ConfigError
from fedtempo.runs.config import parse
from fedtempo.runs.world import build_world
from fedtempo.strategies import STRATEGIES
from fedtempo.studies.competitors import competitors
from fedtempo.studies.plan_explained import explain_plan

TABLE_ONE = {"gradient_variance": 1.0, "gradient_spread": 0.4259, "visit_s": 2.5, "visit_variance": 1.0}


def explained(strategy: dict[str, Any], fleet: dict[str, Any] | None = None) -> str:
    config = parse(
        {
            "run": {"horizon": 50.0},
            "data": {"clients": 12, "examples_per_client": 10},
            "model": {"network": "logistic"},
            "fleet": {
                "compute": {"unit": "s/visit", "speed": [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0, 4.0, 4.0]},
                "link": {"kind": "fixed", "download_s": 0.25, "upload_s": 1.0},
                "estimates": "exact",
                **(fleet or {}),
            },
            "strategy": strategy,
        }
    )
    console = Console(width=79, record=True, file=io.StringIO())
    explain_plan(console, config, build_world(config))
    return console.export_text()


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.split()]


def test_psfl_shows_the_objective_with_its_minimum_and_the_training_clients() -> None:
    text = explained({"name": "psfl", "clients_per_round": 10, "constants": TABLE_ONE})
    assert "least at W = 4.59" in text
    shown = {line[0]: line for line in rows(text) if line[0].isdigit()}
    assert list(shown) == [str(w) for w in range(1, 11)]
    assert shown["1"][1:3] == ["10.00", "10"]
    assert [w for w, line in shown.items() if "least" in line or "least," in line] == ["5"]
    assert "trains, as 5 x 2" in text
    fixed = explained({"name": "psfl", "width": 3, "length": 3, "constants": TABLE_ONE})
    assert [line[0] for line in rows(fixed) if "trains," in line] == ["3"]


def test_csgd_shows_clusters_hull_and_frames() -> None:
    text = explained({"name": "csgd", "n_clusters": 4, "channels": 2})
    shown = {line[0]: line for line in rows(text)}
    assert "a round of 5.25 s serves 8 clients on 2 sub-channels" in text
    assert [shown[str(k)][4] for k in range(4)] == ["1", "2", "3", "4"]  # opens, s
    assert [shown[str(k)][6] for k in range(4)] == ["3", "6", "9", "12"]  # done
    for k in range(4):
        bar = shown[str(k)][-1]
        assert bar.count("━") == pytest.approx(24 * (k + 1) / 5.25, abs=1)
        assert bar.count("█") == pytest.approx(24 / 5.25, abs=1)
    assert "76.2 %" in text  # 4 / 5.25
    assert "19.0 %" in text
    assert "up to 4 clusters" in text
    assert max(map(len, text.splitlines())) <= 79


def test_csgd_says_that_clusters_gain_nothing_if_uploads_take_no_time(caplog: pytest.LogCaptureFixture) -> None:
    text = explained({"name": "csgd", "n_clusters": 2, "channels": 1}, {"link": "none"})
    assert "a round of 4 s serves 2 clients on 1 sub-channel " in text
    assert "The server expects uploads to take no time" in text
    assert " %" not in text
    assert not caplog.records, "reading the estimates is no run that can fail"


def test_csgd_shows_the_servers_estimates() -> None:
    believed = explained({"name": "csgd", "n_clusters": 1}, {"estimates": {"kind": "observed", "prior_s": [0, 9.0, 1]}})
    assert "9 to 9" in believed
    assert "a round of 10 s" in believed


@pytest.mark.parametrize("strategy", [{"name": "fedavg"}, {"name": "psfl", "width": 3, "length": 3}])
def test_other_strategies_have_no_explanation(strategy: dict[str, Any]) -> None:
    assert explained(strategy) == ""


def test_figures_of_plans_are_written_to_a_new_folder(tmp_path: Path) -> None:
    config = tmp_path / "two.toml"
    config.write_text(
        """
        run.horizon = 40.0
        data = { clients = 12, examples_per_client = 10 }
        model.network = "logistic"
        strategy = { name = "csgd", n_clusters = 3, channels = 2 }
        [fleet]
        compute = { unit = "s/visit", kind = "uniform", low = 1.0, high = 4.0 }
        link = { kind = "fixed", download_s = 0.25, upload_s = 1.0 }
        estimates = "exact"
        [compare.sequences]
        strategy.name = "psfl"
        strategy.constants = { gradient_variance = 1.0, gradient_spread = 0.4, visit_s = 2.5, visit_variance = 1.0 }
        """
    )
    studies.plan(config, "csgd,sequences", tmp_path / "pictures")
    names = {"busy", "alive", "calendars", "csgd-pipeline", "sequences-structure"}
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == {
        f"{n}.{s}" for n in names for s in ("png", "svg")
    }
    with pytest.raises(ConfigError, match="is not empty"):
        studies.plan(config, None, tmp_path / "pictures")


def test_all_names_every_strategy_starting_with_the_configured_one() -> None:
    base = parse(
        {
            "run": {"horizon": 1.0},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
            "strategy": {"name": "psfl"},
        }
    )
    every = competitors("all", base)
    assert every[0] == "psfl"
    assert sorted(every) == sorted(STRATEGIES)
    assert competitors("all, mine", base) == [*every, "mine"]
    assert competitors("hybrid,all", base)[:2] == ["hybrid", "psfl"]


def test_a_long_name_is_shortened_in_favour_of_numbers() -> None:
    summary = {
        "busy_ratio": {"mean": 0.698, "min": 0.174, "max": 1.0},
        "active_groups": {"mean": 35.1, "max": 10_000},
        "visits": 1_234_567,
        "commits": 123_456,
        "staleness": {"mean": 310.5},
    }
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(studies.plan_table({"the_module_of_somebody:FastestFirst": summary}))
    words = console.export_text().split()
    for number in ("69.8", "17.4", "100.0", "35.1", "10000", "1,234,567", "123,456", "310.5"):
        assert number in words

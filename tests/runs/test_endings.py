"""Runs that end by patience or a budget: the same on every executor, resumed, and continued."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from fedtempo.errors import ConfigError
from fedtempo.record import load_run
from fedtempo.runs.config import Config, parse
from fedtempo.runs.foresight import schedule_only
from fedtempo.runs.run import Run, configuration
from tests.crash import lives

MODELS = {"run.keep": ["last", "best"]}
STATE = {"run.keep": ["last", "best", "state"]}
PATIENCE = {"run.patience": {"evaluations": 3, "measure": "loss", "min_delta": 0.02}, "run.evaluate_every": 2.0}
BYTES = {"run.budget": {"bytes": "1 MB"}}


def config(changes: dict[str, Any], strategy: str = "fedavg") -> Config:
    return lives.config(strategy, {"run.horizon": 500.0, "run.checkpoint_every": 30.0, **MODELS, **changes})


def whole(longer: Config, folder: Path) -> Path:
    Run(longer.with_changes(MODELS, label=longer.label), page=False).begin(folder)
    return folder


def go_on(folder: Path, **run: Any) -> dict[str, Any]:
    sets = [f"run.{key}={json.dumps(value)}" for key, value in {"keep": ["last", "best"], **run}.items()]
    return Run(configuration(folder, sets), page=False).complete(folder)


def test_patience_ends_a_run_where_its_records_say_so(tmp_path: Path) -> None:
    short = config(PATIENCE)
    summary = Run(short, page=False).begin(tmp_path / "run")
    assert summary["ended"] == "patience"
    assert summary["end_reason"].startswith("loss did not improve by more than 0.02 in the last 3 evaluated versions")
    evaluations = load_run(tmp_path / "run").evaluations
    best, without, seen, after = float("inf"), 0, -1, set()
    for version, loss in zip(evaluations["version"].tolist(), evaluations["loss"].tolist(), strict=True):
        if version != seen:
            best, without = (loss, 0) if best - loss > 0.02 else (best, without + 1)
        if without >= 3:
            after.add(version)
        seen = version
    assert seen == summary["commits"]
    assert len(after) in (1, 2)  # the version that ended the run, and the one committed at that moment


@pytest.mark.parametrize("changes", [PATIENCE, BYTES])
@pytest.mark.parametrize("strategy", ["fedavg", "fedasync"])
def test_every_executor_ends_it_at_the_same_commit(changes: dict[str, Any], strategy: str, tmp_path: Path) -> None:
    Run(config(changes, strategy), page=False).begin(tmp_path / "inline")
    processes = {**changes, "executor.kind": "processes", "executor.workers": 2}
    Run(config(processes, strategy), page=False).begin(tmp_path / "processes")
    lives.assert_the_same(tmp_path / "inline", tmp_path / "processes")


@pytest.mark.parametrize("changes", [PATIENCE, BYTES, {"run.budget": {"client_hours": 0.05}}])
def test_an_interrupted_run_ends_at_the_same_commit(changes: dict[str, Any], tmp_path: Path) -> None:
    def interrupt(sim: Any, evaluations: Any) -> None:
        asyncio.get_running_loop().call_at(6.5, lambda: signal.raise_signal(signal.SIGINT))

    short = config(changes)
    assert Run(short, watch=interrupt, page=False).begin(tmp_path / "run")["ended"] == "interrupted"
    Run(short, page=False).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", whole(short, tmp_path / "whole"))


@pytest.mark.long
def test_more_patience_gives_the_longer_run(tmp_path: Path) -> None:
    short = config({**PATIENCE, **STATE})
    Run(short, page=False).begin(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"run\.patience: 3 evaluated versions did not improve by .* s; give more"):
        go_on(tmp_path / "run", horizon=600.0)
    more = {"run.patience.evaluations": 6}
    Run(short.with_changes({**more, **MODELS}), page=False).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", whole(short.with_changes(more), tmp_path / "whole"))


def test_a_larger_budget_gives_the_longer_run(tmp_path: Path) -> None:
    short = config({**BYTES, **STATE})
    summary = Run(short, page=False).begin(tmp_path / "run")
    assert (summary["ended"], sum(summary["bytes"].values()) >= 1_000_000) == ("bytes", True)
    with pytest.raises(ConfigError, match=r"run\.budget\.bytes = 1e\+06: it has already used 1\.\d MB; give more"):
        go_on(tmp_path / "run", horizon=600.0)
    more = {"run.budget.bytes": "2 MB"}
    Run(short.with_changes({**more, **MODELS}), page=False).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", whole(short.with_changes(more), tmp_path / "whole"))


def test_a_finished_run_has_used_more_than_a_new_budget_allows(tmp_path: Path) -> None:
    Run(config({"executor.kind": "none", "run.horizon": 24.0}), page=False).begin(tmp_path / "run")
    with pytest.raises(
        ConfigError, match=r"run\.budget\.client_hours = 0\.001: it has already used 0\.\d+ client hours"
    ):
        Run(configuration(tmp_path / "run", ["run.budget.client_hours=0.001"]), page=False).complete(tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run.patience": 0}, r"run\.patience: evaluations = 0: "),
        ({"run.patience": 5, "executor.kind": "none"}, r"run\.patience: executor\.kind = 'none' trains nothing"),
        ({"run.patience": {"measure": "loss"}}, r"run\.patience: evaluations: "),
        ({"run.budget": 5}, r"run\.budget: 5 is no table; give some of \{ bytes, client_hours"),
        ({"run.budget": {}}, r"run\.budget: it is empty; give bytes, client_hours, watt_hours or epsilon"),
        ({"run.budget": {"bytes": "ten"}}, r"run\.budget: bytes = 'ten': could not parse value and unit"),
        ({"run.budget": {"watt_hours": 1.0}}, r"run\.budget\.watt_hours: the fleet states no power; set fleet\.comp"),
        ({"run.budget": {"epsilon": 1.0}}, r"run\.budget\.epsilon: privacy is off; set server\.privacy"),
    ],
)
def test_settings_that_cannot_end_a_run(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config(changes)
    assert "\n" not in str(caught.value)


def test_a_measure_that_the_data_do_not_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"run\.patience\.measure = 'mae': these data have no such measure"):
        Run(config({"run.patience": {"evaluations": 3, "measure": "mae"}}), page=False).begin(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_patience_and_budgets_are_ends_of_their_own() -> None:
    ending = parse({**lives.config("fedavg").given, "run": {"patience": 4}})
    assert (ending.run.patience is not None, ending.run.may_end_early) == (True, True)
    assert parse({**lives.config("fedavg").given, "run": {"budget": {"bytes": 10}}}).run.may_end_early
    assert parse(ending.tables).run == ending.run


def test_a_plan_keeps_budgets_and_drops_patience() -> None:
    planned = schedule_only(config({**PATIENCE, **BYTES}))
    assert (planned.run.patience, planned.run.budget) == (None, config(BYTES).run.budget)

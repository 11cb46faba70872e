"""A finished run that goes on equals the longer run to the bit, and what cannot go on says why."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

import fedtempo
from fedtempo.errors import ConfigError
from fedtempo.record import load_run
from fedtempo.record.journal import read_identity
from fedtempo.record.models import ModelFiles
from fedtempo.runs.config import Config
from fedtempo.runs.identity import identity
from fedtempo.runs.run import Run, configuration
from fedtempo.strategies import STRATEGIES
from tests.crash import lives

PLANS_BY_THE_HORIZON = {"fedhusky", "fedhusky-paper"}
FREE = sorted(STRATEGIES.keys() - PLANS_BY_THE_HORIZON)
STATE = {"run.keep": ["last", "best", "state"]}


def config(strategy: str = "fedavg", changes: dict[str, Any] | None = None) -> Config:
    return lives.config(strategy, {"run.horizon": 24.0, "run.checkpoint_every": 30.0, **STATE, **(changes or {})})


def whole(longer: Config, folder: Path) -> Path:
    """Make the longer run at once."""
    Run(longer.with_changes({"run.keep": ["last", "best"]}, label=longer.label), page=False).begin(folder)
    return folder


def go_on(folder: Path, **run: Any) -> dict[str, Any]:
    """Continue the run in a folder; its state is not kept any longer."""
    sets = [f"run.{key}={json.dumps(value)}" for key, value in {"keep": ["last", "best"], **run}.items()]
    return Run(configuration(folder, sets), page=False).complete(folder)


@pytest.mark.parametrize("name", FREE)
def test_a_later_horizon_gives_the_longer_run(name: str, tmp_path: Path) -> None:
    short = config(name)
    assert Run(short, page=False).begin(tmp_path / "run")["ended"] == "horizon"
    trained = load_run(tmp_path / "run").visits["number"].size
    assert go_on(tmp_path / "run", horizon=48.0)["ended"] == "horizon"
    assert load_run(tmp_path / "run").visits["number"].size > trained
    assert load_run(tmp_path / "run").facts["resumed"] == 1
    longer = short.with_changes({"run.horizon": 48.0})
    lives.assert_the_same(tmp_path / "run", whole(longer, tmp_path / "whole"))


@pytest.mark.parametrize("name", ["fedavg", "fedbuff", "hybrid", "csgd", "psfl"])
def test_more_commits_give_the_longer_run(name: str, tmp_path: Path) -> None:
    short = config(name, {"run.horizon": 200.0, "run.max_commits": 2})
    assert Run(short, page=False).begin(tmp_path / "run")["ended"] == "budget"
    assert go_on(tmp_path / "run", max_commits=5)["commits"] >= 5
    longer = short.with_changes({"run.max_commits": 5})
    lives.assert_the_same(tmp_path / "run", whole(longer, tmp_path / "whole"))


@pytest.mark.parametrize("name", sorted(PLANS_BY_THE_HORIZON))
def test_strategies_that_plan_by_the_horizon_can_make_more_commits_only(name: str, tmp_path: Path) -> None:
    short = config(name, {"run.horizon": 60.0, "run.max_commits": 3})
    Run(short, page=False).begin(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"cannot be continued: its strategy plans by run\.horizon"):
        go_on(tmp_path / "run", horizon=80.0, max_commits=6)
    go_on(tmp_path / "run", max_commits=6)
    longer = short.with_changes({"run.max_commits": 6})
    lives.assert_the_same(tmp_path / "run", whole(longer, tmp_path / "whole"))


def test_finished_work_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedtempo.runtime.executors.job import Trainer

    visits: list[tuple[int, int]] = []
    train = Trainer.train

    def counted(self: Any, received: Any, out: Any, client: int, visit: int, *rest: Any) -> Any:
        visits.append((client, visit))
        return train(self, received, out, client, visit, *rest)

    monkeypatch.setattr(Trainer, "train", counted)
    Run(config(), page=False).begin(tmp_path / "run")
    go_on(tmp_path / "run", horizon=48.0)
    once = set(visits)
    assert len(once) <= len(visits) <= len(once) + 20  # visits that the end cut short are made again
    visits.clear()
    whole(config(changes={"run.horizon": 48.0}), tmp_path / "whole")
    assert set(visits) == once


def test_a_run_without_state_is_repeated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    short = config(changes={"run.keep": ["last", "best"]})
    Run(short, page=False).begin(tmp_path / "run")
    sha256 = load_run(tmp_path / "run").facts["data"]["sha256"]
    assert read_identity(tmp_path / "run/journal.jsonl") == identity(short, sha256)
    with caplog.at_level(logging.WARNING):
        go_on(tmp_path / "run", horizon=48.0)
    assert "no state was kept (run.keep), so the run is repeated from its start" in caplog.text
    lives.assert_the_same(tmp_path / "run", whole(short.with_changes({"run.horizon": 48.0}), tmp_path / "whole"))


def test_a_run_goes_on_several_times_and_survives_an_interruption(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Run(config(), page=False).begin(folder)
    assert len(ModelFiles(folder / "models").names()) > 0
    go_on(folder, horizon=36.0, keep=["last", "best", "state"])

    def interrupt(sim: Any, evaluations: Any) -> None:
        asyncio.get_running_loop().call_at(40.5, lambda: signal.raise_signal(signal.SIGINT))

    sets = ["run.horizon=48.0", 'run.keep=["last","best"]']
    assert Run(configuration(folder, sets), watch=interrupt, page=False).complete(folder)["ended"] == "interrupted"
    with pytest.raises(ConfigError, match=r"run\.horizon was 48\.0 and is 60\.0"):
        go_on(folder, horizon=60.0)
    assert Run(configuration(folder, []), page=False).complete(folder)["ended"] == "horizon"
    longer = config(changes={"run.horizon": 48.0})
    lives.assert_the_same(folder, whole(longer, tmp_path / "whole"))


@pytest.mark.parametrize("moment", ["before the journal", "before the configuration"])
def test_a_crash_while_it_begins_to_go_on_loses_nothing(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    Run(config(), page=False).begin(folder)

    class Crash(Exception):
        pass

    def crash(*arguments: Any, **options: Any) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        if moment == "before the journal":
            patched.setattr("fedtempo.record.journal.Journal.extend", crash)
        else:
            patched.setattr("fedtempo.runs.run.write_text", crash)
        with pytest.raises(Crash):
            go_on(folder, horizon=48.0)
    if moment == "before the journal":
        with pytest.raises(ConfigError, match=r"run\.horizon was 24\.0 and is 48\.0"):
            go_on(folder, horizon=48.0)
        Run(configuration(folder, []), page=False).complete(folder)
    go_on(folder, horizon=48.0)
    assert load_run(folder).config["run"]["horizon"] == 48.0
    lives.assert_the_same(folder, whole(config(changes={"run.horizon": 48.0}), tmp_path / "whole"))


def test_a_higher_target_goes_on(tmp_path: Path) -> None:
    changes = {"run.horizon": 120.0, "run.target_accuracy": 0.3, "run.stop_at_target": True, "run.evaluate_every": 1.0}
    short = config(changes={**changes, "training.lr": 0.5})
    assert Run(short, page=False).begin(tmp_path / "run")["ended"] == "target"
    with pytest.raises(ConfigError, match=r"run\.target_accuracy = 0\.2: reached after .* s; give a higher one"):
        go_on(tmp_path / "run", target_accuracy=0.2)
    with pytest.raises(ConfigError, match=r"run\.target_accuracy = 0\.3: reached after"):
        go_on(tmp_path / "run", horizon=200.0)
    go_on(tmp_path / "run", target_accuracy=0.5)
    longer = short.with_changes({"run.target_accuracy": 0.5})
    lives.assert_the_same(tmp_path / "run", whole(longer, tmp_path / "whole"))


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        ({}, {"horizon": 12.0}, r"run\.horizon = 12: it has already run for 24 s; give a later end"),
        ({}, {"max_commits": 1}, r"run\.max_commits = 1: it has already made \d+ commits; give a larger number"),
        ({}, {"max_commits": 1000}, r"it ended at run\.horizon = 24; give a later one"),
        ({"run.max_commits": 2}, {"horizon": 48.0}, r"it ended at run\.max_commits = 2; give a larger number"),
        (
            {"executor.kind": "inline"},
            {"horizon": 48.0, "stop_at_target": True, "target_accuracy": 0.0},
            r"run\.target_accuracy = 0: reached",
        ),
        ({}, {"horizon": 48.0, "seed": 2}, r"run\.seed was 1 and is 2"),
        ({}, {"horizon": 48.0, "evaluate_every": 3.0}, r"run\.evaluate_every was 5\.0 and is 3\.0"),
    ],
)
def test_what_cannot_go_on_says_why(
    base: dict[str, Any], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    Run(config(changes={"executor.kind": "none", **base}), page=False).begin(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=message) as caught:
        go_on(tmp_path / "run", **changes)
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


def test_other_runs_that_cannot_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    Run(config(), page=False).begin(folder)
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "journal.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"cannot be continued: journal\.jsonl is missing"):
        go_on(copy, horizon=48.0)
    monkeypatch.setattr("fedtempo.runs.identity.code_sha256", lambda config, deployed: "other")
    with pytest.raises(ConfigError, match=r"cannot be resumed: versions\.code was .* --force resumes nevertheless"):
        go_on(folder, horizon=48.0)
    with pytest.raises(ConfigError, match=r"keep = \['state'\]: the state is a checkpoint; set checkpoint_every"):
        config(changes={"run.checkpoint_every": 0.0})


def test_from_python(tmp_path: Path) -> None:
    experiment = fedtempo.Experiment.of(config())
    experiment.run(tmp_path / "run")
    sets = ["run.horizon=48.0", "executor.kind=processes", "executor.workers=2"]
    result = fedtempo.resume(tmp_path / "run", sets=sets)
    assert isinstance(result, fedtempo.Result)
    assert result.summary["horizon_s"] == 48.0
    again = experiment.with_(run={"horizon": 48.0}).run()
    assert result.summary["model_sha256"] == again.summary["model_sha256"]
    assert result.summary["events_sha256"] == again.summary["events_sha256"]


def test_all_runs_of_a_comparison_go_on(tmp_path: Path) -> None:
    experiment = fedtempo.Experiment.of(config(changes={"run.keep": ["last"]}))
    experiment.compare(["fedavg", "hybrid"], [1, 2], tmp_path / "both")
    compared = fedtempo.resume(tmp_path / "both", sets=["run.horizon=48.0"])
    longer = experiment.with_(run={"horizon": 48.0}).compare(["fedavg", "hybrid"], [1, 2])
    assert isinstance(compared, fedtempo.Comparison)
    for label in ("fedavg", "hybrid"):
        hashes = [[run.summary["model_sha256"] for run in each[label]] for each in (compared, longer)]
        assert hashes[0] == hashes[1]
    again = fedtempo.resume(tmp_path / "both")
    assert {run.summary["horizon_s"] for run in again} == {48.0}
    (tmp_path / "both/fedavg-seed2/summary.json").unlink()
    with pytest.raises(ConfigError, match="the run has not finished; resume the comparison first"):
        fedtempo.resume(tmp_path / "both", sets=["run.horizon=60.0"])
    finished = fedtempo.resume(tmp_path / "both")
    assert [run.summary["model_sha256"] for run in finished] == [run.summary["model_sha256"] for run in again]

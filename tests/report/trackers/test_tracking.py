"""Trackers receive everything, change no result and end no run."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fedtempo.cli import app
from fedtempo.errors import ConfigError
from fedtempo.record import load_run
from fedtempo.report.trackers import make_trackers
from fedtempo.report.trackers import tracking as tracking_module
from fedtempo.report.trackers.points import About, Point
from fedtempo.report.trackers.tracking import Tracking, tracked
from fedtempo.runs.config import parse
from fedtempo.runs.run import Run

TABLES: dict[str, Any] = {
    "run": {"horizon": 30.0},
    "data": {"source": "digits", "clients": 5, "examples_per_client": 10, "test_examples": 50},
    "model": {"network": "logistic"},
    "fleet": {
        "compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 3.0},
        "link": {"kind": "fixed", "download_s": 0.1, "upload_s": 0.2},
        "estimates": "exact",
    },
    "strategy": {"name": "fedavg", "clients_per_round": 3},
    "executor": {"kind": "inline"},
}


class Remembers:
    """A tracker that remembers what it received and from which thread."""

    instances: list[Remembers] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.about: About | None = None
        self.points: list[Point] = []
        self.summary: Mapping[str, Any] | None = None
        self.files: list[str] = []
        self.threads: set[str] = set()
        self.instances.append(self)

    def begin(self, about: About) -> None:
        self.threads.add(threading.current_thread().name)
        self.about = about

    def log(self, points: Sequence[Point]) -> None:
        self.threads.add(threading.current_thread().name)
        self.points += points

    def end(self, summary: Mapping[str, Any], artefacts: Sequence[Path]) -> None:
        self.summary, self.files = summary, [path.name for path in artefacts]


class Breaks(Remembers):
    def log(self, points: Sequence[Point]) -> None:
        super().log(points)
        raise OSError("the tracker's disk is full")


class Hangs(Remembers):
    def begin(self, about: About) -> None:
        time.sleep(30)


@pytest.fixture(autouse=True)
def _forget() -> None:
    Remembers.instances.clear()


def run(folder: Path, *trackers: str) -> dict[str, Any]:
    config = parse(TABLES | {"run": {"horizon": 30.0, "track": list(trackers)}})
    with tracked(config, folder) as observers:
        return Run(config, observers=observers).begin(folder)


def test_a_tracker_receives_everything_in_a_separate_thread_and_changes_no_bit(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone")
    followed = run(tmp_path / "followed", f"{__name__}:Remembers")
    for name in ("model_sha256", "events_sha256", "final_accuracy"):
        assert followed[name] == alone[name]
    tracker = Remembers.instances[0]
    records = load_run(tmp_path / "followed")
    accuracies = [(p.time_s, p.values["evaluation/accuracy"]) for p in tracker.points if "evaluation/loss" in p.values]
    assert accuracies == list(zip(records.evaluations["time"].tolist(), records.evaluations["accuracy"].tolist()))
    ended = records.visits["finished"]
    assert [p.visits for p in tracker.points if "evaluation/loss" in p.values] == [
        int((ended <= time).sum()) for time in records.evaluations["time"]
    ]
    assert tracker.threads == {"trackers"}
    assert tracker.about is not None
    assert tracker.about.name == "fedavg-seed1"
    assert tracker.about.tables["strategy"]["name"] == "fedavg"
    assert tracker.summary is not None
    assert tracker.summary["visits"] == followed["visits"]
    assert tracker.files == ["config.toml", "environment.json", "summary.json", "report.html"]


def test_a_failing_tracker_is_logged_once_and_the_others_continue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        summary = run(tmp_path / "run", f"{__name__}:Breaks", f"{__name__}:Remembers")
    assert summary["ended"] == "horizon"
    assert [record.getMessage() for record in caplog.records] == [
        f"{__name__}:Breaks failed; this run sends it nothing more: the tracker's disk is full"
    ]
    broken, well = Remembers.instances
    assert broken.summary is None
    assert well.summary is not None


def test_a_tracker_that_hangs_does_not_block_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking_module, "PATIENCE_S", 0.05)
    tracking = Tracking({"hangs": Hangs()}, About("run", tmp_path, {}, 0.0))
    tracking.take(Point(0.0, 0, {}))
    tracking.finish({}, ())
    assert "hangs did not finish within 0.05 s" in caplog.text


def test_a_run_that_never_begins_leaves_nothing_at_trackers(tmp_path: Path) -> None:
    config = parse(TABLES | {"run": {"horizon": 30.0, "track": [f"{__name__}:Remembers"]}})
    with pytest.raises(ConfigError, match="bad"), tracked(config, tmp_path):
        raise ConfigError("bad")
    assert Remembers.instances[0].about is None


def test_missing_or_unknown_trackers_are_reported_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"^run\.track = 'wandb': .*pip install 'fedtempo\[trackers\]'$"):
        run(tmp_path / "run", "wandb")
    with pytest.raises(ConfigError, match=r"run\.track = 'tensorbord': no such tracker; did you mean 'tensorboard'"):
        make_trackers(["tensorbord"])
    assert not (tmp_path / "run").exists()


def test_trackers_are_set_on_the_command_line_and_stored_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import tomli_w

    config = tmp_path / "small.toml"
    config.write_text(tomli_w.dumps(TABLES))

    def fedtempo(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["fedtempo", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return int(ended.value.code or 0)

    assert fedtempo("run", config, "--out", tmp_path / "run", "--track", f"{__name__}:Remembers") == 0
    assert f'"{__name__}:Remembers"' in (tmp_path / "run/config.toml").read_text()
    assert Remembers.instances[-1].files[-1] == "report.html"
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for command in (["run"], ["compare", "--strategies", "fedavg"]):
        assert fedtempo(*command, config, "--out", tmp_path / "none", "--track", "mlflow") == 2
        complaint = capsys.readouterr().err
        assert complaint.startswith("error: run.track = 'mlflow'")
        assert complaint.count("\n") == 1
        assert not (tmp_path / "none").exists()
    Remembers.instances.clear()
    arguments = ["--strategies", "fedavg,sequential", "--track", f"{__name__}:Remembers", "--log-format", "json"]
    assert fedtempo("compare", config, "--out", tmp_path / "both", *arguments) == 0
    followed = [tracker.about.name for tracker in Remembers.instances if tracker.about]
    assert followed == ["fedavg-seed1", "sequential-seed1"]
    assert '"logger": "fedtempo.run"' in capsys.readouterr().err

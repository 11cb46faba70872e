"""The file with a run's current state."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedtempo.errors import RunError
from fedtempo.record.recorder import VisitRow
from fedtempo.runs.config import parse
from fedtempo.runs.run import Run
from fedtempo.runtime import heartbeat as pulses
from fedtempo.runtime.heartbeat import heartbeat

TABLES: dict[str, Any] = {
    "run": {"horizon": 50.0},
    "data": {"source": "digits", "clients": 6, "examples_per_client": 10},
    "model": {"network": "logistic"},
    "fleet": {
        "compute": {"unit": "s/visit", "kind": "constant", "value": 2.0},
        "link": {"kind": "fixed", "download_s": 0.1, "upload_s": 0.2},
        "estimates": "exact",
    },
    "strategy": {"name": "fedavg", "clients_per_round": 3},
    "executor": {"kind": "none"},
}


def wait_for(path: Path, what: str) -> dict[str, Any]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if path.exists() and what in path.read_text():
            state: dict[str, Any] = json.loads(path.read_text())
            return state
        time.sleep(0.01)
    raise AssertionError(f"{path} never held {what}")


class Waits:
    """An observer that holds the run at a commit until the heartbeat file has been written."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, {}

    def visit(self, row: VisitRow) -> None:
        if row.number == 7 and not self.said:
            self.said = wait_for(self.folder / "now.json", '"now_s"')

    def commit(self, version: int, time: float, staleness: int) -> None: ...
    def evaluation(self, time: float, version: int, accuracy: float, loss: float, mae: float | None) -> None: ...
    def measured(self, time: float, version: int, values: Any) -> None: ...
    def traffic(self, down: int, up: int, relay: int) -> None: ...
    def fact(self, name: str, value: object) -> None: ...


def test_a_run_publishes_its_state_and_removes_the_file_when_it_ends(tmp_path: Path) -> None:
    waits = Waits(tmp_path / "run")
    summary = Run(parse(TABLES), observers=[waits]).begin(tmp_path / "run")
    assert summary["visits"] > 60
    assert waits.said.keys() == {"now_s", "visits_begun", "busy", "in_progress"}
    assert 0 <= waits.said["now_s"] <= 6.0
    assert not (tmp_path / "run/now.json").exists()
    alone = Run(parse(TABLES)).begin(tmp_path / "alone")
    assert alone["events_sha256"] == summary["events_sha256"]


def test_visits_are_published_with_their_phases(tmp_path: Path) -> None:
    stay = SimpleNamespace(group=None, received_at=1.5)
    visit = SimpleNamespace(client=SimpleNamespace(id=3), started=1.0, computed=None, state=stay)
    run = SimpleNamespace(now=2.0, visits_begun=9, in_progress=lambda: [visit] * 3)
    heard: list[Any] = []
    with heartbeat(tmp_path / "now.json", lambda run, _: heard.append(run), every_s=0.02) as begin:
        begin(run, None)  # type: ignore[arg-type]
        assert heard == [run]
        state = wait_for(tmp_path / "now.json", "now_s")
        assert state == {"now_s": 2.0, "visits_begun": 9, "busy": 3, "in_progress": [[3, -1, 1.0, 1.5, None]] * 3}
        run.now = 3.0
        wait_for(tmp_path / "now.json", "3.0")
    assert not (tmp_path / "now.json").exists()


def test_a_full_disk_is_logged_once_and_the_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path, text: str) -> None:
        raise RunError(f"{path} could not be written: no space left")

    monkeypatch.setattr(pulses, "write_text", full)
    run = SimpleNamespace(now=2.0, visits_begun=9, in_progress=list)
    with heartbeat(tmp_path / "now.json", every_s=0.01) as begin:
        begin(run, None)  # type: ignore[arg-type]
        time.sleep(0.1)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no space left" in caplog.text

"""A deployment that is killed as it begins or ends, or whose disk is full, leaves a folder that can be used."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from fedtempo.api.experiment import resume
from fedtempo.deploy import remembering
from fedtempo.deploy import run as deploying
from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError, RunError
from fedtempo.record import RunFolder, load_run
from fedtempo.record.folder import claim
from fedtempo.record.journal import Journal
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients


class Killed(BaseException):
    """Stop without cleaning up, as after SIGKILL."""


def killing(*_: Any, **__: Any) -> Any:
    raise Killed


@pytest.mark.parametrize("last", ["leave_results", "write_report", "forget"])
def test_a_deployment_killed_after_its_summary_is_concluded_by_resume(
    last: str, tmp_path: Path, grid: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = {
        "leave_results": "fedtempo.runs.run",
        "write_report": "fedtempo.report.html",
        "forget": "fedtempo.deploy.run",
    }[last]
    with monkeypatch.context() as patch:
        patch.setattr(f"{module}.{last}", killing)
        with pytest.raises(Killed):
            deploy_to_folder(config(), tmp_path / "run", grid)
    assert (tmp_path / "run" / "deployment.json").exists()
    result = resume(tmp_path / "run")
    assert result.summary["ended"] == "budget"
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert not {"deployment.json", "journal.jsonl"} & names
    assert "report.html" in names
    assert [path.name for path in (tmp_path / "run" / "models").iterdir()] == ["last.safetensors"]


def test_a_deployment_killed_before_its_configuration_was_written_is_begun_again(
    tmp_path: Path, grid: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(deploying, "write_text", killing)
        with pytest.raises(Killed):
            deploy_to_folder(config(), tmp_path / "run", grid)
    monkeypatch.setattr("fedtempo.record.folder._LOCK_TIMEOUT_S", 0.1)
    with claim(tmp_path / "run"), pytest.raises(ConfigError, match="is in use: another process works there"):
        deploy_to_folder(config(), tmp_path / "run", grid)
    assert deploy_to_folder(config(), tmp_path / "run", grid)["ended"] == "budget"


def test_the_options_of_a_deployment_are_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is missing for a moment would make a simulation of the deployment if the process died then."""
    with RunFolder.create(tmp_path / "run") as folder:
        remembering.remember(folder, {"local": 2})
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", killing)
            with pytest.raises(Killed):
                remembering.remember(folder, {"local": 3})
            patch.setattr(os, "replace", killing)
            with pytest.raises(Killed):
                remembering.remember(folder, {"local": 3})
    assert remembering.remembered(tmp_path / "run") == {"local": 2}
    assert (tmp_path / "run" / "deployment.json").stat().st_mode & 0o777 == 0o600


def test_a_half_written_file_of_options_is_deleted_by_the_next_process(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".deployment.json.abcdefgh").touch()
    with RunFolder.create(tmp_path / "run"):
        assert not (tmp_path / "run" / ".deployment.json.abcdefgh").exists()


def test_a_full_disk_is_one_error(
    tmp_path: Path, grid: Loopback, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add = Journal.add
    count = iter(range(10**6))

    def full(journal: Journal, rows: Any) -> None:
        if next(count) >= 6:
            raise RunError(f"{journal.path} could not be written: No space left on device")
        add(journal, rows)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", full)
        with (
            caplog.at_level(logging.ERROR),
            pytest.raises(RunError, match=r"journal.jsonl could not be written: No space"),
        ):
            deploy_to_folder(config(), tmp_path / "run", grid)
    assert not caplog.messages
    with RunFolder.resume(tmp_path / "run") as folder:
        assert deploying.resume_deployment(config(), folder, grid)["visits"] == 9
    assert load_run(tmp_path / "run").visits["outcome"].tolist() == ["done"] * 9


def test_a_description_does_not_make_a_client_forget_its_last_training(
    tmp_path: Path, grid: Loopback, clients: list[Answers]
) -> None:
    """A server that was restarted asks for descriptions, and may then ask for the last reply again."""
    deploy_to_folder(config(run__max_commits=1), tmp_path / "run", grid)
    last = next(call for call in reversed(grid.calls) if call.kind == "train" and call.node == 100)
    first, _ = clients[0].answer("train", last.content, last.arrays)
    clients[0].answer("describe", {"call": "other:1"}, ())
    again, _ = clients[0].answer("train", last.content, last.arrays)
    assert again is first


def test_times_of_visits_are_in_order_although_the_clock_stands_still_while_clusters_are_found(tmp_path: Path) -> None:
    grid = Loopback(digits_clients(4))
    settings = config(strategy__name="fedhusky-paper", strategy__clusters=2, data__clients=4)
    deploy_to_folder(settings, tmp_path / "run", grid)
    grid.close()
    visits = load_run(tmp_path / "run").visits
    assert visits["finished"][:4].tolist() == [0.0] * 4
    names = ("queued", "started", "received", "computed", "finished")
    for times in zip(*(visits[name] for name in names), strict=True):
        assert list(times) == sorted(times)

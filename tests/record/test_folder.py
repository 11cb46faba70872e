"""A run folder is claimed once and never overwritten."""

import json
import subprocess
from pathlib import Path

import pytest

from fedtempo.errors import ConfigError
from fedtempo.record import Recorder, RunFolder, default_name, write_json
from fedtempo.record.folder import unused


def test_a_new_folder_records_the_environment_of_its_run(tmp_path):
    with RunFolder.create(tmp_path / "deep" / "run", seed=5) as folder:
        facts = json.loads(folder.environment.read_text())
    assert facts["seed"] == 5
    assert facts["packages"]["fedtempo"]
    assert facts["packages"]["numpy"]
    assert facts["cpu_count"] >= 1
    assert {"python", "platform", "processor", "git_revision"} <= facts.keys()
    if Path("/proc/cpuinfo").exists():
        assert facts["processor"]


def test_the_git_revision_is_that_of_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*run, "init", "-q"], check=True)
    subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    head = subprocess.run([*run, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert json.loads(RunFolder.create(tmp_path / "run").environment.read_text())["git_revision"] == head


def test_a_finished_run_is_never_overwritten(tmp_path):
    with RunFolder.create(tmp_path / "run") as folder:
        folder.config.write_text("")
        write_json(folder.summary, {"ended": "target"})
    with pytest.raises(ConfigError, match="finished run, which is never overwritten"):
        RunFolder.create(tmp_path / "run")
    with pytest.raises(ConfigError, match="the run has finished; nothing to resume"):
        RunFolder.resume(tmp_path / "run")


@pytest.mark.parametrize("summary", [None, {"ended": "interrupted"}])
def test_an_unfinished_run_must_be_resumed_and_is_not_replaced(tmp_path, summary):
    with RunFolder.create(tmp_path) as folder:
        folder.config.write_text("")
        Recorder(tmp_path).close()
        if summary:
            write_json(folder.summary, summary)
    with pytest.raises(ConfigError, match=r"continue it with `fedtempo resume .*`"):
        RunFolder.create(tmp_path)
    with RunFolder.resume(tmp_path) as resumed:
        assert resumed == folder


def test_unrelated_folders_are_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match="is not empty and holds no run"):
        RunFolder.create(tmp_path)
    with pytest.raises(ConfigError, match="no run to resume here"):
        RunFolder.resume(tmp_path)
    with pytest.raises(ConfigError, match="is a file; choose a folder"):
        RunFolder.create(tmp_path / "thesis.tex")
    with pytest.raises(ConfigError, match="cannot be used for a run"):
        RunFolder.create(tmp_path / "thesis.tex" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_damaged_summary_is_named(tmp_path):
    with RunFolder.create(tmp_path) as folder:
        folder.config.write_text("")
        folder.summary.write_text("{")
    with pytest.raises(ConfigError, match=r"summary\.json cannot be read"):
        RunFolder.resume(tmp_path)


def test_the_default_name_is_a_single_folder_name():
    name = default_name("my_module:Strategy/../x", 4)
    assert name.endswith("-my_module-Strategy-x-seed4")
    assert "/" not in name
    assert default_name("::", 1).endswith("-run-seed1")


def test_a_second_run_within_one_second_gets_a_number(tmp_path: Path) -> None:
    assert unused(tmp_path / "run") == tmp_path / "run"
    (tmp_path / "run").mkdir()
    (tmp_path / "run-2").mkdir()
    assert unused(tmp_path / "run") == tmp_path / "run-3"

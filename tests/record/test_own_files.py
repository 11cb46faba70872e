"""Resuming a run writes and deletes nothing outside its folder, and imports nothing that lies in it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fedtempo.api.experiment import Experiment, resume
from fedtempo.errors import ConfigError
from fedtempo.parts import import_path
from fedtempo.parts.text_files import parse_toml
from fedtempo.record.folder import claim
from fedtempo.record.run import load_run
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import load, parse
from fedtempo.runs.elsewhere import must_be_state
from tests.super_journal import add_super_journal, deletes

CONFIG = """
[run]
horizon = 20.0
[data]
source = "digits"
clients = 4
[model]
network = "mlp"
[executor]
kind = "none"
[strategy]
name = "fedavg"
clients_per_round = 2
[fleet]
compute = { unit = "s/visit", speed = 2.0 }
link = "none"
estimates = "exact"
"""
SHADOWS = ("pyarrow", "plotly", "sqlite3", "multiprocessing")
FILES = ("run.sqlite", "journal.jsonl", "config.toml", "environment.json", "report.html", "now.json", ".lock", "models")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was killed at its end."""
    from fedtempo.runs.run import Run

    root = tmp_path_factory.mktemp("made")
    (root / "config.toml").write_text(CONFIG)
    Run(load(root / "config.toml")).begin(root / "run")
    (root / "run" / "summary.json").unlink()
    return root / "run"


@pytest.fixture
def folder(interrupted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(interrupted, tmp_path / "run"))


def state(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("relative", [True, False])
def test_a_link_out_of_the_folder_is_an_error_and_changes_nothing(
    folder: Path, tmp_path: Path, name: str, relative: bool
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / f"{'0' * 64}.safetensors").write_bytes(b"theirs")
    (theirs / "file").write_text("theirs")
    target = theirs if name == "models" else theirs / "file"
    if (folder / name).is_dir():
        shutil.rmtree(folder / name)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(os.path.relpath(target, folder) if relative else target)
    before = state(tmp_path)
    if name == "config.toml":
        (theirs / "file").write_text(CONFIG)
        before = state(tmp_path)
    with pytest.raises(ConfigError, match=rf"{name} leads out of its folder, to .*; nothing was changed"):
        resume(folder)
    assert state(tmp_path) == before


def test_models_of_another_folder_outlive_the_end_of_a_finished_run(folder: Path, tmp_path: Path) -> None:
    resume(folder)
    theirs = tmp_path / "theirs" / f"{'0' * 64}.safetensors"
    theirs.parent.mkdir()
    theirs.write_bytes(b"theirs")
    if (folder / "models").exists():
        shutil.rmtree(folder / "models")
    (folder / "models").symlink_to(theirs.parent)
    with pytest.raises(ConfigError, match="models leads out of its folder"):
        resume(folder)
    assert theirs.read_bytes() == b"theirs"


def test_a_file_with_a_second_name_is_an_error(folder: Path, tmp_path: Path) -> None:
    os.link(folder / "run.sqlite", tmp_path / "theirs")
    before = (tmp_path / "theirs").read_bytes()
    with pytest.raises(ConfigError, match=r"run.sqlite has 2 names \(hard links\)"):
        resume(folder)
    assert (tmp_path / "theirs").read_bytes() == before


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user, outside the folder."""
    path = tmp_path / "theirs.txt"
    path.write_text("theirs")
    return path


def test_the_journal_of_the_next_tests_makes_sqlite_delete_a_file(folder: Path, victim: Path) -> None:
    add_super_journal(folder / "run.sqlite", victim)
    assert deletes(folder / "run.sqlite", victim)


def test_a_journal_of_sqlite_that_names_a_file_elsewhere_deletes_nothing(folder: Path, victim: Path) -> None:
    summary = resume(Path(shutil.copytree(folder, folder.with_name("undisturbed")))).summary
    journal = add_super_journal(folder / "run.sqlite", victim)
    assert resume(folder).summary["events_sha256"] == summary["events_sha256"]
    assert victim.read_text() == "theirs"
    assert not journal.exists()


def test_a_run_is_recorded_without_the_triggers_of_a_foreign_database(folder: Path, tmp_path: Path) -> None:
    undisturbed = resume(Path(shutil.copytree(folder, folder.with_name("undisturbed"))))
    connection = sqlite3.connect(folder / "run.sqlite")
    connection.execute("CREATE TRIGGER lie AFTER INSERT ON visits BEGIN UPDATE visits SET client = 0; END")
    connection.commit()
    connection.close()
    resumed = resume(folder)
    assert resumed.visits().equals(undisturbed.visits())


def test_a_pipe_in_place_of_a_file_does_not_hang(folder: Path) -> None:
    (folder / "journal.jsonl").unlink()
    os.mkfifo(folder / "journal.jsonl")
    with pytest.raises(ConfigError, match=r"journal.jsonl is not a plain file"):
        claim(folder)


def test_a_link_within_the_folder_is_followed(folder: Path) -> None:
    (folder / "report.html").rename(folder / "page.html")
    (folder / "report.html").symlink_to("page.html")
    assert resume(folder).summary["ended"] == "horizon"


def test_a_comparison_does_not_follow_a_link_in_place_of_a_run(folder: Path, tmp_path: Path) -> None:
    comparison = tmp_path / "comparison"
    comparison.mkdir()
    (comparison / "fedavg-seed1").symlink_to(folder)
    with pytest.raises(ConfigError, match="fedavg-seed1 leads out of its folder"):
        claim(comparison)


@pytest.mark.parametrize("where", [".", "models"])
@pytest.mark.parametrize("command", ["resume", "report"])
def test_modules_in_a_run_folder_are_not_imported(folder: Path, tmp_path: Path, where: str, command: str) -> None:
    current = folder / where
    current.mkdir(exist_ok=True)
    for name in SHADOWS:
        (current / f"{name}.py").write_text(f"open({str(tmp_path / 'harmed')!r}, 'w').close()\n")
    program = "import sys; sys.path.remove(''); from fedtempo.cli import app; app.main()"
    done = subprocess.run(
        [sys.executable, "-c", program, command, os.path.relpath(folder, current)],
        cwd=current,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "harmed").exists()


def test_a_module_that_a_run_names_is_not_taken_from_its_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", str(folder), *sys.path])
    monkeypatch.setattr(import_path, "_folders", [folder])
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # so that it is as before after the test
    monkeypatch.delenv("PYTHONSAFEPATH")
    (folder / "evil_strategy.py").write_text(f"open({str(tmp_path / 'harmed')!r}, 'w').close()\nclass S: pass\n")
    text = (folder / "config.toml").read_text().replace('name = "fedavg"', 'name = "evil_strategy:S"')
    (folder / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match="cannot import 'evil_strategy'"):
        resume(".")
    assert os.environ["PYTHONSAFEPATH"] == "1"
    assert not (tmp_path / "harmed").exists()


def test_modules_in_the_current_folder_are_still_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    import_path.add_current_folder()
    assert sys.path[0] == ""


def reusing(folder: Path, store: Path) -> None:
    """Let the configuration in a run folder, which trains, name a store of results."""
    changes = {"executor.kind": "inline", "executor.reuse": True, "executor.reuse_folder": str(store)}
    write_text(folder / "config.toml", load(folder / "config.toml").with_changes(changes).dump())
    (folder / "journal.jsonl").unlink()


def test_resuming_creates_no_store_of_results_that_only_the_folder_names(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "elsewhere" / "store"
    reusing(folder, store)
    resume(folder)
    assert not store.parent.exists()
    assert f"executor.reuse_folder = '{store}' holds no store of results, and resuming creates none" in caplog.text


def test_resuming_uses_a_store_that_exists_or_that_the_user_names(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    reusing(folder, store)
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    resume(folder, sets=[f"executor.reuse_folder={store}"])
    assert load_run(folder).facts["executor"]["reuse"]["visits_computed"] > 0
    resume(other)
    reused = load_run(other).facts["executor"]["reuse"]
    assert "visits_computed" not in reused
    assert reused["visits_reused"] > 0


def test_resuming_a_comparison_creates_no_store_either(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (tmp_path / "config.toml").write_text(CONFIG.replace('kind = "none"', 'kind = "inline"'))
    sets = f"executor.reuse_folder={store}", "executor.reuse=true"
    Experiment.from_toml(tmp_path / "config.toml", *sets).compare("fedavg", [1], tmp_path / "comparison")
    shutil.rmtree(store)
    shutil.rmtree(tmp_path / "comparison" / "fedavg-seed1")
    resume(tmp_path / "comparison")
    assert not store.exists()


def test_a_deployment_is_not_resumed_with_a_database_that_is_no_state_of_a_superlink(tmp_path: Path) -> None:
    for name in ("missing.db", "theirs.db"):
        database = tmp_path / name
        config = parse(parse_toml(CONFIG) | {"deploy": {"database": str(database)}})
        with pytest.raises(ConfigError, match=rf"{name}': holds no state of a SuperLink, and resuming creates none"):
            must_be_state(config, [])
        must_be_state(config, [f"deploy.database={database}"])
        connection = sqlite3.connect(tmp_path / "theirs.db")
        connection.execute("CREATE TABLE IF NOT EXISTS places(x)")
        connection.close()
    assert not (tmp_path / "missing.db").exists()

"""Damaged folders: damage is named, an incomplete end is dropped, and only one process uses a folder at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedtempo.errors import ConfigError, RunError
from fedtempo.record import RunFolder
from fedtempo.runs import identity
from fedtempo.runs.run import Run, configuration
from tests.crash import lives

CONFIG = lives.config("fedavg", {"run.horizon": 25.0})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the undisturbed run."""
    folder = tmp_path_factory.mktemp("damage") / "whole"
    Run(CONFIG).complete(folder)
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the run killed after many checkpoints."""
    folder = tmp_path_factory.mktemp("damage") / "killed"
    life = lives.live(lives.run, CONFIG, folder, None, "fsync:100")
    life.join()
    assert life.exitcode == -signal.SIGKILL
    return folder


@pytest.fixture
def run(killed: Path, tmp_path: Path) -> Path:
    """Return a copy of the killed run."""
    return Path(shutil.copytree(killed, tmp_path / "run"))


@pytest.mark.parametrize("part", [0.0, 0.3, 0.97, 1.0])
def test_a_truncated_journal_falls_back_on_the_last_checkpoint(run: Path, undisturbed: Path, part: float) -> None:
    journal = run / "journal.jsonl"
    content = journal.read_bytes()
    seals = [i for i in range(len(content)) if content.startswith(b'{"seal"', i)]
    last = content.index(b"\n", seals[-2]) + 1  # where the last written part begins
    os.truncate(journal, last + round(part * (len(content) - 1 - last)))
    Run(CONFIG).complete(run)
    lives.assert_the_same(run, undisturbed)


def test_a_flipped_byte_in_the_journal_is_named(run: Path) -> None:
    journal = run / "journal.jsonl"
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 1
    journal.write_bytes(content)
    with pytest.raises(RunError, match=r"journal\.jsonl is damaged: lines? \d+"):
        Run(CONFIG).complete(run)
    journal.unlink()  # as the error advises


def test_a_flipped_byte_in_a_model_is_named(run: Path) -> None:
    for model in (run / "models").iterdir():
        content = bytearray(model.read_bytes())
        content[-1] ^= 1
        model.write_bytes(content)
    with pytest.raises(
        RunError, match=r"[0-9a-f]{64}\.safetensors is damaged: its parameters do not have the hash in its name"
    ):
        Run(CONFIG).complete(run)


def test_a_missing_model_is_named(run: Path) -> None:
    shutil.rmtree(run / "models")
    with pytest.raises(RunError, match=r"[0-9a-f]{64}\.safetensors could not be read: No such file"):
        Run(CONFIG).complete(run)


def test_the_models_of_two_checkpoints_are_kept(killed: Path) -> None:
    """Two checkpoints' models are kept, each with the round's base and its updates so far."""
    assert 2 <= len(list((killed / "models").glob("*.safetensors"))) <= 2 * (2 * 10 + 3)


def test_without_a_journal_a_run_restarts_from_the_beginning(run: Path, undisturbed: Path) -> None:
    (run / "journal.jsonl").unlink()
    Run(CONFIG).complete(run)
    lives.assert_the_same(run, undisturbed)


def test_a_run_killed_before_it_began_is_started(tmp_path: Path, undisturbed: Path) -> None:
    life = lives.live(lives.run, CONFIG, tmp_path / "run", None, "replace:2")
    life.join()
    assert not (tmp_path / "run" / "config.toml").exists()
    with pytest.raises(ConfigError, match="no run to resume here"):
        Run(CONFIG).resume(tmp_path / "run")
    Run(CONFIG).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", undisturbed)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"training.lr": 0.1}, r"cannot be resumed: training\.lr was 0\.05 and is 0\.1$"),
        ({"strategy.clients_per_round": 3}, r"strategy\.clients_per_round was None and is 3"),
        ({"data.source": "idx:nowhere"}, "nowhere"),
        ({"executor.kind": "none"}, r"executor\.trains was True and is False"),
    ],
)
def test_another_configuration_is_rejected_with_the_differences(run: Path, changes: dict[str, Any], says: str) -> None:
    for force in (False, True):
        with pytest.raises(ConfigError, match=says):
            Run(configuration(run, []).with_changes(changes)).resume(run, force=force)


def test_other_data_are_rejected(run: Path) -> None:
    world = lives.build_world(CONFIG)
    images = world.dataset.train_x.copy()
    images[0] += 1
    other = lives.build_world(CONFIG)
    object.__setattr__(other, "dataset", lives.replace(world.dataset, train_x=images))
    with pytest.raises(ConfigError, match=r"cannot be resumed: data\.sha256 was '\w+' and is '\w+'$"):
        Run(CONFIG, world=other).resume(run, force=True)


def test_other_versions_are_rejected_unless_forced(
    run: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = identity.versions()
    monkeypatch.setattr(identity, "versions", lambda: {**now, "torch": "9.9"})
    with pytest.raises(ConfigError, match=r"versions\.torch was '.*' and is '9\.9'; --force resumes nevertheless"):
        Run(CONFIG).resume(run)
    Run(CONFIG).resume(run, force=True)
    lives.assert_the_same(run, undisturbed)


def test_executor_settings_may_change_between_lives(run: Path, undisturbed: Path) -> None:
    config = configuration(run, ["executor.kind=processes", "executor.workers=2", "run.checkpoint_every=5.0"])
    assert config.label == "fedavg"
    Run(config).resume(run)
    lives.assert_the_same(run, undisturbed)


def test_a_folder_in_use_cannot_be_used_by_another_process(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtempo.record.folder._LOCK_TIMEOUT_S", 0.1)
    with RunFolder.resume(run), pytest.raises(ConfigError, match="is in use: another process works there"):
        Run(CONFIG).resume(run)
    Run(CONFIG).resume(run)


@pytest.mark.parametrize("file_bytes", [20_000, 60_000])
def test_a_full_disk_is_named_and_the_run_continues_when_space_is_free(
    undisturbed: Path, tmp_path: Path, file_bytes: int
) -> None:
    folder, output = tmp_path / "run", tmp_path / "output"
    (tmp_path / "run.toml").write_text(CONFIG.dump())
    life = lives.live(
        lives.command, ["run", str(tmp_path / "run.toml"), "--out", str(folder)], output, file_bytes=file_bytes
    )
    life.join()
    assert life.exitcode == 3
    printed = " ".join(output.read_text().split())
    assert f"error: {folder}" in printed
    assert "could not be" in printed
    assert "Traceback" not in printed
    Run(CONFIG).complete(folder)
    lives.assert_the_same(folder, undisturbed)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system that fills up during a run; skip the test if this is impossible."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=420k", "tmpfs", str(disk)], check=False).returncode:  # noqa: S607
        pytest.skip("file systems cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)  # noqa: S607


@pytest.mark.crash
def test_a_full_file_system_is_named_and_the_run_continues_elsewhere(
    small_disk: Path, undisturbed: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text(CONFIG.dump())
    life = lives.live(
        lives.command, ["run", str(tmp_path / "run.toml"), "--out", str(small_disk / "run")], tmp_path / "output"
    )
    life.join()
    printed = " ".join((tmp_path / "output").read_text().split())
    assert life.exitcode == 3, printed
    assert f"error: {small_disk}" in printed
    assert "Traceback" not in printed
    moved = Path(shutil.copytree(small_disk / "run", tmp_path / "moved"))
    assert (moved / "journal.jsonl").read_text().count('"seal": "checkpoint"') > 0
    Run(CONFIG).complete(moved)
    lives.assert_the_same(moved, undisturbed)


@pytest.fixture
def read_only(killed: Path) -> Iterator[Path]:
    """Return a copy of the killed run in a read-only folder."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(shutil.copytree(killed, Path(parent) / "run"))
        Path(parent).chmod(0o755)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_read_only_folder_is_named(read_only: Path, tmp_path: Path) -> None:
    began = time.perf_counter()
    output = tmp_path / "output"
    life = lives.live(lives.command, ["resume", str(read_only)], output, privileged=False)
    life.join()
    assert life.exitcode == 2, output.read_text()
    assert f"{read_only} cannot be written: Permission denied" in " ".join(output.read_text().split())
    assert time.perf_counter() - began < 10

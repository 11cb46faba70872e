"""Logs of processes that a deployment started are kept, as far as the disk allows."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedtempo.deploy.flower import service

pytestmark = pytest.mark.deploy


def test_a_full_disk_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "run").mkdir()
    for name in ("client-0.log", "superlink.log"):
        (tmp_path / "work" / name).write_text("said")
    copy = shutil.copy

    def until_full(file: Path, folder: Path) -> None:
        if file.name == "client-0.log":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / file.name))
        copy(file, folder)

    monkeypatch.setattr(shutil, "copy", until_full)
    with caplog.at_level(logging.WARNING):
        service._keep_logs(tmp_path / "work", tmp_path / "run")
    assert (tmp_path / "run/logs/superlink.log").read_text() == "said"
    assert f"{tmp_path / 'run/logs/client-0.log'} could not be kept: No space left on device" in caplog.text

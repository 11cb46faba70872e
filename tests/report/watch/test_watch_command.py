"""`fedtempo watch` as a process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fedtempo.errors import ConfigError
from fedtempo.report.watch.serving import watch
from tests.report.watch.folders import Written


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_the_command_prints_an_address_serves_it_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    written = Written(tmp_path / "run")
    written.go(10.0)
    written.close()
    command = [sys.executable, "-u", "-m", "fedtempo", "watch", str(tmp_path / "run"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert len(address.split("/")[3]) >= 32
        with urllib.request.urlopen(address, timeout=60) as page:  # noqa: S310
            assert b"fedtempo watch" in page.read()
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (0, "")


def test_invalid_arguments_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="nowhere: no such folder"):
        watch([tmp_path / "nowhere"], 0, browser=False, say=print)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port = {port}: cannot listen on it"):
            watch([tmp_path], port, browser=False, say=print)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigError, match=r"pip install 'fedtempo\[watch\]'"):
        watch([tmp_path], 0, browser=False, say=print)

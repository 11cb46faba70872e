"""Serves the page until Ctrl-C."""

from __future__ import annotations

import contextlib
import socket
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

from fedtempo.errors import ConfigError
from fedtempo.report.watch.following import run_folders

HOST = "127.0.0.1"


def watch(folders: Sequence[Path], port: int, *, browser: bool, say: Callable[[str], None]) -> None:
    """Serve a page about the runs in some folders until Ctrl-C, on this machine only.

    port: 0 for any free port. browser: whether to open the page. say: receives the address and hints. Raises
    ConfigError for a missing folder, a port that is taken, or if the extra `watch` is not installed.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no such folder; give a run folder, or a folder with runs in it")
    try:
        import uvicorn

        from fedtempo.report.watch.app import make_app, new_token
    except ImportError as error:
        raise ConfigError(f"{error}: pip install 'fedtempo[watch]'") from error
    try:
        listening = socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        raise ConfigError(f"port = {port}: cannot listen on it: {error}") from error
    token = new_token()
    address = f"http://{HOST}:{listening.getsockname()[1]}/{token}/"
    say(address)
    if not any(map(run_folders, folders)):
        say("no runs yet; the page shows runs as they begin")
    if browser:
        webbrowser.open(address)
    config = uvicorn.Config(
        make_app(folders, token), log_level="warning", access_log=False, server_header=False, lifespan="off"
    )
    with listening, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])

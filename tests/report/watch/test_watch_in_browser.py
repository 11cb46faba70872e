"""The page in a headless Chromium: its content, its updates, and that it contacts no other host."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from PIL import Image

from fedtempo.report.watch import following
from fedtempo.report.watch.app import make_app
from tests.report.watch.browser import CHROMIUM, Page, browser
from tests.report.watch.folders import Written

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, which is not installed")

ENOUGH_S = 600.0
"""On a busy machine a browser may take longer than a run's sign of life counts."""

READY = (
    "document.querySelector('#accuracy .main-svg') && document.querySelector('#runs tbody td:nth-child(4)').textContent"
)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "ALIVE_S", ENOUGH_S)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(folder: Path) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(make_app([folder], "token"), log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{listening.getsockname()[1]}/token/"

    yield start
    for server, thread in servers:
        server.should_exit = server.force_exit = True
        thread.join()


def drawn(page: Page, path: Path) -> np.ndarray:
    """Return the page's pixels."""
    page.picture(path)
    return np.asarray(Image.open(path).convert("L"), dtype=float)


def well(page: Page, address: str) -> None:
    """Check that the page fits the window, logs no errors, and contacts only this machine."""
    assert page.value("document.documentElement.scrollWidth") <= 1280
    assert page.errors == []
    assert all(url.startswith((address, "data:", "blob:")) for url in page.asked if url.startswith("http"))


def test_a_run_is_followed_while_it_is_in_progress(page: Page, serve, tmp_path: Path) -> None:
    written = Written(tmp_path / "run")
    written.go(40.0)
    written.now(40.0)
    address = serve(tmp_path)
    page.show(address)
    page.wait(READY)
    assert page.value("document.querySelector('#title').textContent") == "fedhusky: running"
    assert page.value("document.querySelectorAll('.calendar canvas').length") == 2
    assert "24 clients" in page.value("document.querySelector('.days').getAttribute('aria-label')")
    assert page.value("document.querySelector('.log b, .calendar b, table b')") is None
    assert "fedhusky: " in page.value("document.querySelector('#accuracy').getAttribute('aria-label')")
    before = page.value("document.querySelector('#runs tbody td:nth-child(8)').textContent")
    written.go(60.0)
    written.now(60.0)
    page.wait("document.querySelector('.now').textContent.endsWith('t = 60 s')")
    after = page.value("document.querySelector('#runs tbody td:nth-child(8)').textContent")
    assert int(after) > int(before)
    assert "late" in page.value("document.querySelector('.log').textContent")
    well(page, address)
    assert drawn(page, tmp_path / "light.png").mean() > 200
    written.end(60.0, "target")
    page.wait("document.querySelector('#title').textContent === 'fedhusky: finished'")
    assert page.value("document.querySelector('.who').hidden")


def test_the_page_is_dark_in_dark_mode(page: Page, serve, tmp_path: Path) -> None:
    written = Written(tmp_path / "run", clients=300)
    written.go(20.0)
    written.now(20.0)
    address = serve(tmp_path)
    page.show(address, dark=True)
    page.wait(READY)
    assert drawn(page, tmp_path / "dark.png").mean() < 60
    well(page, address)
    written.close()


def test_finished_runs_are_replayed_side_by_side(page: Page, serve, tmp_path: Path) -> None:
    for strategy in ("fedhusky", "fedavg", "hybrid"):
        written = Written(tmp_path / strategy, strategy=strategy)
        written.go(100.0)
        written.end(100.0)
    address = serve(tmp_path)
    page.show(address)
    page.wait("document.querySelectorAll('.calendar').length === 3")
    assert page.value("document.querySelector('#title').textContent") == "3 runs, none running"
    begin = "parseFloat(document.querySelector('.calendar output').textContent)"
    latest = page.value(begin)
    page.value("document.querySelector('.play').click()")
    page.wait(f"{begin} > 0.5 && {begin} < {latest - 5}")
    page.value("document.querySelector('.follow').click()")
    assert page.value(begin) == latest
    page.value("document.querySelectorAll('#runs input')[1].click()")
    page.wait("document.querySelectorAll('.calendar').length === 2")
    page.wait("document.querySelector('#loss').data.length === 2")
    well(page, address)

"""The page over HTTP: what is served, and to whom."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from fedtempo.report.watch.app import make_app, new_token
from tests.report.watch.folders import Written

TOKEN = "the-token"  # noqa: S105


@pytest.fixture
def written(tmp_path: Path):
    run = Written(tmp_path / "run")
    run.go(20.0)
    run.now(20.0)
    yield run
    run.close()


class Client:
    """A client that calls the application without a socket."""

    def __init__(self, folder: Path) -> None:
        self._app = make_app([folder], TOKEN)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask("GET", path, **options))

    def post(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask("POST", path, **options))

    async def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8123") as client:
            return await client.request(method, path, **options)


@pytest.fixture
def client(tmp_path: Path, written: Written) -> Client:
    return Client(tmp_path / "run")


def test_the_page_needs_the_token(client: Client) -> None:
    assert client.get(f"/{TOKEN}/").status_code == 200
    for path in ("/", "/wrong/", "/wrong/watch.js", "/wrong/plotly.js", f"/{TOKEN}x/", "/%ff/"):
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert "script" not in answer.text
    assert client.post("/wrong/state", content="{}").status_code == 404
    assert new_token() != new_token()
    assert len(new_token()) >= 32


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8123", "127.0.0.1.evil.example", "192.168.1.5:8123", ""]
)
def test_another_host_is_rejected_even_with_the_right_token(client: Client, host: str) -> None:
    for answer in (
        client.get(f"/{TOKEN}/", headers={"Host": host}),
        client.post(f"/{TOKEN}/state", content="{}", headers={"Host": host}),
    ):
        assert answer.status_code == 400
        assert "fedhusky" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "localhost:8123"])
def test_requests_from_this_machine_are_served(client: Client, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"Host": host}).status_code == 200


def test_headers_forbid_foreign_content_and_caching(client: Client) -> None:
    page = client.get(f"/{TOKEN}/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in page.headers
    links = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert {"plotly.js", "calendar.js", "watch.js", "watch.css"} <= set(links)
    for link in set(links) - {"data:,"}:
        text = client.get(f"/{TOKEN}/{link}")
        assert text.status_code == 200
        if link != "plotly.js":
            assert "://" not in text.text
    assert client.get(f"/{TOKEN}/config.toml").status_code == 404
    assert client.get(f"/{TOKEN}/..%2Frun.sqlite").status_code == 404


def test_the_state_is_json_with_names_unescaped(client: Client) -> None:
    answer = client.post(f"/{TOKEN}/state", content=json.dumps({"0": [0, 0, 0, 0]}))
    assert answer.headers["content-type"] == "application/json"
    state = answer.json()
    assert state["runs"][0]["label"] == "fedhusky"
    assert state["details"]["0"]["clients"][0] == "Ward <b>7</b>"


def test_later_answers_hold_only_changes(client: Client, written: Written) -> None:
    def ask(seen: list[int]) -> dict:
        return client.post(f"/{TOKEN}/state", content=json.dumps({"0": seen})).json()["details"]["0"]

    def after(detail: dict) -> list[int]:
        return [detail["generation"], *(detail["seen"][name] for name in ("curve", "calendar", "log"))]

    first = ask([0, 0, 0, 0])
    assert ask(after(first))["visits"] == []
    written.go(30.0)
    second = ask(after(first))
    assert len(second["visits"]) > 10
    assert len(ask([0, 0, 0, 0])["visits"]) == len(first["visits"]) + len(second["visits"])
    assert len(ask([99, 0, 0, 0])["visits"]) == len(first["visits"]) + len(second["visits"])


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ("", 422),
        ("[]", 422),
        ('{"0": [0, 0, 0]}', 422),
        ('{"0": [-1, 0, 0, 0]}', 422),
        ('{"x": [0, 0, 0, 0]}', 422),
        (" " * 20_000, 413),
    ],
)
def test_malformed_requests_are_rejected(client: Client, question: str, status: int) -> None:
    assert client.post(f"/{TOKEN}/state", content=question).status_code == status


def test_the_state_is_only_returned_for_post(client: Client) -> None:
    assert client.get(f"/{TOKEN}/state").status_code == 404
    assert client.post(f"/{TOKEN}/").status_code == 405

"""Who may control a SuperLink: nobody without its secret, and a run that was stopped there says so."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("flwr")

from flwr.proto.control_pb2 import ListRunsRequest, StopRunRequest
from flwr.superlink.main import create_app

from fedtempo.api.clients import register_keys
from fedtempo.cli.deploy import keys
from fedtempo.deploy.client.settings import parse_client
from fedtempo.deploy.flower.control_secret import HEADER, proof, proves, read_secret, write_secret
from fedtempo.deploy.flower.grid import SuperLink, control, joined
from fedtempo.deploy.flower.guarded import ControlGuard
from fedtempo.deploy.flower.keys import make_keys, register, revoke
from fedtempo.deploy.flower.service import _control_secret, grid
from fedtempo.deploy.flower.superlink import serve, started
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError, RunError
from fedtempo.federation import Federation
from fedtempo.runs.deploy_settings import DeploySettings
from tests.deploy.live.deployments import real as config
from tests.deploy.processes import client, secured
from tests.super_journal import add_super_journal

pytestmark = pytest.mark.deploy

CLIENTS = "/v1/fleet/"
RUN = "/v1/runtime/"
SECRET = "a secret of forty characters, or nearly".replace(" ", "-")
UNGUARDED_OF_RUN = {"acquire-task", "responses"}


@pytest.fixture(scope="module")
def superlink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuperLink]:
    with started(tmp_path_factory.mktemp("control")) as superlink:
        yield superlink


def paths() -> list[tuple[str, str]]:
    """Return method and path of everything that Flower's SuperLink serves."""
    described = create_app().openapi()["paths"]
    routes = [(method.upper(), path) for path, methods in described.items() for method in methods]
    return [
        *routes,
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/"),
        ("GET", "/v1/fleet/../control/list-runs"),
        ("POST", "//v1/control/list-runs"),
        ("POST", "/v1/control/list-runs/"),
        ("POST", "/v1/runtime/acquire-task/"),
    ]


def test_everything_but_the_interface_for_clients_asks_for_the_secret(superlink: SuperLink) -> None:
    base, routes = f"http://{superlink.address}", paths()
    assert superlink.secret is not None
    assert {("POST", "/v1/control/stop-run"), ("POST", "/v1/runtime/acquire-task")} <= {*routes}
    protobuf = {"content-type": "application/protobuf", "accept": "application/protobuf"}
    with httpx.Client(base_url=base, headers=protobuf) as session:
        for method, path in routes:
            closed = (
                not path.startswith((CLIENTS, RUN, "/health")) or path.removeprefix(RUN).rstrip("/") in UNGUARDED_OF_RUN
            )
            for headers in ({}, *({HEADER: wrong} for wrong in ("wrong", "", superlink.secret, proof(SECRET, None)))):
                status = session.request(method, path, headers=headers).status_code
                if closed or ".." in path:
                    assert status == 401, path
                elif path.startswith(RUN):
                    assert status == 401, f"{path} answers without a run's token: {status}"
        assert session.get("/health").status_code == 200
        port = int(superlink.address.rpartition(":")[2])
        for where, status in ((port, 200), (None, 200), (port + 1, 401)):
            assert session.get("/openapi.json", headers={HEADER: proof(superlink.secret, where)}).status_code == status


def test_a_run_cannot_be_submitted_or_listed_without_the_secret(superlink: SuperLink) -> None:
    stranger = replace(superlink, secret=None)
    with (
        pytest.raises(
            RunError, match=r"rejects the run: no proof of the control secret, or a wrong one; set deploy.control_s"
        ),
        joined(stranger, outage_s=1.0),
    ):
        pass
    without = control(stranger)
    with pytest.raises(httpx.HTTPStatusError, match="401"):
        without.ListRuns(ListRunsRequest())
    without.close()
    assert "secret" not in repr(superlink)


@pytest.mark.parametrize("knows_secret", [True, False])
def test_a_run_that_was_stopped_at_the_superlink_says_so(
    knows_secret: bool, superlink: SuperLink, tmp_path: Path
) -> None:
    async def script(fed: Federation) -> None:
        controller = control(superlink)
        (run_id,) = [
            run for run, run_info in controller.ListRuns(ListRunsRequest()).run_dict.items() if _runs(run_info)
        ]
        controller.StopRun(StopRunRequest(run_id=run_id))
        controller.close()
        await fed.train_all(fed.clients, fed.model)
        await asyncio.sleep(60)

    says = "the run was stopped there, by `flwr stop` or another program that may control it"
    says += (
        "; continue with" if knows_secret else ", or it abandoned the run after a minute without its server; continue"
    )
    with client(tmp_path, "solo", superlink.address, insecure=True), joined(superlink, outage_s=30) as grid:
        if not knows_secret:
            grid._superlink = replace(superlink, secret=None)
        with pytest.raises(RunError, match=says):
            deploy_to_folder(config(script, data__clients=1, deploy__wait_s=60.0), tmp_path / "run", grid)
    assert (tmp_path / "run/deployment.json").exists(), "the run can be resumed"


def _runs(run_info: Any) -> bool:
    return bool(run_info.status.status != "finished")


def test_a_revoked_key_is_rejected_for_good(tmp_path: Path) -> None:
    with secured(tmp_path, ["alice", "bert"]) as link, link.client("alice") as alice:
        alice.says("connected to")
        assert revoke(link.superlink, ["alice"]) == ["alice"]
        with pytest.raises(ConfigError, match=r"client 'alice': not registered at SuperLink"):
            revoke(link.superlink, ["alice"])
        with link.client("alice") as again:
            again.says(r"rejected: \[code: 200\d\]")
        alice.says(r"rejected: \[code: 200\d\]", 90)
        with pytest.raises(ConfigError, match=r"alice.pub: this key was revoked at SuperLink .* make a new one"):
            register(link.superlink, link.keys)
        for file in ("alice", "alice.pub"):
            (link.keys / file).unlink()
        make_keys(link.keys, [], ["alice"])
        assert register(link.superlink, link.keys) == ["alice"]
        with link.client("alice") as renewed:
            renewed.says("connected to")
        with link.client("bert") as bert:
            bert.says("connected to")


def test_a_secret_that_others_can_read_is_rejected(tmp_path: Path) -> None:
    path = write_secret(tmp_path / "control.secret", "x" * 43)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_secret(path, "s") == "x" * 43
    path.chmod(0o644)
    with pytest.raises(ConfigError, match=r"^s: every user of this machine can read it; run `chmod o= "):
        read_secret(path, "s")
    path.chmod(0o640)
    assert read_secret(path, "s") == "x" * 43
    for content in ("short", "x" * 2000, "x" * 40 + "\ny", "\xe9" * 40):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ConfigError, match="must be one line of 32 to 1024 ASCII characters"):
            read_secret(path, "s")
    with pytest.raises(ConfigError, match="s: cannot be read: No such file"):
        read_secret(tmp_path / "none", "s")


def test_the_guard_lets_start_and_stop_through_and_closes_other_connections() -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> None:
        raise AssertionError("answered")

    guard = ControlGuard(app, "s" * 32)
    for scope in ({"type": "lifespan"}, {"type": "websocket", "path": "/v1/control/x", "headers": []}):
        asyncio.run(guard(scope, nothing, nothing))
    assert seen == ["lifespan"]


def test_a_superlink_needs_its_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ca.crt does not exist; run `fedtempo keys "):
        serve(tmp_path, "127.0.0.1:8000", None)
    for name in ("ca.crt", "server.crt", "server.key"):
        (tmp_path / name).write_text("")
    write_secret(tmp_path / "control.secret", "x" * 43)
    with pytest.raises(ConfigError, match="address = 'nowhere': must be host:port, such as"):
        serve(tmp_path, "nowhere", None)
    with pytest.raises(ConfigError, match="revoke: give the SuperLink's host:port as --register"):
        keys(tmp_path / "keys", ["localhost"], [], False, None, ["a"])


def test_a_database_whose_journal_names_a_file_elsewhere_is_rejected(tmp_path: Path) -> None:
    database, victim = tmp_path / "state.db", tmp_path / "theirs.txt"
    victim.write_text("theirs")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE t(x)")
    add_super_journal(database, victim)
    with (
        pytest.raises(ConfigError, match=r"state.db-journal names another file, which SQLite would delete"),
        started(tmp_path, database=database),
    ):
        pass
    assert victim.read_text() == "theirs"


def test_a_proof_is_worth_nothing_at_another_port_later_and_at_a_superlink_that_starts_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    here, tls = proof(SECRET, 8000), proof(SECRET, None)
    assert SECRET not in here + tls
    assert proves(here, SECRET, 8000, 900.0)
    assert proves(tls, SECRET, 9000, 2000.0)
    for wrong in (
        proves(here, SECRET, 8001, 900.0),
        proves(here, SECRET, 8000, 1000.5),
        proves(here, SECRET[::-1], 8000, 900.0),
        proves(here.replace("8000", "8001", 1), SECRET, 8001, 900.0),
        proves(tls.replace("certificate", "8000 1000.000"), SECRET, 8000, 900.0),
        *(
            proves(text, SECRET, 8000, 900.0)
            for text in ("", " ", SECRET, "certificate ", "\ufffd", f"8000 x {SECRET}")
        ),
    ):
        assert not wrong
    now[0] = 1059.0
    assert proves(here, SECRET, 8000, 900.0)
    now[0] = 1061.0
    assert not proves(here, SECRET, 8000, 900.0)


def test_a_program_in_place_of_the_superlink_learns_nothing_of_use_elsewhere(superlink: SuperLink) -> None:
    heard: list[str] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.headers[HEADER])
            self.send_error(503)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Listener) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        asked = control(replace(superlink, address=f"127.0.0.1:{listener.server_port}"))
        with pytest.raises(httpx.HTTPStatusError, match="503"):
            asked.ListRuns(ListRunsRequest())
        asked.close()
        listener.shutdown()
    assert heard
    assert superlink.secret is not None
    for text in heard:
        assert superlink.secret not in text
        assert httpx.get(f"http://{superlink.address}/openapi.json", headers={HEADER: text}).status_code == 401


def test_a_secret_is_of_use_only_on_this_machine_or_with_the_authority_beside_it(tmp_path: Path) -> None:
    for name in ("keys", "foreign"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ca.crt").write_text("a certificate")
    write_secret(tmp_path / "keys" / "control.secret", SECRET)
    (tmp_path / "foreign" / "control.secret").symlink_to(tmp_path / "keys" / "control.secret")

    def secret(superlink: str, authority: str | None = None, folder: str = "keys") -> str | None:
        return _control_secret(
            DeploySettings(
                superlink=superlink,
                root_certificates=None if authority is None else str(tmp_path / authority / "ca.crt"),
                control_secret=str(tmp_path / folder / "control.secret"),
            )
        )

    assert secret("127.0.0.1:8000") == secret("localhost:8000") == secret("fl.example.org:9443", "keys") == SECRET
    with pytest.raises(ConfigError, match=r"is of use only at 127.0.0.1, not at deploy.superlink = 'fl.example.org:94"):
        secret("fl.example.org:9443")
    for address in ("fl.example.org:9443", "127.0.0.1:8000"):
        for folder in ("keys", "foreign"):
            with pytest.raises(ConfigError, match=r"deploy.root_certificates = .*must be in the same folder, .*keys$"):
                secret(address, "foreign", folder)


def test_a_foreign_run_folder_does_not_use_the_secret_elsewhere(tmp_path: Path) -> None:
    settings = config(
        deploy__superlink="127.0.0.2:9", deploy__control_secret=str(write_secret(tmp_path / "control.secret", SECRET))
    )
    with (
        pytest.raises(ConfigError, match=r"control_secret.*is of use only at 127.0.0.1, not at .* = '127.0.0.2:9'"),
        grid(settings, tmp_path / "run"),
    ):
        pass


@pytest.mark.parametrize(
    "address", ["", "localhost", "127.0.0.1:abc", "127.0.0.1:0", "127.0.0.1:65536", "http://127.0.0.1:8000", "a b:1"]
)
def test_an_address_is_a_host_and_a_port(address: str, tmp_path: Path) -> None:
    says = re.escape(f"{address!r}: must be host:port, such as 127.0.0.1:8000")
    with pytest.raises(ConfigError, match=f"^superlink = {says}"), grid(config(deploy__superlink=address), tmp_path):
        pass
    with pytest.raises(ConfigError, match=f"^superlink = {says}"):
        register_keys(tmp_path, address)
    with pytest.raises(ConfigError, match=says):
        parse_client({"name": "a", "superlink": address, "insecure": True, "data": {"source": "digits"}})


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "fl.example.org:9443", "[::1]:80", "server_1:65535"])
def test_names_and_numbers_are_hosts(address: str) -> None:
    assert SuperLink(address).address == address

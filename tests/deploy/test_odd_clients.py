"""Clients that fetch nothing, fetch endlessly, or answer twice: they disturb nobody and are logged."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedtempo.deploy.flower.keys import make_keys
from fedtempo.deploy.flower.superlink import end, free_port
from fedtempo.deploy.live import joining
from fedtempo.federation import Federation
from fedtempo.record import load_run
from tests.deploy.live.deployments import real as config
from tests.deploy.processes import ClientProcess, SecuredSuperLink, deployed, secured

pytestmark = pytest.mark.deploy

NGINX = shutil.which("nginx")
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
"""What nginx puts into files while it passes it on."""
ASKS_FOR_NOTHING = """
import time
from fedtempo.deploy.flower import node
node._Link.work = lambda link, answers: time.sleep(1000)
"""
ANSWERS_TWICE = """
from flwr.app import ConfigRecord
from fedtempo.deploy.flower import node
send = node._Link._send
def sending(link, reply, *arguments):
    send(link, reply, *arguments)
    reply.content["again"] = ConfigRecord({"again": True})
    send(link, reply, *arguments)
node._Link._send = sending
"""
NEVER_WAITS = """
from fedtempo.deploy.flower import node
node._POLL_S = node._POLL_MAX_S = 0.0
"""
TELLS_TWO_CLASSES = """
from fedtempo.deploy.client.answers import Answers
description = Answers.description
Answers.description = lambda answers: {**description(answers), "label_histogram": [15, 5]}
"""


@pytest.fixture(scope="module")
def secured_superlink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredSuperLink]:
    with secured(tmp_path_factory.mktemp("odd"), ["alice", "mute", "flood", "twice"]) as secured_superlink:
        yield secured_superlink


@pytest.fixture(scope="module")
def alice(secured_superlink: SecuredSuperLink) -> Iterator[ClientProcess]:
    with secured_superlink.client("alice") as alice:
        yield alice


@contextlib.contextmanager
def proxied(secured_superlink: SecuredSuperLink, folder: Path) -> Iterator[tuple[str, Path]]:
    """Run nginx before the SuperLink with deploy/nginx.conf and shorter timeouts; yield its address and error log."""
    port, errors = free_port(), folder / "errors.log"
    text = (Path(__file__).parents[2] / "deploy" / "nginx.conf").read_text()
    for former, mine in (
        ("/etc/fedtempo/keys/", f"{secured_superlink.keys}/"),
        ("listen 9443", f"listen 127.0.0.1:{port}"),
        ("https://127.0.0.1:8000", f"https://{secured_superlink.superlink.address}"),
        ("/var/log/nginx/error.log", str(errors)),
        ("rate=50r/s", "rate=5r/s"),
        ("burst=400", "burst=20"),
    ):
        assert former in text
        text = text.replace(former, mine)
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in TEMPORARY)
    (folder / "nginx.conf").write_text(f"pid {folder}/pid;\nevents {{}}\nhttp {{\n{temporary}{text}\n}}\n")
    command = [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(errors), "-g", "daemon off;"]
    process = subprocess.Popen(command)
    try:
        yield f"127.0.0.1:{port}", errors
    finally:
        end([process])


@pytest.mark.usefixtures("alice")
def test_a_client_that_fetches_nothing_is_logged_and_disturbs_nobody(
    secured_superlink: SecuredSuperLink,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joining, "SILENT_S", 1.0)

    async def script(fed: Federation) -> None:
        until = time.monotonic() + 60
        while "has not described its client" not in caplog.text and time.monotonic() < until:
            await fed.sleep_until(fed.now + 0.1)
        for _ in range(3):
            fed.commit(await fed.average(await fed.train_all(fed.clients, fed.model)))

    with secured_superlink.client("mute", before=ASKS_FOR_NOTHING) as mute:
        node = mute.says(r"connected to \S+ as node \d+").rpartition(" ")[2]
        deployed(secured_superlink, config(script, data__clients=1, deploy__names=["alice"]), tmp_path / "run")
        assert mute.process.poll() is None
    assert caplog.text.count(f"node {node} is online but has not described its client") == 1
    records = load_run(tmp_path / "run")
    assert records.facts["client_names"] == ["alice"]
    assert records.visits["outcome"].tolist() == ["done"] * 3


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.usefixtures("alice")
def test_a_client_that_fetches_endlessly_is_throttled_and_disturbs_nobody(
    secured_superlink: SecuredSuperLink, tmp_path: Path
) -> None:
    with (
        proxied(secured_superlink, tmp_path) as (address, errors),
        secured_superlink.client("flood", before=NEVER_WAITS, superlink=address) as flood,
    ):
        flood.says("connected to")
        deployed(secured_superlink, config(data__clients=1, deploy__names=["alice"]), tmp_path / "run")
        flood.says("received too many requests: .*429 Too Many Requests")
        assert re.search(r'limiting requests, excess: .* by zone "clients", client: 127.0.0.1', errors.read_text())
        assert flood.process.poll() is None
    records = load_run(tmp_path / "run")
    assert records.visits["outcome"].tolist() == ["done"] * 3


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_a_client_that_trusts_another_authority_is_logged_on_both_sides(
    secured_superlink: SecuredSuperLink, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    make_keys(other, ["127.0.0.1"], [])
    with (
        proxied(secured_superlink, tmp_path) as (address, errors),
        secured_superlink.client(
            "misled", key="alice", superlink=address, root_certificates=str(other / "ca.crt")
        ) as misled,
    ):
        assert misled.process.wait(60) == 2
        assert "CERTIFICATE_VERIFY_FAILED" in misled.text
        assert re.search(r"unknown ca.* while SSL handshaking, client: 127.0.0.1", errors.read_text())


def test_a_duplicate_answer_counts_once_and_is_logged_by_the_superlink(
    secured_superlink: SecuredSuperLink, tmp_path: Path
) -> None:
    with secured_superlink.client("twice", before=ANSWERS_TWICE) as twice:
        twice.says("connected to")
        deployed(
            secured_superlink, config(data__clients=1, deploy__names=["twice"], run__max_commits=2), tmp_path / "run"
        )
        assert twice.process.poll() is None
    assert load_run(tmp_path / "run").visits["outcome"].tolist() == ["done"] * 2
    assert "Failed to store Message reply" in (secured_superlink.folder / "superlink.log").read_text()
    print(twice.text)


def test_the_folder_of_a_run_with_a_client_that_tells_two_classes_of_ten_can_be_read(
    secured_superlink: SecuredSuperLink, tmp_path: Path
) -> None:
    settings = config(data__clients=2, data__tell_labels=True, deploy__names=["twice", "flood"])
    with (
        secured_superlink.client("twice", tell_labels=True),
        secured_superlink.client("flood", before=TELLS_TWO_CLASSES, tell_labels=True),
    ):
        deployed(secured_superlink, settings, tmp_path / "run")
    assert [15, 5, *[0] * 8] in load_run(tmp_path / "run").facts["label_histograms"]
    command = [sys.executable, "-m", "fedtempo", "report", tmp_path / "run", "--out", tmp_path / "report.html"]
    reported = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert reported.returncode == 0, reported.stderr
    assert (tmp_path / "report.html").stat().st_size > 10**5

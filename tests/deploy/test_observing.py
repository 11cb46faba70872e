"""Monitoring of a run: metrics, health page and logs, on a grid in this process without Flower."""

from __future__ import annotations

import errno
import json
import logging
import re
import socket
import sys
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from fedtempo.cli.logs import JsonLines, RunLog
from fedtempo.deploy.flower.observing import Metrics, served
from fedtempo.deploy.live.messages import Call, Reply
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError
from fedtempo.federation import Federation
from fedtempo.record import Recorder, load_run
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients

pytestmark = pytest.mark.deploy


def read(port: int, page: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}") as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def values(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(fedtempo_\S+) (\S+)$", text, re.MULTILINE)}


def test_a_run_serves_metrics_and_its_health(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def spoil(call: Call, reply: Reply) -> Reply:
        return Reply({}) if call.kind == "train" and call.node == 102 else reply

    async def script(fed: Federation) -> None:
        updates = await fed.train_all(fed.clients, fed.model)
        fed.commit(await fed.average(updates), staleness=3)
        with await fed.download(fed.clients[0], fed.model):
            seen["metrics"], seen["health"] = read(port, "/metrics")[1], read(port, "/health")

    metrics = Metrics()
    grid = Loopback(digits_clients(3), spoil)
    with served(metrics, "127.0.0.1:0") as port:
        assert read(port, "/health") == (200, '{"state": "waiting for clients"}')
        assert read(port, "/elsewhere")[0] == 404
        deploy_to_folder(
            config(script, run__max_commits=2),
            tmp_path / "run",
            grid,
            watch=metrics.watch,
            recorder=partial(Recorder, observers=[metrics]),
        )
        after = values(read(port, "/metrics")[1])
    grid.close()
    size_bytes = load_run(tmp_path / "run").facts["size_bytes"]
    during = values(seen["metrics"])
    assert during['fedtempo_visits_total{outcome="done"}'] == 2
    assert during['fedtempo_visits_total{outcome="refused"}'] == 1
    assert during['fedtempo_visits_total{outcome="late"}'] == 0
    assert during['fedtempo_bytes_total{direction="down"}'] == 4 * size_bytes
    assert during['fedtempo_bytes_total{direction="up"}'] == 2 * size_bytes
    assert during["fedtempo_staleness_sum"] == 3
    assert during["fedtempo_clients_connected"] == 3
    assert during["fedtempo_clients_busy"] == 1
    assert during["fedtempo_superlink_away"] == 0
    assert after['fedtempo_visits_total{outcome="cancelled"}'] == 1
    assert 0 < after["fedtempo_accuracy"] < 1
    status, health = seen["health"]
    assert status == 200
    assert json.loads(health).items() >= {"state": "running", "version": 1, "clients": 3, "busy": 1}.items()
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", port))


def test_a_lost_superlink_makes_the_health_check_fail() -> None:
    class Away:
        now, present, busy, away = 3.0, 2, 1, True
        model = type("Model", (), {"version": 4})

    metrics = Metrics()
    metrics.watch(Away(), None)  # type: ignore[arg-type]
    assert metrics.health() == (False, {"state": "SuperLink away", "run_s": 3.0, "version": 4, "clients": 2, "busy": 1})
    with served(metrics, "127.0.0.1:0") as port:
        assert read(port, "/health")[0] == 503


def test_metrics_are_served_at_the_given_address_alone() -> None:
    with served(Metrics(), "127.0.0.1:0") as port:
        for address, refused in (("127.0.0.1", False), ("127.0.0.2", True)):
            with socket.socket() as probe:
                assert (probe.connect_ex((address, port)) == errno.ECONNREFUSED) is refused


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=r"deploy\.metrics = .*in use"), served(Metrics(), f"127.0.0.1:{port}"):
            pass


def test_metrics_are_configured_as_host_and_port() -> None:
    assert config(deploy__metrics="127.0.0.1:9100").deploy.metrics == "127.0.0.1:9100"
    with pytest.raises(ConfigError, match="metrics"):
        config(deploy__metrics="9100")


def test_log_lines_are_json(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grid = Loopback(digits_clients(3))
    with caplog.at_level(logging.INFO, "fedtempo.run"):
        deploy_to_folder(
            config(run__max_commits=1), tmp_path / "run", grid, recorder=partial(Recorder, observers=[RunLog()])
        )
    grid.close()
    lines = [
        json.loads(JsonLines().format(log_record)) for log_record in caplog.records if log_record.name == "fedtempo.run"
    ]
    visits = [line for line in lines if "outcome" in line]
    assert [line["outcome"] for line in visits] == ["done"] * 3
    assert visits[0].items() >= {"level": "info", "logger": "fedtempo.run", "visit": visits[0]["visit"]}.items()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", visits[0]["time"])
    assert any("accuracy" in line and line["version"] == 1 for line in lines)
    try:
        raise ValueError("no")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 1, "failed %s", ("once",), sys.exc_info())
    entry = json.loads(JsonLines().format(record))
    assert entry["message"] == "failed once"
    assert "Traceback" in entry["exception"]

"""deploy/compose.yaml in real containers: a run over TLS, and containers whose programs are killed."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedtempo.record import load_run
from tests.deploy.live.loopback import wait_until

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
DOCKER = shutil.which("docker") or "docker"
WARDS = ("ward-1", "ward-2", "ward-3")


def _works(*command: str) -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


@dataclass(frozen=True)
class Composed:
    """A copy of deploy/ as a separate compose project."""

    folder: Path
    environment: dict[str, str]

    def command(self, *words: str) -> list[str]:
        compose = [DOCKER, "compose"] if _works(DOCKER, "compose", "version") else ["docker-compose"]
        return [*compose, "--profile", "trial", "--profile", "run", *words]

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            self.command(*words), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kill(self, service: str) -> None:
        """Kill a container's programs, as a crash would: all but its first process, which waits for them."""
        self("exec", "-T", service, "sh", "-c", "kill -9 -1; true")


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    if not _works(DOCKER, "info"):
        pytest.skip("no Docker daemon answers")
    root = tmp_path_factory.mktemp("containers")
    folder = Path(shutil.copytree(ROOT / "deploy", root / "deploy"))
    for name in ("keys", "config", "data", "runs"):
        (folder / name).mkdir(exist_ok=True)
    flags = shlex.split(os.environ.get("BUILD_FLAGS", ""))
    subprocess.run([DOCKER, "build", "--quiet", *flags, "--tag", "fedtempo", str(ROOT)], check=True)
    environment = {
        **os.environ,
        "COMPOSE_PROJECT_NAME": f"fedtempo-test-{os.getpid()}",
        "FEDTEMPO_USER": f"{os.getuid()}:{os.getgid()}",
        "FEDTEMPO_PORT": "0",
    }
    composed = Composed(folder, environment)
    try:
        composed("run", "--rm", "-T", "keys", *(word for name in WARDS for word in ("--client", name)))
        composed("up", "--detach", "superlink", "proxy")
        wait_until(lambda: _reached(composed, "/v1/fleet/activate-node") not in (None, 502), 120)
        registered = composed("run", "--rm", "-T", "keys", "--register", "superlink:8000")
        assert registered.count("is registered") == len(WARDS)
        composed("up", "--detach", *WARDS)
        yield composed
    finally:
        composed("down", "--volumes", "--timeout", "5")


def _reached(compose: Composed, path: str) -> int | None:
    """Return the proxy's answer to a request without a body; None if there is no answer."""
    port = compose("port", "proxy", "9443").strip().rpartition(":")[2]
    context = ssl.create_default_context(cafile=compose.folder / "keys" / "ca.crt")
    request = urllib.request.Request(f"https://localhost:{port}{path}", data=b"", method="POST")
    try:
        with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def test_three_clients_train_to_the_target_over_tls(compose: Composed) -> None:
    compose("run", "--rm", "-T", "server", "deploy", "/trial/run.toml", "--out", "/runs/trial")
    run = load_run(compose.folder / "runs" / "trial")
    assert json.loads((compose.folder / "runs" / "trial" / "summary.json").read_text())["ended"] == "target"
    assert run.facts["client_names"] == list(WARDS)
    assert set(run.visits["outcome"]) <= {"done", "cut", "cancelled"}


def test_the_published_port_serves_only_the_clients_interface(compose: Composed) -> None:
    assert _reached(compose, "/v1/fleet/activate-node") not in (None, 404, 502)
    for path in ("/v1/control/start-run", "/v1/runtime/pull-messages", "/health", "/"):
        assert _reached(compose, path) == 404


def test_killed_containers_restart_and_the_run_continues(compose: Composed) -> None:
    folder = compose.folder / "runs" / "killed"
    name = f"{compose.environment['COMPOSE_PROJECT_NAME']}-server"
    settings = ["--set", "run.stop_at_target=false", "--set", "run.horizon=3600"]

    def sent() -> int:
        try:
            return (folder / "journal.jsonl").read_text().count('["named", ')
        except FileNotFoundError:
            return 0

    def more() -> None:
        before = sent()
        wait_until(lambda: sent() >= before + 3, 180)

    def server(*words: str) -> subprocess.Popen[bytes]:
        command = compose.command("run", "--rm", "-T", "--name", name, "server", *words)
        silent = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=compose.folder, env=compose.environment, stdout=silent, stderr=silent)

    def answers() -> int:
        return compose("logs", "ward-2").count("INFO train ")

    with server("deploy", "/trial/run.toml", "--out", "/runs/killed", *settings) as process:
        more()
        compose.kill("ward-2")
        before_kill = answers()
        more()
        compose.kill("superlink")
        more()
        compose("kill", "proxy")
        compose("start", "proxy")
        more()
        subprocess.run([DOCKER, "kill", name], check=True, capture_output=True)
        process.wait(60)
    with server("resume", "/runs/killed") as process:
        # Refused for a minute after it was killed, and for another one if the proxy was killed just as it was let in.
        wait_until(lambda: answers() > before_kill, 240)
        more()
        subprocess.run([DOCKER, "stop", "--time", "60", name], check=True, capture_output=True)
        process.wait(60)
    assert json.loads((folder / "summary.json").read_text())["ended"] == "interrupted"
    records = load_run(folder)
    assert records.facts["resumed"] == 1
    assert records.visits["outcome"].tolist().count("done") >= 10
    assert set(records.visits["client"][records.visits["outcome"] == "done"]) == {0, 1, 2}

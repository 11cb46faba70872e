"""The files in deploy/ fit the programs that they start and the files made by `fedtempo keys`."""

from __future__ import annotations

import re
import shlex
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

import yaml
from cryptography import x509
from typer.main import get_command

from fedtempo.cli.app import app
from fedtempo.deploy.client.settings import load_client, parse_client
from fedtempo.deploy.flower.grid import SuperLink
from fedtempo.deploy.flower.keys import make_keys
from fedtempo.deploy.flower.local import client_tables
from fedtempo.runs.config import load

pytestmark = pytest.mark.deploy

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
ANALYZE = shutil.which("systemd-analyze")
WARDS = ("ward-1", "ward-2", "ward-3")


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def mounted(service: dict[str, Any]) -> dict[str, str]:
    """Return a container's mounts: path inside it, and path relative to compose.yaml."""
    pairs = {}
    for volume in service.get("volumes", []):
        if isinstance(volume, str):
            source, target = volume.split(":")[:2]
        else:
            source, target = volume["source"], volume["target"]
            assert volume["bind"] == {"create_host_path": False}
        pairs[target] = source
    return pairs


def words(value: str | list[str]) -> list[str]:
    return shlex.split(value) if isinstance(value, str) else value


def unit(path: Path) -> dict[str, list[str]]:
    """Return a unit's settings; settings that occur several times have all their values."""
    settings: dict[str, list[str]] = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if not line.startswith(("#", "[")) and "=" in line:
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


def superlink_commands() -> list[list[str]]:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["superlink"]
    (service,) = unit(DEPLOY / "fedtempo-superlink.service")["ExecStart"]
    return [words(compose["command"]), shlex.split(service)[1:]]


@pytest.mark.parametrize("command", superlink_commands(), ids=["compose", "systemd"])
def test_the_superlink_is_started_by_fedtempo_with_a_database_that_lasts(command: list[str]) -> None:
    """`fedtempo superlink` asks for the secret, and lets registered clients in only."""
    context = get_command(app).commands["superlink"].make_context("superlink", command[1:])  # type: ignore[attr-defined]
    assert command[0] == "superlink"
    assert Path(context.params["keys"]).is_relative_to("/etc/fedtempo")
    assert str(context.params["database"]).startswith(("/state/", "/var/lib/fedtempo/"))


def test_fedtempos_programs_are_started_with_existing_commands(services: dict[str, dict[str, Any]]) -> None:
    lines = [
        [*words(service.get("entrypoint", ["fedtempo"])), *words(service.get("command", []))]
        for service in services.values()
    ]
    for path in UNITS:
        for line in unit(path)["ExecStart"]:
            lines += [["fedtempo", *shlex.split(found)] for found in re.findall(r"fedtempo ([^;']+)", line)]
    ours = [line[1:] for line in lines if line[0] == "fedtempo" and len(line) > 1]
    assert {line[0] for line in ours} == {"client", "deploy", "keys", "resume", "superlink"}
    command = get_command(app)
    for name, *rest in ours:
        known = {option for service in command.commands[name].params for option in service.opts}  # type: ignore[attr-defined]
        assert {word for word in rest if word.startswith("--")} <= known


def test_containers_find_the_files_made_by_keys(services: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    entrypoint = services["keys"]["entrypoint"]
    hosts = [entrypoint[i + 1] for i, word in enumerate(entrypoint) if word == "--host"]
    key_files = {f"./keys/{path.name}" for path in make_keys(tmp_path, hosts, WARDS)}
    for name, service in services.items():
        there = mounted(service)
        assert {source for source in there.values() if source.startswith("./keys/")} <= key_files, name
        for path in re.findall(r"/etc/fedtempo/[\w.-]+", str({**service, "volumes": []})):
            assert path in there or str(Path(path).parent) in there, (name, path)
    for path in re.findall(r"/etc/fedtempo/[\w.-]+", (DEPLOY / "compose-nginx.conf").read_text()):
        assert path in mounted(services["proxy"])
    certificate = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"superlink", "proxy", "localhost"} <= set(names.get_values_for_type(x509.DNSName))
    context = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")


def test_only_the_proxy_and_the_run_reach_the_superlink(services: dict[str, dict[str, Any]]) -> None:
    networks = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["networks"]
    assert networks == {"inside": {"internal": True}}
    inside = {name for name, service in services.items() if "inside" in service.get("networks", [])}
    assert inside == {"superlink", "proxy", "keys", "server"}
    assert services["superlink"]["networks"] == ["inside"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    for name in ("nginx.conf", "compose-nginx.conf"):
        assert re.findall(r"location (\S+)", (DEPLOY / name).read_text()) == ["/v1/fleet/", "/"]


def test_the_two_proxies_differ_only_in_the_superlinks_address() -> None:
    def settings(name: str) -> set[str]:
        text = re.sub(r"#.*", "", (DEPLOY / name).read_text().replace("/etc/fedtempo/keys/", "/etc/fedtempo/"))
        return {" ".join(line.split()) for line in text.splitlines()} - {""}

    alone, composed = settings("nginx.conf"), settings("compose-nginx.conf")
    assert alone - composed == {"proxy_pass https://127.0.0.1:8000;"}
    assert {line.split()[0] for line in composed - alone} == {"proxy_pass", "resolver", "set"}


def test_clients_of_the_trial_hold_the_parts_that_its_configuration_deals(services: dict[str, dict[str, Any]]) -> None:
    config = load(DEPLOY / "trial" / "run.toml")
    assert config.deploy.names == WARDS
    for part, name in enumerate(WARDS):
        there = mounted(services[name])
        assert there["/etc/fedtempo/client.toml"] == f"./trial/{name}.toml"
        path = DEPLOY / "trial" / f"{name}.toml"
        settings = load_client(path)
        assert settings.name == name
        assert settings.superlink == f"proxy:{services['proxy']['ports'][0].rpartition(':')[2]}"
        dealt = parse_client(client_tables(config, part, SuperLink("proxy:9443")))
        np.testing.assert_array_equal(settings.data.read().x, dealt.data.read().x)
        for file in (settings.root_certificates, settings.private_key):
            assert f"/etc/fedtempo/{Path(str(file)).name}" in there
    assert config.deploy.root_certificates in mounted(services["server"])


@pytest.mark.skipif(ANALYZE is None, reason="systemd is not installed")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_the_units(path: Path, tmp_path: Path) -> None:
    text = re.sub(r"/opt/fedtempo/bin/[\w-]+", "/bin/true", path.read_text())
    (tmp_path / path.name.replace("@", "@x")).write_text(text)
    done = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", str(tmp_path / path.name.replace("@", "@x"))],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "fedtempo" in line]
    assert not ours, done.stderr


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_declare_every_folder_that_they_use(path: Path) -> None:
    settings = unit(path)
    assert settings["DynamicUser"] == ["yes"]
    assert "FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1" in settings["Environment"][0]
    text = path.read_text()
    for written in re.findall(r"/var/(?:lib|cache)/([\w-]+)", text.partition("[Unit]")[2]):
        assert f"Directory={written}\n" in text

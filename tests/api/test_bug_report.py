"""What people attach to a bug report says much about the installation, and nothing about them."""

from __future__ import annotations

import getpass
import json
import platform
import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedtempo.api import bug_report as module
from fedtempo.api.bug_report import bug_report
from fedtempo.api.installation import Finding, examine_installation
from fedtempo.cli.app import app
from fedtempo.version import __version__


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Be a user with a home folder on a machine with a name; return what must not be told."""
    home = tmp_path / "home" / "jane.doe"
    home.mkdir(parents=True)
    for name, value in {"HOME": str(home), "FEDTEMPO_DATA": str(home / "data"), "FEDTEMPO_SECRET": "s3cret"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(getpass, "getuser", lambda: "jane.doe")
    monkeypatch.setattr(socket, "gethostname", lambda: "ward-pc.hospital.example")
    monkeypatch.setattr(platform, "node", lambda: "ward-pc.hospital.example")
    monkeypatch.chdir(home)
    return ["jane.doe", "ward-pc", "hospital.example", "s3cret", str(tmp_path), str(Path.cwd()), sys.prefix]


def test_the_report_names_versions_and_nobody(somebody: list[str]) -> None:
    printed = CliRunner().invoke(app, ["doctor", "--report"]).stdout
    report = json.loads(printed)
    assert report["fedtempo"] == __version__
    assert report["packages"]["torch"]
    assert "FEDTEMPO_DATA" in report["environment"]
    assert {"processors", "torch"} <= {finding["name"] for finding in report["findings"]}
    assert not [text for text in somebody if text.lower() in printed.lower()]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("/home/jane.doe/x.py: no such file", "<path>: no such file"),
        ("cannot open '/srv/data/ward 3.csv'", "cannot open '<path>'"),
        (r"C:\Users\jane.doe\AppData\x has no native part", "<path> has no native part"),
        ("~/data and file:///tmp/x", "<path> and <path>"),
        ("WARD-PC says jane.doe", "<host> says <user>"),
        ("not_ward-pcs", "not_ward-pcs"),
        ("/dev/shm", "/dev/shm"),
        ("0.05 of 0.06 GiB free; 2.13.0+cpu, and/or", "0.05 of 0.06 GiB free; 2.13.0+cpu, and/or"),
    ],
)
@pytest.mark.usefixtures("somebody")
def test_paths_and_names_are_replaced(text: str, cleaned: str) -> None:
    (finding,) = bug_report([Finding("machine", text, "ok", text, text)])["findings"]
    assert finding["found"] == finding["advice"] == finding["name"] == cleaned


def test_findings_about_folders_are_left_out() -> None:
    assert any(finding.area == "folders" for finding in examine_installation())
    assert bug_report([Finding("folders", "cache", "ok", "x")])["findings"] == []


def test_a_user_without_a_name_can_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(module.getpass, "getuser", fail)
    assert bug_report([])["fedtempo"] == __version__

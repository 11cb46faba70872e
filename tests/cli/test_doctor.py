"""`fedtempo doctor`: its table, its JSON and its exit code."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from fedtempo.api import installation
from fedtempo.cli import app
from fedtempo.version import PROTOCOL


def _doctor(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fedtempo", "doctor", *options])
    with pytest.raises(SystemExit) as ended:
        app.main()
    return int(ended.value.code or 0)


def test_the_installation_is_reported_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _doctor(monkeypatch, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True
    found = {each["name"]: each for each in told["findings"]}
    assert found["numpy"]["found"] == version("numpy")
    assert found["PyTorch"]["state"] == "ok"
    assert found["protocol"]["found"].startswith(f"version {PROTOCOL} ")
    assert {"ray", "flower", "hf"} <= {each["name"] for each in told["findings"] if each["area"] == "extras"}


def test_a_missing_package_is_named_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_scipy(name: str) -> str:
        if name == "scipy":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(installation, "version", without_scipy)
    assert _doctor(monkeypatch) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "needed and missing: scipy" in printed
    assert "pip install 'scipy>=" in printed

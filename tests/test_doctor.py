"""`fedtempo doctor`: what it finds, and what it says of what is not there."""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fedtempo import cli, doctor


def _found(name: str) -> doctor.Finding:
    return next(each for each in doctor.examine() if each.name == name)


def _doctor(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fedtempo", "doctor", *options])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_what_is_installed_is_told_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _doctor(monkeypatch, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True
    found = {each["name"]: each for each in told["findings"]}
    assert found["numpy"]["found"] == version("numpy")
    assert found["PyTorch"]["state"] == "ok"
    assert {"ray", "flower", "hf"} <= {each["name"] for each in told["findings"] if each["area"] == "extras"}


def test_a_missing_package_fails_and_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_scipy(name: str) -> str:
        if name == "scipy":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", without_scipy)
    assert _doctor(monkeypatch) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "needed and missing: scipy" in printed
    assert "pip install 'scipy>=" in printed


def test_a_version_that_is_too_old_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "0.1" if name == "plotly" else version(name))
    found = _found("plotly")
    assert (found.state, found.found) == ("missing", "0.1")


def test_an_extra_that_is_not_there_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor,
        "_requirements",
        lambda extra="": [Requirement("no-such-package>=1")] if extra == "ray" else [],
    )
    found = _found("ray")
    assert (found.state, found.advice) == ("optional", "pip install 'fedtempo[ray]'")


def test_little_shared_memory_and_a_wrong_data_folder_are_warned_about(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(doctor, "_LEAST_SHARED_BYTES", 10**18)
    assert _found(str(tmp_path)).state == "warning"
    monkeypatch.setenv("FEDTEMPO_DATA", str(tmp_path / "nowhere"))
    assert _found("$FEDTEMPO_DATA").state == "warning"
    (tmp_path / "fashion-mnist").mkdir()
    monkeypatch.setenv("FEDTEMPO_DATA", str(tmp_path))
    assert "fashion-mnist" in _found("$FEDTEMPO_DATA").found


def test_the_folder_that_data_are_read_from_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for unset in (None, ""):
        monkeypatch.delenv("FEDTEMPO_DATA", raising=False)
        if unset is not None:
            monkeypatch.setenv("FEDTEMPO_DATA", unset)
        monkeypatch.setattr(doctor, "SYSTEM_DATA", tmp_path)
        assert _found("$FEDTEMPO_DATA").found == f"not set: {tmp_path} is used"
        monkeypatch.setattr(doctor, "SYSTEM_DATA", tmp_path / "none")
        assert _found("$FEDTEMPO_DATA").found == f"not set, and no {tmp_path / 'none'}"


def test_a_container_s_limit_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(doctor, "_CONTAINER_LIMIT", limit)
    limit.write_text("1073741824\n")
    assert doctor.memory_bytes() == 2**30
    assert _found("memory").state == "warning"
    limit.write_text("max\n")
    assert (doctor.memory_bytes() or 0) > 2**30

"""The wheel and the source distribution, each installed in an empty environment."""

from __future__ import annotations

import json
import os
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from fedtempo.version import __version__
from tools.audit import pins
from tools.bill import write_bill
from tools.package import ROOT, build, main


@pytest.mark.slow
def test_both_packages_install_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(tmp_path)])
    assert "both packages install and run, and two builds of the wheel have the same bytes" in capsys.readouterr().out


@pytest.mark.slow
def test_two_builds_of_the_wheel_have_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wheel = build(tmp_path / "first")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    before = os.umask(0o077)
    try:
        _, again = build(tmp_path / "second")
    finally:
        os.umask(before)
    assert again.read_bytes() == wheel.read_bytes()


def test_the_bill_of_materials_names_every_pinned_release_with_its_hashes(tmp_path: Path) -> None:
    lock = ROOT / "requirements-image.lock"
    (tmp_path / "again").mkdir()
    bill, again = write_bill(lock, tmp_path, 1_700_000_000), write_bill(lock, tmp_path / "again", 1_700_000_000)
    assert bill.read_bytes() == again.read_bytes()
    content = json.loads(bill.read_text())
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.6")
    assert content["metadata"]["component"]["purl"] == f"pkg:pypi/fedtempo@{__version__}"
    listed = {part["name"]: part for part in content["components"]}
    for pin in pins(lock.read_text().splitlines()):
        assert listed[pin.name]["version"] == str(pin.version)
        assert {f"sha256:{each['content']}" for each in listed[pin.name]["hashes"]} == {*pin.hashes}


@pytest.mark.slow
def test_packages_hold_every_module_and_no_tests(tmp_path: Path) -> None:
    source, wheel = build(tmp_path)
    inside = [path for path in (ROOT / "fedtempo").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    files = {path.relative_to(ROOT).as_posix() for path in inside}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == files
    with tarfile.open(source) as archive:
        unpacked = {name.partition("/")[2] for name in archive.getnames()}
    assert files | {"README.md", "LICENSE", "pyproject.toml"} <= unpacked


def test_the_package_and_its_citation_state_the_same_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert project["version"] == __version__
    assert f"\nversion: {__version__}\n" in citation

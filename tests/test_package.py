"""The wheel and the source distribution, each installed in an empty environment."""

from __future__ import annotations

import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from fedtempo.version import __version__
from tools.package import ROOT, build, main


@pytest.mark.slow
def test_both_packages_install_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(tmp_path)])
    assert "both install and run" in capsys.readouterr().out


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

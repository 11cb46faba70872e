"""What is found out about an installation and a machine, and the advice about what is absent."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from fedtempo import Finding, examine_installation
from fedtempo.api import installation


def _found(name: str) -> Finding:
    return next(finding for finding in examine_installation() if finding.name == name)


def test_a_version_below_the_minimum_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "version", lambda name: "0.1" if name == "plotly" else version(name))
    found = _found("plotly")
    assert (found.state, found.found) == ("missing", "0.1")


def test_a_missing_extra_is_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        installation,
        "_requirements",
        lambda extra="": [Requirement("no-such-package>=1")] if extra == "ray" else [],
    )
    found = _found("ray")
    assert (found.state, found.found) == ("optional", "not installed")
    assert found.advice == "pip install 'fedtempo[ray]'"


def test_too_little_shared_memory_and_a_wrong_data_folder_give_warnings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installation, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(installation, "_LEAST_SHARED_BYTES", 10**18)
    assert _found(str(tmp_path)).state == "warning"
    monkeypatch.setenv("FEDTEMPO_DATA", str(tmp_path / "nowhere"))
    assert _found("$FEDTEMPO_DATA").state == "warning"
    (tmp_path / "fashion-mnist").mkdir()
    monkeypatch.setenv("FEDTEMPO_DATA", str(tmp_path))
    assert "fashion-mnist" in _found("$FEDTEMPO_DATA").found


def test_the_folder_with_data_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for unset in (None, ""):
        monkeypatch.delenv("FEDTEMPO_DATA", raising=False)
        if unset is not None:
            monkeypatch.setenv("FEDTEMPO_DATA", unset)
        monkeypatch.setattr(installation, "SYSTEM_DATA", tmp_path)
        there = _found("$FEDTEMPO_DATA")
        assert there.found == f"not set, so {tmp_path} is searched for fashion-mnist and emnist"
        assert (there.state, there.advice) == ("optional", "")
        monkeypatch.setattr(installation, "SYSTEM_DATA", tmp_path / "none")
        absent = _found("$FEDTEMPO_DATA")
        assert absent.found == f"not set, so {tmp_path / 'none'} would be searched for fashion-mnist and emnist"
        assert (absent.state, absent.advice) == ("optional", "it does not exist; needed only for these data sets")


@pytest.fixture
def torch_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of an installation of PyTorch that has nothing in it but a native part that cannot be loaded."""
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')\n")
    (folder / f"_C{EXTENSION_SUFFIXES[0]}").touch()
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_a_cpu_build_of_pytorch_is_not_imported(torch_folder: Path) -> None:
    (torch_folder / "version.py").write_text("__version__ = '2.9.0+cpu'\ncuda = None\nhip = None\n")
    found = _found("PyTorch")
    assert (found.state, found.found) == ("ok", "2.9.0+cpu (installed; not imported to see whether it works)")
    assert _found("CUDA").found == "PyTorch is a CPU build; no usable card"


@pytest.mark.parametrize(
    "build", ["cuda = '12.8'\nhip = None", "cuda = None\nhip = '6.4'", "debug = False", "this is no Python"]
)
def test_other_builds_of_pytorch_are_imported_and_broken_ones_reported(torch_folder: Path, build: str) -> None:
    (torch_folder / "version.py").write_text(f"__version__ = '2.9.0'\n{build}\n")
    found = _found("PyTorch")
    assert found.state == "missing"
    assert "cannot be imported: libcudart.so.12" in found.found


def test_pytorch_without_its_native_library_counts_as_missing(torch_folder: Path) -> None:
    (torch_folder / "version.py").write_text("__version__ = '2.9.0+cpu'\ncuda = None\n")
    next(torch_folder.glob("_C*")).unlink()
    found = _found("PyTorch")
    assert found.state == "missing"
    assert "no native part" in found.found

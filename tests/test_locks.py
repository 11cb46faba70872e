"""Pinned releases: every Python version that fedtempo supports can install them."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tools.audit import pins

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements*.lock")), ids=lambda lock: lock.stem)
def test_the_oldest_supported_python_can_install_the_pinned_releases(lock: Path) -> None:
    """Check the releases installed here: those of the tests in `make test`, those of the site in `make docs`."""
    requires_python = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    oldest = requires_python.removeprefix(">=") + ".0"
    refused = []
    for pin in pins(lock.read_text(encoding="utf-8").splitlines()):
        try:
            installed = distribution(pin.name)
        except PackageNotFoundError:
            continue
        wanted = installed.metadata["Requires-Python"] or ""
        if installed.version == str(pin.version) and not SpecifierSet(wanted).contains(oldest):
            refused.append(f"{pin} wants Python {wanted}")
    assert not refused

"""Pinned releases: whatever Python fedtempo asks for can install them."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tools.audit import pins

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements*.lock")), ids=lambda lock: lock.stem)
def test_the_oldest_python_can_install_what_is_pinned(lock: Path) -> None:
    """Looks at the releases that are installed here: `make test` at its own, `make docs` at those of the site."""
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

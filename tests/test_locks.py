"""Pinned releases: every Python version that fedtempo supports can install them, and every file has a known hash."""

from __future__ import annotations

import hashlib
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools.audit import Pin, pins
from tools.hashes import hashed

ROOT = Path(__file__).parents[1]
LOCKS = sorted(ROOT.glob("requirements*.lock"))


def pinned(lock: Path) -> list[Pin]:
    return list(pins(lock.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_the_oldest_supported_python_can_install_the_pinned_releases(lock: Path) -> None:
    """Check the releases installed here: those of the tests in `make test`, those of the site in `make docs`."""
    requires_python = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    oldest = requires_python.removeprefix(">=") + ".0"
    refused = []
    for pin in pinned(lock):
        try:
            installed = distribution(pin.name)
        except PackageNotFoundError:
            continue
        wanted = installed.metadata["Requires-Python"] or ""
        if installed.version == str(pin.version) and not SpecifierSet(wanted).contains(oldest):
            refused.append(f"{pin} wants Python {wanted}")
    assert not refused


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_pinned_release_has_hashes(lock: Path) -> None:
    for pin in pinned(lock):
        assert pin.hashes, f"{pin}: run `make hashes`"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in pin.hashes), pin


def test_every_installation_from_a_lock_checks_hashes() -> None:
    """Every line of the Makefile and the Dockerfile that installs from a file."""
    text = "".join((ROOT / name).read_text().replace("\\\n", " ") for name in ("Makefile", "Dockerfile"))
    lines = [line for line in text.splitlines() if " install " in line and " -r " in line]
    assert len(lines) == 4
    assert all("--no-deps --require-hashes -r" in line for line in lines), lines


def test_the_image_has_the_tested_releases_of_all_that_it_needs() -> None:
    image = {pin.name: pin for pin in pinned(ROOT / "requirements-image.lock")}
    tested = {pin.name: pin for name in ("", "-flower") for pin in pinned(ROOT / f"requirements{name}.lock")}
    assert all(str(pin) == str(tested[name]) for name, pin in image.items())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [Requirement(text) for text in [*project["dependencies"], *project["optional-dependencies"]["flower"]]]
    for each in needed:
        assert each.specifier.contains(image[canonicalize_name(each.name)].version), each
    waiting, seen = [each.name for each in needed], set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        assert name in image, f"{name} is missing in requirements-image.lock"
        try:
            stated = requires(name) or []
        except PackageNotFoundError:  # Flower is in an environment of its own
            continue
        waiting += [one.name for one in map(Requirement, stated) if one.marker is None or one.marker.evaluate()]


def test_the_lock_of_the_cuda_build_only_adds_to_the_main_one() -> None:
    cuda, main = (pinned(ROOT / f"requirements{name}.lock") for name in ("-cuda", ""))
    assert not {pin.name for pin in cuda} & {pin.name for pin in main}
    assert {"triton", "nvidia-nccl-cu13"} <= {pin.name for pin in cuda}


def test_hashes_of_other_indexes_stay_until_the_version_changes(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.0+cpu-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"built elsewhere")
    elsewhere = f"sha256:{hashlib.sha256(b'built elsewhere').hexdigest()}"
    fresh = f"torch==2.0 \\\n    --hash=sha256:{'a' * 64}\n"
    lock = hashed("# why\ntorch==2.0\n", fresh, [wheel])
    assert lock.startswith("# why\ntorch==2.0 \\\n    --hash=sha256:")
    assert {*next(pins(lock.splitlines())).hashes} == {elsewhere, f"sha256:{'a' * 64}"}
    assert hashed(lock, fresh) == lock
    newer = hashed(lock, fresh.replace("2.0", "2.1"))
    assert next(pins(newer.splitlines())).hashes == (f"sha256:{'a' * 64}",)

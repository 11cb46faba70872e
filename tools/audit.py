"""Check pinned releases for known problems: `make audit`.

    python -m tools.audit [--strict] requirements.lock ...

Every pin is looked up in the package index that pip uses. It must exist and not be yanked, and its project must not be
quarantined.

Advisories come from pip-audit, which asks the index for the page of each release. Some indexes, such as mirrors, have
no such pages, but their page of a project lists the advisories of its newest release. There, a pin is checked only if
it is the newest release. The last line names the pins that could not be checked.

Exit code: 1 if a pin has a known problem or could not be looked up, or, with --strict, if it could not be checked for
advisories; else 0.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from pip._internal.models.index import PyPI  # pip's default index

_FILES = {"Accept": "application/vnd.pypi.simple.v1+json"}
_PATIENCE_S = 60


@dataclass
class Pin:
    """One pinned release, and its known problems.

    hashes: of the release's files. newest: the newest final release (no pre-release) that is not yanked. advisories:
    None if it could not be checked. faults: other problems.
    """

    name: str
    version: Version
    hashes: tuple[str, ...] = ()
    newest: Version | None = None
    advisories: list[str] | None = None
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def pins(lines: Iterable[str]) -> Iterator[Pin]:
    """Yield the pins of a requirements file. Raises ValueError for a line that is not a pin."""
    whole = "\n".join(line.partition("#")[0] for line in lines).replace("\\\n", " ")
    for line in whole.splitlines():
        text, *hashes = (part.strip() for part in line.split("--hash="))
        if not text:
            continue
        requirement = Requirement(text)
        exact = [each.version for each in requirement.specifier if each.operator == "=="]
        if len(exact) != 1:
            raise ValueError(f"{text}: not pinned to one release")
        yield Pin(canonicalize_name(requirement.name), Version(exact[0]), tuple(hashes))


def look_up(pin: Pin, files: dict[str, Any]) -> None:
    """Record what the index says about a pin. files: its page of the project's files (PEP 691, 700, 792)."""
    whole: set[Version] = set()
    yanked: dict[Version, str] = {}
    for file in files["files"]:
        version = release(file["filename"])
        if version is None:
            continue
        if file.get("yanked"):
            yanked[version] = file["yanked"] if isinstance(file["yanked"], str) else "no reason given"
        else:
            whole.add(version)
    if (status := files.get("project-status", {}).get("status", "active")) == "quarantined":
        pin.faults.append(f"its project is {status}: {files['project-status'].get('reason', 'no reason given')}")
    if pin.version not in whole:
        pin.faults.append(f"yanked: {yanked[pin.version]}" if pin.version in yanked else "not in the index")
    pin.newest = max((version for version in whole if not version.is_prerelease), default=None)


def release(filename: str) -> Version | None:
    """Return the version in the name of a wheel or source distribution, None for other files."""
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename)[1]
        return parse_sdist_filename(filename)[1]
    except ValueError:
        return None


def ask_pip_audit(pinned: Mapping[tuple[str, Version], Pin], file: Path) -> None:
    """Record the advisories that pip-audit finds for a requirements file."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--disable-pip",
        "--no-deps",
        "--progress-spinner=off",
        "--format=json",
    ]
    answer = subprocess.run([*command, "-r", str(file)], capture_output=True, text=True, check=False)  # noqa: S603  ours
    try:
        found = json.loads(answer.stdout)["dependencies"]
    except ValueError:  # it failed, and its last line says why
        print(answer.stderr.strip().rpartition("\n")[2], file=sys.stderr)
        return
    for about in found:
        if "vulns" in about:  # otherwise the entry says why it was skipped
            pin = pinned[canonicalize_name(about["name"]), Version(about["version"])]
            pin.advisories = [each["id"] for each in about["vulns"]]


def ask_project(pin: Pin, project: dict[str, Any]) -> None:
    """Record the advisories on the index's page of a project, if the pin is the release that the page is about."""
    if Version(project["info"]["version"]) == pin.version:
        told = reversed(project["vulnerabilities"])
        known = {
            frozenset({each["id"], *each["aliases"]}): each for each in told
        }  # once per advisory, under its first name
        pin.advisories = [each["id"] for each in known.values() if not each.get("withdrawn")]


def page(address: str, **headers: str) -> dict[str, Any]:
    """Return a page of the index. Raises requests.RequestException."""
    answer = requests.get(address, headers=headers, timeout=_PATIENCE_S)
    answer.raise_for_status()
    return dict(answer.json())


def main(arguments: list[str]) -> int:
    """Audit the files and print the result; return the exit code."""
    parser = argparse.ArgumentParser(description="Check pinned releases for known problems.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--strict", action="store_true", help="also fail if a release cannot be checked for advisories")
    asked = parser.parse_args(arguments)
    pinned = {(pin.name, pin.version): pin for file in asked.files for pin in pins(file.read_text().splitlines())}
    index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
    for file in asked.files:
        ask_pip_audit(pinned, file)

    def audit(pin: Pin) -> None:
        try:
            look_up(pin, page(f"{index}/{pin.name}/", **_FILES))
            if pin.advisories is None and pin.version == pin.newest:
                ask_project(pin, page(f"{index.removesuffix('/simple')}/pypi/{pin.name}/json"))
        except (requests.RequestException, ValueError, KeyError) as error:
            if pin.newest is None:
                pin.faults.append(f"could not be looked up: {error}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(audit, pinned.values()))
    return report(list(pinned.values()), strict=asked.strict)


def report(pinned: list[Pin], *, strict: bool) -> int:
    """Print all problems; return the exit code."""
    for pin in pinned:
        for fault in [*pin.faults, *(f"advisory {name}" for name in pin.advisories or [])]:
            print(f"{pin}: {fault}")
    known = sum(bool(pin.faults or pin.advisories) for pin in pinned)
    unanswered = [pin for pin in pinned if pin.advisories is None]
    print(f"{len(pinned)} releases looked up, {known} with known problems.")
    print(f"{len(pinned) - len(unanswered)} releases checked for advisories.")
    if unanswered:
        names = ", ".join(f"{pin} (newest: {pin.newest})" for pin in unanswered)
        print(
            f"NOT CHECKED for advisories, because the index has no page of them: {len(unanswered)} releases: {names}."
        )
    return int(bool(known or (strict and unanswered)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

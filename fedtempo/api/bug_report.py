"""What `fedtempo doctor --report` prints: the installation and the machine, without paths and names."""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import re
import socket
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, distributions, metadata
from typing import Any

from packaging.requirements import Requirement

from fedtempo.api.installation import Finding
from fedtempo.version import PROTOCOL, __version__

_WITHOUT = ("folders",)
"""Areas of findings that are about this person's folders alone."""

_VARIABLES = ("FEDTEMPO_", "FLWR_", "OMP_", "MKL_", "OPENBLAS_", "CUDA_", "SLURM_", "RAY_", "PYTORCH_", "XDG_")
_PATH = re.compile(
    r"(?<=')(?:~|[A-Za-z]:)?[/\\][^'\n]*(?=')|(?<=\")(?:~|[A-Za-z]:)?[/\\][^\"\n]*(?=\")|"
    r"(?<![\w.])(?:file:/*|~)?(?:[A-Za-z]:)?(?:[/\\]+[^\s/\\:'\"(),;]+)+[/\\]?"
)
_KNOWN_PATHS = ("/dev/shm",)  # noqa: S108  the name of a finding; the same on every machine
_SHORTEST_NAME = 3
"""Names of people and machines that are shorter are not searched for; they would be found in other words."""


def bug_report(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return what a bug report needs, as JSON values.

    It holds versions and the findings of `examine_installation`, except those about folders. Of environment variables,
    it has the names of those that change what programs do, not their values. Paths, and the names of this user and
    this machine, are replaced in every text.
    """
    facts = {
        "fedtempo": __version__,
        "protocol": PROTOCOL,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()} {' '.join(platform.libc_ver())}".strip(),
        "packages": _packages(),
        "environment": sorted(name for name in os.environ if name.startswith(_VARIABLES)),
        "findings": [asdict(finding) for finding in findings if finding.area not in _WITHOUT],
    }
    cleaned: dict[str, Any] = _cleaned(facts, _names())
    return cleaned


def _packages() -> dict[str, str]:
    """Return the versions of all installed packages that fedtempo's metadata name."""
    try:
        named = {Requirement(text).name.lower() for text in metadata("fedtempo").get_all("Requires-Dist") or []}
    except PackageNotFoundError:
        named = set()
    installed = {each.metadata["Name"]: each.version for each in distributions() if each.metadata["Name"]}
    return {name: found for name, found in sorted(installed.items()) if name.lower() in named}


def _names() -> dict[str, str]:
    """Return names that must not appear, and what stands for each of them."""
    names: dict[str, str] = {}
    for host in {socket.gethostname(), platform.node()}:
        names |= dict.fromkeys([host, host.partition(".")[0]], "<host>")
    with contextlib.suppress(KeyError, OSError):  # a container's user may have no name
        names[getpass.getuser()] = "<user>"
    return {name: mark for name, mark in names.items() if len(name) >= _SHORTEST_NAME}


def _cleaned(value: Any, names: dict[str, str]) -> Any:
    """Return a JSON value whose texts, keys included, hold neither paths nor these names."""
    if isinstance(value, dict):
        return {_cleaned(key, names): _cleaned(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_cleaned(each, names) for each in value]
    if not isinstance(value, str):
        return value
    text = _PATH.sub(lambda match: match.group() if match.group() in _KNOWN_PATHS else "<path>", value)
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", names[name], text, flags=re.IGNORECASE)
    return text

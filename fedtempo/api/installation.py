"""What this installation and this machine have, what is missing, and what would help (`fedtempo doctor`).

Since required packages may be missing, this module imports none of them at its top.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import runpy
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from fedtempo.data.cache_dir import SYSTEM_DATA, cache_folder
from fedtempo.parts import machine
from fedtempo.parts.leftovers import remove_leftovers
from fedtempo.version import PROTOCOL, __version__

State = Literal["ok", "optional", "warning", "missing"]
_LEAST_SHARED_BYTES = 256 * 2**20
_GIB = 2**30
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where Linux keeps it; nothing is written there


@dataclass(frozen=True)
class Finding:
    """One finding about the installation or the machine.

    area: "program", "needed", "extras", "training", "machine" or "folders". state: "ok"; "optional": absent and not
    needed; "warning": present and likely to cause trouble; "missing": required and absent. found: what is there, in
    words. advice: what would help; empty if nothing is needed.
    """

    area: str
    name: str
    state: State
    found: str
    advice: str = ""


def examine_installation() -> list[Finding]:
    """Return what is installed, what is missing and what would help, in the order of `fedtempo doctor`."""
    return [*_python(), *_packages(), *_extras(), *_pytorch(), *_machine(), *_folders()]


def _python() -> list[Finding]:
    running = platform.python_version()
    try:
        wanted = metadata("fedtempo")["Requires-Python"] or ""
    except PackageNotFoundError:
        return [
            Finding("program", "Python", "ok", f"{running}, {platform.platform(terse=True)}"),
            Finding("program", "fedtempo", "missing", "not installed", "pip install . in its folder"),
        ]
    fits = SpecifierSet(wanted).contains(running, prereleases=True)
    return [
        Finding("program", "fedtempo", "ok", __version__),
        Finding(
            "program",
            "Python",
            "ok" if fits else "missing",
            f"{running}, {platform.platform(terse=True)}",
            "" if fits else f"needs {wanted}",
        ),
        Finding("program", "protocol", "ok", f"version {PROTOCOL} (in a deployment, server and clients need the same)"),
    ]


def _requirements(extra: str = "") -> list[Requirement]:
    """What fedtempo's metadata ask for on this machine; with `extra`, what it adds."""
    try:
        stated = metadata("fedtempo").get_all("Requires-Dist") or []
    except PackageNotFoundError:
        return []
    found = []
    for text in stated:
        asked = Requirement(text)
        always = asked.marker is None or asked.marker.evaluate({"extra": ""})
        if always != bool(extra) and (always or (asked.marker and asked.marker.evaluate({"extra": extra}))):
            found.append(asked)
    return found


def _flaw(asked: Requirement) -> tuple[str, str]:
    """The version that is installed, and what is wrong with it; both may be empty."""
    try:
        found = version(asked.name)
    except PackageNotFoundError:
        return "", f"{asked} is not installed"
    if not asked.specifier.contains(found, prereleases=True):
        return found, f"{asked.name} {found}: {asked.specifier} is needed"
    return found, ""


def _packages() -> list[Finding]:
    findings = []
    for asked in sorted(_requirements(), key=lambda each: each.name.lower()):
        found, flaw = _flaw(asked)
        advice = f"pip install '{asked}'" if flaw else ""
        findings.append(Finding("needed", asked.name, "missing" if flaw else "ok", found, advice))
    return findings


def _extras() -> list[Finding]:
    try:
        names = metadata("fedtempo").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []
    findings = []
    for extra in sorted(names):
        asked = _requirements(extra)
        flaws = [flaw for each in asked if (flaw := _flaw(each)[1])]
        if not flaws:
            found = ", ".join(f"{each.name} {_flaw(each)[0]}" for each in asked[:3])
            findings.append(Finding("extras", extra, "ok", found + (", ..." if len(asked) > 3 else "")))
        else:
            findings.append(Finding("extras", extra, "optional", "not installed", f"pip install 'fedtempo[{extra}]'"))
    return findings


def _pytorch() -> list[Finding]:
    """PyTorch and CUDA. Only a build for GPUs is imported, which takes seconds, because only it can find a card."""
    try:
        build = _torch_build()
        if build is not None and not (build.get("cuda") or build.get("hip")):
            return _cpu_build(str(build["__version__"]))
        import torch
    except (ImportError, OSError) as error:  # OSError: a library that it needs cannot be loaded
        return [Finding("training", "PyTorch", "missing", f"cannot be imported: {error}", "install it again")]
    findings = [Finding("training", "PyTorch", "ok", str(torch.__version__))]
    if torch.cuda.is_available():
        cards = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        findings.append(Finding("training", "CUDA", "ok", f"{torch.version.cuda}: {', '.join(cards)}"))
    else:
        built = f"PyTorch is built for CUDA {torch.version.cuda}" if torch.version.cuda else "PyTorch is a CPU build"
        findings.append(_no_card(built))
    return findings


def _torch_build() -> dict[str, Any] | None:
    """What PyTorch's own version file says of how it was built, without importing PyTorch; None if it has none.

    Raises ImportError if PyTorch is not installed, or its native part is missing.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ImportError("No module named 'torch'")
    folder = Path(spec.origin).parent
    if not any((folder / f"_C{suffix}").exists() for suffix in EXTENSION_SUFFIXES):
        raise ImportError(f"{folder} has no native part (_C{EXTENSION_SUFFIXES[0]})")
    try:
        build = runpy.run_path(str(folder / "version.py"))
    except (OSError, SyntaxError):
        return None
    return build if {"__version__", "cuda"} <= build.keys() else None


def _cpu_build(version: str) -> list[Finding]:
    return [
        Finding("training", "PyTorch", "ok", f"{version} (installed; not imported to see whether it works)"),
        _no_card("PyTorch is a CPU build"),
    ]


def _no_card(built: str) -> Finding:
    return Finding(
        "training", "CUDA", "optional", f"{built}; no usable card", "needed only for executor.device = 'cuda'"
    )


def _machine() -> list[Finding]:
    findings = [Finding("machine", "processors", "ok", _usable(machine.processors(), str))]
    memory = machine.memory()
    if memory is not None:
        enough = memory.amount >= 2 * _GIB
        advice = "" if enough else "too little for several workers: use executor.workers = 1"
        found = _usable(memory, lambda amount: f"{amount / _GIB:.1f} GiB")
        findings.append(Finding("machine", "memory", "ok" if enough else "warning", found, advice))
    if _SHARED_MEMORY.is_dir():
        space = shutil.disk_usage(_SHARED_MEMORY)
        small = space.free < _LEAST_SHARED_BYTES
        found = f"{space.free / _GIB:.2f} of {space.total / _GIB:.2f} GiB free"
        advice = "worker processes share models there: docker run --shm-size 1g, or executor.kind = 'inline'"
        findings.append(
            Finding("machine", str(_SHARED_MEMORY), "warning" if small else "ok", found, advice if small else "")
        )
    return findings


def _usable(part: machine.Usable, shown: Callable[[int], str]) -> str:
    """An amount for this process, and what limits it: "2 for this process (of 64: affinity)"."""
    limited = f" (of {shown(part.installed)}: {', '.join(part.limits)})" if part.limits else ""
    return f"{shown(part.amount)} for this process{limited}"


def _folders() -> list[Finding]:
    findings = []
    root = os.environ.get("FEDTEMPO_DATA")
    if not root:
        used = "is" if SYSTEM_DATA.is_dir() else "would be"
        found = f"not set, so {SYSTEM_DATA} {used} searched for fashion-mnist and emnist"
        advice = "" if SYSTEM_DATA.is_dir() else "it does not exist; needed only for these data sets"
        findings.append(Finding("folders", "$FEDTEMPO_DATA", "optional", found, advice))
    elif Path(root).is_dir():
        inside = sorted(path.name for path in Path(root).iterdir())
        findings.append(Finding("folders", "$FEDTEMPO_DATA", "ok", f"{root} ({', '.join(inside[:6]) or 'empty'})"))
    else:
        findings.append(
            Finding(
                "folders", "$FEDTEMPO_DATA", "warning", f"{root} is not a folder", "create it, or unset the variable"
            )
        )
    return [*findings, _cache(), _leftovers()]


def _leftovers() -> Finding:
    number, size = remove_leftovers()
    found = f"{number} of killed runs were removed ({size / 2**20:,.0f} MiB)" if number else "none"
    return Finding("folders", "leftovers", "ok", found)


def _cache() -> Finding:
    try:
        folder = cache_folder()
    except ImportError:  # platformdirs, which is among the missing packages
        return Finding("folders", "cache", "optional", "unknown")
    if folder is None:
        return Finding("folders", "cache", "warning", "no home folder", "set XDG_CACHE_HOME; nothing is cached now")
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        return Finding("folders", "cache", "warning", f"{folder} is not writable", "nothing is cached from run to run")
    return Finding("folders", "cache", "ok", f"{folder}")

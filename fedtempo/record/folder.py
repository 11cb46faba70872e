"""The folder of one run: what lies where, who has it, and the promise that no run is ever overwritten."""

from __future__ import annotations

import itertools
import json
import platform
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from fedtempo.errors import ConfigError
from fedtempo.parts.machine import usable_cpus
from fedtempo.record.schema import DATABASE
from fedtempo.record.strict_json import write_json

_PACKAGES = ("fedtempo", "torch", "numpy", "scipy", "scikit-learn", "ray", "flwr")


_LOCK = ".lock"

_HALF_WRITTEN = re.compile(r"\.(environment\.json|config\.toml|journal\.jsonl|now\.json|summary\.json)\..+")
"""Names that files have before they are whole."""

NOW = "now.json"

_PATIENCE_S = 3.0
"""How long another process may still have the folder: workers outlive a run that is killed by half a second."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds one run. Make one with `create`, or with `resume` for a run that was interrupted.

    No other process gets it before this one leaves the `with` block, or ends.
    """

    path: Path
    _lock: BaseFileLock | None = field(default=None, compare=False, repr=False)

    @property
    def config(self) -> Path:
        return self.path / "config.toml"

    @property
    def database(self) -> Path:
        return self.path / DATABASE

    @property
    def models(self) -> Path:
        return self.path / "models"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def now(self) -> Path:
        """What is in progress; there while the run is."""
        return self.path / NOW

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def environment(self) -> Path:
        return self.path / "environment.json"

    @classmethod
    def create(cls, path: Path | str, seed: int | None = None) -> RunFolder:
        """Claim `path`, which must be new or empty, for a new run, and put `environment.json` there.

        Raises ConfigError where it holds a run or anything else, or cannot be written.
        """
        folder = cls(Path(path))
        try:
            if folder.path.exists() and not folder.path.is_dir():
                raise ConfigError(f"{folder.path} is a file; a run needs a folder")
            folder.path.mkdir(parents=True, exist_ok=True)
            folder._must_be_free()
            claimed = folder._locked(folder._must_be_free)
        except OSError as error:
            raise ConfigError(f"{folder.path} cannot hold a run: {error.strerror or error}") from error
        write_json(folder.environment, environment(seed), sync=True)
        return claimed

    @classmethod
    def resume(cls, path: Path | str) -> RunFolder:
        """The folder of a run that was interrupted. Raises ConfigError where `path` holds no such run.

        A folder without `config.toml` holds none: its run was killed before it began.
        """
        folder = cls(Path(path))
        if not folder.config.exists():
            raise ConfigError(f"{folder.path} holds no run that could be resumed")
        try:
            return folder._locked(folder._must_go_on)
        except OSError as error:
            raise ConfigError(f"{folder.path} cannot be written: {error.strerror or error}") from error

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lock is not None:
            self._lock.release()

    def _locked(self, check: Callable[[], None]) -> RunFolder:
        """This folder, which is ours, what a killed process left half-written is gone. Raises like `claim`, `check`.

        check: of what another process may have done before the folder was ours.
        """
        claimed = replace(self, _lock=claim(self.path))
        try:
            check()
            for path in self.path.iterdir():
                if _HALF_WRITTEN.fullmatch(path.name):
                    path.unlink()
        except BaseException:
            claimed.__exit__()
            raise
        return claimed

    def _must_be_free(self) -> None:
        """Raises ConfigError where anything is there but what a run leaves that was killed before it began."""
        names = {path.name for path in self.path.iterdir()} - {_LOCK, self.environment.name}
        if all(map(_HALF_WRITTEN.fullmatch, names)):
            return
        if not self.database.exists() and not self.config.exists():
            raise ConfigError(f"{self.path} is not empty and holds no run; choose a new or empty folder")
        if self.finished:
            raise ConfigError(f"{self.path} holds a finished run, which is never overwritten; choose another folder")
        raise ConfigError(f"{self.path} holds an unfinished run; `fedtempo resume {self.path}` goes on with it")

    def _must_go_on(self) -> None:
        if self.finished:
            raise ConfigError(f"the run in {self.path} has finished; there is nothing to resume")

    @property
    def size_bytes(self) -> int:
        """What its files take now, together."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    @property
    def finished(self) -> bool:
        """Whether the run reached its end; one that was interrupted may have a summary too."""
        try:
            return bool(json.loads(self.summary.read_text(encoding="utf-8")).get("ended") != "interrupted")
        except FileNotFoundError:
            return False
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise ConfigError(f"{self.summary} cannot be read: {error}") from error


def claim(path: Path) -> BaseFileLock:
    """A folder is ours, and no other process gets it, before the lock is released or this process ends.

    Raises ConfigError where another process has it, OSError where it cannot be written.
    """
    lock = FileLock(path / _LOCK)
    try:
        lock.acquire(timeout=_PATIENCE_S)
    except Timeout:
        raise ConfigError(f"{path} is in use: another process works there") from None
    return lock


def default_name(strategy: str, seed: int) -> str:
    """A folder name that tells runs apart: the local time, the strategy, the seed."""
    plain_strategy = re.sub(r"[^A-Za-z0-9_-]+", "-", strategy).strip("-") or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{plain_strategy}-seed{seed}"


def unused(path: Path) -> Path:
    """The path, or one with a number behind it where there is something of that name: runs may begin in one second."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(each for each in itertools.chain([path], numbered) if not each.exists())


def environment(seed: int | None) -> dict[str, Any]:
    """Where a run was made: versions of what it stands on (None where not installed), machine, git revision, seed."""
    found = versions()
    return {
        "python": found.pop("python"),
        "packages": found,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processor": processor(),
        "cpu_count": usable_cpus(),
        "git_revision": _git_revision(),
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seed": seed,
    }


def processor() -> str | None:
    """Return the processor's model, on which the last bits of training depend; None if the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    facts = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    known = [facts[name] for name in ("vendor_id", "model name") if name in facts]
    known += [f"{name} {facts[name]}" for name in ("cpu family", "model") if name in facts]
    return ", ".join(known) or platform.processor() or None


def versions() -> dict[str, str | None]:
    """Versions of what a run stands on; None where not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_revision() -> str | None:
    """Commit of the current directory, with "-dirty" where files differ from it; None outside a repository."""
    command = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603  fixed
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None

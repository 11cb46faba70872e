"""The folder of one run: its files, its lock, and the guarantee that no run is ever overwritten."""

from __future__ import annotations

import itertools
import os
import platform
import re
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.errors import ConfigError
from fedtempo.parts.machine import usable_cpus
from fedtempo.parts.text_files import parse_json, read_text
from fedtempo.record.schema import DATABASE
from fedtempo.record.strict_json import write_json

if TYPE_CHECKING:
    from filelock import BaseFileLock

_PACKAGES = ("fedtempo", "torch", "numpy", "scipy", "scikit-learn", "ray", "flwr", "transformers", "peft")


_LOCK = ".lock"

_HALF_WRITTEN = re.compile(
    r"\.(environment\.json|config\.toml|journal\.jsonl|now\.json|summary\.json|deployment\.json)\..+"
)
"""Names of files that are not completely written yet."""

NOW = "now.json"

_LOCK_TIMEOUT_S = 3.0
"""How long to wait for another process's lock: workers outlive a killed run by half a second."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, made with `create`, or with `resume` for an interrupted run.

    It is locked for other processes until this one leaves the `with` block or ends.
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
        """File with the visits in progress; exists while the run does."""
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
        """Claim `path`, which must be new or empty, for a new run, and write `environment.json` into it.

        Raises ConfigError if it holds a run or anything else, or cannot be written.
        """
        folder = cls(Path(path))
        try:
            if folder.path.exists() and not folder.path.is_dir():
                raise ConfigError(f"{folder.path} is a file; choose a folder")
            folder.path.mkdir(parents=True, exist_ok=True)
            folder._must_be_free()
            claimed = folder._locked(folder._must_be_free)
        except OSError as error:
            raise ConfigError(f"{folder.path} cannot be used for a run: {error.strerror or error}") from error
        write_json(folder.environment, environment(seed), sync=True)
        return claimed

    @classmethod
    def resume(cls, path: Path | str) -> RunFolder:
        """Return the folder of an interrupted run. Raises ConfigError if `path` holds no such run.

        A folder without `config.toml` holds none: its run was killed before it began.
        """
        folder = cls(Path(path))
        if not folder.config.exists():
            raise ConfigError(f"{folder.path}: no run to resume here (no {folder.config.name})")
        try:
            return folder._locked(folder._must_go_on)
        except OSError as error:
            raise ConfigError(f"{folder.path} cannot be written: {error.strerror or error}") from error

    @classmethod
    def reopen(cls, path: Path | str) -> RunFolder:
        """Return the folder of a finished run that goes on. Raises ConfigError if `path` holds no such run."""
        folder = cls(Path(path))
        try:
            return folder._locked(folder._must_be_finished)
        except OSError as error:
            raise ConfigError(f"{folder.path} cannot be written: {error.strerror or error}") from error

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lock is not None:
            self._lock.release()

    def _locked(self, check: Callable[[], None]) -> RunFolder:
        """Return this folder with a lock, after deleting half-written files of a killed process.

        check: called under the lock, since another process may have used the folder before. Raises what `claim` and
        `check` raise.
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
        """Raise ConfigError unless the folder holds only the files of a run killed before it began."""
        names = {path.name for path in self.path.iterdir()} - {_LOCK, self.environment.name}
        if all(map(_HALF_WRITTEN.fullmatch, names)):
            return
        if not self.database.exists() and not self.config.exists():
            raise ConfigError(f"{self.path} is not empty and holds no run; choose a new or empty folder")
        if self.finished:
            raise ConfigError(f"{self.path} holds a finished run, which is never overwritten; choose another folder")
        raise ConfigError(f"{self.path} holds an unfinished run; continue it with `fedtempo resume {self.path}`")

    def _must_go_on(self) -> None:
        if self.finished:
            raise ConfigError(f"{self.path}: the run has finished; nothing to resume")

    def _must_be_finished(self) -> None:
        if not self.finished:
            raise ConfigError(f"{self.path}: the run has not finished; resume it first")

    @property
    def size_bytes(self) -> int:
        """Current total size of its files."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    @property
    def finished(self) -> bool:
        """Whether the run reached its end; an interrupted run may have a summary too."""
        try:
            return bool(parse_json(read_text(self.summary)).get("ended") != "interrupted")
        except FileNotFoundError:
            return False
        except (OSError, ValueError, AttributeError) as error:
            raise ConfigError(f"{self.summary} cannot be read: {error}") from error


def claim(path: Path) -> BaseFileLock:
    """Lock a folder for this process until the lock is released or the process ends.

    Raises ConfigError if another process holds the lock, or if writing into the folder could change files elsewhere;
    OSError if it cannot be written.
    """
    from filelock import FileLock, Timeout  # here, because commands that only read import this module

    must_keep_to_itself(path)
    lock = FileLock(path / _LOCK)
    try:
        lock.acquire(timeout=_LOCK_TIMEOUT_S)
    except Timeout:
        raise ConfigError(f"{path} is in use: another process works there") from None
    return lock


def must_keep_to_itself(folder: Path, depth: int | None = None) -> None:
    """Raise ConfigError if writing into a folder, or deleting in it, could change files outside it; OSError.

    That is so for links that lead out, and for files that have a second name, which may lie anywhere. depth: look at
    this many levels only (default: all).
    """
    whole = folder.resolve()
    for place, folders, files in os.walk(folder):
        paths = [Path(place, name) for name in [*folders, *files]]
        if depth is not None and len(Path(place).relative_to(folder).parts) >= depth - 1:
            folders.clear()
        for path in paths:
            try:
                status = path.lstat()
            except FileNotFoundError:  # another process has just deleted it
                continue
            if stat.S_ISLNK(status.st_mode):
                target = Path(os.path.realpath(path))
                if not target.is_relative_to(whole):
                    raise ConfigError(f"{path} leads out of its folder, to {target}; nothing was changed")
            elif not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
                raise ConfigError(f"{path} is not a plain file; nothing was changed")
            elif stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                raise ConfigError(
                    f"{path} has {status.st_nlink} names (hard links), and writing would change all of them; copy the "
                    "folder, and use the copy"
                )


def default_name(strategy: str, seed: int) -> str:
    """Return a folder name that distinguishes runs: local time, strategy, seed."""
    plain_strategy = re.sub(r"[^A-Za-z0-9_-]+", "-", strategy).strip("-") or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{plain_strategy}-seed{seed}"


def unused(path: Path) -> Path:
    """Return the path, or if it exists one with a number appended, since runs may begin within the same second."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([path], numbered) if not candidate.exists())


def environment(seed: int | None) -> dict[str, Any]:
    """Return a run's environment: package versions (None if not installed), machine, git revision, seed."""
    packages = versions()
    return {
        "python": packages.pop("python"),
        "packages": packages,
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
    parts = [facts[name] for name in ("vendor_id", "model name") if name in facts]
    parts += [f"{name} {facts[name]}" for name in ("cpu family", "model") if name in facts]
    return ", ".join(parts) or platform.processor() or None


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the packages that affect a run; None if not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_revision() -> str | None:
    """Return the commit of the current directory, with "-dirty" if files differ from it; None outside a repository."""
    command = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603  fixed
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None

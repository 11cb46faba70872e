"""The folder of one run: what lies where, and the promise that no run is ever overwritten."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record.schema import DATABASE
from fedtempo.record.strict_json import to_json

_PACKAGES = ("fedtempo", "torch", "numpy", "scipy", "ray", "flwr")


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds one run. Make one with `create`, or with `resume` for a run that was interrupted."""

    path: Path

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
            if any(folder.path.iterdir()):
                raise ConfigError(folder._occupied())
            # Mode "x": of two processes that reach this line at once, only one gets the folder.
            with folder.environment.open("x", encoding="utf-8") as file:
                file.write(to_json(environment(seed), indent=2) + "\n")
        except FileExistsError:
            raise ConfigError(folder._occupied()) from None
        except OSError as error:
            raise ConfigError(f"{folder.path} cannot hold a run: {error.strerror or error}") from error
        return folder

    @classmethod
    def resume(cls, path: Path | str) -> RunFolder:
        """The folder of a run that was interrupted. Raises ConfigError where `path` holds no such run."""
        folder = cls(Path(path))
        if not folder._holds_run():
            raise ConfigError(f"{folder.path} holds no run that could be resumed")
        if folder._finished():
            raise ConfigError(f"the run in {folder.path} has finished; there is nothing to resume")
        return folder

    def _holds_run(self) -> bool:
        return self.database.exists() or self.environment.exists()

    def _finished(self) -> bool:
        """Whether the run reached its end; one that was interrupted may have a summary too."""
        try:
            return bool(json.loads(self.summary.read_text(encoding="utf-8")).get("ended") != "interrupted")
        except FileNotFoundError:
            return False
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise ConfigError(f"{self.summary} cannot be read: {error}") from error

    def _occupied(self) -> str:
        if not self._holds_run():
            return f"{self.path} is not empty and holds no run; choose a new or empty folder"
        if self._finished():
            return f"{self.path} holds a finished run, which is never overwritten; choose another folder"
        return f"{self.path} holds an unfinished run; continue it with --resume or choose another folder"


def default_name(strategy: str, seed: int) -> str:
    """A folder name that tells runs apart: the local time, the strategy, the seed."""
    plain_strategy = re.sub(r"[^A-Za-z0-9_-]+", "-", strategy).strip("-") or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{plain_strategy}-seed{seed}"


def environment(seed: int | None) -> dict[str, Any]:
    """Where a run was made: versions of what it stands on (None where not installed), machine, git revision, seed."""
    return {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
        "git_revision": _git_revision(),
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seed": seed,
    }


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

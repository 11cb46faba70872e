"""Files and folders as users of the API give them: one path or several, as text or as `Path`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedtempo.errors import ConfigError

Paths = Path | str | Iterable[Path | str]


def path_list(name: str, paths: Paths) -> list[Path]:
    """Return one or several paths as a list; name: of the argument. Raises ConfigError for none."""
    listed = [Path(paths)] if isinstance(paths, Path | str) else list(map(Path, paths))
    if not listed:
        raise ConfigError(f"{name}: give at least one")
    return listed

"""Folders of data sets and caches, by the conventions of each system."""

from __future__ import annotations

import os
from pathlib import Path

SYSTEM_DATA = Path("/usr/share/datasets")
"""Folder in which Debian's packages install data sets."""


def data_folder(name: str) -> Path:
    """Return the folder of the data set `name`, which need not exist.

    It lies in $FEDTEMPO_DATA if that variable is set, and in the system's folder of data sets otherwise; never in both,
    so that $FEDTEMPO_DATA also hides what the system has.
    """
    root = os.environ.get("FEDTEMPO_DATA")
    return (Path(root) if root else SYSTEM_DATA) / name


def cache_folder() -> Path | None:
    """Return the cache folder: ~/.cache/fedtempo, ~/Library/Caches/fedtempo or %LOCALAPPDATA%\\fedtempo\\Cache.

    Its files may be deleted at any time. $XDG_CACHE_HOME replaces ~/.cache. None if the user has no home.
    """
    from platformdirs import user_cache_path  # `fedtempo doctor` works without it

    folder = user_cache_path("fedtempo", appauthor=False)
    return folder if folder.is_absolute() else None

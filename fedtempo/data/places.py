"""Where files of the user's lie, by the habits of each system."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path | None:
    """What may be deleted at any time: ~/.cache/fedtempo, ~/Library/Caches/fedtempo, %LOCALAPPDATA%\\fedtempo\\Cache.

    $XDG_CACHE_HOME takes the place of ~/.cache. None where the user has no home.
    """
    folder = user_cache_path("fedtempo", appauthor=False)
    return folder if folder.is_absolute() else None

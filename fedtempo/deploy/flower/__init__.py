"""Flower: its grid, its nodes, its keys. The only package that imports `flwr`, and only where a command needs it.

Flower's public interface starts a process for every message and polls every three seconds; what is used here instead
belongs to one version of it, so that version is pinned.
"""

from __future__ import annotations

import os
from importlib import metadata

from fedtempo.errors import ConfigError

FLOWER = "1.42.0"

# Flower reads these once, when it is first imported: no program of ours reports to anybody or looks for news.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")


def need_flower() -> None:
    """Raise ConfigError where Flower is not installed, or is another version than the one that is known to work."""
    try:
        found = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        raise ConfigError("Flower is not installed: `pip install 'fedtempo[flower]'`") from None
    if found != FLOWER:
        raise ConfigError(f"Flower {found} is installed; this needs {FLOWER}: `pip install 'fedtempo[flower]'`")

"""Deployment over Flower: grid, nodes and keys. Only this package imports `flwr`, and only for commands that need it.

Flower's public interface starts a process for every message and polls every three seconds. The internal interfaces used
here instead belong to one version of Flower, so that version is pinned.
"""

from __future__ import annotations

import os
from importlib import metadata

from fedtempo.errors import ConfigError

FLOWER = "1.42.0"

# Flower reads these when it is first imported: no telemetry, no update checks.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")


def need_flower() -> None:
    """Raise ConfigError if Flower is not installed or has another version than the pinned one."""
    try:
        installed = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        raise ConfigError("Flower is not installed: `pip install 'fedtempo[flower]'`") from None
    if installed != FLOWER:
        raise ConfigError(f"Flower {installed} is installed, {FLOWER} is required: `pip install 'fedtempo[flower]'`")

"""Configuration files as tables of TOML. Imports nothing slow, so that a missing file is reported immediately."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.parts.text_files import parse_toml, read_text
from fedtempo.runs.shipped import config_names


def read_tables(path: Path | str) -> dict[str, Any]:
    """Return the tables of a TOML file. Raises ConfigError if it cannot be read or is not TOML."""
    try:
        text = read_text(Path(path))
    except (OSError, ValueError) as error:
        name = Path(path).stem
        shipped = isinstance(error, FileNotFoundError) and name in config_names()
        hint = f"; `fedtempo new config {name}` writes a configuration of that name" if shipped else ""
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}{hint}") from error
    try:
        return parse_toml(text)
    except ValueError as error:  # also for a number of a million digits
        raise ConfigError(f"{path}: not valid TOML: {error}") from error

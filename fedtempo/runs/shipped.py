"""The commented configurations that come with fedtempo, one or more for each strategy."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

FOLDER = Path(str(files("fedtempo.runs"))) / "configs"


def config_names() -> list[str]:
    """Names of the shipped configurations, sorted: every strategy's, and some for other data and for deployment."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def config_path(name: str) -> Path:
    """The file of a shipped configuration; `name` is one of `config_names()`."""
    return FOLDER / f"{name}.toml"

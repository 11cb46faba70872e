"""Where modules are imported from: folders of configurations, and never the folder of a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_folders: list[Path] = []
"""Folders of the configurations read so far, whose modules can be imported; the latest comes last."""

_OUTPUTS = ("run.sqlite", "comparison.toml")
"""Files that make a folder that of a run or of a comparison."""


def add_folder(folder: Path) -> None:
    """Make the modules in `folder` importable. They do not hide modules of Python or of installed packages."""
    folder = folder.resolve()
    if folder in _folders:
        _folders.remove(folder)
    _folders.append(folder)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def search_path() -> list[str]:
    """Return the folders of configurations, for the $PYTHONPATH of a program that imports the same modules."""
    return [str(folder) for folder in reversed(_folders)]


def latest_folder() -> Path | None:
    """Return the folder of the configuration that was read last, if there is one."""
    return _folders[-1] if _folders else None


def add_current_folder() -> None:
    """Make the modules in the current folder importable, as `python -m` does, unless it is or lies in a run folder."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return
    around = [each for each in (here, *here.parents) if any((each / name).exists() for name in _OUTPUTS)]
    if around:
        import_nothing_from(around[-1])
    else:
        sys.path.insert(0, "")


def import_nothing_from(folder: Path) -> None:
    """Make sure that no module in a folder is imported, whatever the current folder and $PYTHONPATH are."""
    whole = folder.resolve()
    sys.path[:] = [entry for entry in sys.path if not Path(entry or ".").resolve().is_relative_to(whole)]
    _folders[:] = [known for known in _folders if not known.is_relative_to(whole)]
    if Path.cwd().is_relative_to(whole):
        os.environ["PYTHONSAFEPATH"] = "1"  # workers would import what lies in the current folder

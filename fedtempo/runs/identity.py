"""What a run's result depends on; an interrupted run is resumed only if it is unchanged."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.parts.source_files import imported_files
from fedtempo.record.folder import versions
from fedtempo.record.strict_json import plain
from fedtempo.runs.config import Config

FREE = {
    "run": ("checkpoint_every", "keep", "record", "track", "verify"),
    "deploy": (
        "superlink",
        "root_certificates",
        "certificate",
        "key",
        "client_keys",
        "control_secret",
        "database",
        "wait_s",
        "outage_s",
        "refresh_s",
        "metrics",
    ),
}
"""Keys that no result depends on."""

_WITHOUT_INFLUENCE = ("api", "cli", "report", "studies")
"""Rooms that no result depends on."""

_DEPLOYED = "deploy"
"""The room that only results of real clients depend on."""

_STRATEGIES = "fedtempo.strategies"
_FOLLOWED = (_STRATEGIES, "fedtempo.studies")

_COMPUTING = ("python", "fedtempo", "torch", "numpy", "scipy", "scikit-learn")
"""Packages whose versions results depend on."""


def identity(config: Config, data_sha256: str, *, deployed: bool = False) -> dict[str, Any]:
    """Return everything that a run's result depends on, as JSON values. deployed: whether real clients train."""
    installed = versions()
    return {
        "label": config.label,
        "configuration": settings(config),
        "data": {"sha256": data_sha256},
        "versions": {**{name: installed[name] for name in _COMPUTING}, "code": code_sha256(config, deployed=deployed)},
    }


def settings(config: Config) -> dict[str, Any]:
    """Return the tables of a configuration that results depend on, as JSON values."""
    tables = {name: table for name, table in config.tables.items() if name not in ("compare", "executor")}
    for name, free in FREE.items():
        if name in tables:
            tables[name] = {key: value for key, value in tables[name].items() if key not in free}
    if (sha256 := config.initial.sha256()) is not None:  # the file may move
        tables["model"] = {**tables["model"], "initial": f"a file with the hash {sha256}"}
    if decided_on_the_way := [kind for kind in ("best", "clients") if kind in config.run.keep]:
        tables["run"]["keep"] = decided_on_the_way
    tables["executor"] = {"trains": config.executor.kind != "none"}
    if config.executor.kind != "none" and config.executor.device != "cpu":
        tables["executor"]["device"] = "cuda"
    return dict(plain(tables))


def code_sha256(config: Config, *, deployed: bool = False) -> str:
    """Return the hash of the code that decides a run's bits: fedtempo's, and the modules that a configuration names.

    deployed: whether real clients train.
    """
    modules = {text.partition(":")[0] for text in _texts(config.tables) if ":" in text}
    named = [getattr(sys.modules.get(module), "__file__", None) for module in sorted(modules)]
    own = own_code_sha256(strategy_modules([config]), deployed=deployed)
    return _sha256([Path(file) for file in named if file is not None], own)


def strategy_modules(configs: Iterable[Config]) -> tuple[str, ...] | None:
    """Return the modules of fedtempo that configurations have their strategies from; None if one is a user's own."""
    modules = {type(config.strategy).__module__ for config in configs}
    return tuple(sorted(modules)) if all(module.startswith(_FOLLOWED) for module in modules) else None


def deciding_files(strategies: Iterable[str] | None = None, *, deployed: bool = False) -> list[Path]:
    """Return fedtempo's source files that determine a run's bits: all except those that only display or compare.

    strategies: modules that import all strategies of the runs; other strategies are left out (default: none is).
    deployed: whether real clients train.
    """
    root = Path(__file__).parents[1]
    without = _WITHOUT_INFLUENCE if deployed else (*_WITHOUT_INFLUENCE, _DEPLOYED)
    files = [path for path in sorted(root.rglob("*.py")) if path.relative_to(root).parts[0] not in without]
    if strategies is None:
        return files
    needed = imported_files(strategies, _FOLLOWED)
    return [path for path in files if path.relative_to(root).parts[0] != "strategies" or path in needed]


@lru_cache(maxsize=64)
def own_code_sha256(strategies: tuple[str, ...] | None = None, *, deployed: bool = False) -> str:
    """Return the hash of fedtempo's `deciding_files`."""
    return _sha256(deciding_files(strategies, deployed=deployed))


def _sha256(files: Iterable[Path], before: str = "") -> str:
    digest = hashlib.sha256(before.encode())
    for path in files:
        digest.update(path.name.encode() + b"\n" + path.read_bytes())
    return digest.hexdigest()


def must_agree(path: Path, before: Mapping[str, Any], now: Mapping[str, Any], force: bool) -> None:
    """Raise ConfigError naming what differs, if anything does."""
    changes = list(differences(before, now))
    if force:
        changes = [name for name in changes if not name.startswith("versions.")]
    if changes:
        hint = "" if any(not name.startswith("versions.") for name in changes) else "; --force resumes nevertheless"
        raise ConfigError(f"{path} cannot be resumed: {'; '.join(changes)}{hint}")


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Yield the differences between two tables of JSON values, key by key."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            inner = f"{name}.{key}" if name else key
            yield from differences(before.get(key), now.get(key), inner.removeprefix("configuration."))
    elif before != now:
        yield f"{name} was {before!r} and is {now!r}"


def _texts(value: Any) -> Iterator[str]:
    """Yield all strings in nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)

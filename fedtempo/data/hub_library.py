"""Data sets as the `datasets` library loads or downloads them. No other module of fedtempo.data uses the network."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError

_SAVED = ("dataset_dict.json", "state.json")


def hub_splits(name: str, subset: str | None = None, *, needed: Iterable[str]) -> Mapping[str, Any]:
    """Return the splits of a data set as the library has them. Raises ConfigError if a needed one is missing."""
    splits: Mapping[str, Any] = _ask_library(name, lambda library: _splits(library, name, subset))
    for split in needed:
        if split not in splits:
            raise ConfigError(f"hf:{name}: no split {split!r}; its splits are {', '.join(map(str, splits))}")
    return splits


def _splits(library: Any, name: str, subset: str | None) -> Mapping[str, Any]:
    """Return what `load_dataset` loads, or `load_from_disk` for a folder of `save_to_disk`; a single split is train."""
    if not any((Path(name) / file).is_file() for file in _SAVED):
        splits: Mapping[str, Any] = library.load_dataset(name, subset)
        return splits
    saved = library.load_from_disk(name)
    return saved if isinstance(saved, Mapping) else {"train": saved}


def hub_files(name: str, files: Iterable[str], offline: str) -> list[Path]:
    """Download files of a repository, unchanged, into the library's cache and return their paths.

    offline: what to do without a network, for the error.
    """
    urls = [f"hf://datasets/{name}/{file}" for file in files]
    downloaded = _ask_library(name, lambda library: library.DownloadManager().download(urls), offline)
    return [Path(path) for path in downloaded]


def fetch_hub(name: str, subset: str | None = None, out: Path | None = None) -> dict[str, int]:
    """Download a data set into the cache of the library; return the number of rows of each split.

    out: new folder to which to save it, for other machines. Raises ConfigError if it exists, or like `load_hub`.
    """
    if out is not None and out.exists():
        raise ConfigError(f"{out} already exists; choose another folder (nothing was overwritten)")
    splits: Any = _ask_library(name, lambda library: library.load_dataset(name, subset))
    if out is not None:
        _ask_library(name, lambda _: splits.save_to_disk(str(out)))
    return {str(split): len(rows) for split, rows in splits.items()}


def _ask_library(name: str, ask: Callable[[Any], Any], offline: str = "") -> Any:
    """Return `ask(datasets)`. Raises ConfigError if the library is missing or fails.

    offline: what to do without a network (default: use `fedtempo fetch` elsewhere).
    """
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise ConfigError(f"hf:{name}: needs the datasets library: pip install 'fedtempo[hf]'") from error
    try:
        return ask(library)
    except Exception as error:  # errors of the library, the network and files
        reason = " ".join(str(error).split())
        if isinstance(error, ConnectionError):
            way_out = f"run `fedtempo fetch hf:{name}` where there is one, with --out FOLDER to copy it to this machine"
            raise ConfigError(
                f"hf:{name}: not in the cache of the datasets library, and there is no network ({reason}); "
                f"{offline or way_out}"
            ) from error
        raise ConfigError(f"hf:{name}: could not be loaded: {type(error).__name__}: {reason}") from error

"""Fetch data sets from the Hugging Face hub for machines without a network, from Python."""

from __future__ import annotations

from pathlib import Path

from fedtempo.data.hub_library import fetch_hub
from fedtempo.data.named import REPOSITORIES
from fedtempo.errors import ConfigError


def fetch(source: str, subset: str | None = None, out: Path | str | None = None) -> dict[str, int]:
    """Download a data set from the Hugging Face hub for later; return the rows of each split (`fedtempo fetch`).

    source: `hf:NAME`, or a named data set of the hub, such as "mnist". Later runs on this machine find it in the cache
    of the datasets library. subset: configuration of the data set, if it has several. out: new folder for a copy, which
    other machines read with `source = "hf:FOLDER"`.

    Raises ConfigError for a source that the library does not load, a folder that exists, or if the download fails.
    """
    prefix, _, name = source.partition(":")
    name = name if prefix == "hf" else REPOSITORIES.get(source, "")
    if not name:
        known = ", ".join(REPOSITORIES)
        raise ConfigError(f"{source}: nothing to fetch; must be hf:NAME, or one of {known}")
    return fetch_hub(name, subset, None if out is None else Path(out))

"""Fleets as configuration tables: `fleet.preset` names the fleet of a paper, or a TOML file.

`PRESETS` maps names to functions. Other keys of the configuration take precedence over the preset's.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedtempo.parts.text_files import parse_toml, read_text

Table = dict[str, Any]


def fedhusky() -> Table:
    """FedHusky (Section IV-A): visits of 1 to 10 s, an airborne server over a 1 km disc, 50 MHz per direction."""
    return {
        "compute": {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 10.0}},
        "link": {"kind": "path-loss"},
        "estimates": {"kind": "exact"},
    }


def _psfl(speed: Table) -> Table:
    """Return a fleet whose visit times vary by a fifth about each client's mean; the server uses observed times."""
    return {
        "compute": {"unit": "s/visit", "speed": speed, "variation": 0.2},
        "link": {"kind": "none"},
        "estimates": {"kind": "observed", "prior_s": 2.5},
    }


def psfl_uniform() -> Table:
    """PSFL (Section VI-A): a client's mean time is uniform between 0.5 and 4.5 s, its visits vary by a fifth."""
    return _psfl({"kind": "uniform", "low": 0.5, "high": 4.5})


def psfl_exponential() -> Table:
    """PSFL (Section VI-A): a client's mean time is exponential with mean 2.5 s, its visits vary by a fifth."""
    return _psfl({"kind": "exponential", "mean": 2.5})


def psfl_normal() -> Table:
    """PSFL (Section VI-A): a client's mean time is normal (2.5 s, 1 s; 0.05 s or more), its visits vary by a fifth."""
    return _psfl({"kind": "normal", "mean": 2.5, "std": 1.0, "low": 0.05})


def psfl_discrete() -> Table:
    """PSFL (Section VI-A): a client's mean time is 0.5, 1, 2, 4 or 5 s, its visits vary by a fifth."""
    return _psfl({"kind": "discrete", "values": [0.5, 1.0, 2.0, 4.0, 5.0]})


def fch_zipf() -> Table:
    """FCH-FL (Section 4.1): visit times of Zipf's law with exponent 1.2, up to 60 s (unbounded, it has no mean)."""
    return {
        "compute": {"unit": "s/visit", "speed": {"kind": "zipf", "exponent": 1.2, "low": 1, "high": 60}},
        "link": {"kind": "none"},
        "estimates": {"kind": "observed", "prior_s": 10.0},
    }


def csgd_mnist() -> Table:
    """CS-GD (Section IV-A): computing takes 70 ms per example, an upload 1 s, with 8 uploads in parallel.

    The paper prints no times in seconds. With its 10 to 70 examples per client, computing times spread over 4.2 s, so
    that up to four clusters fit (Eq. 22).
    """
    return {
        "compute": {"unit": "s/example", "speed": 0.07},
        "link": {"kind": "fixed", "download_s": 0.0, "upload_s": 1.0, "channels": 8},
        "estimates": {"kind": "exact"},
    }


def fedcs_lte() -> Table:
    """FedCS and Hybrid-FL (Section V-A): 10 to 100 examples per second, an LTE cell of 2 km radius.

    For resources that fluctuate by r_var, set compute.fluctuation and link.fluctuation.
    """
    return {
        "compute": {"unit": "example/s", "speed": {"kind": "uniform", "low": 10.0, "high": 100.0}},
        "link": {"kind": "lte"},
        "estimates": {"kind": "exact"},
    }


PRESETS: dict[str, Callable[[], Table]] = {
    "csgd-mnist": csgd_mnist,
    "fch-zipf": fch_zipf,
    "fedcs-lte": fedcs_lte,
    "fedhusky": fedhusky,
    "psfl-discrete": psfl_discrete,
    "psfl-exponential": psfl_exponential,
    "psfl-normal": psfl_normal,
    "psfl-uniform": psfl_uniform,
}


def completed(keys: Mapping[str, Any]) -> Table:
    """Return the table of `given["preset"]`, a name or a file *.toml, with the other given keys put into it.

    A given table without `kind` changes single fields of the preset's table; anything else replaces the preset's value.
    Raises ValueError for an unknown preset, or a file without a fleet.
    """
    preset = keys["preset"]
    if is_file(preset):
        table = _from_file(preset)
    elif preset in PRESETS:
        table = PRESETS[preset]()
    else:
        near = difflib.get_close_matches(str(preset), PRESETS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"preset = {preset!r} is not a fleet{hint} (known: {', '.join(PRESETS)}, and files, *.toml)")
    for key, value in keys.items():
        changes_fields = key in table and isinstance(value, Mapping) and "kind" not in value
        table[key] = {**table[key], **value} if changes_fields else value
    return table


def is_file(preset: object) -> bool:
    """Return whether a preset is a file name."""
    return isinstance(preset, str) and preset.endswith(".toml")


def _from_file(path: str) -> Table:
    """Read the `[fleet]` of a file, such as those written by `fedtempo fleet import` and `fedtempo fleet measure`."""
    try:
        table = parse_toml(read_text(Path(path).expanduser())).get("fleet")
    except (OSError, ValueError) as error:
        raise ValueError(f"preset = {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(table, dict) or "preset" in table:
        raise ValueError(f"preset = {path!r}: the file must have a complete [fleet] without a preset")
    return table

"""The fleets of the papers, as tables that a configuration could hold: `fleet.preset` names one.

`PRESETS` maps names to functions. Whatever a configuration gives beside the name takes precedence.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

Table = dict[str, Any]


def fedhusky() -> Table:
    """FedHusky (Section IV-A): visits of 1 to 10 s, a server in the air over a disc of 1 km radius, 50 MHz each way."""
    return {
        "compute": {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 10.0}},
        "link": {"kind": "path-loss"},
        "estimates": {"kind": "exact"},
    }


def _psfl(speed: Table) -> Table:
    """Visits whose times vary by a fifth about each client's mean; the server goes by what it observed."""
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
    """FCH-FL (Section 4.1): visits of Zipf's law with exponent 1.2, cut off at 60 s (without a cut it has no mean)."""
    return {
        "compute": {"unit": "s/visit", "speed": {"kind": "zipf", "exponent": 1.2, "low": 1, "high": 60}},
        "link": {"kind": "none"},
        "estimates": {"kind": "observed", "prior_s": 10.0},
    }


def csgd_mnist() -> Table:
    """CS-GD (Section IV-A): computing takes 70 ms an example, sending 1 s, 8 clients at once.

    The paper prints no seconds. With its 10 to 70 examples a client, computing times spread over 4.2 s, so that up to
    four clusters fit (Eq. 22).
    """
    return {
        "compute": {"unit": "s/example", "speed": 0.07},
        "link": {"kind": "fixed", "download_s": 0.0, "upload_s": 1.0, "channels": 8},
        "estimates": {"kind": "exact"},
    }


def fedcs_lte() -> Table:
    """FedCS and Hybrid-FL (Section V-A): 10 to 100 examples a second, an LTE cell of 2 km radius.

    Where resources fluctuate, by r_var, set compute.fluctuation and link.fluctuation.
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


def completed(given: Mapping[str, Any]) -> Table:
    """The table of `given["preset"]` with what is given in its place.

    A table without `kind` changes fields of the preset's; anything else takes the place of the preset's as a whole.
    Raises ValueError for a preset that there is not.
    """
    preset = given["preset"]
    if preset not in PRESETS:
        near = difflib.get_close_matches(str(preset), PRESETS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"preset = {preset!r} is no fleet{hint} (there are {', '.join(PRESETS)})")
    table = PRESETS[preset]()
    for key, value in given.items():
        changes_fields = key in table and isinstance(value, Mapping) and "kind" not in value
        table[key] = {**table[key], **value} if changes_fields else value
    return table

"""What the league found, as prior evidence: its rows, and which of them are near a fleet.

`prior.json` holds the rows; `fedtempo reproduce --index` writes it from the league's results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from fedtempo.fleet.availability import Dropout
from fedtempo.fleet.estimates import Noisy
from fedtempo.runs.config import Config

FILE = Path(__file__).with_name("prior.json")
MOST_NEAR = 3


@dataclass(frozen=True)
class Features:
    """What a fleet is like, for a comparison with others.

    spread: the 90th percentile of the clients' computing times over the 10th. transfer: median share of a visit that
    takes downloads and uploads, if nobody else sends. queued: whether fewer uploads than clients fit at once.
    available: mean share of the horizon in which a client is available. failing: share of the visits that fail although
    their client stays. wrong: largest relative error of the server's estimates.
    """

    clients: int
    spread: float
    transfer: float
    queued: bool
    available: float
    failing: float
    wrong: float


_NAMES = {
    "clients": "number of clients",
    "spread": "spread of computing times",
    "transfer": "share of a visit that transfers take",
    "queued": "uploads that wait for each other",
    "available": "availability",
    "failing": "visits that fail",
    "wrong": "errors of estimates",
}
_FACTORS = {"clients": 3.0, "spread": 2.0}
_POINTS = {"transfer": 0.25, "available": 0.2, "failing": 0.1, "wrong": 0.2}
"""A row is near if features differ by these factors and differences at most, and uploads wait in both or neither."""


@dataclass(frozen=True)
class Entrant:
    """A strategy in a row. fixed: settings that make it what it is. told: what its server is told, besides who answers.

    times_s: seconds to the row's target, one per seed, None if not reached.
    """

    strategy: str
    fixed: Mapping[str, Any]
    told: Sequence[str]
    ranked: bool
    times_s: Sequence[float | None]


@dataclass(frozen=True)
class Row:
    """A row of the league that has run. title: fleet, data and network in words. resolution_s: between evaluations."""

    name: str
    title: str
    features: Features
    target: float
    horizon_s: float
    resolution_s: float
    entrants: Mapping[str, Entrant]


@dataclass(frozen=True)
class Prior:
    """The league's rows. scale: at which it ran."""

    scale: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Nearness:
    """A row beside a fleet. differs: names of features in which it is not near; empty if the row is near."""

    row: Row
    differs: Sequence[str]
    distance: float

    @property
    def is_near(self) -> bool:
        return not self.differs


@cache
def read_prior(path: Path = FILE) -> Prior | None:
    """Return the league's rows; None if there is no file."""
    return TypeAdapter(Prior).validate_json(path.read_bytes()) if path.exists() else None


def features_of(config: Config, clients: Sequence[Mapping[str, Any]]) -> Features:
    """Return what a configuration's fleet is like. clients: rows as of `fedtempo.studies.fleet.describe_fleet`."""
    compute = np.array([row["compute_s"] for row in clients])
    visits = np.array([row["visit_s"] for row in clients])
    slow, fast = np.quantile(compute, [0.9, 0.1]).tolist()
    channels = getattr(config.fleet.link, "channels", None)
    availability, estimates, faults = config.fleet.availability, config.fleet.estimates, config.fleet.faults
    dropout = availability.probability if isinstance(availability, Dropout) else 0.0
    return Features(
        clients=len(clients),
        spread=_rounded(slow / fast) if fast > 0 else math.inf,
        transfer=_rounded(float(np.median((visits - compute) / visits))),
        queued=channels is not None and channels < len(clients),
        available=_rounded(float(np.mean([row["available_share"] for row in clients]))),
        failing=_rounded(1 - (1 - dropout) * (1 - faults.total)),
        wrong=estimates.error if isinstance(estimates, Noisy) else 0.0,
    )


def nearest(features: Features, prior: Prior) -> list[Nearness]:
    """Return the rows near a fleet, nearest first, at most `MOST_NEAR`; without any the one that differs least."""
    rows = sorted((_nearness(features, row) for row in prior.rows), key=lambda each: (len(each.differs), each.distance))
    return [each for each in rows if each.is_near][:MOST_NEAR] or rows[:1]


def entrant_of(config: Config, row: Row) -> str | None:
    """Return the label of the row's entrant that a configuration's strategy is; None if there is none.

    Of several with the same strategy it is the one with the most settings that make it what it is, of those whose
    settings the configuration has. A server's optimiser must be of the same kind, or missing in both.
    """
    fitting = [
        label
        for label, entrant in row.entrants.items()
        if entrant.strategy == config.strategy_name and _has(config.tables, entrant.fixed)
    ]
    return max(fitting, key=lambda label: len(row.entrants[label].fixed), default=None)


def _nearness(features: Features, row: Row) -> Nearness:
    relative = {name: _log_ratio(features, row.features, name) / math.log(most) for name, most in _FACTORS.items()}
    absolute = {
        name: abs(getattr(features, name) - getattr(row.features, name)) / most for name, most in _POINTS.items()
    }
    other = {"queued": 2.0 * (features.queued != row.features.queued)}
    by_feature = {name: {**relative, **absolute, **other}[name] for name in _NAMES}
    differs = [_NAMES[name] for name, value in by_feature.items() if value > 1 + 1e-9]
    return Nearness(row, differs, sum(by_feature.values()))


def _log_ratio(one: Features, other: Features, name: str) -> float:
    ratio = getattr(one, name) / getattr(other, name)
    return abs(math.log(ratio)) if math.isfinite(ratio) and ratio > 0 else math.inf


def _has(tables: Mapping[str, Any], fixed: Mapping[str, Any]) -> bool:
    optimizer = _kind(tables.get("server", {}).get("optimizer"))
    if optimizer != _kind(fixed.get("server.optimizer")):
        return False
    for key, value in fixed.items():
        section, _, name = key.partition(".")
        own = tables.get(section, {}).get(name)
        if key != "server.optimizer" and own != value and not (_is_count(own) and _is_count(value)):
            return False
    return True


def _kind(optimizer: Any) -> str | None:
    """Return the kind of a server's optimiser; None for the plain average."""
    if isinstance(optimizer, str):
        return optimizer
    return optimizer.get("kind") if isinstance(optimizer, Mapping) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")

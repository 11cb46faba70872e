"""Who competes in the league, with what, and where: fleets, data sets, and each competitor's settings to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.runs.config import Config, flat
from fedtempo.studies.papers.reproduction import Asked, Budget
from fedtempo.studies.tuning.trials import Changes

SETTINGS = "league"
NEEDS_EXAMPLES = ("hybrid-fl",)
"""Competitors that take raw examples from clients: they run beside the others, not against them."""
REFERENCE = "fedavg"
"""Whose final accuracy the targets are taken from, and on which fleet."""
REFERENCE_FLEET = "uav"


@dataclass(frozen=True)
class Row:
    """One row of the league: a fleet with a data set. base: what all competitors share, without a target."""

    fleet: str
    data: str
    title: str
    base: Config
    points: Mapping[str, Sequence[Changes]]

    @property
    def name(self) -> str:
        return f"{self.fleet}, {self.data}"


def rows(asked: Asked) -> list[Row]:
    """All rows at a scale, fleet by fleet. Raises ConfigError for data that the league does not have."""
    fleets, sets = asked.table(SETTINGS, "fleets"), asked.table(SETTINGS, "sets")
    scale = asked.table(SETTINGS, "league")[asked.scale]
    names, without = scale["sets"], scale.get("without", [])
    if asked.data is not None:
        if asked.data not in sets:
            raise ConfigError(f"--data {asked.data}: the league is run on {', '.join(sets)}")
        names, without = [asked.data], []
    shared = Asked(asked.scale, asked.folder).settings(SETTINGS)
    at = asked.table(SETTINGS, "at").get(asked.scale, {})
    found = []
    for fleet, data in product(fleets, names):
        changes: Changes = {}
        for table in (fleets[fleet]["changes"], sets[data]["changes"]):
            changes |= flattened(table)
        for kind, name in (("fleets", fleet), ("sets", data)):
            changes |= flattened(at.get(kind, {}).get(name, {}))
        title = f"{fleets[fleet]['title']}, {sets[data]['title']}"
        row = Row(fleet, data, title, shared.with_changes(changes), points_of(fleets[fleet]))
        if row.name not in without:
            found.append(row)
    return found


def budget(asked: Asked, data: str) -> Budget:
    """What tuning and comparison may cost on a data set."""
    return asked.budget(SETTINGS, asked.table(SETTINGS, "sets")[data]["study"])


def most_visits(asked: Asked) -> int:
    """Visits after which a run ends without the target."""
    visits: int = asked.table(SETTINGS, "league")[asked.scale]["most_visits"]
    return visits


def points_of(fleet: Mapping[str, Any]) -> dict[str, list[Changes]]:
    """Two settings for every competitor, beside the learning rate: with few and with many clients where it can choose.

    FedHusky's groups have no such number: its exact planner and its paced order are tried instead. In free order
    everyone is at work, with and without its correction; where all share one channel, few of the fastest tenth of the
    clients are tried instead of the latter. Since these may have everyone at work, FedBuff may too; FedAsync learns
    badly from so many.
    """
    few, many, deadline_s = fleet["few"], fleet["many"], fleet["deadline_s"]
    rounds = [{"strategy.clients_per_round": count} for count in (few, many)]
    everyone = fleet["changes"]["data"]["clients"]
    orders = [{"strategy.order": order, "strategy.tick_s": fleet["tick_s"]} for order in ("planned", "paced")]
    less: Changes = {"strategy.correction": False}
    if fleet.get("crowded"):
        less = {"strategy.clients_at_once": few, "strategy.reach": 0.1}
    cell = [{"strategy.candidates": share, "strategy.deadline_s": deadline_s} for share in (0.1, 0.5)]
    return {
        "fedhusky": orders,
        "fedhusky-models": orders,
        "fedhusky-free": [{"strategy.correction": True}, less],
        "hybrid": [{"strategy.clusters": "labels"}, {"strategy.clusters": 5}],
        "sequential": [
            {"strategy.commit": "visit"},
            {"strategy.commit": "round", "strategy.clients_per_round": few},
        ],
        "fedavg": rounds,
        "fedavg-momentum": rounds,
        "fedprox": rounds,
        "psfl": [
            {"strategy.clients_per_round": few, "strategy.width": few // 2, "strategy.length": 2},
            {"strategy.clients_per_round": many},
        ],
        "fch": rounds,
        "oort": rounds,
        "csgd": [
            {"strategy.n_clusters": clusters, "strategy.channels": count // clusters}
            for clusters, count in zip(fleet["clusters"], (few, many), strict=True)
        ],
        "fedcs": cell,
        "hybrid-fl": cell,
        "fedasync": [{"strategy.clients_at_once": count} for count in (few, many)],
        "fedbuff": [{"strategy.clients_at_once": count} for count in (few, everyone)],
    }


def flattened(table: Mapping[str, Any]) -> Changes:
    """A table of the settings as changes of a configuration."""
    changes: Changes = {}
    for key, value in table.items():
        changes |= flat(key, value)
    return changes

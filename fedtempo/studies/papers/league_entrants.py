"""The league's rows (a fleet with a data set each), and the settings that each competitor may try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.runs.config import Config, flat
from fedtempo.studies.papers.reproduction import Budget, Request
from fedtempo.studies.tuning.trials import Changes

SETTINGS = "league"
NEEDS_EXAMPLES = ("hybrid-fl",)
"""Competitors that take raw examples from clients; they run beside the others and are not ranked."""
REFERENCE = "fedavg"
"""The strategy from whose final accuracy the targets are taken."""
REFERENCE_FLEET = "uav"
"""The fleet on which that accuracy is measured."""


@dataclass(frozen=True)
class LeagueRow:
    """A fleet with a data set. base: what all competitors share, without a target. points: settings by label."""

    fleet: str
    data: str
    title: str
    base: Config
    points: Mapping[str, Sequence[Changes]]

    @property
    def name(self) -> str:
        return f"{self.fleet}, {self.data}"


def rows(request: Request) -> list[LeagueRow]:
    """Return all rows at a scale, fleet by fleet. Raises ConfigError for data that the league does not have."""
    fleets, sets = request.table(SETTINGS, "fleets"), request.table(SETTINGS, "sets")
    scale = request.table(SETTINGS, "league")[request.scale]
    names, without = scale["sets"], scale.get("without", [])
    if request.data is not None:
        if request.data not in sets:
            raise ConfigError(f"--data {request.data}: the league runs on {', '.join(sets)} only")
        names, without = [request.data], []
    shared = Request(request.scale, request.folder).settings(SETTINGS)
    at = request.table(SETTINGS, "at").get(request.scale, {})
    result = []
    for fleet, data in product(fleets, names):
        changes: Changes = {}
        for table in (fleets[fleet]["changes"], sets[data]["changes"]):
            changes |= flattened(table)
        for kind, name in (("fleets", fleet), ("sets", data)):
            changes |= flattened(at.get(kind, {}).get(name, {}))
        title = f"{fleets[fleet]['title']}, {sets[data]['title']}"
        row = LeagueRow(fleet, data, title, shared.with_changes(changes), points_of(fleets[fleet]))
        if row.name not in without:
            result.append(row)
    return result


def budget(request: Request, data: str) -> Budget:
    """Return the seeds and learning rates of tuning and comparison on a data set."""
    return request.budget(SETTINGS, request.table(SETTINGS, "sets")[data]["study"])


def most_visits(request: Request) -> int:
    """Return the number of visits after which a run ends even without reaching the target."""
    visits: int = request.table(SETTINGS, "league")[request.scale]["most_visits"]
    return visits


def points_of(fleet: Mapping[str, Any]) -> dict[str, list[Changes]]:
    """Return two settings for every competitor, apart from the learning rate: few and many clients if it can choose.

    FedHusky's groups have no such number: its exact planner and its paced order are tried instead. With async-memory
    all clients are at work, with and without the correction; if all share one channel, a few of the fastest tenth
    of the clients replace the setting without the correction. As these may have all clients at work, FedBuff may too;
    FedAsync learns badly from so many. ACE, Rescaled ASGD and Ringleader ASGD have few or all clients at work; with
    few, Rescaled ASGD takes the times between clients' results, which then depend on more than their visits. CA2FL and
    FADAS try two step sizes at the server, which the clients' learning rate cannot replace.
    """
    few, many, deadline_s = fleet["few"], fleet["many"], fleet["deadline_s"]
    rounds = [{"strategy.clients_per_round": count} for count in (few, many)]
    everyone = fleet["changes"]["data"]["clients"]
    orders = [{"strategy.order": order, "strategy.tick_s": fleet["tick_s"]} for order in ("planned", "paced")]
    at_once: list[Changes] = [{"strategy.clients_at_once": count} for count in (few, everyone)]
    busy = few if fleet.get("crowded") else everyone
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
        "fedbuff": at_once,
        "ca2fl": [{"strategy.clients_at_once": busy, "strategy.server_lr": lr} for lr in (1.0, 0.3)],
        "fadas": [{"strategy.clients_at_once": busy, "strategy.server_lr": lr} for lr in (0.03, 0.003)],
        "ace": at_once,
        "rescaled-asgd": [at_once[0] | {"strategy.times": "results"}, at_once[1]],
        "ringleader": at_once,
    }


def flattened(table: Mapping[str, Any]) -> Changes:
    """Return a table of the settings as changes to a configuration, {dotted key: value}."""
    changes: Changes = {}
    for key, value in table.items():
        changes |= flat(key, value)
    return changes

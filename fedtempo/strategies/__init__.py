"""Strategies by the names that a configuration uses. Users' own are named `module:Class`."""

from fedtempo.strategies.fedavg import FedAvg
from fedtempo.strategies.fedhusky import FedHusky
from fedtempo.strategies.hybrid import Hybrid
from fedtempo.strategies.sequential import Sequential

STRATEGIES: dict[str, type] = {
    "fedavg": FedAvg,
    "fedhusky": FedHusky,
    "hybrid": Hybrid,
    "sequential": Sequential,
}

__all__ = ["STRATEGIES", "FedAvg", "FedHusky", "Hybrid", "Sequential"]

"""Strategies by the names that a configuration uses. Users' own are named `module:Class`."""

from fedtempo.strategies.csgd import CsGd
from fedtempo.strategies.fch import FchFl
from fedtempo.strategies.fedasync import FedAsync
from fedtempo.strategies.fedavg import FedAvg
from fedtempo.strategies.fedbuff import FedBuff
from fedtempo.strategies.fedhusky import FedHusky
from fedtempo.strategies.fedprox import FedProx
from fedtempo.strategies.hybrid import Hybrid
from fedtempo.strategies.oort import Oort
from fedtempo.strategies.psfl import Psfl
from fedtempo.strategies.sequential import Sequential

STRATEGIES: dict[str, type] = {
    "csgd": CsGd,
    "fch": FchFl,
    "fedasync": FedAsync,
    "fedavg": FedAvg,
    "fedbuff": FedBuff,
    "fedhusky": FedHusky,
    "fedprox": FedProx,
    "hybrid": Hybrid,
    "oort": Oort,
    "psfl": Psfl,
    "sequential": Sequential,
}

__all__ = [
    "STRATEGIES",
    "CsGd",
    "FchFl",
    "FedAsync",
    "FedAvg",
    "FedBuff",
    "FedHusky",
    "FedProx",
    "Hybrid",
    "Oort",
    "Psfl",
    "Sequential",
]

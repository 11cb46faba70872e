"""The strategies, by the name that a configuration uses; a user's own is named `module:Class`."""

from fedtempo.strategies.async_memory import AsyncMemory
from fedtempo.strategies.centralized import Centralized
from fedtempo.strategies.csgd import CsGd
from fedtempo.strategies.fch import FchFl
from fedtempo.strategies.fedasync import FedAsync
from fedtempo.strategies.fedavg import FedAvg
from fedtempo.strategies.fedbuff import FedBuff
from fedtempo.strategies.fedcs import FedCS
from fedtempo.strategies.fedhusky import FedHusky
from fedtempo.strategies.fedprox import FedProx
from fedtempo.strategies.hybrid import Hybrid
from fedtempo.strategies.hybrid_fl import HybridFL
from fedtempo.strategies.oort import Oort
from fedtempo.strategies.psfl import Psfl
from fedtempo.strategies.sequential import Sequential

STRATEGIES: dict[str, type] = {
    "async-memory": AsyncMemory,
    "centralized": Centralized,
    "csgd": CsGd,
    "fch": FchFl,
    "fedasync": FedAsync,
    "fedavg": FedAvg,
    "fedbuff": FedBuff,
    "fedcs": FedCS,
    "fedhusky": FedHusky,
    "fedprox": FedProx,
    "hybrid": Hybrid,
    "hybrid-fl": HybridFL,
    "oort": Oort,
    "psfl": Psfl,
    "sequential": Sequential,
}

__all__ = [
    "STRATEGIES",
    "AsyncMemory",
    "Centralized",
    "CsGd",
    "FchFl",
    "FedAsync",
    "FedAvg",
    "FedBuff",
    "FedCS",
    "FedHusky",
    "FedProx",
    "Hybrid",
    "HybridFL",
    "Oort",
    "Psfl",
    "Sequential",
]

"""The strategies, by the name that a configuration uses; a user's own is named `module:Class`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtempo.parts.later import Registry, exported

if TYPE_CHECKING:
    from fedtempo.strategies.ace import ACE as ACE
    from fedtempo.strategies.async_memory import AsyncMemory as AsyncMemory
    from fedtempo.strategies.ca2fl import CA2FL as CA2FL
    from fedtempo.strategies.centralized import Centralized as Centralized
    from fedtempo.strategies.csgd import CsGd as CsGd
    from fedtempo.strategies.fadas import FADAS as FADAS
    from fedtempo.strategies.fch import FchFl as FchFl
    from fedtempo.strategies.fedasync import FedAsync as FedAsync
    from fedtempo.strategies.fedat import FedAT as FedAT
    from fedtempo.strategies.fedavg import FedAvg as FedAvg
    from fedtempo.strategies.fedbuff import FedBuff as FedBuff
    from fedtempo.strategies.fedcompass import FedCompass as FedCompass
    from fedtempo.strategies.fedcs import FedCS as FedCS
    from fedtempo.strategies.fedhusky import FedHusky as FedHusky
    from fedtempo.strategies.fedhusky_paper import FedHuskyPaper as FedHuskyPaper
    from fedtempo.strategies.fedprox import FedProx as FedProx
    from fedtempo.strategies.hierfavg import HierFAVG as HierFAVG
    from fedtempo.strategies.hybrid import Hybrid as Hybrid
    from fedtempo.strategies.hybrid_fl import HybridFL as HybridFL
    from fedtempo.strategies.oort import Oort as Oort
    from fedtempo.strategies.power_of_choice import PowerOfChoice as PowerOfChoice
    from fedtempo.strategies.psfl import Psfl as Psfl
    from fedtempo.strategies.rescaled_asgd import RescaledASGD as RescaledASGD
    from fedtempo.strategies.ringleader import RingleaderASGD as RingleaderASGD
    from fedtempo.strategies.scaffold import Scaffold as Scaffold
    from fedtempo.strategies.sequential import Sequential as Sequential
    from fedtempo.strategies.tifl import TiFL as TiFL

STRATEGIES: Registry[type] = Registry(
    {
        "ace": "fedtempo.strategies.ace:ACE",
        "async-memory": "fedtempo.strategies.async_memory:AsyncMemory",
        "ca2fl": "fedtempo.strategies.ca2fl:CA2FL",
        "centralized": "fedtempo.strategies.centralized:Centralized",
        "csgd": "fedtempo.strategies.csgd:CsGd",
        "fadas": "fedtempo.strategies.fadas:FADAS",
        "fch": "fedtempo.strategies.fch:FchFl",
        "fedasync": "fedtempo.strategies.fedasync:FedAsync",
        "fedat": "fedtempo.strategies.fedat:FedAT",
        "fedavg": "fedtempo.strategies.fedavg:FedAvg",
        "fedbuff": "fedtempo.strategies.fedbuff:FedBuff",
        "fedcompass": "fedtempo.strategies.fedcompass:FedCompass",
        "fedcs": "fedtempo.strategies.fedcs:FedCS",
        "fedhusky": "fedtempo.strategies.fedhusky:FedHusky",
        "fedhusky-paper": "fedtempo.strategies.fedhusky_paper:FedHuskyPaper",
        "fedprox": "fedtempo.strategies.fedprox:FedProx",
        "hierfavg": "fedtempo.strategies.hierfavg:HierFAVG",
        "hybrid": "fedtempo.strategies.hybrid:Hybrid",
        "hybrid-fl": "fedtempo.strategies.hybrid_fl:HybridFL",
        "oort": "fedtempo.strategies.oort:Oort",
        "power-of-choice": "fedtempo.strategies.power_of_choice:PowerOfChoice",
        "psfl": "fedtempo.strategies.psfl:Psfl",
        "rescaled-asgd": "fedtempo.strategies.rescaled_asgd:RescaledASGD",
        "ringleader": "fedtempo.strategies.ringleader:RingleaderASGD",
        "scaffold": "fedtempo.strategies.scaffold:Scaffold",
        "sequential": "fedtempo.strategies.sequential:Sequential",
        "tifl": "fedtempo.strategies.tifl:TiFL",
    }
)

__getattr__ = exported(__name__, STRATEGIES.exports)

"""The strategies, by the name that a configuration uses; a user's own is named `module:Class`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtempo.parts.later import Registry, exported

if TYPE_CHECKING:
    from fedtempo.strategies.ace import ACE as ACE
    from fedtempo.strategies.async_memory import AsyncMemory as AsyncMemory
    from fedtempo.strategies.asyncsgd import AsyncSGD as AsyncSGD
    from fedtempo.strategies.ca2fl import CA2FL as CA2FL
    from fedtempo.strategies.centralized import Centralized as Centralized
    from fedtempo.strategies.csgd import CsGd as CsGd
    from fedtempo.strategies.ditto import Ditto as Ditto
    from fedtempo.strategies.fadas import FADAS as FADAS
    from fedtempo.strategies.favas import FAVAS as FAVAS
    from fedtempo.strategies.fch import FchFl as FchFl
    from fedtempo.strategies.fedasync import FedAsync as FedAsync
    from fedtempo.strategies.fedat import FedAT as FedAT
    from fedtempo.strategies.fedavg import FedAvg as FedAvg
    from fedtempo.strategies.fedbuff import FedBuff as FedBuff
    from fedtempo.strategies.fedcompass import FedCompass as FedCompass
    from fedtempo.strategies.fedcs import FedCS as FedCS
    from fedtempo.strategies.feddyn import FedDyn as FedDyn
    from fedtempo.strategies.fedhusky import FedHusky as FedHusky
    from fedtempo.strategies.fedhusky_paper import FedHuskyPaper as FedHuskyPaper
    from fedtempo.strategies.fednova import FedNova as FedNova
    from fedtempo.strategies.fedprox import FedProx as FedProx
    from fedtempo.strategies.fedrep import FedRep as FedRep
    from fedtempo.strategies.fedstale import FedStale as FedStale
    from fedtempo.strategies.fedvarp import FedVARP as FedVARP
    from fedtempo.strategies.hierfavg import HierFAVG as HierFAVG
    from fedtempo.strategies.hybrid import Hybrid as Hybrid
    from fedtempo.strategies.hybrid_fl import HybridFL as HybridFL
    from fedtempo.strategies.mifa import MIFA as MIFA
    from fedtempo.strategies.moon import Moon as Moon
    from fedtempo.strategies.oort import Oort as Oort
    from fedtempo.strategies.per_fedavg import PerFedAvg as PerFedAvg
    from fedtempo.strategies.power_of_choice import PowerOfChoice as PowerOfChoice
    from fedtempo.strategies.psfl import Psfl as Psfl
    from fedtempo.strategies.quafl import QuAFL as QuAFL
    from fedtempo.strategies.refl import REFL as REFL
    from fedtempo.strategies.rescaled_asgd import RescaledASGD as RescaledASGD
    from fedtempo.strategies.ringleader import RingleaderASGD as RingleaderASGD
    from fedtempo.strategies.safa import SAFA as SAFA
    from fedtempo.strategies.scaffold import Scaffold as Scaffold
    from fedtempo.strategies.sequential import Sequential as Sequential
    from fedtempo.strategies.tifl import TiFL as TiFL
    from fedtempo.strategies.timelyfl import TimelyFL as TimelyFL

STRATEGIES: Registry[type] = Registry(
    {
        "ace": "fedtempo.strategies.ace:ACE",
        "async-memory": "fedtempo.strategies.async_memory:AsyncMemory",
        "asyncsgd": "fedtempo.strategies.asyncsgd:AsyncSGD",
        "ca2fl": "fedtempo.strategies.ca2fl:CA2FL",
        "centralized": "fedtempo.strategies.centralized:Centralized",
        "csgd": "fedtempo.strategies.csgd:CsGd",
        "ditto": "fedtempo.strategies.ditto:Ditto",
        "fadas": "fedtempo.strategies.fadas:FADAS",
        "favas": "fedtempo.strategies.favas:FAVAS",
        "fch": "fedtempo.strategies.fch:FchFl",
        "fedasync": "fedtempo.strategies.fedasync:FedAsync",
        "fedat": "fedtempo.strategies.fedat:FedAT",
        "fedavg": "fedtempo.strategies.fedavg:FedAvg",
        "fedbuff": "fedtempo.strategies.fedbuff:FedBuff",
        "fedcompass": "fedtempo.strategies.fedcompass:FedCompass",
        "fedcs": "fedtempo.strategies.fedcs:FedCS",
        "feddyn": "fedtempo.strategies.feddyn:FedDyn",
        "fedhusky": "fedtempo.strategies.fedhusky:FedHusky",
        "fedhusky-paper": "fedtempo.strategies.fedhusky_paper:FedHuskyPaper",
        "fednova": "fedtempo.strategies.fednova:FedNova",
        "fedprox": "fedtempo.strategies.fedprox:FedProx",
        "fedrep": "fedtempo.strategies.fedrep:FedRep",
        "fedstale": "fedtempo.strategies.fedstale:FedStale",
        "fedvarp": "fedtempo.strategies.fedvarp:FedVARP",
        "hierfavg": "fedtempo.strategies.hierfavg:HierFAVG",
        "hybrid": "fedtempo.strategies.hybrid:Hybrid",
        "hybrid-fl": "fedtempo.strategies.hybrid_fl:HybridFL",
        "mifa": "fedtempo.strategies.mifa:MIFA",
        "moon": "fedtempo.strategies.moon:Moon",
        "oort": "fedtempo.strategies.oort:Oort",
        "power-of-choice": "fedtempo.strategies.power_of_choice:PowerOfChoice",
        "per-fedavg": "fedtempo.strategies.per_fedavg:PerFedAvg",
        "psfl": "fedtempo.strategies.psfl:Psfl",
        "quafl": "fedtempo.strategies.quafl:QuAFL",
        "refl": "fedtempo.strategies.refl:REFL",
        "rescaled-asgd": "fedtempo.strategies.rescaled_asgd:RescaledASGD",
        "ringleader": "fedtempo.strategies.ringleader:RingleaderASGD",
        "safa": "fedtempo.strategies.safa:SAFA",
        "scaffold": "fedtempo.strategies.scaffold:Scaffold",
        "sequential": "fedtempo.strategies.sequential:Sequential",
        "timelyfl": "fedtempo.strategies.timelyfl:TimelyFL",
        "tifl": "fedtempo.strategies.tifl:TiFL",
    }
)

__getattr__ = exported(__name__, STRATEGIES.exports)

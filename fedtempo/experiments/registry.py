"""All figures and tables that `fedtempo reproduce` knows."""

from __future__ import annotations

from fedtempo.experiments import csgd, fch, fedhusky, hybrid_fl, psfl
from fedtempo.experiments.reproduction import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for module in (fedhusky, psfl, fch, csgd, hybrid_fl)
    for experiment in module.EXPERIMENTS
}

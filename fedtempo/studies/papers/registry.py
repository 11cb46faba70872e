"""All figures and tables that `fedtempo reproduce` knows: those of the papers, and what is measured beside them."""

from __future__ import annotations

from fedtempo.studies.papers import beyond, csgd, directions, fch, fedhusky, hybrid_fl, league, psfl
from fedtempo.studies.papers.reproduction import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for module in (fedhusky, psfl, fch, csgd, hybrid_fl, directions, league, beyond)
    for experiment in module.EXPERIMENTS
}
"""By name. Those of the papers are the ones with `printed`."""

"""Panels of FCH-FL's figures and tables: competitors tuned and run, each panel with the budget that it can afford."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedtempo.runs.config import Config
from fedtempo.studies.papers.panels import Panels, save_panels
from fedtempo.studies.papers.reproduction import Budget, Request
from fedtempo.studies.tuning.study import Study, tuned_study

CONVOLUTIONS, BY_CLASS = ", convolutions", ", by class"
"""Endings of the names of panels whose runs take several times as long as the others'."""


def budget_of(request: Request, panel: str) -> Budget:
    """Return the seeds and learning rates of a panel: fewer seeds if its runs take several times as long."""
    return request.budget("fch", "dear" if panel.endswith((CONVOLUTIONS, BY_CLASS)) else "study")


def fch_panels(request: Request, stem: str, bases: Mapping[str, Config], labels: Sequence[str]) -> Panels:
    """Tune and run the same competitors in several settings; return the studies by panel name.

    bases: configurations by panel name. Writes what `study_panels` writes.
    """
    panels = {name: _study(base, labels, budget_of(request, name)) for name, base in bases.items()}
    save_panels(request, stem, bases, panels)
    return panels


def _study(base: Config, labels: Sequence[str], budget: Budget) -> Study:
    return tuned_study(base, labels, {"training.lr": budget.lr}, tuning_seeds=budget.tuning_seeds, seeds=budget.seeds)

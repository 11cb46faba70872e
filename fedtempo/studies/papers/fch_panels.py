"""Panels of FCH-FL's figures and tables: competitors tuned and run, each panel with the budget that it can afford."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedtempo.runs.config import Config
from fedtempo.studies.papers.pages import settings_in_words
from fedtempo.studies.papers.panels import Panels, save_panels
from fedtempo.studies.papers.reproduction import Budget, Request, flattened
from fedtempo.studies.tuning.study import Study, run_settings
from fedtempo.studies.tuning.trials import Grid, Trial, tune

CONVOLUTIONS, BY_CLASS, MANY = ", convolutions", ", by class", ", 1,000 images"
"""Endings of the names of panels whose runs take several times as long as the others'."""


def budget_of(request: Request, panel: str) -> Budget:
    """Return the seeds and learning rates of a panel: fewer seeds if its runs take several times as long."""
    return request.budget("fch", "dear" if panel.endswith((CONVOLUTIONS, BY_CLASS, MANY)) else "study")


def grid_of(request: Request, label: str, budget: Budget) -> Grid:
    """Return the settings that are tried for a competitor: learning rates, or what `[entrants.<label>]` says."""
    own = flattened(request.table("fch", "entrants").get(label, {}).get(request.scale, {}))
    return own or {"training.lr": budget.lr}


def fch_panels(request: Request, stem: str, bases: Mapping[str, Config], labels: Sequence[str]) -> Panels:
    """Tune and run the same competitors in several settings; return the studies by panel name.

    bases: configurations by panel name. Writes what `study_panels` writes.
    """
    panels = {name: _study(request, base, labels, budget_of(request, name)) for name, base in bases.items()}
    save_panels(request, stem, bases, panels)
    return panels


def _study(request: Request, base: Config, labels: Sequence[str], budget: Budget) -> Study:
    grids = {label: grid_of(request, label, budget) for label in labels}
    trials: dict[str, list[Trial]] = {}
    for grid in (grid for number, grid in enumerate(grids.values()) if grid not in list(grids.values())[:number]):
        alike = [label for label in labels if grids[label] == grid]
        trials |= tune(base, alike, grid, budget.tuning_seeds)
    best = {label: trials[label][0].changes for label in labels}
    return Study({label: trials[label] for label in labels}, run_settings(base, best, budget.seeds))


def tuned_words(study: Study, *labels: str) -> str:
    """Return the tuned settings of these competitors (default: of all) as text; empty if nothing was tuned."""
    if not study.trials:
        return ""
    return "; ".join(f"{label} {settings_in_words(study.chosen(label))}" for label in labels or study.runs)

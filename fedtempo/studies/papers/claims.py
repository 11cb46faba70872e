"""Claims of newer methods that they save time, each in a small setting of the kind that its paper is about.

Competitors of a claim share data, fleet, target and seeds; the learning rate of each is tuned on one grid, on a seed
that the comparison does not use.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as component

from fedtempo.parts.construct import construct
from fedtempo.parts.fields import STRICT
from fedtempo.record import Records
from fedtempo.record.measures import client_seconds
from fedtempo.runs.config import Config
from fedtempo.studies.papers.panels import PairedTimes, in_words, reached, resolution, study_panels, target
from fedtempo.studies.papers.reproduction import Exhibit, Request, flattened
from fedtempo.studies.papers.verdicts import Effect, Row, shown
from fedtempo.studies.tuning.study import Study

NAME = "claims"


@component(frozen=True, config=STRICT)
class Claim:
    """A table `[cells.<strategy>]` of the settings.

    paper: what the paper claims. against: the baselines that it names. measure: what should be less until the target:
    seconds, rounds, or seconds of clients' time. changes: of the configuration, for all competitors. compare: what each
    of them does differently.
    """

    paper: str
    against: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    measure: Literal["time", "rounds", "client time"] = "time"
    changes: dict[str, Any] = field(default_factory=dict)
    compare: dict[str, dict[str, Any]] = field(default_factory=dict)

    def on(self, base: Config) -> Config:
        """Return the configuration of the claim's comparison."""
        compare = {f"compare.{label}": table for label, table in self.compare.items()}
        return base.with_changes(flattened(self.changes) | compare)


def read_claims(request: Request) -> dict[str, Claim]:
    """Return the claims by strategy. Raises ConfigError for a table that is wrong."""
    tables = request.table(NAME, "cells")
    return {label: construct(Claim, table, f"cells.{label}") for label, table in tables.items()}


@dataclass(frozen=True)
class ClaimCheck:
    """Compares a method with the baselines that its paper names; `reproduce` of an exhibit. label: the strategy."""

    label: str

    def __call__(self, request: Request) -> list[Row]:
        claim = read_claims(request)[self.label]
        config = claim.on(request.settings(NAME))
        labels = (self.label, *claim.against)
        study = study_panels(request, NAME, {self.label: config}, labels, request.budget(NAME))[self.label]
        return claim_rows(self.label, claim, study, target(config), resolution(config))


def claim_rows(label: str, claim: Claim, study: Study, level: float, tick_s: float) -> list[Row]:
    """Return the rows of a claim: what each competitor needs until the target, and the claim against each baseline."""
    rows = []
    for competitor, runs in study.records.items():
        values = [_used(run, level, claim.measure) for run in runs]
        seeds = ", ".join(_words(value, claim.measure) for value in values)
        words = f"{_words(statistics.median(values), claim.measure)} ({seeds})"
        lr = f"lr {study.chosen(competitor)['training.lr']:g}"
        rows.append(Row(f"{label}: {claim.measure} to {level:.0%}, {competitor}", "-", words, lr))
    for other in claim.against:
        effect = _effect(study.records[label], study.records[other], level, claim.measure, tick_s)
        what = f"{label}: {claim.measure} over that of {other}"
        rows.append(shown(what, claim.paper, effect.ratio_words, effect).as_headline())
    return rows


def _effect(ours: Sequence[Records], others: Sequence[Records], level: float, measure: str, tick_s: float) -> Effect:
    """Return the effect on the logarithm of what runs need: positive if ours need less.

    A run that misses the target counts with what it used in all, which understates the difference.
    """
    if measure == "client time":
        return Effect.of_times([client_seconds(run) for run in ours], [client_seconds(run) for run in others], 0.0)
    axis = "rounds" if measure == "rounds" else "time"
    return PairedTimes.of(ours, others, level, axis).effect(1.0 if measure == "rounds" else tick_s)


def _used(run: Records, level: float, measure: str) -> float:
    if measure == "client time":
        return client_seconds(run) if reached(run, level) < float("inf") else float("inf")
    return reached(run, level, "rounds" if measure == "rounds" else "time")


def _words(value: float, measure: str) -> str:
    return in_words(value, "rounds" if measure == "rounds" else "time")


_TITLES = {
    "tifl": "tiers of clients of similar speed",
    "fedat": "tiers that train at the same time",
    "safa": "rounds that do not wait for late clients",
    "timelyfl": "work that fits into a round",
    "refl": "present clients first, late updates kept",
    "fedcompass": "clients that arrive together",
    "favas": "polls that count expected steps",
    "quafl": "polls that wait for nobody",
    "asyncsgd": "steps at every arrival",
    "mifa": "a memory of clients that are away",
    "hierfavg": "edges between clients and cloud",
    "power-of-choice": "clients with high losses first",
}
EXHIBITS = tuple(
    Exhibit(f"{label}/direction", title, ClaimCheck(label), (1, 4, 60), ("digits",)) for label, title in _TITLES.items()
)

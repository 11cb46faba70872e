"""The league's results as prior evidence for advice (`fedtempo/studies/advice/prior.json`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from fedtempo.record.strict_json import plain, to_json
from fedtempo.runs.config import SECTIONS, Config, load
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.studies.advice.prior import FILE, Entrant, Features, Prior, Row, features_of
from fedtempo.studies.fleet import windows
from fedtempo.studies.papers import reproduction
from fedtempo.studies.papers.cells import REFERENCE
from fedtempo.studies.papers.contest_results import CellResult, ContestResults, read_results
from fedtempo.studies.papers.reproduction import flattened

LEAGUE = "all/league"
OWN_RESULTS = Path(__file__).parents[3] / "docs" / "results"
"""The results that come with fedtempo's repository."""


def write_prior(folder: Path) -> None:
    """Write the prior of the league's results below a folder, if these are the ones that come with fedtempo."""
    if folder.resolve() == OWN_RESULTS and (folder / LEAGUE / "league.json").exists():
        FILE.write_text(prior_text(folder), encoding="utf-8")


def prior_text(folder: Path) -> str:
    """Return the prior of the league's results below a folder, as JSON with a line for each row."""
    prior = prior_of(folder)
    rows = ",\n".join(to_json(plain(asdict(row))) for row in prior.rows)
    return f'{{"scale": {to_json(prior.scale)}, "rows": [\n{rows}\n]}}\n'


def prior_of(folder: Path) -> Prior:
    """Return the rows with a target of the league's results below a folder."""
    results = read_results(folder / LEAGUE / "league.json")
    fixed = _fixed_settings()
    return Prior(
        results.scale,
        [_row(results, cell, load(folder / LEAGUE / f"{cell.name}.toml"), fixed) for cell in results.races],
    )


def _row(results: ContestResults, cell: CellResult, config: Config, fixed: Mapping[str, Mapping[str, Any]]) -> Row:
    entrants = {}
    for label, result in cell.tried.items():
        notes = results.entrants[label]
        settings = {key: value for key, value in fixed.get(label, {}).items() if key != "strategy.name"}
        times = [None if time is None else float(f"{time:.4g}") for time in result.times_s]
        strategy = fixed.get(label, {}).get("strategy.name", label)
        entrants[label] = Entrant(strategy, settings, notes.told, notes.ranked, times)
    return Row(
        name=cell.name,
        title=f"{cell.title} ({cell.network})",
        features=_features(config, cell),
        target=cell.goal,
        horizon_s=cell.horizon_s,
        resolution_s=cell.resolution_s,
        entrants=entrants,
    )


def _features(config: Config, cell: CellResult) -> Features:
    """Return what a row's fleet is like, without its data: every client is taken to hold as many examples.

    If the configuration does not say how many, it is the number with which visits take as long as FedAvg's did.
    """
    n, horizon_s = config.n_clients, config.run.horizon
    assert horizon_s is not None
    assert config.model_bytes is not None
    fleet = config.fleet.build(n, partial(keyed_generator, config.run.seed))
    rows = fleet.describe(1, config.model_bytes)
    if isinstance(held := config.data.examples_per_client, int):
        examples: float = config.training.examples_per_visit(held)
    else:
        visit_s = cell.tried[REFERENCE].median("client_s") / cell.tried[REFERENCE].median("visits")
        compute_s = fmean(row["compute_s"] for row in rows)
        examples = max(1.0, (visit_s - fmean(row["visit_s"] for row in rows) + compute_s) / compute_s)
    rows = fleet.describe(examples, config.model_bytes)
    for row in rows:
        there = windows(fleet.availability, row["client"], horizon_s)
        row["available_share"] = sum(end - begin for begin, end in there) / horizon_s
    return features_of(config, rows)


def _fixed_settings() -> dict[str, dict[str, Any]]:
    """Return by entrant the settings that make it what it is, apart from those that are tuned."""
    tables = tomllib.loads((reproduction.SETTINGS / "league.toml").read_text(encoding="utf-8"))["entrants"]
    fixed = {}
    for label, table in tables.items():
        tuned = {key for point in table["points"] for key in flattened(point)}
        settings = flattened({key: value for key, value in table.items() if key in SECTIONS})
        fixed[label] = {key: value for key, value in settings.items() if key not in tuned}
    return fixed

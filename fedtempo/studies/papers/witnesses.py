"""Witnesses of a result: a sample of its runs, whose bits show whether later code still gives the same numbers.

Their configurations are kept as TOML, which can express infinity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import tomli_w
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError, FedtempoError
from fedtempo.parts.text_files import parse_toml
from fedtempo.record import write_json
from fedtempo.runs.config import Config, parse
from fedtempo.runs.identity import strategy_modules
from fedtempo.studies.tuning.trials import FinishedRun, NotedRun, attempt_all, bits_of

WITNESSES = "witnesses.json"


@dataclass(frozen=True)
class Witness:
    """A run of a result. configuration: as TOML. bits: as `bits_of` returned them."""

    label: str
    configuration: str
    bits: str


def write_witnesses(folder: Path, noted: Sequence[NotedRun]) -> None:
    """Write one witness per label: of its runs, the one whose hashed configuration is least. Nothing without runs."""
    by_label: dict[str, list[NotedRun]] = {}
    for run in noted:
        by_label.setdefault(run.label, []).append(run)
    witnesses = [
        {"label": run.label, "configuration": tomli_w.dumps(run.config.alone().given), "bits": run.bits}
        for run in (min(runs, key=_drawn_by) for runs in by_label.values())
    ]
    if witnesses:
        write_json(folder / WITNESSES, witnesses)


def _drawn_by(run: NotedRun) -> str:
    """Return the hash of a run's configuration, by which witnesses are drawn."""
    return hashlib.sha256(json.dumps(run.config.tables, sort_keys=True, default=str).encode()).hexdigest()


def read_witnesses(folder: Path) -> list[Witness]:
    """Return the witnesses of the result in a folder; empty without any. Raises ConfigError for anything else."""
    path = folder / WITNESSES
    if not path.exists():
        return []
    try:
        return TypeAdapter(list[Witness]).validate_json(path.read_bytes())
    except ValidationError as error:
        raise ConfigError(f"{path}: not the witnesses of a result: {error.errors()[0]['msg']}") from error


def strategies_of(witnesses: Sequence[Witness]) -> tuple[str, ...] | None:
    """Return the modules of the strategies of witnesses, as `strategy_modules` does; None if one cannot be read."""
    try:
        return strategy_modules([_config(witness) for witness in witnesses])
    except (FedtempoError, ValueError):
        return None


def changed_witnesses(witnesses: Sequence[Witness]) -> list[str]:
    """Run witnesses again; return the labels of those that have other bits now, and why others can no longer run."""
    configs, changed = [], []
    for witness in witnesses:
        try:
            configs.append((witness, _config(witness)))
        except (FedtempoError, ValueError) as error:
            changed.append(f"{witness.label}: {error}")
    for (witness, _), run in zip(configs, attempt_all([config for _, config in configs]), strict=True):
        if not isinstance(run, FinishedRun):
            changed.append(f"{witness.label}: {run}")
        elif bits_of(run.summary) != witness.bits:
            changed.append(witness.label)
    return changed


def _config(witness: Witness) -> Config:
    return parse(parse_toml(witness.configuration), label=witness.label)

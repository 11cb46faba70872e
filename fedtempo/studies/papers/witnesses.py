"""Witnesses of a result: a sample of its runs, whose bits show whether later code still gives the same numbers.

Their configurations are kept as TOML, which can express infinity. Bits also depend on the processor. While a result is
up to date, any processor may add its own bits, and so show later whether code that came after them gives the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import tomli_w
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError, FedtempoError
from fedtempo.parts.text_files import parse_toml
from fedtempo.record import write_json
from fedtempo.record.folder import processor
from fedtempo.runs.config import Config, parse
from fedtempo.runs.identity import strategy_modules
from fedtempo.studies.tuning.trials import FinishedRun, NotedRun, attempt_all, bits_of

WITNESSES = "witnesses.json"


@dataclass(frozen=True)
class Witness:
    """A run of a result. configuration: as TOML. bits: by processor, as `bits_of` returned them there."""

    label: str
    configuration: str
    bits: dict[str, str]

    def agrees(self, bits: str) -> bool:
        """Return whether a run on this processor has the known bits; those of any other, if its own are not known."""
        own = self.bits.get(_here())
        return bits == own if own else bits in self.bits.values()


def _here() -> str:
    return processor() or "unknown"


def write_witnesses(folder: Path, noted: Sequence[NotedRun]) -> None:
    """Write one witness per label: of its runs, the one whose hashed configuration is least. Nothing without runs."""
    by_label: dict[str, list[NotedRun]] = {}
    for run in noted:
        by_label.setdefault(run.label, []).append(run)
    witnesses = [
        Witness(run.label, tomli_w.dumps(run.config.alone().given), {_here(): run.bits})
        for run in (min(runs, key=_drawn_by) for runs in by_label.values())
    ]
    if witnesses:
        _write(folder, witnesses)


def _write(folder: Path, witnesses: Sequence[Witness]) -> None:
    write_json(folder / WITNESSES, [asdict(witness) for witness in witnesses])


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


def known_here(witnesses: Sequence[Witness]) -> bool:
    """Return whether this processor's bits of all witnesses are known."""
    return all(_here() in witness.bits for witness in witnesses)


def rerun(witnesses: Sequence[Witness]) -> list[str | Exception]:
    """Run witnesses again; return the bits of each, or why it can no longer run."""
    configs = [_configured(witness) for witness in witnesses]
    runs = iter(attempt_all([config for config in configs if isinstance(config, Config)]))
    ends = [next(runs) if isinstance(config, Config) else config for config in configs]
    return [bits_of(end.summary) if isinstance(end, FinishedRun) else end for end in ends]


def failed(witnesses: Sequence[Witness], found: Sequence[str | Exception]) -> list[str]:
    """Return the labels of witnesses that can no longer run, with the reasons. found: of `rerun`."""
    pairs = zip(witnesses, found, strict=True)
    return [f"{witness.label}: {end}" for witness, end in pairs if isinstance(end, Exception)]


def changed(witnesses: Sequence[Witness], found: Sequence[str | Exception]) -> list[str]:
    """Return the labels of witnesses that have other bits now. found: of `rerun`."""
    pairs = zip(witnesses, found, strict=True)
    return [witness.label for witness, end in pairs if isinstance(end, str) and not witness.agrees(end)]


def add_bits(folder: Path, witnesses: Sequence[Witness], found: Sequence[str | Exception]) -> None:
    """Write the bits that witnesses have on this processor beside those of others. found: of `rerun`."""
    pairs = zip(witnesses, found, strict=True)
    _write(
        folder,
        [replace(each, bits={**each.bits, _here(): end}) if isinstance(end, str) else each for each, end in pairs],
    )


def _configured(witness: Witness) -> Config | Exception:
    try:
        return _config(witness)
    except (FedtempoError, ValueError) as error:
        return error


def _config(witness: Witness) -> Config:
    return parse(parse_toml(witness.configuration), label=witness.label)

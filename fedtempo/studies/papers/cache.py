"""Outcomes of runs, cached on disk so that a study of hundreds of runs can continue after an interruption."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.cache_dir import cache_folder
from fedtempo.errors import FedtempoError
from fedtempo.parts.text_files import parse_json
from fedtempo.record import Records, time_to_target
from fedtempo.record.folder import versions
from fedtempo.record.measures import client_seconds, energy_wh, participation
from fedtempo.runs.config import Config
from fedtempo.runs.identity import code_sha256, settings
from fedtempo.runs.launch import Watch
from fedtempo.runs.run import run
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.runner import Driven
from fedtempo.studies.tuning.trials import bits_of

_COMPUTING = ("python", "torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Outcome:
    """What is stored about a run.

    times_s: seconds to each requested accuracy, None if not reached. late_accuracy: mean over the last tenth of the
    run. took_part: share of the clients with a visit. gini: Gini coefficient of visits per client, 0 if all are equal.
    staleness: mean number of commits that a result missed. mb: megabytes down, up and relayed. client_s: seconds of
    client time. cpu_s: processor time of the run. error: why the run was rejected, or empty. bits: as of `bits_of`,
    or empty. wh: energy that the clients used, watt hours, None if the fleet has no power figures.
    """

    ended: str
    end_s: float
    times_s: tuple[float | None, ...]
    best_accuracy: float
    late_accuracy: float
    busy: float
    staleness: float | None
    took_part: float
    gini: float
    visits: int
    commits: int
    mb: float
    client_s: float
    cpu_s: float
    error: str = ""
    bits: str = ""
    wh: float | None = None

    @property
    def cut(self) -> bool:
        """Whether it ended before its horizon because it could no longer be the fastest."""
        return self.ended == "budget"


@dataclass
class Cache:
    """Outcomes by all that they depend on, one JSON line each; without a path they are only kept in memory.

    Several processes may append to one file, because each line is a single write. earlier_s: processor time (s) of the
    outcomes that were found in the cache.
    """

    path: Path | None
    earlier_s: float = 0.0
    _known: dict[str, Outcome] = field(default_factory=dict)
    _finals: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = parse_json(line)
                    if "final" in entry:
                        self._finals[entry["key"]] = dict(entry["final"])
                        continue
                    self._known[entry["key"]] = Outcome(**{**entry["outcome"], "times_s": _tuple(entry)})
                except (ValueError, KeyError, TypeError):
                    continue  # a process was killed while it wrote this line

    def outcome(
        self, config: Config, levels: Sequence[float], seconds: float | None = None, *, interpolated: bool = False
    ) -> Outcome:
        """Return the outcome of a run, from the cache if it was made before.

        levels: accuracies to which times are measured. seconds: simulated time after which the run ends (default: at
        its horizon). interpolated: as of `time_to_target`.
        """
        key = _key(config, levels, seconds, interpolated)
        if (known := self._known.get(key)) is not None:
            self.earlier_s += known.cpu_s
            return known
        outcome = self._known[key] = measured(config, levels, seconds, interpolated=interpolated)
        self._append({"key": key, "label": config.label, "seed": config.run.seed, "outcome": asdict(outcome)})
        return outcome

    def final(self, config: Config, measure: Callable[[Config], dict[str, Any]]) -> dict[str, Any]:
        """Return what `measure` says of the end of a run, as JSON values, from the cache if it was made before."""
        key = key_of([config], code=code_sha256(config), final=measure.__name__)
        if key not in self._finals:
            self._finals[key] = measure(config)
            self._append({"key": key, "label": config.label, "seed": config.run.seed, "final": self._finals[key]})
        return self._finals[key]

    def _append(self, entry: dict[str, Any]) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)  # it may be another machine that runs this
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, f"{json.dumps(entry)}\n".encode())
        finally:
            os.close(descriptor)


def cache_file(name: str) -> Path | None:
    """Return the file with the outcomes of a study, in the user's cache folder; None if there is no such folder."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        (folder / "studies").mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder / "studies" / f"{name}.jsonl"


def measured(
    config: Config, levels: Sequence[float], seconds: float | None = None, *, interpolated: bool = False
) -> Outcome:
    """Run in this process, on one thread, and return the outcome. Arguments as of `Cache.outcome`."""
    began_s = time.process_time()
    try:
        summary, records, _ = run(config, watch=None if seconds is None else _ending(seconds), quiet=True)
    except FedtempoError as error:
        spent = time.process_time() - began_s
        never: tuple[None, ...] = (None,) * len(levels)
        nothing = (0.0, 0.0, None, 0.0, 0.0, 0, 0, 0.0, 0.0)
        return Outcome("refused", 0.0, never, 0.0, *nothing, round(spent, 3), str(error))
    if summary["ended"] == "interrupted":
        raise KeyboardInterrupt
    visits = participation(records)
    return Outcome(
        ended=summary["ended"],
        end_s=round(records.facts["elapsed_s"], 3),
        times_s=tuple(
            time_to_target(
                records.evaluations["time"], records.evaluations["accuracy"], level, interpolated=interpolated
            )
            for level in levels
        ),
        best_accuracy=round(summary["best_accuracy"] or 0.0, 4),
        late_accuracy=round(late_accuracy(records), 4),
        busy=round(summary["busy_ratio"]["mean"], 4),
        staleness=None if (mean := summary["staleness"]["mean"]) is None else round(mean, 2),
        took_part=round(float((visits > 0).mean()), 4),
        gini=round(gini(visits), 4),
        visits=summary["visits"],
        commits=summary["commits"],
        mb=round(sum(summary["bytes"].values()) / 1e6, 2),
        client_s=round(client_seconds(records), 1),
        cpu_s=round(time.process_time() - began_s, 3),
        bits=bits_of(summary),
        wh=None if (wh := energy_wh(records)) is None else round(wh, 3),
    )


def late_accuracy(records: Records, share: float = 0.1) -> float:
    """Return the mean accuracy over the last `share` of the run; an accuracy that is not finite counts as 0."""
    times, accuracies = records.evaluations["time"], np.nan_to_num(records.evaluations["accuracy"])
    return float(accuracies[times >= (1 - share) * times[-1]].mean())


def gini(counts: npt.ArrayLike) -> float:
    """Return the Gini coefficient of counts: 0 if all are equal or zero, near 1 if one has everything."""
    values = np.sort(np.asarray(counts, dtype=np.float64))
    if not values.sum():
        return 0.0
    ranks = np.arange(1, values.size + 1)
    return float((2 * ranks - values.size - 1) @ values / (values.size * values.sum()))


def _ending(seconds: float) -> Watch:
    """Return a watch that ends a run early without changing its horizon, by which strategies plan."""

    def watch(sim: Driven, evaluations: Evaluations) -> None:
        asyncio.get_running_loop().call_later(seconds, sim.end, "budget")

    return watch


def _key(config: Config, levels: Sequence[float], seconds: float | None, interpolated: bool) -> str:
    code = code_sha256(config)
    return key_of([config], code=code, levels=list(levels), seconds=seconds, interpolated=interpolated)


def key_of(configs: Sequence[Config], **further: Any) -> str:
    """Return a hash of what runs of these configurations depend on besides code, and of further JSON values."""
    depends = {
        "configurations": [settings(config) for config in configs],
        "further": further,
        "versions": {name: versions()[name] for name in _COMPUTING},
    }
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:32]


def _tuple(entry: dict[str, Any]) -> tuple[float | None, ...]:
    return tuple(entry["outcome"]["times_s"])

"""Judge a long deployment: growth of memory, handles, logs, what was left, and whether every client worked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from benchmarks.long_deployment.outcome import Outcome
from benchmarks.long_deployment.plan import DRIVER, SUPERLINK, Plan, kind_of
from benchmarks.long_deployment.samples import Sample

GROWTH = 0.02
"""Most growth of a process's own memory after its warm-up."""

WARM_UP_S, WARM_UP = 300.0, 0.5
"""The warm-up of a process lasts for so long, or for this share of its life if that is shorter."""

LEAST_S = 45.0
"""A life must last so long after its warm-up to be judged."""

HANDLES = 2
"""Handles of files that may differ between begin and end: samples may fall into the moment of a write."""

LIFE_S = 120.0
"""A client must have work in each life that lasts for so long: the server may be away for a part of it."""

_ABANDONED = 3
"""Exit code of a server whose SuperLink was away for a minute; a service manager starts it again."""

LOG_BYTES = 500.0
"""Most bytes that all logs together may grow by for each visit."""


@dataclass(frozen=True)
class Growth:
    """How one life of a process changed after its warm-up.

    seconds: of the time that is judged. own_kb: memory of its own at the begin of that time, kB, by a robust line
    (Theil and Sen). growth: by that line until the end, relative to `own_kb`. files, sockets, threads: their numbers in
    the first and in the last quarter of the time, medians.
    """

    program: str
    life: int
    seconds: float
    own_kb: int
    growth: float
    files: tuple[float, float]
    sockets: tuple[float, float]
    threads: tuple[float, float]


_NAMES = {"client": "clients", DRIVER: "server", SUPERLINK: "SuperLink"}


class Verdict(NamedTuple):
    """What was demanded, what was found, in words, and whether it holds."""

    demanded: str
    found: str
    holds: bool


def growths(samples: Sequence[Sample]) -> list[Growth]:
    """Return the growth of each life that lasted long enough."""
    lives: dict[tuple[str, int], list[Sample]] = {}
    for each in samples:
        lives.setdefault((each.program, each.life), []).append(each)
    judged = []
    for (program, life), held in lives.items():
        began, ended = held[0].time_s, held[-1].time_s
        from_s = began + min(WARM_UP_S, WARM_UP * (ended - began))
        after = [each for each in held if each.time_s >= from_s]
        seconds = after[-1].time_s - after[0].time_s
        if seconds < LEAST_S:
            continue
        times = np.array([each.time_s for each in after]) - after[0].time_s
        slope, level, *_ = scipy.stats.theilslopes([each.own_kb for each in after], times)
        files, sockets, threads = (
            _ends([getattr(each, name) for each in after]) for name in ("files", "sockets", "threads")
        )
        growth = round(float(slope * seconds / level), 5)
        judged.append(Growth(program, life, round(seconds, 1), round(level), growth, files, sockets, threads))
    return judged


def judge(outcome: Outcome, plan: Plan, run: Mapping[str, Any], clients: Sequence[str]) -> dict[str, Any]:
    """Return what was found, as JSON values, with a list of verdicts. run: what the run says of itself."""
    grown = growths(outcome.samples)
    by_kind = {
        kind: [each for each in grown if kind_of(each.program) == kind] for kind in ("client", DRIVER, SUPERLINK)
    }
    verdicts = [_growth(kind, each) for kind, each in by_kind.items()]
    verdicts += [_handles(kind, each) for kind, each in by_kind.items()]
    visits = sum(run["outcomes"].values())
    log_bytes = sum(outcome.log_bytes.values()) / max(1, visits)
    last = {life.client: life for life in outcome.lives}  # in the order of time
    must = [life for life in outcome.lives if life.lived_s >= LIFE_S or life is last[life.client]]
    idle = sorted({life.client for life in must if not life.visits})
    returned = sum(life.life > 0 for life in outcome.lives)
    rises = run["last_accuracy"] - run["first_accuracy"]
    restarts = len(outcome.restarts)
    most = max((sample.temporary_files for sample in outcome.folders), default=0)
    crashed = [(name, code) for name, code in outcome.crashed if (name, code) != (DRIVER, _ABANDONED)]
    exits = {name: code for name, code in outcome.exits.items() if code not in _right(name)}
    verdicts += [
        Verdict(f"{len(plan.restarts)} restarts", f"{restarts}", restarts == len(plan.restarts)),
        Verdict("no client and no SuperLink ends by itself", _listed(crashed), not crashed),
        Verdict("all programs end well at the end", _listed(exits.items()), not exits),
        Verdict("no temporary file, shared memory or process is left", _listed(outcome.left), not outcome.left),
        Verdict("logs grow by at most 500 bytes per visit", f"{log_bytes:.0f} bytes", log_bytes <= LOG_BYTES),
        Verdict(
            "every client works in its last life, and in each that lasts two minutes",
            f"{len(last)} clients had {len(must)} such lives, of {len(outcome.lives)} ({returned} after a restart)"
            + (f"; without a visit: {_listed(idle)}" if idle else ""),
            not idle and last.keys() == set(clients),
        ),
        Verdict(
            "the run is resumed whenever the server is restarted",
            f"{run['resumed']} of {plan.of(DRIVER)}",
            run["resumed"] >= plan.of(DRIVER),
        ),
        Verdict("the run ends at its horizon", f"{run['ended']}", run["ended"] == "horizon"),
        Verdict("the model improves", f"{run['first_accuracy']:.1%} to {run['last_accuracy']:.1%}", rises > 0),
    ]
    memory = [each.proportional_kb for each in outcome.folders if each.proportional_kb is not None]
    return {
        "verdicts": [verdict._asdict() for verdict in verdicts],
        "growth": [asdict(each) for each in grown],
        "run": dict(run),
        "wall_s": round(outcome.wall_s, 1),
        "all_memory_mb": [round(each / 1024) for each in memory],
        "database_bytes": _first_and_last([each.database_bytes for each in outcome.folders]),
        "run_bytes": _first_and_last([each.run_bytes for each in outcome.folders]),
        "temporary_files": most,
        "log_bytes": {
            kind: sum(size for name, size in outcome.log_bytes.items() if kind_of(name) == kind) for kind in by_kind
        },
        "days": plan.days,
        "day_s": round(plan.day_s, 1),
        "steady": plan.steady,
        "restarts": {kind: sum(kind_of(each.program) == kind for each in outcome.restarts) for kind in by_kind},
        "killed": sum(each.killed for each in outcome.restarts),
        "abandoned": outcome.crashed.count((DRIVER, _ABANDONED)),
    }


def _growth(kind: str, grown: Sequence[Growth]) -> Verdict:
    demanded = f"{_NAMES[kind]}: memory of its own grows by less than 2 % after the warm-up"
    if not grown:
        return Verdict(demanded, "no life lasted long enough", False)
    values = np.array([each.growth for each in grown])
    worst = grown[int(values.argmax())]
    where = f"{worst.program}, over {worst.seconds:.0f} s"
    found = f"{np.median(values):+.2%} (median of {len(grown)}), at most {worst.growth:+.2%} ({where})"
    return Verdict(demanded, found, bool(values.max() < GROWTH))


def _handles(kind: str, grown: Sequence[Growth]) -> Verdict:
    demanded = f"{_NAMES[kind]}: no more open files after the warm-up"
    if not grown:
        return Verdict(demanded, "no life lasted long enough", False)
    more = [each.files[1] - each.files[0] for each in grown]
    worst = grown[int(np.argmax(more))]
    return Verdict(demanded, f"at most {worst.files[0]:g} to {worst.files[1]:g}", max(more) <= HANDLES)


def _right(program: str) -> tuple[int, ...]:
    """Return the exit codes of a program that ended well. uvicorn ends by the signal that it got."""
    return (-15, 0) if program == SUPERLINK else (0,)


def _ends(values: Sequence[int]) -> tuple[float, float]:
    """Return the medians of the first and the last quarter."""
    quarter = max(1, len(values) // 4)
    return float(np.median(values[:quarter])), float(np.median(values[-quarter:]))


def _first_and_last(values: Sequence[int]) -> list[int]:
    return [values[0], values[-1]] if values else []


def _listed(things: Any) -> str:
    shown = [str(each) if isinstance(each, str) else " ".join(map(str, each)) for each in things]
    return ", ".join(shown[:5]) + (f" and {len(shown) - 5} more" if len(shown) > 5 else "") if shown else "none"

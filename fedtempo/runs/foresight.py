"""Estimates before a run starts: how long visits take, and roughly how long the run will take."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.learning.training import Training
from fedtempo.parts.machine import usable_cpus
from fedtempo.runs.config import Config
from fedtempo.runs.world import World

if TYPE_CHECKING:
    from fedtempo.runtime.executors.job import Job

MOST_VISITS, MOST_EVALUATIONS = 10**10, 10**9
"""Longer runs are rejected."""
LONG_S = 3_600.0
"""A run that takes longer (real seconds) says so before it starts."""
ENDLESS_S = 365.25 * 86_400
"""A run that takes longer (real seconds) is rejected."""

_VISIT_S, _EVALUATION_S, _STEP_S = 2e-5, 1e-5, 1e-4
"""Lower bounds in real seconds: a visit on the clock, an evaluation's row, a step of a small network."""
_MOST_CLIENTS = 2_000
"""Largest number of clients looked at; larger fleets are sampled evenly."""


class VisitTimes(NamedTuple):
    """Mean seconds of a configured visit: fastest client, mean over clients, slowest client."""

    shortest_s: float
    mean_s: float
    longest_s: float


class Pace(NamedTuple):
    """Visits and commits per simulated second."""

    visits: float
    commits: float


def schedule_only(config: Config) -> Config:
    """Return the same run without training, to its horizon; clusters come from labels instead of models.

    Without clusters, or with a single one, it stays so.
    """
    changes: dict[str, Any] = {
        "executor.kind": "none",
        "data.tell_labels": True,
        "run.stop_at_target": False,
        "run.record": "all",
    }
    if config.run.patience is not None:
        changes["run.patience"] = None  # nothing is evaluated
    clustered = any(field.name == "clusters" for field in dataclasses.fields(config.strategy))  # type: ignore[arg-type]
    if clustered and config.strategy.clusters not in (1, None):  # type: ignore[attr-defined]
        changes["strategy.clusters"] = "labels"
    return config.with_changes(changes, label=config.label)


def visit_times(world: World, training: Training, down_bytes: int, up_bytes: int) -> VisitTimes:
    """Return mean visit times by the fleet's description, without waiting for others.

    down_bytes, up_bytes: of a download and an upload.
    """
    links, step = world.fleet.links, -(-len(world.clients) // _MOST_CLIENTS)
    looked_at = world.clients[::step]
    examples = [max(1, training.examples_per_visit(client.num_examples)) for client in looked_at]
    seconds = [
        links.download_s(client.id, down_bytes)
        + world.fleet.speed.client_mean_s(client.id, processed)
        + links.upload_s(client.id, up_bytes)
        for client, processed in zip(looked_at, examples)
    ]
    return VisitTimes(min(seconds), float(np.mean(seconds)), max(seconds))


def work_without_time(config: Config) -> str | None:
    """Return the setting that makes visits do more than one epoch if their times, in seconds per visit, ignore it."""
    compute, training = config.fleet.compute, config.training
    if compute.unit != "s/visit" or compute.ignore_work:
        return None
    if training.steps is not None:
        return f"training.steps = {training.steps}"
    return f"training.epochs = {training.epochs}" if training.epochs > 1 else None


def check_length(
    config: Config,
    world: World,
    training: Training,
    times: VisitTimes,
    job: Callable[[], Job] | None,
    pace: Callable[[], Pace | None],
    say: Callable[[str], None],
) -> None:
    """Announce roughly how long a run will take if that is more than an hour.

    job: the training job, None without training. pace: measures the schedule in a short trial. Raises ConfigError for
    a run of more than a year, or of more visits or evaluations than it could ever make.
    """
    run, n_clients = config.run, len(world.clients)
    steps = training.steps_per_visit(round(np.mean([client.num_examples for client in world.clients])))
    cost = _Cost(_VISIT_S if job is None else _VISIT_S + steps * _STEP_S / _workers(config), 0.0)
    longest = _longest(config, times, n_clients)
    if longest.real_s(cost) < LONG_S / 60 and longest.possible:
        return
    if job is not None and config.executor.device == "cpu":
        step_s, evaluation_s = _measured_s(job(), training)
        cost = _Cost(_VISIT_S + steps * step_s / _workers(config), evaluation_s)
    if longest.real_s(cost) < LONG_S and longest.possible:
        return
    length = _expected(config, times, longest, pace())
    if length.real_s(cost) < LONG_S and length.possible:
        return
    limits = {"run.horizon": run.horizon, "run.max_commits": run.max_commits}
    named = [f"{name} = {value:g}" for name, value in limits.items() if value is not None]
    total_s = length.real_s(cost)
    mostly_rows = 2 * length.evaluations * _EVALUATION_S > total_s or (
        length.visits <= MOST_VISITS and length.evaluations > MOST_EVALUATIONS
    )
    if mostly_rows:
        named.append(f"run.evaluate_every = {run.evaluate_every:g}")
        what, most = f"about {_count(length.evaluations)} evaluations", MOST_EVALUATIONS
    else:
        what = (
            f"about {_count(length.visits)} visits, each of {times.mean_s:.3g} s on the run's clock and {steps:,} steps"
        )
        most = MOST_VISITS
    line = f"{', '.join(named) or 'the run'}: {what}; that takes {duration(total_s)} of real time"
    if run.may_end_early or (total_s <= ENDLESS_S and length.possible):
        say(f"{line}, by a rough estimate")
    elif total_s > ENDLESS_S:
        raise ConfigError(f"{line}; {'evaluate less often' if mostly_rows else 'shorten the run or its visits'}")
    else:
        raise ConfigError(f"{line}, and at most {most:.0g} are possible; shorten the run or evaluate less often")


def _count(value: float) -> str:
    """ "500", "5e+13"."""
    return f"{value:,.0f}" if value < 1e6 else f"{value:.1g}"


class _Cost(NamedTuple):
    """Real seconds of a visit and of an evaluation."""

    visit_s: float
    evaluation_s: float


class _Length(NamedTuple):
    """Amount of work in a run. tested: evaluations of a model that has changed since the last one."""

    visits: float
    evaluations: float
    tested: float

    @property
    def possible(self) -> bool:
        return self.visits <= MOST_VISITS and self.evaluations <= MOST_EVALUATIONS

    def real_s(self, cost: _Cost) -> float:
        return self.visits * cost.visit_s + self.tested * cost.evaluation_s + self.evaluations * _EVALUATION_S


def _longest(config: Config, times: VisitTimes, n_clients: int) -> _Length:
    """Return an upper bound: all clients train all the time, and each commit waits for the slowest."""
    horizon_s, commits = _limits(config)
    if math.isinf(horizon_s) and math.isinf(commits):
        return _length(config, n_clients, times.longest_s)  # ends at an unknown time
    visits = min(n_clients * (horizon_s / times.shortest_s if times.shortest_s else math.inf), commits * n_clients)
    return _length(config, visits, min(horizon_s, commits * times.longest_s))


def _expected(config: Config, times: VisitTimes, longest: _Length, pace: Pace | None) -> _Length:
    """Return the length by the schedule's pace; if unknown, one client at a time with a commit each."""
    horizon_s, commits = _limits(config)
    if pace is None or not pace.visits:
        seconds = min(horizon_s, commits * times.mean_s)
        visits = min(seconds / times.mean_s if times.mean_s else math.inf, commits)
    else:
        seconds = min(horizon_s, commits / pace.commits if pace.commits else math.inf)
        visits = pace.visits * seconds
    return _length(config, visits, seconds) if math.isfinite(visits) else longest


def _limits(config: Config) -> tuple[float, float]:
    """Return the simulated seconds and the commits after which the run ends; infinite if unlimited."""
    run = config.run
    return math.inf if run.horizon is None else run.horizon, math.inf if run.max_commits is None else run.max_commits


def _length(config: Config, visits: float, seconds: float) -> _Length:
    run = config.run
    if config.executor.kind == "none":
        return _Length(visits, 0.0, 0.0)
    evaluations = visits if run.evaluate == "commit" else seconds / run.evaluate_every
    return _Length(visits, evaluations, min(evaluations, visits))


def duration(seconds: float) -> str:
    """ "about 3 hours", "about 12 days", "about 4e+07 years"."""
    for unit, size in (("years", ENDLESS_S), ("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            count = seconds / size
            return f"about {count:,.0f} {unit}" if count < 1e6 else f"about {count:.1g} {unit}"
    return f"about {seconds:.0f} seconds"


def _workers(config: Config) -> int:
    """Return the number of visits trained in parallel."""
    executor = config.executor
    if executor.kind in ("inline", "none"):
        return 1
    return executor.workers or usable_cpus()


def _measured_s(job: Job, training: Training) -> tuple[float, float]:
    """Return the seconds of one local step and of one evaluation, on an idle CPU."""
    from fedtempo.learning.evaluation import parts
    from fedtempo.learning.numerics import fixed_numerics
    from fedtempo.runtime.executors.job import Trainer

    trainer = Trainer(job, job.model())
    received = trainer.model.vector.numpy().copy()
    out, one = np.empty_like(received), replace(training, steps=1, statistics=frozenset())
    with fixed_numerics():
        trainer.train(received, out, 0, 1, one)  # the first takes longer than all others
        began = time.thread_time()
        trainer.train(received, out, 0, 1, one)
        step_s = time.thread_time() - began
        batches = job.test_parts
        if job.client_tests is not None:
            batches = [*batches, *parts(len(job.client_tests.x), job.evaluation_batch)]
        began = time.thread_time()
        trainer.evaluate_part(received, *batches[0])
    return step_s, (time.thread_time() - began) * len(batches)

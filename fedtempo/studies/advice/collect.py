"""Gathers the evidence for a recommendation: schedules without training, and short trainings.

1. The schedule of each strategy without training, to the horizon, shows how busy clients are. Some strategies have no
   schedule without training.
2. Short trainings: a few learning rates for each strategy on one seed, then its best one on the others.
3. The best few strategies again, with wrong estimates at the server and with lost visits.

The result depends only on the configuration and the number of trainings. A budget of real time only chooses that
number.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedtempo.errors import ConfigError, FedtempoError
from fedtempo.record.measures import client_seconds, energy_wh
from fedtempo.record.metric import measure_of
from fedtempo.runs.config import Config
from fedtempo.studies.advice.evidence import (
    AS_CONFIGURED,
    EFFORTS,
    SCENARIOS,
    Cost,
    Effort,
    Evidence,
    Outcome,
    Setting,
    scenario_changes,
)
from fedtempo.studies.competitors import competitors
from fedtempo.studies.plan import predict
from fedtempo.studies.same_work import check_same_work
from fedtempo.studies.tuning.trials import Changes, FinishedRun, attempt_all, best_accuracy

SHORT = 0.25
"""Length of a short training, as a share of the horizon."""
DEFAULT_EFFORT = EFFORTS[3]
_TUNING_SEED = 100
_LEAST_EVALUATIONS = 20


@dataclass(frozen=True)
class _Candidate:
    """A strategy with the summary of its schedule without training, and visits as configured and under each scenario.

    Both are empty if its schedule depends on training.
    """

    label: str
    config: Config
    summary: Mapping[str, Any]
    visits: Mapping[str, int]


def gather(
    base: Config,
    strategies: str | Iterable[str] | None = None,
    *,
    budget: int | float | None = None,
    short_s: float | None = None,
    workers: int = 1,
    say: Callable[[str], None] = lambda stage: None,
) -> tuple[Setting, list[Evidence], dict[str, str]]:
    """Gather the evidence for a recommendation.

    Returns how it was gathered, the evidence of all strategies that fit, best first, and why others were left out.

    strategies: names or labels, as in a comparison (default: all strategies and labels). budget: number of short
    trainings (int), or seconds of real time (float), for which one training is timed (default: enough for three
    learning rates, two seeds and three finalists). short_s: length of a training on the run's clock (default: a
    quarter of the horizon). workers: number of parallel trainings, which does not change the result. say: receives
    progress messages. Raises ConfigError for a configuration without a horizon, a budget that is too small, or if no
    strategy fits.
    """
    horizon_s = base.run.horizon
    if horizon_s is None:
        raise ConfigError("run.horizon is missing: advice compares what strategies reach within it")
    if (goal := base.run.goal) is not None and goal.name != "accuracy":
        raise ConfigError(f"run.target = {base.run.target}: advice compares times to an accuracy; set target_accuracy")
    short_s = SHORT * horizon_s if short_s is None else short_s
    if not 0 < short_s <= horizon_s:
        raise ConfigError(f"a short training of {short_s:g} s: must be above 0 and at most run.horizon = {horizon_s:g}")
    if strategies is None:
        strategies = ["all", *(label for label in base.variants if label not in competitors("all", base))]
    candidates, left_out = _candidates(base, competitors(strategies, base), say)
    say("choosing how much to train")
    effort = _affordable(base, candidates, budget, short_s, workers)
    seeds = tuple(base.run.seed + i for i in range(effort.seeds))
    setting = Setting(
        None if goal is None else goal.value,
        horizon_s,
        short_s,
        seeds,
        base.run.seed + _TUNING_SEED,
        effort,
        effort.trainings(len(candidates)),
    )

    def train(points: Sequence[_Point], seeds: Sequence[int]) -> list[list[FinishedRun] | str]:
        """Run short trainings of each point, one per seed; return its runs, or the error of the first that failed."""
        configs = [short(candidate.config, changes, short_s, seed) for candidate, changes in points for seed in seeds]
        results = iter(attempt_all(configs, workers=workers))
        return [_all_or_reason([next(results) for _ in seeds]) for _ in points]

    best: dict[str, tuple[Changes, bool]] = {candidate.label: ({}, False) for candidate in candidates}
    if effort.lr_points > 1:
        say(f"{len(candidates)} strategies, {effort.lr_points} learning rates each")
        best = _tuned(train, candidates, effort.lr_points, setting.tuning_seed, left_out)
    say(f"{len(best)} strategies, {len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'} each")
    points = [(candidate, best[candidate.label][0]) for candidate in candidates if candidate.label in best]
    trained: dict[str, list[FinishedRun]] = {}
    for (candidate, _), runs in zip(points, train(points, seeds)):
        if isinstance(runs, str):
            left_out[candidate.label] = runs
        else:
            trained[candidate.label] = runs
    if not trained:
        raise ConfigError(f"no strategy can train here: {_reasons(left_out)}")
    setting = replace(setting, measure=measure_of(next(iter(trained.values()))[0].summary["data"]))
    ranked = sorted(trained, key=lambda label: outcome(trained[label]).order)
    under: dict[str, dict[str, Outcome]] = {label: {} for label in ranked}
    finalists = [point for point in points if point[0].label in ranked[: effort.finalists]]
    if finalists:
        say(f"{len(finalists)} strategies again, {' and '.join(SCENARIOS.values())}")
        again = [(scenario, candidate, changes) for scenario in SCENARIOS for candidate, changes in finalists]
        changed = [
            (candidate, changes | scenario_changes(candidate.config, scenario))
            for scenario, candidate, changes in again
        ]
        for (scenario, candidate, _), runs in zip(again, train(changed, seeds)):
            if not isinstance(runs, str):
                under[candidate.label][scenario] = outcome(runs)
    by_label = {candidate.label: candidate for candidate in candidates}
    evidence = [_evidence(by_label[label], *best[label], trained[label], under[label]) for label in ranked]
    return setting, evidence, left_out


def _reasons(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{label}: {reason}" for label, reason in left_out.items())


def _candidates(
    base: Config, labels: Sequence[str], say: Callable[[str], None]
) -> tuple[list[_Candidate], dict[str, str]]:
    """Return the strategies that may fit, and why others do not."""
    candidates: list[_Candidate] = []
    left_out: dict[str, str] = {}
    for number, label in enumerate(labels, start=1):
        say(f"schedules without training: {label} ({number} of {len(labels)})")
        try:
            config = base.for_comparison(label)
            check_same_work((other.label, other.tables) for other in [*(known.config for known in candidates), config])
        except FedtempoError as error:
            left_out[label] = str(error)
            continue
        try:
            summary = predict(config, quiet=True).summary
            visits = {AS_CONFIGURED: summary["visits"]}
            for scenario in SCENARIOS:
                changed = config.with_changes(scenario_changes(config, scenario), label=label)
                visits[scenario] = predict(changed, quiet=True).summary["visits"]
            candidates.append(_Candidate(label, config, summary, visits))
        except FedtempoError:  # training shows whether the strategy can run at all
            candidates.append(_Candidate(label, config, {}, {}))
    if not candidates:
        raise ConfigError(f"no strategy fits this configuration: {_reasons(left_out)}")
    return candidates, left_out


_Point = tuple[_Candidate, Changes]
"""A strategy with the settings to try."""
_Train = Callable[[Sequence[_Point], Sequence[int]], list[list[FinishedRun] | str]]


def _all_or_reason(results: Sequence[FinishedRun | FedtempoError]) -> list[FinishedRun] | str:
    """Return the runs, or the error of the first one that failed."""
    errors = [str(result) for result in results if isinstance(result, FedtempoError)]
    return errors[0] if errors else [result for result in results if isinstance(result, FinishedRun)]


def short(config: Config, changes: Changes, short_s: float, seed: int) -> Config:
    """Return the configuration of a short training, which ends at the target and has at least twenty evaluations."""
    common: Changes = {
        "run.horizon": short_s,
        "run.evaluate_every": min(config.run.evaluate_every, short_s / _LEAST_EVALUATIONS),
        "run.stop_at_target": config.run.goal is not None,
        "run.record": "all",
        "run.seed": seed,
        "executor.kind": "inline",
    }
    return config.with_changes({**common, **changes}, label=config.label)


def _tuned(
    train: _Train, candidates: Sequence[_Candidate], points: int, seed: int, left_out: dict[str, str]
) -> dict[str, tuple[Changes, bool]]:
    """Return each strategy's best learning rate among its own times 3^k, and whether it is at an end of that range.

    A rate whose training fails counts as the worst; a strategy for which all fail is added to `left_out`.
    """
    factors = [3.0 ** (place - points // 2) for place in range(points)]
    tried = [
        (candidate, {"training.lr": float(f"{factor * candidate.config.training.lr:.2g}")})
        for candidate in candidates
        for factor in factors
    ]
    results = train(tried, [seed])
    best = {}
    for number, candidate in enumerate(candidates):
        indices = range(number * points, (number + 1) * points)
        orders = {i: outcome(runs).order for i in indices if not isinstance(runs := results[i], str)}
        if not orders:
            left_out[candidate.label] = str(results[indices[0]])
            continue
        chosen = min(orders, key=lambda i: (orders[i], i))
        best[candidate.label] = tried[chosen][1], chosen in (indices[0], indices[-1])
    return best


def outcome(runs: Sequence[FinishedRun]) -> Outcome:
    """Return the results of one strategy's runs; an accuracy that was never measured is below all others."""
    summaries = [run.summary for run in runs]
    return Outcome(
        times_s=tuple(summary["time_to_target_s"] for summary in summaries),
        accuracies=tuple(map(best_accuracy, summaries)),
        visits=statistics.fmean(summary["visits"] for summary in summaries),
        diverged=sum(summary.get("diverged") is not None for summary in summaries),
    )


def _evidence(
    candidate: _Candidate, changes: Changes, edge: bool, runs: Sequence[FinishedRun], under: Mapping[str, Outcome]
) -> Evidence:
    summaries = [candidate.summary] if candidate.summary else [run.summary for run in runs]
    stale = [summary["staleness"]["mean"] for summary in summaries if summary["staleness"]["mean"] is not None]
    energies = [energy_wh(run.records) for run in runs]
    known = [energy for energy in energies if energy is not None]
    cost = Cost(
        moved_bytes=statistics.fmean(sum(run.summary["bytes"][way] for way in ("down", "up", "relay")) for run in runs),
        client_hours=statistics.fmean(client_seconds(run.records) for run in runs) / 3600,
        energy_wh=statistics.fmean(known) if known else None,
    )
    return Evidence(
        label=candidate.label,
        changes={"training.lr": candidate.config.training.lr, **changes},
        edge=edge,
        busy_ratio=statistics.fmean(summary["busy_ratio"]["mean"] for summary in summaries),
        idlest=statistics.fmean(summary["busy_ratio"]["min"] for summary in summaries),
        staleness=statistics.fmean(stale) if stale else None,
        visits=candidate.visits,
        trained=outcome(runs),
        cost=cost,
        under=under,
    )


def _affordable(
    base: Config, candidates: Sequence[_Candidate], budget: int | float | None, short_s: float, workers: int
) -> Effort:
    """Return the largest effort that a budget covers. Raises ConfigError if it covers none."""
    n = len(candidates)
    if budget is None:
        return DEFAULT_EFFORT
    least = EFFORTS[0].trainings(n)
    if isinstance(budget, int):
        affordable = [effort for effort in EFFORTS if effort.trainings(n) <= budget]
        if not affordable:
            raise ConfigError(
                f"budget {budget}: {n} strategies need at least {least} trainings; raise it or name fewer strategies"
            )
        return affordable[-1]
    mean_s = _mean_training_s(candidates, short_s, base.run.seed + _TUNING_SEED) / workers
    affordable = [effort for effort in EFFORTS if effort.trainings(n) * mean_s <= budget]
    if not affordable:
        raise ConfigError(
            f"budget {budget:g} s: {least} short trainings take about {least * mean_s:.0f} s here; name fewer "
            "strategies, or make trainings shorter"
        )
    return affordable[-1]


def _mean_training_s(candidates: Sequence[_Candidate], short_s: float, seed: int) -> float:
    """Return the mean real seconds of a short training: one is timed, the others scale with their examples."""
    first = next((candidate for candidate in candidates if candidate.summary), candidates[0])
    began = time.perf_counter()
    (run,) = attempt_all([short(first.config, {"run.stop_at_target": False}, short_s, seed)], workers=1)
    took_s = time.perf_counter() - began
    if not isinstance(run, FinishedRun):
        raise run
    example_s = took_s / max(1, run.summary["examples_trained"])
    share = short_s / (first.config.run.horizon or short_s)
    trained = [candidate.summary["examples_trained"] for candidate in candidates if candidate.summary]
    examples: float = share * statistics.fmean(trained) if trained else run.summary["examples_trained"]
    return float(example_s * examples)

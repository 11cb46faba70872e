"""Gathers the evidence for a recommendation: schedules without training, and short trainings.

1. The schedule of each strategy without training, to the horizon: how busy clients are. Some have none.
2. Short trainings: a few learning rates for each strategy on one seed, then its best on others.
3. The first few again where the server's estimates are wrong, and where visits are lost.

All of it follows from the configuration and the number of trainings. A budget of real time does nothing but choose that
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
from fedtempo.studies.compare import competitors
from fedtempo.studies.plan import predict
from fedtempo.studies.same_work import check_same_work
from fedtempo.studies.tuning.trials import Changes, FinishedRun, attempt_all, best_accuracy

SHORT = 0.25
"""Share of the horizon that a short training lasts."""
DEFAULT_EFFORT = EFFORTS[3]
_TUNING_SEED = 100
_LEAST_EVALUATIONS = 20


@dataclass(frozen=True)
class _Candidate:
    """A strategy, and its schedule without training: a summary, and visits as configured and under each scenario.

    Both are empty where it has none, since what it trains decides who is next.
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
    """The evidence of all strategies that fit, best first, and why others were left out.

    strategies: names or labels, as in a comparison; all strategies and all labels where None. budget: short trainings
    (int), or seconds of real time (float), for which one training is timed; as many as three learning rates, two seeds
    and three finalists take where None. short_s: how long a training lasts, of the run's clock; a quarter of the
    horizon where None. workers: trainings at once, no result depends on it. say: told what is going on.
    Raises ConfigError for a configuration without a horizon, a budget that is too small, or where no strategy fits.
    """
    horizon_s = base.run.horizon
    if horizon_s is None:
        raise ConfigError("run.horizon is missing: strategies are compared by what they reach in so many seconds")
    short_s = SHORT * horizon_s if short_s is None else short_s
    if not 0 < short_s <= horizon_s:
        raise ConfigError(
            f"a short training of {short_s:g} s: it must be above 0 and at most run.horizon = {horizon_s:g}"
        )
    if strategies is None:
        strategies = ["all", *(label for label in base.variants if label not in competitors("all", base))]
    candidates, left_out = _candidates(base, competitors(strategies, base), say)
    say("choosing how much to train")
    effort = _affordable(base, candidates, budget, short_s, workers)
    seeds = tuple(base.run.seed + i for i in range(effort.seeds))
    setting = Setting(
        base.run.target_accuracy,
        horizon_s,
        short_s,
        seeds,
        base.run.seed + _TUNING_SEED,
        effort,
        effort.trainings(len(candidates)),
    )

    def train(asked: Sequence[_Asked], on: Sequence[int]) -> list[list[FinishedRun] | str]:
        """Short trainings of each, one a seed; what went wrong where one of them cannot be."""
        configs = [short(each.config, changes, short_s, seed) for each, changes in asked for seed in on]
        results = iter(attempt_all(configs, workers=workers))
        return [_all_or_reason([next(results) for _ in on]) for _ in asked]

    best: dict[str, tuple[Changes, bool]] = {each.label: ({}, False) for each in candidates}
    if effort.lr_points > 1:
        say(f"{len(candidates)} strategies, {effort.lr_points} learning rates each")
        best = _tuned(train, candidates, effort.lr_points, setting.tuning_seed, left_out)
    say(f"{len(best)} strategies, {len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'} each")
    asked = [(each, best[each.label][0]) for each in candidates if each.label in best]
    trained: dict[str, list[FinishedRun]] = {}
    for (each, _), runs in zip(asked, train(asked, seeds)):
        if isinstance(runs, str):
            left_out[each.label] = runs
        else:
            trained[each.label] = runs
    if not trained:
        raise ConfigError(f"no strategy can train here: {_reasons(left_out)}")
    setting = replace(setting, measure=measure_of(next(iter(trained.values()))[0].summary["data"]))
    ranked = sorted(trained, key=lambda label: outcome(trained[label]).order)
    under: dict[str, dict[str, Outcome]] = {label: {} for label in ranked}
    finalists = [(each, changes) for each, changes in asked if each.label in ranked[: effort.finalists]]
    if finalists:
        say(f"{len(finalists)} strategies again, {' and '.join(SCENARIOS.values())}")
        again = [(scenario, each, changes) for scenario in SCENARIOS for each, changes in finalists]
        changed = [(each, changes | scenario_changes(each.config, scenario)) for scenario, each, changes in again]
        for (scenario, each, _), runs in zip(again, train(changed, seeds)):
            if not isinstance(runs, str):
                under[each.label][scenario] = outcome(runs)
    by_label = {each.label: each for each in candidates}
    found = [_evidence(by_label[label], *best[label], trained[label], under[label]) for label in ranked]
    return setting, found, left_out


def _reasons(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{label}: {reason}" for label, reason in left_out.items())


def _candidates(
    base: Config, labels: Sequence[str], say: Callable[[str], None]
) -> tuple[list[_Candidate], dict[str, str]]:
    """The strategies that may fit, and why others do not."""
    found: list[_Candidate] = []
    left_out: dict[str, str] = {}
    for number, label in enumerate(labels, start=1):
        say(f"schedules without training: {label} ({number} of {len(labels)})")
        try:
            config = base.for_comparison(label)
            check_same_work((each.label, each.tables) for each in [*(one.config for one in found), config])
        except FedtempoError as error:
            left_out[label] = str(error)
            continue
        try:
            summary = predict(config, quiet=True).summary
            visits = {AS_CONFIGURED: summary["visits"]}
            for scenario in SCENARIOS:
                changed = config.with_changes(scenario_changes(config, scenario), label=label)
                visits[scenario] = predict(changed, quiet=True).summary["visits"]
            found.append(_Candidate(label, config, summary, visits))
        except FedtempoError:  # training tells whether it can be at all
            found.append(_Candidate(label, config, {}, {}))
    if not found:
        raise ConfigError(f"no strategy fits this configuration: {_reasons(left_out)}")
    return found, left_out


_Asked = tuple[_Candidate, Changes]
_Train = Callable[[Sequence[_Asked], Sequence[int]], list[list[FinishedRun] | str]]


def _all_or_reason(results: Sequence[FinishedRun | FedtempoError]) -> list[FinishedRun] | str:
    """The runs, or why one of them cannot be."""
    errors = [str(result) for result in results if isinstance(result, FedtempoError)]
    return errors[0] if errors else [result for result in results if isinstance(result, FinishedRun)]


def short(config: Config, changes: Changes, short_s: float, seed: int) -> Config:
    """A short training: it ends at the target, and is evaluated twenty times at least."""
    common: Changes = {
        "run.horizon": short_s,
        "run.evaluate_every": min(config.run.evaluate_every, short_s / _LEAST_EVALUATIONS),
        "run.stop_at_target": config.run.target_accuracy is not None,
        "run.record": "all",
        "run.seed": seed,
        "executor.kind": "inline",
    }
    return config.with_changes({**common, **changes}, label=config.label)


def _tuned(
    train: _Train, candidates: Sequence[_Candidate], points: int, seed: int, left_out: dict[str, str]
) -> dict[str, tuple[Changes, bool]]:
    """Each strategy's best learning rate of its own times 3^k, and whether it is at an end of these.

    A rate that cannot train counts as the worst; a strategy without any other is added to `left_out`.
    """
    factors = [3.0 ** (place - points // 2) for place in range(points)]
    asked = [
        (each, {"training.lr": float(f"{factor * each.config.training.lr:.2g}")})
        for each in candidates
        for factor in factors
    ]
    results = train(asked, [seed])
    found = {}
    for number, each in enumerate(candidates):
        own = range(number * points, (number + 1) * points)
        orders = {i: outcome(runs).order for i in own if not isinstance(runs := results[i], str)}
        if not orders:
            left_out[each.label] = str(results[own[0]])
            continue
        chosen = min(orders, key=lambda i: (orders[i], i))
        found[each.label] = asked[chosen][1], chosen in (own[0], own[-1])
    return found


def outcome(runs: Sequence[FinishedRun]) -> Outcome:
    """What runs of one strategy came to; what was never measured is below all that was."""
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
    stale = [each["staleness"]["mean"] for each in summaries if each["staleness"]["mean"] is not None]
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
        busy_ratio=statistics.fmean(each["busy_ratio"]["mean"] for each in summaries),
        idlest=statistics.fmean(each["busy_ratio"]["min"] for each in summaries),
        staleness=statistics.fmean(stale) if stale else None,
        visits=candidate.visits,
        trained=outcome(runs),
        cost=cost,
        under=under,
    )


def _affordable(
    base: Config, candidates: Sequence[_Candidate], budget: int | float | None, short_s: float, workers: int
) -> Effort:
    """The most that a budget buys. Raises ConfigError where it buys nothing."""
    n = len(candidates)
    if budget is None:
        return DEFAULT_EFFORT
    least = EFFORTS[0].trainings(n)
    if isinstance(budget, int):
        found = [effort for effort in EFFORTS if effort.trainings(n) <= budget]
        if not found:
            raise ConfigError(f"budget {budget}: {n} strategies need {least} trainings at least; or name fewer of them")
        return found[-1]
    mean_s = _mean_training_s(candidates, short_s, base.run.seed + _TUNING_SEED) / workers
    found = [effort for effort in EFFORTS if effort.trainings(n) * mean_s <= budget]
    if not found:
        raise ConfigError(
            f"budget {budget:g} s: {least} short trainings take about {least * mean_s:.0f} s here; name fewer "
            "strategies, or make trainings shorter"
        )
    return found[-1]


def _mean_training_s(candidates: Sequence[_Candidate], short_s: float, seed: int) -> float:
    """Real seconds that a short training takes on average: those of one, by the examples that each trains on."""
    first = next((each for each in candidates if each.summary), candidates[0])
    began = time.perf_counter()
    (run,) = attempt_all([short(first.config, {"run.stop_at_target": False}, short_s, seed)], workers=1)
    took_s = time.perf_counter() - began
    if not isinstance(run, FinishedRun):
        raise run
    each_s = took_s / max(1, run.summary["examples_trained"])
    share = short_s / (first.config.run.horizon or short_s)
    trained = [each.summary["examples_trained"] for each in candidates if each.summary]
    examples: float = share * statistics.fmean(trained) if trained else run.summary["examples_trained"]
    return float(each_s * examples)

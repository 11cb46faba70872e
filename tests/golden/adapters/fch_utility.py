"""FCH-FL's utility with its exemption, confidence bounds, and the choice of whom to aggregate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtempo.strategies.fch import gradient_distances
from fedtempo.strategies.planning.bandits import aggregate_choice, best_and_others, confidence_bounds, screen
from fedtempo.strategies.planning.utility import closeness, descending, exempt, penalised, time_factor
from tests.golden.compare import close

Answer = dict[str, Any]


def utility(given: Answer) -> Answer:
    ids, times, alpha, percent = np.array(given["ids"]), given["times"], given["alpha"], given["exempt_percent"]
    model = np.zeros(len(given["previous_global_gradient"]))
    distance = gradient_distances(
        model,
        models=[model - np.array(gradient) for gradient in given["gradients"]],
        previous=model + np.array(given["previous_global_gradient"]),
    )
    usefulness = closeness(distance)
    limit_s = float(np.median(times) if given.get("T") is None else given["T"])
    spared = exempt(usefulness, percent, ids)
    total = penalised(usefulness, times, limit_s, exponent=alpha, exempt_percent=percent, ids=ids)
    return {
        "distance": distance,
        "u": usefulness,
        "T": limit_s,
        "number_exempt": len(spared),
        "exempt": np.sort(ids[spared]),
        "R": time_factor(times, limit_s, alpha),
        "U": total,
        "ranking": ids[descending(total, ids)],
    }


def ucb(given: Answer) -> Answer:
    ids, m = np.array(given["ids"]), given["m"]
    bounds = confidence_bounds(given["mean_utility"], given["times_chosen"], given["t"], given["c"])
    kept = screen(bounds, ids, given["q"], m)
    return {"score": bounds, "order": ids[descending(bounds, ids)], "keep": len(kept), "kept": ids[kept]}


def aggregate(given: Answer) -> Answer:
    ids, m, epsilon = np.array(given["ids"]), given["m"], given["epsilon"]
    best, others = best_and_others(given["U"], ids, m, epsilon)
    chosen = aggregate_choice(given["U"], ids, m, epsilon, np.random.default_rng(0))
    assert set(best) <= set(chosen)
    assert len(set(chosen)) == len(chosen)
    return {
        "best": ids[best],
        "number_best": len(best),
        "number_random": len(chosen) - len(best),
        "random_from": np.sort(ids[others]),
    }


KINDS: dict[str, Callable[[Answer], Answer]] = {"utility": utility, "ucb": ucb, "aggregate_choice": aggregate}


def check(case: dict[str, Any]) -> None:
    expected = dict(case["expected"])
    for name in ("exempt", "random_from"):  # sets
        if name in expected:
            expected[name] = sorted(expected[name])
    close(KINDS[case["input"]["kind"]](case["input"]), expected, rel=1e-12, where=case["name"])

"""Oort's scores, counts, cut-off, exploration and pacer; the pacer asks before every round, as in Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtempo.strategies.planning import oort
from tests.golden.compare import close

Answer = dict[str, Any]


def statistical_utility(given: Answer) -> Answer:
    n_examples = oort.examples_trained(given["num_examples"], given["steps"], given["batch"] or 1)
    mean_squared = float(np.mean(np.square(given["losses"])))
    return {"B": n_examples, "utility": oort.statistical_utility(mean_squared, n_examples)}


def score(given: Answer) -> Answer:
    ids, k = np.array(given["ids"]), given["exploit"]
    found = oort.scores(
        given["utility"],
        given["last_round"],
        given["time"],
        round_number=given["round"],
        limit_s=float(given["T"]),
        exponent=given["alpha"],
        clip_quantile=given["clip_quantile"],
    )
    top = oort.admitted(found.score, ids, k, given["cutoff_fraction"])
    drawn = oort.exploitation(found.score, ids, k, given["cutoff_fraction"], np.random.default_rng(0))
    assert len(set(drawn)) == k
    assert set(drawn) <= set(top.order)
    return {
        **vars(found),
        "selection": {
            "k": k,
            "kth_score": top.kth_score,
            "cutoff": top.cut_off,
            "admitted": ids[top.order],
            "probability": top.chance,
        },
    }


def exploration_share(given: Answer) -> Answer:
    rounds, parameters = given["rounds"], (given["start"], given["decay"], given["minimum"])
    return {"share": [oort.exploration_share(number, *parameters) for number in rounds]}


def counts(given: Answer) -> Answer:
    found = oort.counts(given["asked"], given["exploration"], given["explored_free"], given["unexplored_free"])
    return {**dict(zip(("exploit", "explore", "fill_from_explored"), found)), "total": sum(found)}


def pacer(given: Answer) -> Answer:
    history, limits = given["utility_history"], [given["T0"]]
    for finished in range(1, len(history) + 1):
        fell = oort.utility_fell(history[:finished], given["window"])
        limits.append(limits[-1] + given["delta"] * fell)
    return {"T_before_round_1_2_...": {"checked_every_round_as_in_algorithm_1": limits}}


def explore_probability(given: Answer) -> Answer:
    return {"probability": oort.speed_chances(given["time"])}


KINDS: dict[str, Callable[[Answer], Answer]] = {
    function.__name__: function
    for function in (statistical_utility, score, exploration_share, counts, pacer, explore_probability)
}


def check(case: dict[str, Any]) -> None:
    expected = {key: value for key, value in case["expected"].items() if key != "not_required"}
    if case["input"]["kind"] == "score":
        expected = {k: v for k, v in expected.items() if k != "selection"} | {
            "selection": {k: v for k, v in expected["selection"].items() if k != "not_required"}
        }
    if case["input"]["kind"] == "pacer":
        schedules = expected["T_before_round_1_2_..."]
        name = "checked_every_round_as_in_algorithm_1"
        expected = {"T_before_round_1_2_...": {name: schedules[name]}}
    close(KINDS[case["input"]["kind"]](case["input"]), expected, rel=1e-12, where=case["name"])

"""Arithmetic of the global model: averages, mixtures, buffered and gradient steps, with weights by staleness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtempo.learning.aggregation import average, buffered_step, gradient_step, mix
from fedtempo.strategies.planning.staleness import constant, hinge, polynomial
from tests.golden.compare import close

Answer = dict[str, Any]


def vector(values: list[float]) -> Any:
    return np.array(values, dtype=np.float64)


def fedhusky_beta(given: Answer) -> Answer:
    return {"beta": [polynomial(gap, given["zeta"]) for gap in given["gaps"]]}


def fedhusky_mix(given: Answer) -> Answer:
    beta = polynomial(given["t"] - given["tau"], given["zeta"])
    new = mix(vector(given["global"]), vector(given["group"]), beta)
    return {"beta": beta, "new_global": new, "new_version": given["t"] + 1}


def fedhusky_sequence(given: Answer) -> Answer:
    model, version = vector(given["global"]), given["start_version"]
    betas, models = [], []
    for arrival in given["arrivals"]:
        betas.append(polynomial(version - arrival["tau"], given["zeta"]))
        model = mix(model, vector(arrival["group"]), betas[-1])
        models.append(model)
        version += 1
    return {"beta": betas, "globals": [model.tolist() for model in models], "final_version": version}


def fedasync(given: Answer) -> Answer:
    functions: dict[str, Callable[[int], float]] = {
        "constant": lambda x: constant(x),
        "polynomial": lambda x: polynomial(x, given["a"]),
        "hinge": lambda x: hinge(x, given["a"], given["b"]),
    }
    s = [functions[given["function"]](x) for x in given["staleness"]]
    alphas = [given["alpha"] * value for value in s]
    old, new = vector(given["global"]), vector(given["client_model"])
    return {"s": s, "alpha_t": alphas, "new_global": [mix(old, new, alpha).tolist() for alpha in alphas]}


def fedbuff(given: Answer) -> Answer:
    weights = [polynomial(x, given["exponent"]) for x in given["staleness"]]
    model, deltas = vector(given["global"]), [vector(delta) for delta in given["deltas"]]
    assert len(deltas) == given["K"]
    mean_update = buffered_step(np.zeros_like(model), deltas, weights)
    return {
        "weights": weights,
        "mean_update": mean_update,
        "new_global": buffered_step(model, deltas, weights, given["server_lr"]),
    }


def fedbuff_stream(given: Answer) -> Answer:
    model, version = vector(given["global"]), 0
    exponent = given.get("exponent", 0.5)
    buffer: list[tuple[float, Any]] = []
    commits = []
    for update in given["updates"]:
        buffer.append((polynomial(version - update["base_version"], exponent), vector(update["delta"])))
        if len(buffer) == given["K"]:
            weights, deltas = [weight for weight, _ in buffer], [delta for _, delta in buffer]
            model, version, buffer = buffered_step(model, deltas, weights, given["server_lr"]), version + 1, []
            commits.append({"version": version, "weights": weights, "global": model.tolist()})
    return {"commits": commits, "left_in_buffer": len(buffer)}


def fedavg(given: Answer) -> Answer:
    return {"average": average([vector(model) for model in given["models"]], given["num_examples"])}


def psfl_round(given: Answer) -> Answer:
    chains = []
    for sequence in given["sequences"]:
        model, chain = vector(given["global"]), []
        for visit in sequence:
            gradient = visit["a"] * (model - vector(visit["c"]))
            model = gradient_step(model, [gradient], [1], given["lr"])
            chain.append(model)
        chains.append(chain)
    ends = [chain[-1] for chain in chains]
    return {
        "chains": [[model.tolist() for model in chain] for chain in chains],
        "ends": [end.tolist() for end in ends],
        "new_global": average(ends),
    }


def csgd_step(given: Answer) -> Answer:
    gradients = [vector(gradient) for gradient in given["gradients"]]
    return {
        "mean_gradient": average(gradients, given["num_examples"]),
        "new_global": gradient_step(vector(given["global"]), gradients, given["num_examples"], given["lr"]),
    }


KINDS: dict[str, Callable[[Answer], Answer]] = {
    function.__name__: function
    for function in (
        fedhusky_beta,
        fedhusky_mix,
        fedhusky_sequence,
        fedasync,
        fedbuff,
        fedbuff_stream,
        fedavg,
        psfl_round,
        csgd_step,
    )
}


def check(case: dict[str, Any]) -> None:
    given = case["input"]
    expected = {key: value for key, value in case["expected"].items() if not key.startswith("not_this")}
    close(KINDS[given["kind"]](given), expected, rel=1e-12, abs=1e-16, where=case["name"])

"""Arithmetic of the global model in the functions that strategies use, with weights by staleness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtempo.learning.aggregation import average, mix
from fedtempo.strategies import FedAsync, FedBuff
from fedtempo.strategies.changes import add_changes
from fedtempo.strategies.planning.staleness import polynomial
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
    names = {"polynomial": {"a": "exponent"}, "hinge": {"a": "slope", "b": "knee"}}.get(given["function"], {})
    fields = {field: float(given[letter]) for letter, field in names.items()}
    strategy = FedAsync(staleness=given["function"], alpha=given["alpha"], **fields)
    s = [strategy.freshness(x) for x in given["staleness"]]
    alphas = [given["alpha"] * value for value in s]
    old, new = vector(given["global"]), vector(given["client_model"])
    return {"s": s, "alpha_t": alphas, "new_global": [mix(old, new, alpha).tolist() for alpha in alphas]}


def fedbuff(given: Answer) -> Answer:
    strategy = FedBuff(buffer=given["K"], exponent=given["exponent"], server_lr=given["server_lr"])
    weights = [strategy.freshness(x) for x in given["staleness"]]
    model, deltas = vector(given["global"]), [vector(delta) for delta in given["deltas"]]
    assert len(deltas) == given["K"]
    mean = commit(np.zeros_like(model), deltas, [weight / strategy.buffer for weight in weights])
    steps = [strategy.server_lr / strategy.buffer * weight for weight in weights]
    return {"weights": weights, "mean_update": mean, "new_global": commit(model, deltas, steps)}


def commit(model: Any, deltas: list[Any], weights: list[float]) -> Any:
    """The commit of FedBuff's strategy; clients that started from 0 end at their changes."""
    return add_changes(model, starts=[np.zeros_like(model)] * len(deltas), ends=deltas, weights=weights)


def fedbuff_stream(given: Answer) -> Answer:
    model, version = vector(given["global"]), 0
    strategy = FedBuff(buffer=given["K"], exponent=given.get("exponent", 0.5), server_lr=given["server_lr"])
    buffer: list[tuple[float, Any]] = []
    commits = []
    for update in given["updates"]:
        buffer.append((strategy.freshness(version - update["base_version"]), vector(update["delta"])))
        if len(buffer) == strategy.buffer:
            weights, deltas = [weight for weight, _ in buffer], [delta for _, delta in buffer]
            steps = [strategy.server_lr / strategy.buffer * weight for weight in weights]
            model, version, buffer = commit(model, deltas, steps), version + 1, []
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
            model = model - given["lr"] * gradient  # a client's step, which PyTorch takes in a run
            chain.append(model)
        chains.append(chain)
    ends = [chain[-1] for chain in chains]
    return {
        "chains": [[model.tolist() for model in chain] for chain in chains],
        "ends": [end.tolist() for end in ends],
        "new_global": average(ends),
    }


def csgd_step(given: Answer) -> Answer:
    """Clients take one step along their whole gradients; the mean of their models is a step along the mean (Eq. 5)."""
    model, gradients = vector(given["global"]), [vector(gradient) for gradient in given["gradients"]]
    ends = [model - given["lr"] * gradient for gradient in gradients]
    return {
        "mean_gradient": average(gradients, given["num_examples"]),
        "new_global": average(ends, given["num_examples"]),
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

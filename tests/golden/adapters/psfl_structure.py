"""PSFL's Eq. 21: coefficients, stationary points, the minimum on the reals and in whole numbers."""

from __future__ import annotations

import math
from typing import Any

from fedtempo.strategies.planning.structure import Constants, Structure, StructureProblem
from tests.golden.compare import close, same


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    constants = Constants(given["sigma2"], given["B"], given["t_mean"], given["kappa2"])
    n_clients = given["n_clients_per_round"]
    problem = StructureProblem(constants, n_clients, given["c0"])
    alpha, beta = problem.coefficients(n_clients)
    close([alpha, beta], [expected["alpha"], expected["beta"]], rel=1e-12, where="alpha, beta")
    if expected.get("alpha_over_beta") is not None:
        close(alpha / beta, expected["alpha_over_beta"], rel=1e-12, where="alpha_over_beta")
    close(problem.objective(1.0), expected["objective_at_W1"], rel=1e-9, where="objective_at_W1")
    close(problem.objective(n_clients), expected["objective_at_WN"], rel=1e-9, where="objective_at_WN")
    at_one, just_above = (float(problem.objective(width)) for width in (1.0, 1.0 + 1e-12))
    same(n_clients == 1 or at_one <= just_above, expected["W1_is_a_local_minimum"], "W1_is_a_local_minimum")

    optimum = problem.optimum()
    minima = [] if optimum.local_minimum is None else [optimum.local_minimum]
    maxima = [] if optimum.local_maximum is None else [optimum.local_maximum]
    close(minima, expected["interior_local_minima"], rel=1e-5, where="interior_local_minima")
    close(maxima, expected["interior_local_maxima"], rel=1e-5, where="interior_local_maxima")
    same(not maxima, expected["unimodal"], "unimodal")
    close([optimum.width, optimum.length], [expected["W_real"], expected["S_real"]], rel=1e-5, where="W_real, S_real")
    close(optimum.objective, expected["objective"], rel=1e-9, where="objective")
    where = {1.0: "W=1", float(n_clients): "W=N"}.get(optimum.width, "interior")
    same("W=1" if n_clients == 1 else where, expected["minimum_is"], "minimum_is")
    if "printed_S" in expected:
        close(
            optimum.length - expected["printed_S"], expected["difference_S"], rel=1e-3, abs=1e-6, where="difference_S"
        )
        close(optimum.width - expected["printed_W"], expected["difference_W"], rel=1e-3, abs=1e-6, where="difference_W")

    whole = expected["integer"]
    nearest = problem.structure("nearest")
    same([nearest.length, nearest.width], [whole["S"], whole["W"]], "integer")
    rounded = [math.floor(optimum.length + 0.5), math.floor(optimum.width + 0.5)]
    same(rounded, whole["nearest_unclipped"], "nearest_unclipped")
    same(rounded != [nearest.length, nearest.width], whole["clipped"], "clipped")
    close(problem.time_bound(nearest), whole["time_bound_factor"], rel=1e-9, where="time_bound_factor")
    best = problem.structure("best")
    same([best.length, best.width], whole["best_floor_ceil_pair"], "best_floor_ceil_pair")
    if whole.get("best_of_all_pairs") is not None:
        pairs = [Structure(w, s) for w in range(1, n_clients + 1) for s in range(1, n_clients // w + 1)]
        least = min(map(problem.time_bound, pairs))
        close(least, whole["best_of_all_pairs_factor"], rel=1e-9, where="best_of_all_pairs_factor")
        length, width = whole["best_of_all_pairs"]
        close(problem.time_bound(Structure(width, length)), least, rel=1e-9, where="best_of_all_pairs")
    if "case2_h" in expected:
        _check_case_two(problem, expected["case2_h"])


def _check_case_two(problem: StructureProblem, expected: dict[str, Any]) -> None:
    """The paper's h(W) = a sqrt(W ln W) + b/W: Eq. 21 without its last term, over beta sqrt(2 kappa^2 N0)."""
    alpha, beta = problem.coefficients(problem.clients_per_round)
    unit = beta * math.sqrt(2 * problem.constants.visit_variance * problem.clients_per_round)
    b = beta * problem.clients_per_round * problem.constants.visit_s / unit
    close([alpha / beta, b], [expected["a"], expected["b"]], rel=1e-12, where="case2_h a, b")
    close(b * beta / alpha, expected["b_over_a"], rel=1e-12, where="b_over_a")

    def h(width: float) -> float:
        return float(problem.objective(width)) / unit - math.sqrt(math.log(width) / width)

    least = expected["W_h"]
    assert h(least) < min(h(least * (1 - 1e-4)), h(least * (1 + 1e-4))), f"h has no minimum at {least}"
    greatest = 1 + expected["root_that_is_a_maximum_minus_1"]
    around = (1 + f * expected["root_that_is_a_maximum_minus_1"] for f in (0.9, 1.1))
    assert h(greatest) > max(map(h, around)), f"h has no maximum at {greatest}"
    same(least > math.sqrt(math.e), expected["paper_rule_W_larger_than_sqrt_e"], "paper_rule_W_larger_than_sqrt_e")

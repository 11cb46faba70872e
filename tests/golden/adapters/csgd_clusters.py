"""CS-GD's clusters: thresholds, hull, sizes, members, the largest feasible number, and spectral utilisation."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from fedtempo.errors import ConfigError
from fedtempo.strategies.planning.pipeline import cluster_by_time, largest_n_clusters, openings, utilisation
from tests.golden.compare import close, same


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    tau, tau_com, extra, k = given["tau"], given["tau_com"], given["delta_global"], given["K"]
    largest = largest_n_clusters(tau, tau_com, extra)
    assert largest is not None
    same([largest, largest - 1], [expected["largest_K_eq21"], expected["largest_K_eq22"]], "largest K")
    close(openings(max(tau) + extra, k, tau_com), expected["theta"], rel=1e-9, abs=1e-9, where="theta")
    if not expected["feasible"]:
        with pytest.raises(ConfigError, match=rf"n_clusters = {k}: .* is {largest}$"):
            cluster_by_time(tau, k, tau_com, extra)
        return
    found = cluster_by_time(tau, k, tau_com, extra)
    close(found.opens_s, expected["theta"], rel=1e-9, abs=1e-9, where="theta")
    same(found.done, expected["pi"], "pi")
    same(found.hull, expected["hull"], "hull")
    close([float(size) for size in found.relaxed], expected["delta"], rel=1e-9, where="delta")
    same(found.sizes, expected["sizes"], "sizes")
    same([sum(found.sizes[: n + 1]) for n in range(k)], expected["omega"], "omega")
    same(found.members, expected["clusters"], "clusters")
    same([n for n, size in enumerate(found.sizes) if not size], expected["empty_clusters"], "empty_clusters")
    if expected.get("order") is not None:
        same(sorted(range(len(tau)), key=lambda m: (tau[m], m)), expected["order"], "order")
    sums = [sum(found.relaxed[: n + 1], Fraction(0)) for n in range(k)]
    same(any(total.denominator == 2 for total in sums), expected["rounding_hits_a_half"], "rounding_hits_a_half")
    apart = sum(math.floor(size + Fraction(1, 2)) for size in found.relaxed)
    same(apart == len(tau), expected["separately_rounded_sizes_sum_to_M"], "separately_rounded_sizes_sum_to_M")
    mean = Fraction(len(tau), k)
    for sizes, name in ((found.relaxed, "objective_real"), (found.sizes, "objective_integer")):
        close(float(sum((size - mean) ** 2 for size in sizes)), expected[name], rel=1e-9, abs=1e-9, where=name)
    use = {
        "eq8": utilisation(1, tau_com, max(tau), given["tau_server"]),
        "eq9": utilisation(k, tau_com, max(tau), given["tau_server"]),
        "eq19": utilisation(k, tau_com, max(tau), given["tau_server"], extra),
    }
    close(use, expected["efficiency"], rel=1e-9, where="efficiency")

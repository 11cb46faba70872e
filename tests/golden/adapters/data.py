"""Golden cases of partitions and their parts against `fedtempo.data`, `fedtempo.fleet` and `planning.deadline`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedtempo.data import extended_dirichlet, shares
from fedtempo.data.dealing import histogram
from fedtempo.data.dirichlet import Dirichlet, ExtendedDirichlet
from fedtempo.fleet.distributions import Zipf
from fedtempo.strategies.planning.deadline import imbalances
from tests.golden.compare import close, same

ABS = 1e-12


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    kinds = {
        "long_tail": _long_tail,
        "zipf": _zipf,
        "exdir_minimum_owners": _exdir_minimum_owners,
        "exdir_cut": _exdir_cut,
        "exdir_invariants": _exdir_invariants,
        "dirichlet_per_client": _dirichlet_zero,
        "class_share": _class_share,
        "largest_remainder": _largest_remainder,
        "coefficient_of_variation": _coefficient_of_variation,
    }
    kinds[given["kind"]](given, expected)


def _long_tail(given: dict[str, Any], expected: dict[str, Any]) -> None:
    counts = shares.long_tail_counts(given["n_max"], given["imbalance"], given["classes"])
    same(counts, expected["counts"], "counts")
    same(int(counts.sum()), expected["total"], "total")


def _zipf(given: dict[str, Any], expected: dict[str, Any]) -> None:
    law = Zipf(given["exponent"], given["low"], given["high"])
    actual = {
        "pmf": law.pmf,
        "pmf_first_10": law.pmf[:10],
        "pmf_last": law.pmf[-1],
        "normaliser": law.normaliser,
        "mean": law.expectation,
    }
    wanted = dict(expected)
    same([int(k) for k in law.inverse_cdf(given["uniforms"])], wanted.pop("inverse_cdf"), "inverse_cdf")
    close(actual, wanted, abs=ABS)


def _exdir_minimum_owners(given: dict[str, Any], expected: dict[str, Any]) -> None:
    clients, classes, own = given["clients"], given["classes"], given["classes_per_client"]
    same(extended_dirichlet.minimum_owners(clients, classes, own), expected["minimum_owners"], "minimum_owners")
    same(extended_dirichlet.owners_fit(clients, classes, own), expected["possible"], "possible")
    same(clients * own, expected["owner_slots"], "owner_slots")
    close(clients * own / classes, expected["mean_owners"], where="mean_owners")


def _exdir_cut(given: dict[str, Any], expected: dict[str, Any]) -> None:
    dealt = extended_dirichlet.cut_among_owners(
        given["examples"], given["dirichlet_shares"], given["owner_sizes_before"], given["full_at"]
    )
    same(dealt, expected["counts"], "counts")
    if expected["counts"] is None:
        unmasked = extended_dirichlet.cut(given["examples"], given["dirichlet_shares"])
        same(unmasked, expected["counts_with_unmasked_shares"], "counts_with_unmasked_shares")


def _exdir_invariants(given: dict[str, Any], expected: dict[str, Any]) -> None:
    clients, classes, own = given["clients"], given["classes"], given["classes_per_client"]
    labels = np.repeat(np.arange(classes), given["examples_per_class"])
    owned = extended_dirichlet.draw_owners(clients, classes, own, 1000, np.random.default_rng(1))
    same([len(set(row)) for row in owned.tolist()], [expected["classes_per_client_exactly"]] * clients, "classes")
    assert np.bincount(owned.ravel(), minlength=classes).min() >= expected["minimum_owners_per_class"]
    partition = ExtendedDirichlet(own, given["alpha"])
    parts = partition.assign(labels, classes, clients, None, np.random.default_rng(1))
    every = np.concatenate(parts)
    same(len(every), expected["total"], "total")
    same(len(np.unique(every)) == len(labels), expected["every_example_once"], "every_example_once")
    assert min(map(len, parts)) >= expected["smallest_client_at_least"]
    held = [np.count_nonzero(histogram(labels, part, classes)) for part in parts]
    assert max(held) <= expected["classes_per_client_exactly"]


def _dirichlet_zero(given: dict[str, Any], expected: dict[str, Any]) -> None:
    clients, classes, size = given["clients"], given["classes"], given["examples_per_client"]
    labels = np.arange(2 * clients * size) % classes
    parts = Dirichlet(given["alpha"]).assign(labels, classes, clients, size, np.random.default_rng(1))
    histograms = [histogram(labels, part, classes) for part in parts]
    label_of = [int(h.argmax()) for h in histograms]
    same(label_of, expected["label_of_client"], "label_of_client")
    same(histograms[:12], expected["histograms_first_12"], "histograms_first_12")
    same(np.bincount(label_of, minlength=classes), expected["clients_per_label"], "clients_per_label")


def _class_share(given: dict[str, Any], expected: dict[str, Any]) -> None:
    classes = round(given["b"] - 0.5)
    same([given["a"], given["b"]], [0.5, classes + 0.5], "bounds")
    std = math.inf if given["sigma"] == "inf" else given["sigma"]
    ratio = shares.class_share(given["mu"], std, classes)
    close(ratio, expected["r"], abs=ABS, where="r")
    close(float(ratio @ np.arange(1, classes + 1)), expected["mean_classes"], where="mean_classes")
    same(shares.largest_remainder(given["clients"], ratio), expected["clients"], "clients")


def _largest_remainder(given: dict[str, Any], expected: dict[str, Any]) -> None:
    same(shares.largest_remainder(given["total"], given["shares"]), expected["counts"], "counts")


def _coefficient_of_variation(given: dict[str, Any], expected: dict[str, Any]) -> None:
    counts = given["class_counts"]
    printed, true = expected["as_printed_variance_over_mean"], expected["true_standard_deviation_over_mean"]
    close(imbalances(counts, "printed"), printed, where="as printed")
    close(imbalances(counts, "true"), true, where="true")

"""PSFL's sampling: time classes, and how often the draws hold each client; exact chances against the tests' oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.strategies.planning.sampling import (
    partition_sequences,
    time_classes,
    uniform_sequences,
    weighted_chances,
    weighted_sequences,
)
from tests.golden.compare import close, same
from tests.strategies.planning.inclusion import (
    partition_inclusion,
    uniform_inclusion,
    weighted_inclusion,
    within_binomial_bounds,
)

ROUNDS = 500


def check(case: dict[str, Any]) -> None:
    times, length, n_sequences = case["input"]["times"], case["input"]["S"], case["input"]["W"]
    expected = case["expected"]
    if not expected["feasible"]:
        with pytest.raises(ConfigError):
            partition_sequences(times, length, n_sequences, np.random.default_rng(0))
        return
    classes = time_classes(times, length)
    same(classes, expected["classes"], "classes")
    same([len(members) for members in classes], expected["class_sizes"], "class_sizes")
    in_round, one_place = partition_inclusion(times, length, n_sequences)
    close(in_round, expected["partition_in_round"], abs=1e-9, where="partition_in_round")
    close(one_place, expected["partition_one_slot"], abs=1e-9, where="partition_one_slot")
    same(bool(np.allclose(one_place, 1 / len(times), rtol=1e-12)), expected["unbiased"], "unbiased")
    uniform_in_round, uniform_one_place = uniform_inclusion(len(times), length, n_sequences)
    close(uniform_in_round, expected["uniform_in_round"], abs=1e-9, where="uniform_in_round")
    close(uniform_one_place, expected["uniform_one_slot"], abs=1e-9, where="uniform_one_slot")
    chances = weighted_chances(times)
    close(chances, expected["weighted_one_draw"], abs=1e-9, where="weighted_one_draw")
    if expected["weighted_in_round_without_replacement"] is not None:
        weighted = weighted_inclusion(times, length, n_sequences)
        close(weighted, expected["weighted_in_round_without_replacement"], rel=0, abs=1e-7, where="weighted_in_round")
    seconds = {
        "partition": length * np.dot(times, one_place),
        "uniform": length * np.dot(times, np.full(len(times), uniform_one_place)),
        "weighted_with_replacement": length * np.dot(times, chances),
    }
    close(seconds, expected["expected_sequence_time"], rel=1e-9, where="expected_sequence_time")

    drawn = partition_sequences(times, length, n_sequences, np.random.default_rng(0))
    class_of = {client: number for number, members in enumerate(expected["classes"]) for client in members}
    same(
        [sorted(class_of[client] for client in sequence) for sequence in drawn.tolist()],
        [list(range(length))] * n_sequences,
        "one client of each class",
    )
    same(len(np.unique(drawn)), length * n_sequences, "nobody twice")

    rng = np.random.default_rng(1)
    for draw, chance in (
        (lambda: partition_sequences(times, length, n_sequences, rng), expected["partition_in_round"]),
        (lambda: uniform_sequences(len(times), length, n_sequences, rng), expected["uniform_in_round"]),
        (
            lambda: weighted_sequences(times, length, n_sequences, rng),
            expected["weighted_in_round_without_replacement"],
        ),
    ):
        if chance is not None:
            counts = np.bincount(np.ravel([draw() for _ in range(ROUNDS)]), minlength=len(times))
            within_binomial_bounds(counts, np.minimum(chance, 1.0), ROUNDS)

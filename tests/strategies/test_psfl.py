"""PSFL on the clock: sequences of one client from each class of speed, participation, and computed structures."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.fleet.distributions import distribution
from fedtempo.record import Records
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.strategies.planning.sampling import partition_sequences, uniform_sequences, weighted_sequences
from fedtempo.strategies.psfl import Psfl
from fedtempo.strategies.psfl_warmup import gradient_spread
from tests.runtime.world import play
from tests.strategies.planning.inclusion import (
    partition_inclusion,
    uniform_inclusion,
    weighted_inclusion,
    within_binomial_bounds,
)

TIMES = [0.5, 4.0, 1.0, 2.0, 2.5, 8.0, 3.0]
TABLE_ONE = {"gradient_variance": 1.0, "gradient_spread": 0.4259, "visit_s": 2.5, "visit_variance": 1.0}


def sequences_of(records: Records, per_round: int) -> list[list[list[int]]]:
    """Return the clients of each sequence in order, for each round."""
    visits = records.visits
    found: dict[int, list[tuple[float, int]]] = {}
    for group, started, client in zip(*(visits[name].tolist() for name in ("group", "started", "client"))):
        found.setdefault(group, []).append((started, client))
    ordered = [[client for _, client in sorted(found[group])] for group in sorted(found)]
    return [ordered[i : i + per_round] for i in range(0, len(ordered), per_round)]


def test_a_round_lasts_as_long_as_its_slowest_sequence() -> None:
    _, records = play(Psfl(width=2, length=3), compute=TIMES, clients=7, horizon=60.0)
    ends = [0.0, *records.commits["time"].tolist()]
    rounds = sequences_of(records, 2)
    assert len(ends) > 3
    for sequences, (start, end) in zip(rounds, itertools.pairwise(ends)):
        assert end - start == pytest.approx(max(sum(TIMES[c] for c in own) for own in sequences))
        assert len({client for own in sequences for client in own}) == 6
        for own in sequences:  # classes of speed: {0, 2, 3}, {4, 6}, {1, 5}
            assert sorted({0: 0, 2: 0, 3: 0, 4: 1, 6: 1, 1: 2, 5: 2}[client] for client in own) == [0, 1, 2]
    assert records.note("structure") == {"width": 2, "length": 3}


def test_participation_follows_partition_sampling() -> None:
    rounds = 10_000
    _, records = play(Psfl(width=2, length=3), compute=TIMES, clients=7, horizon=None, max_commits=rounds)
    counts = np.bincount(records.visits["client"][: rounds * 6], minlength=7)
    within_binomial_bounds(counts, partition_inclusion(TIMES, 3, 2)[0], rounds)


@pytest.mark.parametrize("kind", ["uniform", "weighted"])
def test_participation_follows_the_rival_samplings(kind: str) -> None:
    rounds = 10_000
    rng = np.random.default_rng(0)
    strategy = Psfl(width=2, length=3, sampling=kind)  # type: ignore[arg-type]
    drawn = np.concatenate([strategy.sequences(TIMES, (2, 3), rng).ravel() for _ in range(rounds)])  # type: ignore[arg-type]
    chance = uniform_inclusion(7, 3, 2)[0] if kind == "uniform" else weighted_inclusion(TIMES, 3, 2)
    within_binomial_bounds(np.bincount(drawn, minlength=7), chance, rounds)


@pytest.mark.parametrize("length", [3, 4, 5])
@pytest.mark.parametrize(
    "spread",
    [
        {"kind": "uniform", "low": 0.5, "high": 4.5},
        {"kind": "exponential", "mean": 2.5},
        {"kind": "normal", "mean": 2.5, "std": 1.0},
        {"kind": "discrete", "values": [0.5, 1.0, 2.0, 4.0, 5.0]},
    ],
    ids=lambda spread: spread["kind"],
)
def test_rounds_of_partition_sampling_are_shorter_and_steadier(spread: dict[str, Any], length: int) -> None:
    """Fig. 6, N = 500 and 20 clients a round: mean and standard deviation differ by more than their errors explain.

    The standard deviation of heavy-tailed times is known less well, so that it takes more rounds.
    """
    rng = np.random.default_rng(2)
    rounds, width = 4000 if spread["kind"] == "exponential" else 1000, 20 // length
    means = distribution(spread).draw(rng, 500)

    def round_times(draw: Any) -> np.ndarray:
        chosen = np.array([draw() for _ in range(rounds)])
        visits = means[chosen] * np.maximum(1 + 0.2 * rng.standard_normal(chosen.shape), 0.01)
        times: np.ndarray = visits.sum(axis=2).max(axis=1)
        return times

    partition = round_times(lambda: partition_sequences(means, length, width, rng))
    uniform = round_times(lambda: uniform_sequences(500, length, width, rng))
    assert uniform.mean() - partition.mean() > 5 * np.sqrt((partition.var() + uniform.var()) / rounds)
    errors = [
        np.square(np.square(t - t.mean()) - t.var()).mean() / (4 * t.var() * rounds) for t in (partition, uniform)
    ]
    assert uniform.std() - partition.std() > 3 * np.sqrt(sum(errors))


def test_weighted_sampling_prefers_fast_clients() -> None:
    rng = np.random.default_rng(0)
    means = rng.uniform(0.5, 4.5, 100)
    chosen = np.concatenate([weighted_sequences(means, 4, 5, rng).ravel() for _ in range(200)])
    assert means[chosen].mean() < means.mean() - 5 * means.std() / np.sqrt(len(chosen))


def test_classes_follow_the_observed_times() -> None:
    prior = {"kind": "observed", "prior_s": 2.0}
    _, records = play(Psfl(width=2, length=2), compute=[4.0, 1.0, 3.0, 2.0], estimates=prior, horizon=200.0)
    first, *later = sequences_of(records, 2)
    assert sorted(client for own in first for client in own) == [0, 1, 2, 3]
    assert len(later) > 10
    complete = [own for sequences in later for own in sequences if len(own) == 2]
    assert all(len(set(own) & {1, 3}) == 1 for own in complete)


def test_a_lost_client_is_skipped_and_an_empty_round_costs_its_expected_time() -> None:
    late = {"kind": "windows", "windows": [[(10.0, 999.0)]] * 4}
    _, records = play(Psfl(width=2, length=2), compute=4.0, availability=late, horizon=40.0)
    assert records.commits["time"].tolist() == [16.0, 24.0, 32.0, 40.0]
    _, away = play(Psfl(width=2, length=2), compute=4.0, availability={"kind": "dropout", "probability": 0.5})
    assert 0.3 < (away.visits["outcome"] == "unavailable").mean() < 0.7
    assert away.commits["version"].size > 50


def test_configured_constants_are_solved_without_training() -> None:
    strategy = Psfl(clients_per_round=20, constants=TABLE_ONE)
    _, records = play(strategy, compute=1.0, clients=30, horizon=20.0)
    assert records.note("structure") == {"width": 5, "length": 4}
    assert records.commits["time"].tolist() == [4.0, 8.0, 12.0, 16.0, 20.0]


def test_without_training_a_structure_or_its_constants_must_be_configured() -> None:
    with pytest.raises(ConfigError, match=r"strategy\.width and strategy\.length are missing.*strategy\.constants"):
        play(Psfl(), compute=1.0)


def test_impossible_structures_are_named() -> None:
    with pytest.raises(ValidationError, match="width and length go together"):
        Psfl(width=2)
    with pytest.raises(ValidationError, match="must not exceed clients_per_round = 5"):
        Psfl(width=2, length=3, clients_per_round=5)
    with pytest.raises(ConfigError, match=r"width = 2 times strategy\.length = 3 must not exceed the number of clie"):
        play(Psfl(width=2, length=3), clients=5)
    with pytest.raises(ConfigError, match=r"strategy\.constants\.gradient_spread"):
        Psfl(constants={**TABLE_ONE, "gradient_spread": -1.0})


def test_the_spread_of_gradients_is_estimated_from_a_step_of_unknown_size() -> None:
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=20), rng.normal(size=(5, 20))
    models = [start - 0.03 * gradient for gradient in gradients]
    norms = [float(np.linalg.norm(gradient)) for gradient in gradients]
    expected = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert gradient_spread(start, models=models, norms=norms) == pytest.approx(expected, rel=1e-9)
    assert gradient_spread(start, models=[start] * 5, norms=[0.0] * 5) == 0.0


@pytest.mark.parametrize("variance_of", ["batch", "example"])
def test_a_warmup_measures_the_constants_of_the_structure(variance_of: str) -> None:
    """Clients with one label each differ more than clients with similar data; the warm-up takes its slowest visits."""

    def measured(partition: Any) -> tuple[dict[str, float], dict[str, int], float]:
        config = parse(
            {
                "run": {"max_commits": 4, "evaluate": "commit"},
                "data": {"clients": 10, "examples_per_client": 40, "test_examples": 50, "partition": partition},
                "model": {"network": "logistic"},
                "training": {"lr": 0.1, "batch_size": 10},
                "fleet": {
                    "compute": {"unit": "s/visit", "speed": list(range(1, 11)), "variation": 0.2},
                    "link": "none",
                    "estimates": "exact",
                },
                "strategy": {"name": "psfl", "warmup_rounds": 3, "variance_of": variance_of},
                "executor": {"kind": "inline"},
            }
        )
        _, records, _ = run(config)
        return records.note("constants"), records.note("structure"), float(records.commits["time"][2])

    alike, wide, _ = measured("iid")
    apart, narrow, warm_s = measured({"kind": "dirichlet", "alpha": 0.0})
    assert apart["gradient_spread"] > 10 * alike["gradient_spread"]
    assert narrow["width"] < wide["width"]
    # Similar data: a client's gradient is the mean of 40 examples, and a batch's that of 10.
    assert alike["gradient_spread"] < alike["gradient_variance"]
    assert apart["visit_s"] == alike["visit_s"] == pytest.approx(5.5, abs=5 * 0.2 * 5.5 / 30**0.5)
    assert apart["visit_variance"] == pytest.approx(0.04 * 38.5 * 2 / 3, rel=0.9)
    assert warm_s == pytest.approx(30.0, abs=5 * 0.2 * 10 * 3**0.5)

"""FAVAS: changes divided by the number of steps to expect, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from fedtempo.learning.training import Training
from fedtempo.strategies import FAVAS
from fedtempo.strategies.favas import unbiased_mean
from fedtempo.strategies.planning.polls import Expected
from tests.runtime.learning import Built, learn
from tests.runtime.world import play
from tests.strategies.test_quafl import CLIENTS, line


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("divide_by", ["expected", "taken"])
def test_clients_with_one_step_and_with_two_count_the_same(divide_by: str) -> None:
    """s = n = 3, K = 2 steps with 1/8, w = 1. Sums of powers of 2: the arithmetic is exact.

    A step takes 1 s at client 0, 3 s at client 1 and 5 s at client 2; polls are at 4 and 8 s. So they take 2, 1 and 0
    steps between two polls, always: either kind of alpha is 2 and 1, and client 2 sends what it began with.

    Round 1. Client 0: gradients -4, -3, from 1 to 1.875, counts as 1 + 0.875 / 2 = 1.4375. Client 1: gradient 4, from
    1 to 0.5, counts as 0.5. w = (1 + 1.4375 + 0.5 + 1) / 4 = 0.984375.
    Round 2. Client 0: gradients -4.03125 and -3.0234375, so it counts as 0.984375 + 0.8818359375 / 2. Client 1:
    gradient 3.875, to 0.5. Client 2 has 0.984375. w = (3 * 0.984375 + 0.44091796875 + 0.5) / 4.
    """
    strategy = FAVAS(clients_per_round=3, round_s=4.0, divide_by=divide_by)  # type: ignore[arg-type]
    training = Training(lr=0.125, loss="squared", steps=2)
    for commits, model in enumerate([0.984375, (3 * 0.984375 + 0.44091796875 + 0.5) / 4], start=1):
        found = learn(
            strategy,
            Built(line),
            CLIENTS,
            n_outputs=1,
            training=training,
            commits=commits,
            compute=[2.0, 6.0, 10.0],
        )
        assert found.final.tolist() == [model]
    assert found.records.commits["time"].tolist() == [4.0, 8.0]


def test_both_kinds_of_weights_make_a_change_one_step_on_average() -> None:
    """No step with probability 1/2, 2 steps with 1/4, 3 with 1/4: 1.25 on average. Changes of one per step:

    expected: 1/4 * 2 / 1.25 + 1/4 * 3 / 1.25 = 1. taken: 1/4 * 2 / (2 / 2) + 1/4 * 3 / (3 / 2) = 1.
    """
    expected = Expected(some=0.5, steps=1.25)
    for strategy in (FAVAS(), FAVAS(divide_by="taken")):
        divided = [steps / strategy.divisor(steps, expected) for steps in (0, 2, 3)]
        assert np.dot(divided, [0.5, 0.25, 0.25]) == pytest.approx(1.0)


@pytest.mark.parametrize("chance", [0.0, 1e-258])
def test_steps_that_were_not_expected_are_divided_by_their_number(chance: float) -> None:
    """A chance below what float32 can express made 0 / 0 of a client that had changed nothing."""
    for strategy in (FAVAS(), FAVAS(divide_by="taken")):
        expected = Expected(chance, 2 * chance)
        divisors = [strategy.divisor(steps, expected) for steps in (0, 1, 4)]
        assert divisors == [1.0, 1.0, 4.0]
        unchanged = np.ones(2, np.float32)
        (model,) = {tuple(unbiased_mean(unchanged, starts=[unchanged], ends=[unchanged], divisors=divisors[:1]))}
        assert model == (1.0, 1.0)


def test_polled_clients_begin_anew_with_the_new_model_and_others_go_on() -> None:
    """One of two clients per round: whoever is polled receives the version of its commit."""
    _, records = play(FAVAS(clients_per_round=1, round_s=2.0), compute=1.0, clients=2, horizon=20.5)
    assert records.commits["time"].tolist() == [2.0 * k for k in range(1, 11)]
    last = [0, 0]
    visits = records.visits
    for client, version, finished in zip(*(visits[name].tolist() for name in ("client", "base_version", "finished"))):
        if finished < 20.5:
            assert version == last[client]
            last[client] = round(finished / 2.0)


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"round_s": -1.0}, {"divide_by": "guess"}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            FAVAS(**fields)  # type: ignore[arg-type]

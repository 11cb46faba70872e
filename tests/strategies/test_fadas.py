"""FADAS: AMSGrad on the mean of a buffer, and steps that shrink with the delay, worked out by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fedtempo.strategies import FADAS
from tests.strategies.arrivals import Arrivals

# Decays of 1/2 and steps that are powers of 2; epsilon is too small to be seen beside roots near 1.
HALF = FADAS(buffer=2, server_lr=0.5, beta1=0.5, beta2=0.75, epsilon=1e-300, delay="none")


def test_two_steps() -> None:
    """Step 1/2, beta1 = 1/2, beta2 = 3/4; m = v = peak = 0 at first. Coordinates (2, -4) and (6, -4), mean (4, -4).

    m = (2, -2), v = (16, 16) / 4 = (4, 4), peak = (4, 4), w = 0 + (2, -2) / 2 / 2 = (0.5, -0.5).
    Then both clients bring (0, -8), mean (0, -8):
    m = (1, -1) + (0, -4) = (1, -5), v = (3, 3) + (0, 64) / 4 = (3, 19), peak = (4, 19): the first keeps its peak,
    w = (0.5, -0.5) + (1 / 2, -5 / sqrt(19)) / 2 = (0.75, -0.5 - 2.5 / sqrt(19)).
    """
    fed = Arrivals(2)
    models = fed.play(HALF, (0, [2.0, -4.0]), (1, [6.0, -4.0]), (0, [0.0, -8.0]), (1, [0.0, -8.0]))
    assert models[0] == [0.5, -0.5]
    assert models[1] == pytest.approx([0.75, -0.5 - 2.5 / 19**0.5], rel=1e-15)


def test_epsilon_is_added_to_the_root() -> None:
    """m = 4 / 2 = 2, v = 16 / 4 = 4, w = 1/2 * 2 / (2 + 2) = 0.25; a coordinate without a change stays."""
    fed = Arrivals(1)
    strategy = FADAS(buffer=1, server_lr=0.5, beta1=0.5, beta2=0.75, epsilon=2.0)
    assert fed.play(strategy, (0, [4.0, 0.0])) == [[0.25, 0.0]]


def test_the_step_by_the_longest_delay() -> None:
    divide, cap, none = (FADAS(server_lr=0.4, tau_c=2, delay=delay) for delay in ("divide", "cap", "none"))  # type: ignore[arg-type]
    assert [divide.step(missed) for missed in (0, 2, 4)] == [0.4, 0.4, 0.1]
    assert [cap.step(missed) for missed in (0, 2, 3, 4)] == [0.4, 0.4, 1 / 3, 0.25]
    assert cap.step(3) < 0.4
    assert FADAS(server_lr=0.1, delay="cap").step(4) == 0.1
    assert [none.step(missed) for missed in (0, 2, 400)] == [0.4, 0.4, 0.4]


def test_the_oldest_change_of_a_buffer_decides() -> None:
    """Buffer 1, both decays 0: m = D, peak = D^2 at most, so each step is the step size times the sign of D.

    Clients 0 (three times) and 1, which started before all of these: it missed 3 commits > tau_c = 1, step 0.6 / 3.
    Its change of 1 is divided by the peak of 1.
    """
    fed = Arrivals(2)
    strategy = FADAS(buffer=1, server_lr=0.6, beta1=0.0, beta2=0.0, epsilon=1e-300)
    models = fed.play(strategy, *[(0, [1.0, -1.0])] * 3, (1, [1.0, 1.0]))
    assert models[2] == pytest.approx([1.8, -1.8], rel=1e-15)
    assert models[3] == pytest.approx([2.0, -1.6], rel=1e-15)
    assert fed.staleness == [0, 0, 0, 3]


def test_running_statistics_are_those_of_the_buffer() -> None:
    fed = Arrivals(2)
    fed.play(HALF, (0, [2.0, 2.0]), (1, [2.0, 2.0]))
    assert fed.statistics == [[1, 1]]


def test_unusable_values_are_refused() -> None:
    for fields in ({"beta1": 1.0}, {"beta2": -0.1}, {"epsilon": 0.0}, {"delay": "sometimes"}, {"tau_c": 0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            FADAS(**fields)  # type: ignore[arg-type]

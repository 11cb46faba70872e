"""Tolerances between two correct computations of the same numbers in double precision."""

from fedtempo.learning.training import Training

DOUBLE = {"rtol": 1e-10, "atol": 1e-12}
"""For `assert_close` and `assert_allclose` of numbers of order one.

A sum of n products in any order errs by about sqrt(n) 2^-53 of their size (Higham and Mary, A New Approach to
Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 2019): 1e-14 for the 10,000 of the largest layer here. The
layers and steps of a test, some twenty in a row, and their growth leave 1e-12, whichever instructions a processor has
and however its libraries block their sums. A wrong formula is off by far more.
"""

_ADAM = {"rtol": 1e-10, "atol": 1e-8}
"""Adam divides by a gradient's size plus 1e-8, so near zero a gradient's error counts 1e8 times: 1e-15 of it moves a
parameter by 1e-7 of the step size, 1e-9 in each of the ten steps of 0.01 that tests take at most."""


def double_precision(training: Training) -> dict[str, float]:
    """Return tolerances for parameters after a visit with these settings."""
    return _ADAM if training.optimizer == "adam" else DOUBLE

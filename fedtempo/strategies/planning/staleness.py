"""How the weight of an update falls with its staleness.

Staleness is the number of commits between an update's base version and the version that it is mixed into. Each function
is 1 at staleness 0. Xie, Koyejo, Gupta: Asynchronous Federated Optimization (2019), Section 5.
"""

from __future__ import annotations


def constant(staleness: float) -> float:
    """Return 1 for any staleness."""
    _check(staleness)
    return 1.0


def polynomial(staleness: float, exponent: float) -> float:
    """Return (1 + staleness)^-exponent; FedHusky's Eq. 18 with zeta as the exponent, FedBuff's scaling with 1/2."""
    _check(staleness)
    return float((1 + staleness) ** -exponent)


def hinge(staleness: float, slope: float, knee: float) -> float:
    """Return 1 up to `knee`, then 1 / (slope * (staleness - knee) + 1). The paper's a and b are `slope` and `knee`."""
    _check(staleness)
    return 1.0 if staleness <= knee else 1 / (slope * (staleness - knee) + 1)


def _check(staleness: float) -> None:
    if staleness < 0:
        raise ValueError(
            f"staleness = {staleness} must not be negative: an update cannot be newer than the global model"
        )

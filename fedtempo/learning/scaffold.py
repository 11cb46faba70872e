"""SCAFFOLD's part at the client (Karimireddy et al. 2020, Algorithm 1, lines 6 to 14)."""

from __future__ import annotations

from torch import Tensor

from fedtempo.learning.procedures import ClientVisit
from fedtempo.learning.training import SMALLEST_LR


def from_gradient(visit: ClientVisit) -> tuple[Tensor]:
    """Train; the new control variate is the gradient at the received model (option I)."""
    control = visit.gradient()
    return _trained(visit, control)


def from_steps(visit: ClientVisit) -> tuple[Tensor]:
    """Train; the new control variate is c_i - c + (x - y_i) / (K eta_l), from the steps made (option II).

    With the rate 0, as at the end of a schedule, steps tell nothing about gradients, so the old one stays.
    """
    return _trained(visit, None)


def _trained(visit: ClientVisit, gradient: Tensor | None) -> tuple[Tensor]:
    """Train with gradients g - c_i + c, keep the new control variate, and return its change."""
    (server_control,) = visit.payload
    control = visit.state.get("control", visit.zeros())
    visit.train(correction=server_control - control)
    if gradient is None and visit.training.lr <= SMALLEST_LR:
        gradient = control
    elif gradient is None:
        moved = visit.received - visit.parameters
        gradient = control - server_control + moved / (visit.steps * visit.training.lr)
    visit.state["control"] = gradient
    return (gradient - control,)

"""FedDyn's part at the client (Acar et al. 2021, Algorithm 1)."""

from __future__ import annotations

from fedtempo.learning.procedures import ClientVisit


def dynamic(visit: ClientVisit) -> tuple[()]:
    """Train on L_i(w) - <g_i, w> + alpha / 2 * |w - w_received|^2, then replace g_i by g_i - alpha * (w - w_received).

    The client keeps g_i, which estimates the gradient of its loss and is 0 at first. alpha is the weight of the
    proximal term.
    """
    gradient = visit.state.get("gradient", visit.zeros())
    visit.train(correction=-gradient)
    visit.state["gradient"] = gradient - visit.training.proximal * (visit.parameters - visit.received)
    return ()

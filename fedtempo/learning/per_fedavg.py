"""Per-FedAvg's part at the client: steps of model-agnostic meta-learning (Fallah, Mokhtari and Ozdaglar 2020)."""

from __future__ import annotations

from fedtempo.learning.numerics import torch_seed
from fedtempo.learning.procedures import ClientVisit


def meta_steps(visit: ClientVisit) -> tuple[()]:
    """Make steps w <- w - lr * (g - alpha * H g), where g is the gradient at w - alpha * (gradient at w).

    H is the Hessian at w: H g is taken as the difference of two gradients, at w + delta * g and w - delta * g, divided
    by 2 delta; with two `gradients` per step instead of four it is left out. Each gradient of a step has a mini-batch
    of its own, except that both of H g have the same. The loss that the client reports is the mean of those at which g
    is taken.
    """
    alpha, delta, gradients = (visit.numbers[name] for name in ("alpha", "delta", "gradients"))
    batches, steps = visit.batches(), visit.steps // int(gradients)
    visit.begin()
    w, total = visit.received, 0.0
    with torch_seed(int(visit.rng.integers(2**63))):
        for _ in range(steps):
            visit.parameters.copy_(w)
            _, gradient = visit.loss_and_gradient(next(batches))
            visit.parameters.copy_(w - alpha * gradient)
            loss, gradient = visit.loss_and_gradient(next(batches))
            total += loss / steps
            if gradients == 4:
                rows, either = next(batches), []
                for shift in (delta, -delta):
                    visit.parameters.copy_(w + shift * gradient)
                    either.append(visit.loss_and_gradient(rows)[1])
                gradient = gradient - alpha / (2 * delta) * (either[0] - either[1])
            w = w - visit.training.lr * gradient
    visit.parameters.copy_(w)
    visit.statistics = {"loss": total}
    return ()

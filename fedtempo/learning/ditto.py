"""Ditto's part at the client (Li, Hu, Beirami and Smith 2021)."""

from __future__ import annotations

from fedtempo.learning.procedures import ClientVisit


def personal_and_global(visit: ClientVisit) -> tuple[()]:
    """Train the client's own model for `personal_steps` steps, then the received one for the other steps of the visit.

    The own model v_k minimises the loss plus `lam` / 2 * |v_k - w|^2, with w the received model, which is also where it
    begins. It stays at the client.
    """
    steps, personal_steps = visit.steps, int(visit.numbers["personal_steps"])
    visit.train(start=visit.personal, steps=personal_steps, proximal=visit.numbers["lam"])
    visit.personal = visit.model.sent.clone()
    visit.train(steps=steps - personal_steps)
    return ()

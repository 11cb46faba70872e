"""MOON's part at the client: a loss that contrasts representations of three models (Li, He and Song 2021)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedtempo.learning.forward import outputs_of
from fedtempo.learning.losses import Loss
from fedtempo.learning.procedures import ClientVisit


def contrastive(visit: ClientVisit) -> tuple[()]:
    """Train with the loss plus `mu` times the contrast to the received model and to the client's own previous one.

    The client keeps its trained model. At its first visit the previous model is the received one, and the contrast has
    no gradient.
    """
    received, previous = visit.network(), visit.network(visit.state.get("previous"))
    contrast = Contrast(visit.model.module, received, previous, visit.numbers["mu"], visit.numbers["temperature"])
    try:
        visit.train(change_loss=contrast.added)
    finally:
        contrast.close()
    visit.state["previous"] = visit.model.sent.clone()
    return ()


class Contrast:
    """The term mu * log(1 + exp((cos(z, z_prev) - cos(z, z_glob)) / temperature)) for the representations of a batch.

    z: of the module that trains, z_glob: of the received one, z_prev: of the client's previous one. A representation is
    what goes into the last layer that has parameters.
    """

    def __init__(
        self, module: nn.Module, received: nn.Module, previous: nn.Module, mu: float, temperature: float
    ) -> None:
        self._own, self._received, self._previous = map(_Features, (module, received, previous))
        self._mu, self._temperature = mu, temperature

    def added(self, loss_of: Loss, x: Any) -> Loss:
        """Return `loss_of` plus the term, for the batch with these inputs."""
        with torch.no_grad():
            positive, negative = self._received.of(x), self._previous.of(x)

        def loss(outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
            own = self._own.latest
            nearer = F.cosine_similarity(own, negative) - F.cosine_similarity(own, positive)
            term = F.softplus(nearer / self._temperature)
            return loss_of(outputs, labels, reduction) + self._mu * (term.mean() if reduction == "mean" else term)

        return loss  # type: ignore[return-value]

    def close(self) -> None:
        """Leave the module that trains as it was."""
        self._own.hook.remove()


class _Features:
    """The latest input of a module's last layer with parameters, (batch, features)."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        with_parameters = [part for part in module.modules() if next(part.parameters(recurse=False), None) is not None]
        self.hook = with_parameters[-1].register_forward_pre_hook(self._keep)
        self.latest = torch.empty(0)

    def of(self, x: Any) -> Tensor:
        outputs_of(self._module, x)
        return self.latest

    def _keep(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.latest = inputs[0].flatten(1)

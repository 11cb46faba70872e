"""Steps of SGD and Adam that a recording can repeat: each number that changes lies on the device, always in one place.

The conventions are those of `optimizers`; step sizes and counts are tensors here, so that a step's result may differ
from that of `optimizers` in the last bit. The gradients that come in are never written to.
"""

from __future__ import annotations

from typing import Protocol

import torch

from fedtempo.errors import ConfigError
from fedtempo.learning.optimizers import Tensors
from fedtempo.learning.training import OPTIMIZERS, Training


class StaticOptimizer(Protocol):
    """State of one visit's steps after the other's."""

    def begin(self, lr: float) -> None:
        """Forget the last visit; steps of size `lr` follow."""
        ...

    def step(self, gradients: Tensors) -> None:
        """Change the parameters by one step; `gradients` are in their order."""
        ...


def make_static_optimizer(parameters: Tensors, training: Training) -> StaticOptimizer:
    """For `parameters`, which are changed in place; the step size comes with each visit.

    Raises ConfigError for a user's own optimiser, of which nobody knows whether a recording can repeat it.
    """
    if training.optimizer not in OPTIMIZERS:
        raise ConfigError(
            f"training.optimizer = {training.optimizer!r}: on a device there are {' and '.join(OPTIMIZERS)}; "
            "leave out executor.device to train with your own"
        )
    return StaticAdam(parameters, training) if training.optimizer == "adam" else StaticSgd(parameters, training)


def clip(gradients: Tensors, norm: float) -> Tensors:
    """The gradients times min(1, norm / (their L2 norm + 1e-6))."""
    total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    factor = (norm / (total.double() + 1e-6)).clamp(max=1).to(total.dtype)
    return torch._foreach_mul(gradients, factor)


def places_like(parameters: Tensors) -> Tensors:
    """A place for a number beside each parameter, in the same order of memory."""
    return tuple(torch.zeros_like(parameter) for parameter in parameters)


class StaticSgd:
    """`optimizers.Sgd`."""

    def __init__(self, parameters: Tensors, training: Training) -> None:
        self._parameters = parameters
        self._momentum, self._nesterov = training.momentum, training.nesterov
        self._weight_decay = training.weight_decay
        self._rate = torch.zeros((), dtype=parameters[0].dtype, device=parameters[0].device)
        self._velocity = places_like(parameters) if training.momentum else ()

    def begin(self, lr: float) -> None:
        self._rate.fill_(lr)
        if self._velocity:
            torch._foreach_zero_(self._velocity)

    def step(self, gradients: Tensors) -> None:
        if self._weight_decay:
            gradients = torch._foreach_add(gradients, self._parameters, alpha=self._weight_decay)
        if self._velocity:
            torch._foreach_mul_(self._velocity, self._momentum)
            torch._foreach_add_(self._velocity, gradients)
            if self._nesterov:
                gradients = torch._foreach_add(gradients, self._velocity, alpha=self._momentum)
            else:
                gradients = self._velocity
        torch._foreach_sub_(self._parameters, torch._foreach_mul(gradients, self._rate))


class StaticAdam:
    """`optimizers.Adam`."""

    def __init__(
        self,
        parameters: Tensors,
        training: Training,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        self._parameters = parameters
        self._weight_decay, self._betas, self._epsilon = training.weight_decay, betas, epsilon
        self._mean, self._square = places_like(parameters), places_like(parameters)
        self._rate, self._steps = torch.zeros(2, dtype=torch.float64, device=parameters[0].device).unbind()

    def begin(self, lr: float) -> None:
        self._rate.fill_(lr)
        self._steps.zero_()
        torch._foreach_zero_(self._mean + self._square)

    def step(self, gradients: Tensors) -> None:
        dtype = self._parameters[0].dtype
        beta1, beta2 = self._betas
        self._steps.add_(1)
        if self._weight_decay:
            gradients = torch._foreach_add(gradients, self._parameters, alpha=self._weight_decay)
        torch._foreach_lerp_(self._mean, gradients, 1 - beta1)
        torch._foreach_mul_(self._square, beta2)
        torch._foreach_addcmul_(self._square, gradients, gradients, value=1 - beta2)
        denominator = torch._foreach_sqrt(self._square)
        torch._foreach_mul_(denominator, (1 - beta2**self._steps).rsqrt().to(dtype))
        torch._foreach_add_(denominator, self._epsilon)
        change = torch._foreach_div(self._mean, denominator)
        torch._foreach_mul_(change, (self._rate / (1 - beta1**self._steps)).to(dtype))
        torch._foreach_sub_(self._parameters, change)

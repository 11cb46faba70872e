"""Steps of SGD and Adam that a recording can repeat: every number that changes lies on the device, at a fixed address.

The rules are those of `optimizers`; step sizes and step counts are tensors here, so a step may differ from that of
`optimizers` in the last bit. Gradients are never written to.
"""

from __future__ import annotations

from typing import Protocol

import torch

from fedtempo.errors import ConfigError
from fedtempo.learning.optimizers import Adam, Sgd, Tensors, global_norm
from fedtempo.learning.training import OPTIMIZERS, Training


class StaticOptimizer(Protocol):
    """The optimiser state of one visit after another."""

    def begin(self, lr: float) -> None:
        """Forget the last visit; the steps that follow have the size `lr`."""
        ...

    def step(self, gradients: Tensors) -> None:
        """Change the parameters by one step; `gradients` are in the order of the parameters."""
        ...


def make_static_optimizer(parameters: Tensors, training: Training) -> StaticOptimizer:
    """Return the configured optimiser of `parameters`, which its steps change in place; `begin` sets the step size.

    Raises ConfigError for a user's own optimiser, since a recording may not be able to repeat it.
    """
    if training.optimizer not in OPTIMIZERS:
        raise ConfigError(
            f"training.optimizer = {training.optimizer!r}: a device trains with {' or '.join(OPTIMIZERS)} only; "
            "remove executor.device to train with your own optimiser"
        )
    return StaticAdam(parameters, training) if training.optimizer == "adam" else StaticSgd(parameters, training)


def clip(gradients: Tensors, norm: float) -> Tensors:
    """Return the gradients times min(1, norm / (their L2 norm + 1e-6))."""
    total = global_norm(gradients)
    factor = (norm / (total.double() + 1e-6)).clamp(max=1).to(total.dtype)
    return torch._foreach_mul(gradients, factor)


def zeros_like_each(parameters: Tensors) -> Tensors:
    """Return a tensor of zeros for each parameter, in the same memory order."""
    return tuple(torch.zeros_like(parameter) for parameter in parameters)


class StaticSgd(Sgd):
    """`optimizers.Sgd` with its step size on the device."""

    def __init__(self, parameters: Tensors, training: Training) -> None:
        super().__init__(parameters, training.lr, training.momentum, training.nesterov, training.weight_decay)
        self._rate = torch.zeros((), dtype=parameters[0].dtype, device=parameters[0].device)
        self._velocity = zeros_like_each(parameters) if training.momentum else None

    def begin(self, lr: float) -> None:
        self._rate.fill_(lr)
        if self._velocity:
            torch._foreach_zero_(self._velocity)

    def step(self, gradients: Tensors) -> None:
        torch._foreach_sub_(self._parameters, torch._foreach_mul(self._direction(gradients), self._rate))


class StaticAdam(Adam):
    """`optimizers.Adam` with its step size and step count on the device."""

    def __init__(self, parameters: Tensors, training: Training) -> None:
        super().__init__(parameters, training.lr, training.weight_decay)
        self._rate, self._steps = torch.zeros(2, dtype=torch.float64, device=parameters[0].device).unbind()

    def begin(self, lr: float) -> None:
        self._rate.fill_(lr)
        self._steps.zero_()
        torch._foreach_zero_(self._mean + self._square)

    def step(self, gradients: Tensors) -> None:
        dtype = self._parameters[0].dtype
        beta1, beta2 = self._BETAS
        self._steps.add_(1)
        denominator = self._root_of_second_moment(gradients)
        torch._foreach_mul_(denominator, (1 - beta2**self._steps).rsqrt().to(dtype))
        torch._foreach_add_(denominator, self._EPSILON)
        change = torch._foreach_div(self._mean, denominator)
        torch._foreach_mul_(change, (self._rate / (1 - beta1**self._steps)).to(dtype))
        torch._foreach_sub_(self._parameters, change)

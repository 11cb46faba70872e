"""Steps of SGD, Adam and users' optimisers on lists of parameters, in place; the conventions of torch.optim.

The gradients that come in are never written to: autograd may hand out one tensor for two parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from fedtempo.errors import ConfigError
from fedtempo.learning.training import Training
from fedtempo.parts.plugins import outside
from fedtempo.parts.user_code import user_code

Tensors = tuple[Tensor, ...]


class Optimizer(Protocol):
    """State of one visit's steps."""

    def step(self, gradients: Tensors) -> None:
        """Change the parameters by one step; `gradients` are in their order."""
        ...


def make_optimizer(parameters: Tensors, training: Training, apart: Callable[[Tensors], Tensors]) -> Optimizer:
    """The configured one. apart: see `Gradients`. Raises ConfigError where a user's is none."""
    if training.optimizer == "adam":
        return Adam(parameters, training.lr, training.weight_decay)
    if training.optimizer == "sgd":
        return Sgd(parameters, training.lr, training.momentum, training.nesterov, training.weight_decay)
    return Users(parameters, training.optimizer, training.lr, apart)


def clip(gradients: Tensors, norm: float) -> Tensors:
    """The gradients times min(1, norm / (their L2 norm + 1e-6))."""
    factor = norm / (global_norm(gradients) + 1e-6)
    return gradients if factor >= 1 else torch._foreach_mul(gradients, factor)


def global_norm(tensors: Tensors) -> float:
    """L2 norm of all tensors together."""
    return float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors))))


def add_proximal(gradients: Tensors, parameters: Tensors, received: Tensors, mu: float) -> Tensors:
    """Gradients with that of mu/2 * |w - w_received|^2 added (FedProx): mu * (w - w_received)."""
    return torch._foreach_add(gradients, torch._foreach_sub(parameters, received), alpha=mu)


class Users:
    """A user's `torch.optim.Optimizer`, which sees the module's parameters one by one."""

    def __init__(self, parameters: Tensors, name: str, lr: float, apart: Callable[[Tensors], Tensors]) -> None:
        self._apart = apart
        # Others may share these tensors, and gradients left on them would be seen there: the optimiser has its own.
        self._parameters = [part.detach() for part in apart(parameters)]
        make = outside(name, "optimizers", "training.optimizer")
        self._where = f"training.optimizer = {name!r}"
        with user_code(self._where, make):
            made = make(self._parameters, lr=lr)
        if not isinstance(made, torch.optim.Optimizer):
            raise ConfigError(
                f"training.optimizer = {name!r} made a {type(made).__name__}; it must make a torch.optim.Optimizer"
            )
        self._optimizer = made

    def step(self, gradients: Tensors) -> None:
        for parameter, gradient in zip(self._parameters, self._apart(gradients), strict=True):
            parameter.grad = gradient.clone()  # an optimiser may change it in place
        with user_code(self._where, self._optimizer):
            self._optimizer.step()


class Sgd:
    """p -= lr * v with v = momentum * v + g (v = g at first), or p -= lr * (g + momentum * v) with Nesterov's."""

    def __init__(
        self, parameters: Tensors, lr: float, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
    ) -> None:
        self._parameters = parameters
        self.lr = lr
        self._momentum, self._nesterov, self._weight_decay = momentum, nesterov, weight_decay
        self._velocity: Tensors | None = None

    def step(self, gradients: Tensors) -> None:
        if self._weight_decay:
            gradients = torch._foreach_add(gradients, self._parameters, alpha=self._weight_decay)
        if self._momentum:
            if self._velocity is None:
                self._velocity = tuple(gradient.clone() for gradient in gradients)
            else:
                torch._foreach_mul_(self._velocity, self._momentum)
                torch._foreach_add_(self._velocity, gradients)
            if self._nesterov:
                gradients = torch._foreach_add(gradients, self._velocity, alpha=self._momentum)
            else:
                gradients = self._velocity
        torch._foreach_add_(self._parameters, gradients, alpha=-self.lr)


class Adam:
    """Kingma and Ba 2015, with weight decay added to the gradient."""

    def __init__(
        self,
        parameters: Tensors,
        lr: float,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        self._parameters = parameters
        self._lr, self._weight_decay, self._betas, self._epsilon = lr, weight_decay, betas, epsilon
        self._mean = tuple(torch.zeros_like(parameter) for parameter in parameters)
        self._square = tuple(torch.zeros_like(parameter) for parameter in parameters)
        self._steps = 0

    def step(self, gradients: Tensors) -> None:
        self._steps += 1
        beta1, beta2 = self._betas
        if self._weight_decay:
            gradients = torch._foreach_add(gradients, self._parameters, alpha=self._weight_decay)
        torch._foreach_lerp_(self._mean, gradients, 1 - beta1)
        torch._foreach_mul_(self._square, beta2)
        torch._foreach_addcmul_(self._square, gradients, gradients, value=1 - beta2)
        denominator = torch._foreach_sqrt(self._square)
        torch._foreach_div_(denominator, (1 - beta2**self._steps) ** 0.5)
        torch._foreach_add_(denominator, self._epsilon)
        step_size = self._lr / (1 - beta1**self._steps)
        torch._foreach_addcdiv_(self._parameters, self._mean, denominator, value=-step_size)

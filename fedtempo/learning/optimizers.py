"""Steps of SGD, Adam and users' optimisers on lists of parameters, in place, by the conventions of torch.optim.

`static_optimizers` has the same rules with step sizes in tensors. Gradients are never written to: autograd may return
one tensor for two parameters.
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
    """The optimiser state of one visit."""

    def step(self, gradients: Tensors) -> None:
        """Change the parameters by one step; `gradients` are in the order of the parameters."""
        ...


def make_optimizer(parameters: Tensors, training: Training, apart: Callable[[Tensors], Tensors]) -> Optimizer:
    """Return the configured optimiser of `parameters`, which its steps change in place.

    apart: see `Gradients.apart`. Raises ConfigError if a user's function does not return a torch.optim.Optimizer.
    """
    if training.optimizer == "adam":
        return Adam(parameters, training.lr, training.weight_decay)
    if training.optimizer == "sgd":
        return Sgd(parameters, training.lr, training.momentum, training.nesterov, training.weight_decay)
    return UserOptimizer(parameters, training.optimizer, training.lr, apart)


def clip(gradients: Tensors, norm: float) -> Tensors:
    """Return the gradients times min(1, norm / (their L2 norm + 1e-6))."""
    factor = norm / (float(global_norm(gradients)) + 1e-6)
    return gradients if factor >= 1 else torch._foreach_mul(gradients, factor)


def global_norm(tensors: Tensors) -> Tensor:
    """Return the L2 norm of all tensors together, on their device."""
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors)))
    return norm


def add_proximal(gradients: Tensors, parameters: Tensors, received: Tensors, mu: float) -> Tensors:
    """Return the gradients plus mu * (w - w_received), the gradient of mu/2 * |w - w_received|^2 (FedProx)."""
    return torch._foreach_add(gradients, torch._foreach_sub(parameters, received), alpha=mu)


def weighted_sum(so_far: Tensors, gradients: Tensors, weight: float) -> Tensors:
    """Return `so_far` plus `weight` times the gradients; `so_far`, which may be changed, is () at first."""
    with torch.no_grad():
        if not so_far:
            return torch._foreach_mul(gradients, weight)
        torch._foreach_add_(so_far, gradients, alpha=weight)
        return so_far


class UserOptimizer:
    """A user's `torch.optim.Optimizer`, which sees the module's parameters one by one."""

    def __init__(self, parameters: Tensors, name: str, lr: float, apart: Callable[[Tensors], Tensors]) -> None:
        self._apart = apart
        # The optimizer gets separate tensors: other code may share these and would see gradients left on them.
        self._parameters = [part.detach() for part in apart(parameters)]
        make = outside(name, "optimizers", "training.optimizer")
        self._where = f"training.optimizer = {name!r}"
        with user_code(self._where, make):
            optimizer = make(self._parameters, lr=lr)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ConfigError(
                f"training.optimizer = {name!r} returned {type(optimizer).__name__}; it must return a "
                "torch.optim.Optimizer"
            )
        self._optimizer = optimizer

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
        torch._foreach_add_(self._parameters, self._direction(gradients), alpha=-self.lr)

    def _direction(self, gradients: Tensors) -> Tensors:
        """Return the direction that a step subtracts, scaled by lr, and update the velocity."""
        if self._weight_decay:
            gradients = torch._foreach_add(gradients, self._parameters, alpha=self._weight_decay)
        if not self._momentum:
            return gradients
        if self._velocity is None:
            self._velocity = tuple(gradient.clone() for gradient in gradients)
        else:
            torch._foreach_mul_(self._velocity, self._momentum)
            torch._foreach_add_(self._velocity, gradients)
        if not self._nesterov:
            return self._velocity
        return torch._foreach_add(gradients, self._velocity, alpha=self._momentum)


class Adam:
    """Kingma and Ba 2015, with weight decay added to the gradient."""

    _BETAS = (0.9, 0.999)
    _EPSILON = 1e-8

    def __init__(self, parameters: Tensors, lr: float, weight_decay: float = 0.0) -> None:
        self._parameters = parameters
        self._lr, self._weight_decay = lr, weight_decay
        self._mean = tuple(torch.zeros_like(parameter) for parameter in parameters)
        self._square = tuple(torch.zeros_like(parameter) for parameter in parameters)
        self._step_count = 0

    def step(self, gradients: Tensors) -> None:
        self._step_count += 1
        beta1, beta2 = self._BETAS
        denominator = self._root_of_second_moment(gradients)
        torch._foreach_div_(denominator, (1 - beta2**self._step_count) ** 0.5)
        torch._foreach_add_(denominator, self._EPSILON)
        step_size = self._lr / (1 - beta1**self._step_count)
        torch._foreach_addcdiv_(self._parameters, self._mean, denominator, value=-step_size)

    def _root_of_second_moment(self, gradients: Tensors) -> Tensors:
        """Update both moments; return the roots of the second in new tensors, before the correction of its bias."""
        beta1, beta2 = self._BETAS
        if self._weight_decay:
            gradients = torch._foreach_add(gradients, self._parameters, alpha=self._weight_decay)
        torch._foreach_lerp_(self._mean, gradients, 1 - beta1)
        torch._foreach_mul_(self._square, beta2)
        torch._foreach_addcmul_(self._square, gradients, gradients, value=1 - beta2)
        return torch._foreach_sqrt(self._square)

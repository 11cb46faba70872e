"""Optimisers at the server: an average of clients' models minus the global model serves as a negative gradient.

Adagrad, Adam and Yogi are those of Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2. With
change = average - model:

    m <- beta1 * m + (1 - beta1) * change
    v <- v + change^2                                          (adagrad)
    v <- beta2 * v + (1 - beta2) * change^2                    (adam)
    v <- v - (1 - beta2) * change^2 * sign(v - change^2)       (yogi)
    model <- model + lr * m / (sqrt(v) + tau)

m begins with 0 and v with tau^2, the least value that the paper allows. As there, nothing corrects the bias of m and v.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Doc, Ge, Lt, Positive

Vector = np.ndarray[Any, np.dtype[Any]]
_Decay = Annotated[float, Ge(0), Lt(1)]
_Lr = Annotated[Positive, Doc("step size at the server; eta in the paper")]
_Beta1 = Annotated[_Decay, Doc("decay of the mean change m; 0 means no momentum")]
_Beta2 = Annotated[_Decay, Doc("decay of the mean squared change v")]


@runtime_checkable
class ServerOptimizer(Protocol):
    """Turns the average of clients' models into the next global model."""

    def step(self, model: Vector, average: Vector, *state: Vector) -> tuple[Vector, ...]:
        """Return the next global model, and the vectors to pass to the next step as `state`.

        model, average: flat vectors of trainable parameters, read-only, and empty in a run without training. state:
        what the previous step returned after the model; nothing in the first step. All returned vectors have the
        model's shape and type.
        """
        ...


@dataclass(frozen=True, config=STRICT)
class SGD:
    """SGD at the server; with momentum FedAvgM of Hsu et al., Measuring the Effects of Non-Identical Data, 2019, Eq. 2.

    v <- momentum * v + (model - average); model <- model - lr * v.
    """

    lr: Annotated[Positive, Doc("step size at the server; 1 without momentum means plain averaging")] = 1.0
    momentum: Annotated[_Decay, Doc("share of the previous step's v in v")] = 0.0

    @np.errstate(over="ignore", invalid="ignore")  # a run that diverges says so itself
    def step(self, model: Vector, average: Vector, *state: Vector) -> tuple[Vector, ...]:
        gradient = model - average
        velocity = self.momentum * state[0] + gradient if state else gradient
        return model - self.lr * velocity, velocity


@dataclass(frozen=True, config=STRICT)
class Adaptive(ABC):
    """Steps that are shorter for parameters whose changes have been larger."""

    lr: _Lr = 0.01
    beta1: _Beta1 = 0.9
    tau: Annotated[float, Ge(1e-15), Doc("adaptivity; the larger, the less steps differ between parameters")] = 0.001

    @np.errstate(over="ignore", invalid="ignore")
    def step(self, model: Vector, average: Vector, *state: Vector) -> tuple[Vector, ...]:
        change = average - model
        m, v = state or (np.zeros_like(change), np.full_like(change, self.tau**2))
        m = self.beta1 * m + (1 - self.beta1) * change
        v = self.second_moment(v, change * change)
        return model + self.lr * m / (np.sqrt(v) + self.tau), m, v

    @abstractmethod
    def second_moment(self, v: Vector, squared: Vector) -> Vector:
        """Return the next v from the squared change."""


@dataclass(frozen=True, config=STRICT)
class Adagrad(Adaptive):
    """FedAdagrad of Reddi et al. 2021: v is the sum of all squared changes."""

    lr: _Lr = 0.1
    beta1: _Beta1 = 0.0

    def second_moment(self, v: Vector, squared: Vector) -> Vector:
        return v + squared


@dataclass(frozen=True, config=STRICT)
class Adam(Adaptive):
    """FedAdam of Reddi et al. 2021: v is a running mean of squared changes."""

    beta2: _Beta2 = 0.99

    def second_moment(self, v: Vector, squared: Vector) -> Vector:
        return self.beta2 * v + (1 - self.beta2) * squared


@dataclass(frozen=True, config=STRICT)
class Yogi(Adaptive):
    """FedYogi of Reddi et al. 2021: v moves towards the squared change by a share of the latter."""

    beta2: _Beta2 = 0.99

    def second_moment(self, v: Vector, squared: Vector) -> Vector:
        return np.asarray(v - (1 - self.beta2) * squared * np.sign(v - squared))


SERVER_OPTIMIZERS: dict[str, type[Any]] = {"sgd": SGD, "adagrad": Adagrad, "adam": Adam, "yogi": Yogi}
"""Optimisers by the name that `server.optimizer.kind` gives them."""

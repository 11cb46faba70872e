"""MOON: the contrastive term by hand, and two rounds against plain PyTorch modules."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from fedtempo.learning.losses import Loss
from fedtempo.learning.moon import Contrast
from fedtempo.learning.training import Training
from fedtempo.strategies import FedAvg, Moon
from tests.precision import DOUBLE
from tests.runtime.learning import Built, Learned, learn
from tests.runtime.world import play

MU, TAU = 2.0, 0.5


def linear(*rows: tuple[float, float]) -> nn.Sequential:
    """Return a network whose representation of (x, y) is the product with these rows."""
    network = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor(rows))
    return network


def test_the_term_is_small_near_the_global_model_and_large_near_the_previous_one() -> None:
    """For (1, 0): z = (1, 0) and z_glob = (2, 0) have the cosine 1, z and z_prev = (0, 3) the cosine 0.

    The term is mu * -log(e^(1/tau) / (e^(1/tau) + e^0)) = 2 * log(1 + e^-2); with the models swapped 2 * log(1 + e^2).
    """
    own, same, other = linear((1, 0), (0, 1)), linear((2, 0), (0, 2)), linear((0, 1), (3, 0))
    x = torch.tensor([[1.0, 0.0]])

    def plain(outputs: torch.Tensor, labels: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        return torch.zeros(()) if reduction == "mean" else torch.zeros(len(labels))

    for received, previous, expected in (
        (same, other, math.log1p(math.exp(-2))),
        (other, same, math.log1p(math.exp(2))),
    ):
        contrast = Contrast(own, received, previous, MU, TAU)
        loss: Loss = contrast.added(plain, x)  # type: ignore[arg-type]
        outputs = own(x)
        for reduction in ("mean", "none"):
            assert loss(outputs, torch.zeros(1), reduction).item() == pytest.approx(2 * expected)
        contrast.close()
    assert not own[1]._forward_pre_hooks


def test_the_gradient_turns_a_representation_away_from_the_previous_one() -> None:
    """For (1, 0): z = (1, 0), z_glob = (2, 0), z_prev = (0, 3), and z = W x, so only W's first column matters.

    cos(z, z_glob) is at its maximum, and cos(z, z_prev) = z_2 / |z| has the gradient (0, 1). The share of z_prev in the
    term is 1 / (1 + e^(1/tau)), so the gradient of W_21 is mu / tau / (1 + e^(1/tau)) = 4 / (1 + e^2), all others 0.
    """
    own = linear((1, 0), (0, 1))
    x = torch.tensor([[1.0, 0.0]])
    contrast = Contrast(own, linear((2, 0), (0, 2)), linear((0, 1), (3, 0)), MU, TAU)
    loss: Loss = contrast.added(lambda outputs, labels, reduction="mean": 0 * outputs.sum(), x)  # type: ignore[arg-type]
    loss(own(x), torch.zeros(1), "mean").backward()
    contrast.close()
    assert own[0].weight.grad.flatten().tolist() == pytest.approx([0, 0, 4 / (1 + math.exp(2)), 0], abs=1e-7)


def network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)).double()


def clients() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(2)
    return [(rng.normal(size=(6, 3)), rng.integers(0, 3, 6)) for _ in range(2)]


def learned(strategy: Any, commits: int) -> Learned:
    training = Training(lr=0.3, full_batch=True, steps=2)
    return learn(strategy, Built(network), clients(), n_outputs=3, training=training, commits=commits)


@pytest.mark.usefixtures("double")
def test_three_rounds_equal_plain_modules() -> None:
    found = learned(Moon(mu=MU, temperature=TAU), 3)
    whole, previous = network(), [network(), network()]
    for _ in range(3):
        trained = []
        for (x, y), before in zip(clients(), previous, strict=True):
            own, inputs = copy.deepcopy(whole), torch.from_numpy(x)
            for _ in range(2):
                z, z_glob, z_prev = (model[1](model[0](inputs)) for model in (own, whole, before))
                similar = torch.cosine_similarity(z, z_glob.detach()), torch.cosine_similarity(z, z_prev.detach())
                term = nn.functional.cross_entropy(
                    torch.stack(similar, 1) / TAU, torch.zeros(len(x), dtype=torch.int64)
                )
                loss = nn.functional.cross_entropy(own(inputs), torch.from_numpy(y)) + MU * term
                gradients = torch.autograd.grad(loss, list(own.parameters()))
                with torch.no_grad():
                    for parameter, gradient in zip(own.parameters(), gradients, strict=True):
                        parameter -= 0.3 * gradient
            trained.append(own)
        previous = trained
        whole = copy.deepcopy(whole)
        with torch.no_grad():
            for mean, *own_parameters in zip(
                whole.parameters(), *(model.parameters() for model in trained), strict=True
            ):
                mean.copy_(sum(own_parameters) / 2)
    expected = torch.cat([parameter.detach().flatten() for parameter in whole.parameters()])
    torch.testing.assert_close(torch.from_numpy(found.final.copy()), expected, **DOUBLE)
    assert not np.allclose(found.final, learned(FedAvg(), 3).final)


@pytest.mark.usefixtures("double")
def test_the_first_visit_of_a_client_is_that_of_fedavg() -> None:
    """z_prev = z_glob: the term is log 2 whatever z is."""
    np.testing.assert_allclose(learned(Moon(), 1).final, learned(FedAvg(), 1).final, rtol=1e-12)


def test_it_sends_as_many_bytes_as_fedavg_and_waits_for_the_slowest() -> None:
    link = {"kind": "rates", "download_bps": 1e6, "upload_bps": 1e6}
    for strategy in (FedAvg(), Moon()):
        _, records = play(strategy, compute=[1.0, 3.0], link=link, clients=2, size_bytes=125_000, horizon=11.0)
        assert records.commits["time"].tolist() == [5.0, 10.0]


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"mu": -1.0}, {"temperature": 0.0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            Moon(**fields)  # type: ignore[arg-type]

"""`data.augment`: a user's function changes each training batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedtempo.errors import ConfigError, UserCodeError
from fedtempo.learning.augmentation import Augmentation
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.networks import Mlp
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.processes import Processes
from tests.learning import own_training
from tests.precision import DOUBLE
from tests.strategies.test_every_strategy import BASE

OWN = "tests.learning.own_training"
TRAINING = Training(lr=0.1, batch_size=8, epochs=2, statistics=frozenset({"squared_loss", "gradient_norm"}))


def job(augment: str | None, network: Any = None) -> Job:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 5)).astype(np.float32), rng.integers(0, 3, 50)
    return Job(network or Mlp((4,)), 3, x, y, [np.arange(30), np.arange(20, 50)], x[:9], y[:9], 4, augment=augment)


def outcomes(executor: Any) -> list[Any]:
    first = executor.train(executor.initial(), 0, 1, TRAINING).result()
    second = executor.train(first.location, 1, 1, TRAINING).result()
    again = executor.train(executor.initial(), 0, 1, TRAINING).result()
    server = executor.train_rows(first.location, np.arange(7), 1, TRAINING).result()
    updates = (first, second, again, server)
    return [(executor.vector(update.location).tolist(), update.statistics) for update in updates]


@pytest.mark.parametrize("name", ["noise", "flip", "unseeded"])
def test_executors_give_the_same_bits(name: str) -> None:
    with Inline(job(f"{OWN}:{name}")) as inline:
        expected = outcomes(inline)
    assert expected[0] == expected[2] != expected[1]
    for workers in (1, 2):
        with Processes(job(f"{OWN}:{name}"), workers, "fork") as processes:
            assert outcomes(processes) == expected
    with Inline(job(None)) as plain:
        without = outcomes(plain)
    assert expected[0][0] != without[0][0]
    norms = [outcome[0][1]["gradient_norm"] for outcome in (expected, without)]
    assert norms[0] == norms[1], "measured on the client's own examples"


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["noise", "flip"])
def test_a_device_draws_the_same_numbers_and_records_nothing(name: str) -> None:
    with Inline(job(f"{OWN}:{name}")) as inline, OnDevice(job(f"{OWN}:{name}"), "cpu", streams=2) as device:
        for ours, theirs in zip(outcomes(inline), outcomes(device), strict=True):
            np.testing.assert_allclose(ours[0], theirs[0], **DOUBLE)
            assert ours[1] == pytest.approx(theirs[1], rel=1e-10)
        facts = device.facts()
    assert (facts["graphs"], facts["pieces_by_graph"]) == (0, 0)
    assert facts["not_recorded"] == ["data.augment is a function of yours"]


def test_a_step_is_made_with_the_changed_batch() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((4, 3)), np.array([0, 1, 2, 1])
    model = FlatModel(nn.Linear(3, 3), (3,), torch.float64)
    received = model.vector.clone()
    augment = Augmentation(f"{OWN}:flip")
    train(
        model, Examples(x, y, False, torch.float64), Training(lr=0.5), np.random.default_rng(7), received, None, augment
    )

    draws = np.random.default_rng(7)
    seed = int(draws.integers(2**63))
    order = draws.permutation(4)
    own = int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0] >> 1)
    inputs, labels = own_training.flip(
        torch.from_numpy(x[order]), torch.from_numpy(y[order]), torch.Generator().manual_seed(own)
    )
    assert not torch.equal(labels, torch.from_numpy(y[order]))
    weight, bias = (part.clone().requires_grad_() for part in (received[:9].view(3, 3), received[9:]))
    nn.functional.cross_entropy(inputs @ weight.T + bias, labels).backward()
    expected = torch.cat([(weight - 0.5 * weight.grad).flatten(), bias - 0.5 * bias.grad])
    torch.testing.assert_close(model.vector, expected, **DOUBLE)


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("doubles", ConfigError, r"doubles' returned inputs of shape \(16, 5\).*must keep their number, 8"),
        ("listed", ConfigError, r"listed' returned inputs that are list; must be a tensor"),
        ("one_hot", ConfigError, r"one_hot' returned labels of shape \(8, 3\)"),
        ("broken", UserCodeError, r"data.augment = '.*:broken': RuntimeError: mat1 and mat2"),
        ("needs_four", ConfigError, r"must be a function of \(inputs, generator\) or \(inputs, labels, generator\)"),
    ],
)
def test_what_cannot_augment_is_rejected_in_one_line(name: str, error: type[Exception], says: str) -> None:
    def played() -> None:
        with Inline(job(f"{OWN}:{name}")) as executor:
            outcomes(executor)

    with pytest.raises(error, match=says) as raised:
        played()
    assert "\n" not in str(raised.value)


def test_a_configuration_names_the_function() -> None:
    tables = {**BASE, "strategy": {"name": "fedavg"}, "executor": {"kind": "inline"}}
    config = parse(tables).with_changes({"run.horizon": 8.0, "data.clients": 4})
    plain, augmented = config, config.with_changes({"data.augment": f"{OWN}:noise"})
    assert run(plain)[0]["model_sha256"] != run(augmented)[0]["model_sha256"]
    assert run(augmented)[1].visits["client"].tolist() == run(plain)[1].visits["client"].tolist()
    with pytest.raises(ConfigError, match=r"data.augment = '.*:none': module .* has no 'none'"):
        config.with_changes({"data.augment": f"{OWN}:none"})

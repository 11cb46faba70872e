"""Numbers, tokens, and a user's loss and optimiser give the same results on every executor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.learning.networks import CharLstm, Mlp
from fedtempo.learning.training import Training
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.processes import Processes
from tests.precision import DOUBLE

MODULE = """
import torch


def huber(outputs, labels):
    return torch.nn.functional.huber_loss(outputs[:, 0], labels, reduction="none")


def rms(parameters, lr):
    return torch.optim.RMSprop(parameters, lr=lr)
"""


@pytest.fixture(scope="module", autouse=True)
def _module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("module")
    Path(folder, "executors_own.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("executors_own", None)


def numbers() -> Job:
    x = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
    y = (x @ np.arange(5, dtype=np.float32) + 1).astype(np.float32)
    return Job(Mlp((6,)), 1, x, y, [np.arange(30), np.arange(30, 60)], x[:20], y[:20], 4)


def tokens() -> Job:
    x = np.random.default_rng(0).integers(0, 7, (40, 6))
    network = CharLstm(hidden=8, n_layers=1, every_step=True)
    return Job(network, 7, x, (x * 2) % 7, [np.arange(20), np.arange(20, 40)], x[:9], (x[:9] * 2) % 7, 4)


def outcome(executor: Any, training: Training) -> tuple[Any, ...]:
    trained = executor.train(executor.initial(), 1, 1, training).result()
    tested = executor.evaluate(trained.location).result()
    return executor.vector(trained.location).copy(), trained.statistics, trained.flaw, (tested.accuracy, tested.loss)


CASES = [
    (numbers, Training(lr=0.02)),
    (numbers, Training(lr=0.02, loss="absolute", momentum=0.5, statistics=frozenset({"squared_loss"}))),
    (numbers, Training(lr=0.02, loss="executors_own:huber")),
    (numbers, Training(lr=0.02, loss="executors_own:huber", optimizer="executors_own:rms")),
    (tokens, Training(lr=0.5, statistics=frozenset({"gradient_norm"}))),
]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_give_the_same_bits_as_this_process(method: str) -> None:
    for make, training in CASES if method == "fork" else CASES[3:4]:
        with Inline(make()) as inline, Processes(make(), 1, method) as workers:
            one, two = outcome(inline, training), outcome(workers, training)
        assert np.array_equal(one[0], two[0])
        assert one[1:] == two[1:]
        assert one[2] is None


@pytest.mark.parametrize(("make", "training"), [case for case in CASES if case[1].optimizer == "sgd"])
@pytest.mark.usefixtures("double")
def test_a_device_agrees_up_to_rounding(make: Any, training: Training) -> None:
    with Inline(make()) as inline, OnDevice(make(), "cpu", streams=1) as device:
        one, two = outcome(inline, training), outcome(device, training)
    assert one[0].dtype == np.float64
    np.testing.assert_allclose(one[0], two[0], **DOUBLE)
    assert one[1] == pytest.approx(two[1], rel=1e-10)
    assert one[3] == pytest.approx(two[3], rel=1e-10)


def test_the_device_executor_rejects_a_users_optimizer() -> None:
    with (
        OnDevice(numbers(), "cpu") as device,
        pytest.raises(ConfigError, match="a device trains with sgd or adam only"),
    ):
        outcome(device, Training(optimizer="executors_own:rms"))

"""`training.precision = "bf16"`: forward passes under autocast, everything else in single precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedtempo.errors import ConfigError
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.networks import LeNet, Mlp, create
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.processes import Processes
from tests.learning.test_several_inputs import job as texts
from tests.learning.test_several_inputs import outcome
from tests.runtime.test_executors import image_job

BF16 = Training(lr=0.1, batch_size=8, precision="bf16")


def test_the_forward_pass_rounds_and_the_parameters_do_not() -> None:
    """w = 1 + 2^-9 is 1 in bfloat16, so the output is 1, the gradient of its square 2, and the step 1/2."""
    for precision, expected in (("bf16", 0.5 + 2.0**-9), ("fp32", 0.5 + 2.0**-9 - 2.0**-10)):
        module = nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            module.weight.fill_(1 + 2.0**-9)
        model = FlatModel(module, (1,))
        examples = Examples(np.ones((1, 1), dtype=np.float32), np.zeros(1, dtype=np.float32), False)
        training = Training(lr=0.25, precision=precision)
        statistics = train(model, examples, training, np.random.default_rng(0), model.vector.clone())
        assert model.vector.item() == expected
        assert statistics["loss"] == (1.0 if precision == "bf16" else np.float32(1 + 2.0**-9) ** 2)


@pytest.mark.parametrize("network", [LeNet(channels=(3, 4), hidden=(8,)), Mlp((9,))])
def test_a_visit_is_that_of_autocast_in_pytorch(network: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((12, 1, 28, 28)).astype(np.float32), rng.integers(0, 10, 12)
    with fixed_numerics():
        model = FlatModel(create(network, (1, 28, 28), 10, 1), (1, 28, 28))
        training = Training(lr=0.1, full_batch=True, epochs=3, precision="bf16")
        examples = Examples(x, y, model.channels_last)
        train(model, examples, training, np.random.default_rng(0), model.vector.clone())

        module = FlatModel(create(network, (1, 28, 28), 10, 1), (1, 28, 28)).module
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
                outputs = module(examples.gather(torch.arange(12))[0])
            optimizer.zero_grad()
            F.cross_entropy(outputs.float(), torch.from_numpy(y)).backward()
            optimizer.step()
    for ours, theirs in zip(model.module.parameters(), module.parameters(), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("make", [image_job, lambda: texts("text_data", "Masked")])
def test_executors_give_the_same_bits(make: Any) -> None:
    with Inline(make()) as inline, Inline(make()) as single:
        expected, other = outcome(inline, BF16), outcome(single, Training(lr=0.1, batch_size=8))
    assert not np.array_equal(expected[0], other[0])
    np.testing.assert_allclose(expected[0], other[0], atol=0.1)
    with Processes(make(), 2, "fork") as processes:
        vector, *rest = outcome(processes, BF16)
    assert np.array_equal(vector, expected[0])
    assert tuple(rest) == expected[1:]


def test_a_device_computes_the_same_and_can_record_it() -> None:
    with Inline(image_job(Mlp((4,)))) as inline, OnDevice(image_job(Mlp((4,))), "cpu", streams=1) as device:
        exact = replace(BF16, lr=0.125)  # a power of two: products with it do not round
        one, two = outcome(inline, exact), outcome(device, exact)
        facts = device.facts()
    np.testing.assert_array_equal(one[0], two[0])
    assert facts["graphs"] > 0
    assert facts["not_recorded"] == []


class Unsupported(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.erfcx(super().forward(x).detach()) * super().forward(x)


def test_what_has_no_bfloat16_is_refused_in_one_line() -> None:
    model = FlatModel(Unsupported(4, 3), (4,))
    examples = Examples(np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0]), False)
    with pytest.raises(ConfigError, match=r"training.precision = 'bf16': not possible for this network: .*BFloat16"):
        train(model, examples, BF16, np.random.default_rng(0), model.vector.clone())

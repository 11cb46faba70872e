"""Batches that are dicts or tuples, outputs with logits, and losses that see the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedtempo.data.dataset import from_arrays
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError
from fedtempo.learning.evaluation import evaluate
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.networks import UserNetwork, create
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.parts.inputs import input_shape, join, separate
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.processes import Processes
from tests.learning import own_models
from tests.precision import DOUBLE
from tests.strategies.test_every_strategy import BASE

OWN = "tests.learning.own_models"


def job(source: str, network: str, **options: Any) -> Job:
    data = load(f"{OWN}:{source}")
    half = len(data.train_y) // 2
    clients = [np.arange(half), np.arange(half, 2 * half)]
    network_ = UserNetwork(f"{OWN}:{network}")
    return Job(network_, data.n_classes, data.train_x, data.train_y, clients, data.test_x, data.test_y, 4, **options)


CASES = [
    (("text_data", "Masked"), {}, Training(lr=0.3, batch_size=8)),
    (("text_data", "Masked"), {"augment": f"{OWN}:masked"}, Training(lr=0.3, momentum=0.5, batch_size=8)),
    (("text_data", "Masked"), {}, Training(lr=0.3, batch_size=8, loss=f"{OWN}:by_length")),
    (("pairs", "Pair"), {}, Training(lr=0.3, batch_size=8, statistics=frozenset({"squared_loss", "gradient_norm"}))),
]


def outcome(executor: Any, training: Training) -> Any:
    first = executor.train(executor.initial(), 0, 1, training).result()
    second = executor.train(first.location, 1, 1, training).result()
    tested = executor.evaluate(second.location).result()
    return executor.vector(second.location).copy(), first.statistics | second.statistics, (tested.accuracy, tested.loss)


@pytest.mark.parametrize(("names", "options", "training"), CASES)
def test_executors_give_the_same_bits(names: Any, options: dict[str, Any], training: Training) -> None:
    with Inline(job(*names, **options)) as inline:
        expected = outcome(inline, training)
    for workers, method in ((1, "fork"), (2, "fork"), *([(1, "spawn")] if training is CASES[0][2] else [])):
        with Processes(job(*names, **options), workers, method) as processes:
            vector, *rest = outcome(processes, training)
        assert np.array_equal(vector, expected[0])
        assert tuple(rest) == expected[1:]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("names", "options", "training"), CASES)
def test_a_device_agrees_up_to_rounding(names: Any, options: dict[str, Any], training: Training) -> None:
    with Inline(job(*names, **options)) as inline, OnDevice(job(*names, **options), "cpu", streams=1) as device:
        one, two = outcome(inline, training), outcome(device, training)
        recorded = device.facts()["graphs"] > 0
    np.testing.assert_allclose(one[0], two[0], **DOUBLE)
    assert one[1] == pytest.approx(two[1], rel=1e-9)
    assert one[2] == pytest.approx(two[2], rel=1e-9)
    assert recorded == (not options)


def test_a_step_is_that_of_pytorch_on_the_same_keywords() -> None:
    inputs, labels = own_models.texts(10, 3)
    shape = {"input_ids": (6,), "attention_mask": (6,)}
    network = UserNetwork(f"{OWN}:Masked")
    model = FlatModel(create(network, shape, 3, 0), shape, torch.float64)
    received = model.vector.clone()
    data = from_arrays("texts", inputs, labels, inputs, labels)
    examples = Examples(data.train_x, data.train_y, False, torch.float64)
    training = Training(lr=0.5, full_batch=True, loss=f"{OWN}:by_length")
    statistics = train(model, examples, training, np.random.default_rng(0), received)

    module = create(network, shape, 3, 0).double()
    tensors = {name: torch.from_numpy(np.asarray(part, dtype=np.int64)) for name, part in inputs.items()}
    losses = F.cross_entropy(module(**tensors).logits, torch.from_numpy(labels), reduction="none")
    loss = (losses * tensors["attention_mask"].sum(1)).mean()
    gradients = torch.autograd.grad(loss, list(module.parameters()))
    stepped = [part - 0.5 * gradient for part, gradient in zip(module.parameters(), gradients, strict=True)]
    torch.testing.assert_close(model.vector, torch.cat([part.flatten() for part in stepped]), **DOUBLE)
    assert statistics["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)

    model.load(received)
    logits = create(network, shape, 3, 0).double().eval()(**tensors).logits
    accuracy = float((logits.argmax(1) == torch.from_numpy(labels)).double().mean())
    expected = (accuracy, float(F.cross_entropy(logits, torch.from_numpy(labels)).detach()))
    assert evaluate(model, examples) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_a_loss_sees_the_batch_as_it_was(activation: type[nn.Module]) -> None:
    """Layers that begin with ReLU overwrite the batch if their gradients are computed by hand."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 4)), rng.integers(0, 3, 8)
    module = nn.Sequential(activation(), nn.Linear(4, 3)).double()
    weight, bias = (part.detach().clone().requires_grad_() for part in module[1].parameters())
    model = FlatModel(module, (4,), torch.float64)
    training = Training(lr=0.5, full_batch=True, loss=f"{OWN}:margin")
    received = model.vector.clone()
    train(model, Examples(x, y, False, torch.float64), training, np.random.default_rng(0), received)
    inputs = torch.from_numpy(x)
    outputs = activation()(inputs) @ weight.T + bias
    (F.cross_entropy(outputs, torch.from_numpy(y), reduction="none") * inputs.amax(1)).mean().backward()
    expected = torch.cat([(weight - 0.5 * weight.grad).flatten(), bias - 0.5 * bias.grad])
    torch.testing.assert_close(model.vector, expected, **DOUBLE)


def test_sources_give_dicts_tuples_and_items() -> None:
    arrays, items = load(f"{OWN}:text_data"), load(f"{OWN}:text_items")
    assert arrays.sha256 == items.sha256
    assert input_shape(arrays.train_x) == {"input_ids": (6,), "attention_mask": (6,)}
    inputs = own_models.texts(60, 0)[0]
    separated: Any = separate(arrays.train_x)
    assert separated["attention_mask"].dtype == np.int64
    assert all(np.array_equal(separated[name], inputs[name]) for name in inputs)
    assert (arrays.task, arrays.n_classes) == ("classes", 3)
    both = load(f"{OWN}:pairs")
    assert input_shape(both.train_x) == ((3,), (2, 2))
    assert both.train_x["f1"].dtype == np.float32
    assert arrays.transformed(own_models.last_symbols, "here").train_x["input_ids"].shape == (60, 3)
    images = load("digits").transformed(own_models.split_bytes, "here")
    assert input_shape(images.test_x) == {"left": (8,), "right": (56,)}


def test_a_tuple_of_examples_is_one_array() -> None:
    x, y = tuple(np.eye(4)), np.array([0, 1, 0, 1])
    assert from_arrays("rows", x, y, x, y).train_x.dtype.names is None


def test_fields_of_different_types_need_not_be_aligned() -> None:
    x = join({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.arange(4).reshape(2, 2)})
    inputs, _ = Examples(x, np.array([0, 1]), False).gather(torch.tensor([1]))
    assert isinstance(inputs, dict)
    assert inputs["a"].tolist() == [[3.0, 4.0, 5.0]]
    assert inputs["b"].tolist() == [[2, 3]]


@pytest.mark.parametrize(
    ("train_x", "test_x", "says"),
    [
        ({"a": np.ones((4, 2))}, {"b": np.ones((4, 2))}, r"x: training examples have the inputs a, test examples b"),
        ({"a": np.ones((4, 2)), "b": np.ones((3, 2))}, None, r"x: inputs have different numbers of examples"),
        ({"a": np.ones((4, 2)), "b": np.array(list("abcd"))}, None, r"x: input 'b': train_x is <U1; must hold numbers"),
        ({"a": np.full((4, 2), np.nan)}, None, r"x: train_x\['a'\]: example 0 holds a value that is not finite"),
        ({"a b": np.ones((4, 2))}, None, r"x: input 'a b': its name must be that of an argument"),
        ({}, None, r"x: examples have no inputs"),
    ],
)
def test_inputs_that_do_not_fit_are_rejected(train_x: Any, test_x: Any, says: str) -> None:
    labels = np.array([0, 1, 0, 1])
    with pytest.raises(ConfigError, match=says):
        from_arrays("x", train_x, labels, train_x if test_x is None else test_x, labels)


def test_a_run_trains_on_dicts_and_says_which_networks_cannot() -> None:
    tables = {**BASE, "strategy": {"name": "fedavg"}, "data": {"source": f"{OWN}:text_data", "clients": 3}}
    tables |= {"executor": {"kind": "inline"}, "run": {"horizon": 60.0, "verify": True}, "training": {"lr": 1.0}}
    config = parse({**tables, "model": {"network": f"{OWN}:Masked"}})
    summary, _, _ = run(config)
    assert summary["final_accuracy"] > 0.5
    with pytest.raises(ConfigError, match=r"model.network = 'mlp': needs one input, .* have several \(input_ids, att"):
        run(parse({**tables, "model": {"network": "mlp"}}))


def test_outputs_without_logits_are_named() -> None:
    model = FlatModel(own_models.Listing(4, 3), (4,))
    examples = Examples(np.ones((2, 4), dtype=np.float32), np.array([0, 1]), False)
    with pytest.raises(ConfigError, match="the module returned list; it must return a tensor, or an object with"):
        evaluate(model, examples)

"""Patterns choose what travels; the sections of a vector follow them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.examples import Examples
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.gradients import Autograd, ByHand
from fedtempo.learning.local import train
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.runs.config import parse
from tests.strategies.nets import both, normalised
from tests.strategies.test_every_strategy import BASE

# names: 0 convolution (36 + 4), 3 batch normalisation (4 + 4; statistics 4 + 4), 5 linear (360 + 10)


def model(exchange: Exchange, make: Any = normalised) -> FlatModel:
    torch.manual_seed(0)
    return FlatModel(make((1, 8, 8), 10), (1, 8, 8), exchange=exchange)


@pytest.mark.parametrize(
    ("keys", "lengths"),  # trainable, statistics, local, frozen
    [
        ({}, (418, 8, 0, 0)),
        ({"buffers": "local"}, (418, 0, 8, 0)),
        ({"buffers": "frozen"}, (418, 0, 0, 8)),
        ({"local": ("3.*",)}, (410, 0, 16, 0)),
        ({"local": ("3.running_*",)}, (418, 0, 8, 0)),
        ({"local": ("3.weight", "3.bias")}, (410, 8, 8, 0)),
        ({"exchange": ("5.*",)}, (370, 0, 56, 0)),
        ({"exchange": ("*.weight",), "local": ("5.*",)}, (40, 0, 386, 0)),
        ({"exchange": ("5.*",), "buffers": "frozen"}, (370, 0, 48, 8)),
        ({"exchange": ("[05].*", "3.running_mean")}, (410, 4, 12, 0)),
    ],
)
def test_patterns_choose_the_sections(keys: dict[str, Any], lengths: tuple[int, ...]) -> None:
    flat = model(Exchange(**keys))
    sections = flat.sections
    assert (sections.trainable, sections.statistics, sections.local, sections.frozen) == lengths
    assert flat.size == 426
    state = normalised_state()
    assert all(torch.equal(value, state[name]) for name, value in flat.state_dict().items())
    assert len(flat.sent) == lengths[0] + lengths[1]
    assert len(flat.kept) == lengths[2]


def normalised_state() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {name: value.clone() for name, value in normalised((1, 8, 8), 10).state_dict().items()}


def test_frozen_parameters_stay_frozen_whatever_travels() -> None:
    flat = model(Exchange(exchange=("5.*",)), both)
    assert (flat.sections.trainable, flat.sections.local, flat.sections.frozen) == (370, 8 + 3 + 8, 40)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"local": ("norm*",)},
            r"^model\.local: 'norm\*' matches no parameter or buffer; there are 0\.weight, 0\.bias",
        ),
        ({"exchange": ("5.*", "lora")}, r"^model\.exchange: 'lora' matches no parameter or buffer"),
        ({"local": ("*",)}, r"^model\.exchange, model\.local: no trainable parameter is left that travels"),
        ({"exchange": ("3.running_*",)}, r"no trainable parameter is left that travels"),
    ],
)
def test_a_pattern_that_cannot_be_meant_is_rejected_in_one_line(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        model(Exchange(**keys))
    assert "\n" not in str(raised.value)


def test_a_pattern_for_frozen_parameters_and_buffers_that_do_not_exist_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^model\.exchange: '0\.\*' matches only parameters with requires_grad"):
        model(Exchange(exchange=("0.*", "5.*")), both)
    with pytest.raises(ConfigError, match=r"^model\.buffers = 'local': the network has no buffers"):
        FlatModel(nn.Linear(2, 2), (2,), exchange=Exchange(buffers="local"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.local": "5.*"}, r"^model\.local: give a list of patterns: \['5\.\*'\]$"),
        ({"model.buffers": "mean"}, r"^model\.buffers = 'mean': input should be 'average', 'local' or 'frozen'$"),
        ({"model.local": [1]}, r"^model\.local"),
    ],
)
def test_bad_keys_are_rejected_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        parse({**BASE, "strategy": {"name": "fedavg"}}).with_changes(changes)
    assert "\n" not in str(raised.value)


def test_the_keys_are_read_back_from_the_complete_configuration() -> None:
    config = parse({**BASE, "strategy": {"name": "fedavg"}}).with_changes({"model.local": ["0.*"]})
    again = parse(config.tables)
    assert again.exchange == config.exchange == Exchange(local=("0.*",))
    assert again.network == config.network
    assert "local" not in parse({**BASE, "strategy": {"name": "fedavg"}}).tables["model"]


def test_loading_what_travels_gives_the_rest_its_first_values_or_the_clients() -> None:
    flat = model(Exchange(local=("3.*",)))
    first = flat.vector.clone()
    flat.vector.fill_(7.0)
    flat.load(torch.full((410,), 2.0))
    assert (flat.sent == 2.0).all()
    assert torch.equal(flat.vector[410:], first[410:])
    flat.local = torch.arange(16.0)
    flat.load(np.full(410, 3.0, dtype=np.float32))
    assert (flat.sent == 3.0).all()
    assert torch.equal(flat.kept, torch.arange(16.0))


def test_a_whole_vector_sets_new_first_values() -> None:
    flat = model(Exchange(local=("3.*",)))
    flat.load(torch.arange(426.0))
    flat.load(torch.zeros(410))
    assert torch.equal(flat.vector[410:], torch.arange(426.0)[410:])


def test_tied_parameters_match_by_any_of_their_names() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.second(torch.relu(self.first(x)))
            return out

    assert FlatModel(Tied(), (4,), exchange=Exchange(local=("second.weight",))).sections.local == 16


def test_what_travels_is_part_of_the_layout_that_clients_must_share() -> None:
    ways = [Exchange(), Exchange(buffers="local"), Exchange(buffers="frozen"), Exchange(local=("0.weight",))]
    assert len({model(way).layout for way in ways}) == 4


def examples() -> Examples:
    rng = np.random.default_rng(0)
    return Examples(rng.normal(3.0, 2.0, (20, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 20), True)


def test_normalisation_with_frozen_statistics_uses_them_in_training() -> None:
    """The same steps as with a module whose batch normalisation is in evaluation mode."""
    flat = model(Exchange(buffers="frozen"))
    received = flat.vector.clone()
    train(flat, examples(), Training(lr=0.1, batch_size=5), np.random.default_rng(1), received)
    assert torch.equal(flat.vector[418:], received[418:])
    assert not flat.module[3].training
    assert flat.module[5].training
    other = model(Exchange())
    other.module[3].train = lambda mode=True: other.module[3]  # type: ignore[method-assign,index,union-attr]
    other.module[3].training = False  # type: ignore[index,union-attr]
    train(other, examples(), Training(lr=0.1, batch_size=5), np.random.default_rng(1), received)
    assert torch.equal(flat.vector, other.vector)


@pytest.mark.parametrize("keys", [{}, {"local": ("1.*",)}, {"exchange": ("3.weight",)}])
def test_a_plain_stack_keeps_its_gradients_by_hand_whatever_travels(keys: dict[str, Any]) -> None:
    """A step changes each named parameter in the same way."""

    def stack() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))

    flat, plain = (FlatModel(stack(), (1, 8, 8), exchange=exchange) for exchange in (Exchange(**keys), Exchange()))
    assert isinstance(flat.gradients, ByHand)
    for each in (flat, plain):
        each.module.train()
        train(each, examples(), Training(lr=0.1, batch_size=5), np.random.default_rng(1), each.vector.clone())
    expected = plain.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in flat.state_dict().items())


def test_a_stack_with_constants_between_its_parameters_uses_autograd() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    module.register_buffer("constant", torch.ones(3))
    assert isinstance(FlatModel(module, (1, 8, 8), exchange=Exchange(local=("1.bias",))).gradients, Autograd)

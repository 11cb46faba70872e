import sys

import numpy as np
import pytest
import torch
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.networks import (
    NETWORKS,
    CharLstm,
    Cnn,
    CnnFedcs,
    CnnHam10000,
    CnnMcMahan,
    CnnPsfl,
    LeNet,
    Logistic,
    Mlp,
    UserNetwork,
    create,
)


def parameters(network, shape, n_classes):
    return sum(parameter.numel() for parameter in create(network, shape, n_classes, 0).parameters())


@pytest.mark.parametrize(
    ("network", "shape", "n_classes", "count"),
    [
        (LeNet(), (1, 28, 28), 10, 422_474),
        (CnnMcMahan(), (1, 28, 28), 10, 1_663_370),
        (Mlp(), (1, 28, 28), 10, 199_210),
        (CnnPsfl(), (3, 32, 32), 10, 62_006),
        (CnnHam10000(), (3, 28, 28), 7, 241_735),
        (CnnFedcs(), (3, 32, 32), 10, 4_583_146),
        (CharLstm(), (80,), 80, 819_920),
        (CharLstm(bias_vectors=1), (80,), 80, 817_872),
        (Logistic(), (1, 8, 8), 10, 650),
    ],
)
def test_default_networks_have_the_papers_sizes(network, shape, n_classes, count):
    assert parameters(network, shape, n_classes) == count


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_every_named_network_maps_a_batch_to_logits(name):
    shape = (20,) if name == "char-lstm" else (3, 32, 32)
    inputs = torch.zeros(2, *shape, dtype=torch.int64 if name == "char-lstm" else torch.float32)
    assert create(NETWORKS[name](), shape, 7, 0)(inputs).shape == (2, 7)


def test_initial_weights_depend_on_the_seed_alone_and_leave_the_callers_random_state():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = create(LeNet(), (1, 28, 28), 10, 1)
    assert torch.equal(torch.rand(3), expected)
    again, other = create(LeNet(), (1, 28, 28), 10, 1), create(LeNet(), (1, 28, 28), 10, 2)
    assert torch.equal(first[0].weight, again[0].weight)
    assert not torch.equal(first[0].weight, other[0].weight)


def test_images_that_are_too_small_are_refused_with_what_would_fit():
    with pytest.raises(ConfigError, match=r"8 x 8 are too small for 'valid', .* at least 16 x 16 \('same': 4 x 4\)"):
        create(LeNet(), (1, 8, 8), 10, 0)
    assert create(LeNet(), (1, 16, 16), 10, 0)(torch.zeros(1, 1, 16, 16)).shape == (1, 10)
    assert create(LeNet(padding="same"), (1, 4, 4), 10, 0)(torch.zeros(1, 1, 4, 4)).shape == (1, 10)


def test_shapes_of_the_wrong_kind_are_refused():
    with pytest.raises(ConfigError, match="needs images"):
        create(LeNet(), (784,), 10, 0)
    with pytest.raises(ConfigError, match="needs sequences"):
        create(CharLstm(), (1, 28, 28), 10, 0)


def test_pooling_after_a_layer_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no convolution 3"):
        Cnn(channels=(8, 8), pool_after=(3,))


def test_pooling_before_relu_gives_the_same_as_after():
    module = create(LeNet(), (1, 28, 28), 10, 0)
    x = torch.randn(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    first, second = module[0], module[3]
    features = nn.functional.max_pool2d(torch.relu(second(nn.functional.max_pool2d(torch.relu(first(x)), 2))), 2)
    assert torch.equal(module[-1](features), module(x))


def test_one_bias_lstm_equals_pytorchs_with_the_second_bias_zero():
    one, two = create(CharLstm(bias_vectors=1), (6,), 11, 0), create(CharLstm(), (6,), 11, 0)
    with torch.no_grad():
        for name, value in two.state_dict().items():
            value.zero_() if "bias_hh" in name else value.copy_(one.state_dict()[name])
    tokens = torch.arange(12).view(2, 6) % 11
    assert torch.equal(one(tokens), two(tokens))


class Shaped(nn.Linear):
    def __init__(self, input_shape, n_classes):
        super().__init__(int(np.prod(input_shape)), n_classes)


class Fixed(nn.Linear):
    def __init__(self):
        super().__init__(4, 2)


def test_user_networks_get_the_shape_where_they_take_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_networks", sys.modules[__name__])
    assert create(UserNetwork("my_networks:Shaped"), (2, 3), 5, 0).weight.shape == (5, 6)
    assert create(UserNetwork("my_networks:Fixed"), (4,), 2, 0).weight.shape == (2, 4)
    with pytest.raises(ConfigError, match="has no 'Missing'"):
        create(UserNetwork("my_networks:Missing"), (4,), 2, 0)
    with pytest.raises(ConfigError, match="made a dict"):
        create(UserNetwork("builtins:dict"), (4,), 2, 0)
    with pytest.raises(ConfigError, match="cannot import 'no_such_module'"):
        create(UserNetwork("no_such_module:Net"), (4,), 2, 0)

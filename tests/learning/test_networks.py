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
    ResNet18,
    UserNetwork,
    create,
)
from fedtempo.learning.state import FlatModel


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
        (ResNet18(), (3, 32, 32), 10, 11_173_962),
        (ResNet18(), (1, 28, 28), 62, 11_172_810 + 52 * 513),
    ],
)
def test_default_networks_have_the_sizes_of_the_papers(network, shape, n_classes, count):
    assert parameters(network, shape, n_classes) == count


@pytest.mark.parametrize(
    ("network", "shape", "megabytes"),
    [
        (LeNet(), (1, 28, 28), 1.7),  # FedHusky, Section IV-A
        (CnnFedcs(), (3, 32, 32), 18.3),  # Hybrid-FL, Section V-A, CIFAR-10
        (CnnFedcs(), (1, 28, 28), 14.4),  # and Fashion-MNIST
    ],
)
def test_networks_have_the_megabytes_printed_in_the_papers(network, shape, megabytes):
    assert round(4 * parameters(network, shape, 10) / 1e6, 1) == megabytes


@pytest.mark.parametrize("name", sorted(NETWORKS.keys() - {"transformers"}))  # which needs a configuration
def test_every_named_network_maps_a_batch_to_logits(name):
    shape = {"char-lstm": (20,), "gru": (20, 3), "cnn-1d": (20, 3)}.get(name, (3, 32, 32))
    inputs = torch.zeros(2, *shape, dtype=torch.int64 if name == "char-lstm" else torch.float32)
    for_each_pixel = shape[1:] if name == "unet" else ()
    assert create(NETWORKS[name](), shape, 7, 0)(inputs).shape == (2, 7, *for_each_pixel)


def test_initial_weights_depend_only_on_the_seed_and_do_not_change_the_global_random_state():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = create(LeNet(), (1, 28, 28), 10, 1)
    assert torch.equal(torch.rand(3), expected)
    again, other = create(LeNet(), (1, 28, 28), 10, 1), create(LeNet(), (1, 28, 28), 10, 2)
    assert torch.equal(first[0].weight, again[0].weight)
    assert not torch.equal(first[0].weight, other[0].weight)


def test_images_that_are_too_small_are_rejected_with_the_minimum_size():
    with pytest.raises(
        ConfigError,
        match=r"padding = 'valid': images of 8 x 8 are too small; 'valid' needs at least 16 x 16, 'same' 4 x 4",
    ):
        create(LeNet(), (1, 8, 8), 10, 0)
    assert create(LeNet(), (1, 16, 16), 10, 0)(torch.zeros(1, 1, 16, 16)).shape == (1, 10)
    assert create(LeNet(padding="same"), (1, 4, 4), 10, 0)(torch.zeros(1, 1, 4, 4)).shape == (1, 10)


def test_inputs_of_the_wrong_rank_are_rejected():
    with pytest.raises(ConfigError, match="needs images"):
        create(LeNet(), (784,), 10, 0)
    with pytest.raises(ConfigError, match="needs sequences"):
        create(CharLstm(), (1, 28, 28), 10, 0)


def test_pooling_after_a_missing_layer_is_rejected():
    with pytest.raises(ValueError, match="no convolution 3; channels defines 2"):
        Cnn(channels=(8, 8), pool_after=(3,))


def test_pooling_before_relu_equals_pooling_after_it():
    module = create(LeNet(), (1, 28, 28), 10, 0)
    x = torch.randn(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    first, second = module[0], module[3]
    features = nn.functional.max_pool2d(torch.relu(second(nn.functional.max_pool2d(torch.relu(first(x)), 2))), 2)
    assert torch.equal(module[-1](features), module(x))


def test_a_lstm_with_one_bias_equals_pytorchs_with_the_second_bias_zero():
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


def test_user_networks_get_the_input_shape_if_they_accept_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "my_networks", sys.modules[__name__])
    assert create(UserNetwork("my_networks:Shaped"), (2, 3), 5, 0).weight.shape == (5, 6)
    assert create(UserNetwork("my_networks:Fixed"), (4,), 2, 0).weight.shape == (2, 4)
    with pytest.raises(ConfigError, match="has no 'Missing'"):
        create(UserNetwork("my_networks:Missing"), (4,), 2, 0)
    with pytest.raises(ConfigError, match=r"returned dict; it must return a torch\.nn\.Module"):
        create(UserNetwork("builtins:dict"), (4,), 2, 0)
    with pytest.raises(ConfigError, match="cannot import 'no_such_module'"):
        create(UserNetwork("no_such_module:Net"), (4,), 2, 0)


def test_dropout_acts_only_in_training_and_follows_every_hidden_layer():
    module = create(CnnHam10000(), (3, 32, 32), 7, 0)
    assert [part.p for part in module.modules() if isinstance(part, nn.Dropout)] == [0.5]
    inputs = torch.ones(4, 3, 32, 32)
    assert not torch.equal(module(inputs), module(inputs))
    module.eval()
    assert torch.equal(module(inputs), module(inputs))
    deeper = create(Cnn(hidden=(8, 8), dropout=0.25), (1, 8, 8), 7, 0)
    assert sum(isinstance(part, nn.Dropout) for part in deeper.modules()) == 2
    assert not any(isinstance(part, nn.Dropout) for part in create(Cnn(), (1, 8, 8), 7, 0).modules())
    with pytest.raises(ValueError, match="dropout"):
        Cnn(dropout=1.0)


def test_batch_norm_without_running_statistics_adds_only_weights_to_the_vector():
    with_them = FlatModel(create(CnnFedcs(), (3, 32, 32), 10, 0), (3, 32, 32))
    without = FlatModel(create(CnnFedcs(running_statistics=False), (3, 32, 32), 10, 0), (3, 32, 32))
    assert without.size == without.n_parameters == with_them.n_parameters
    assert with_them.size - without.size == 2 * (32 + 32 + 64 + 64 + 128 + 128)
    without.module.eval()
    few, more = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
    together = without.module(torch.cat([few, more]))[:2]
    assert not torch.allclose(together, without.module(few))  # normalised over its batch


def test_residual_networks_normalise_each_example_by_itself():
    module = create(ResNet18(channels=(4, 8)), (1, 8, 8), 3, 0)
    inputs = torch.rand(3, 1, 8, 8)
    torch.testing.assert_close(module(inputs)[:1], module(inputs[:1]))
    assert not any(True for _ in module.buffers())
    strides = [
        part.stride[0] for part in module.modules() if isinstance(part, nn.Conv2d) and part.kernel_size == (3, 3)
    ]
    assert strides == [1, 1, 1, 1, 1, 2, 1, 1, 1]
    with pytest.raises(ValueError, match="groups = 3: must divide the channels of every stage, including 64"):
        ResNet18(groups=3)
    with pytest.raises(ConfigError, match="needs images"):
        create(ResNet18(), (8,), 3, 0)

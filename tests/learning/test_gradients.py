import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedtempo.learning.gradients import Autograd, ByHand, make_gradients
from fedtempo.learning.losses import CrossEntropy
from fedtempo.learning.networks import Cnn, CnnFedcs, CnnMcMahan, CnnPsfl, LeNet, Logistic, Mlp, create
from fedtempo.learning.state import FlatModel
from tests.precision import DOUBLE

IMAGE = (2, 9, 11)


def stack(*layers, image=IMAGE):
    """Return these modules followed by a layer with four classes, whatever the shape before it."""
    features = nn.Sequential(*layers, nn.Flatten())
    width = features(torch.zeros(1, *image)).shape[1]
    return nn.Sequential(features, nn.Linear(width, 6), nn.ReLU(), nn.Linear(6, 4))


STACKS = {
    "nothing but a line": lambda: nn.Sequential(nn.Flatten(), nn.Linear(198, 4)),
    "no bias": lambda: stack(nn.Conv2d(2, 3, 3, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(189, 5, bias=False)),
    "stride, padding": lambda: stack(nn.Conv2d(2, 4, 3, stride=2, padding=(1, 0)), nn.ReLU(), nn.Conv2d(4, 4, 2)),
    "dilation, groups": lambda: stack(nn.Conv2d(2, 4, 3, dilation=2, groups=2, padding="same"), nn.ReLU()),
    "valid, pooled before": lambda: stack(nn.Conv2d(2, 4, 3, padding="valid"), nn.MaxPool2d(2), nn.ReLU()),
    "pooled after": lambda: stack(nn.Conv2d(2, 4, 3), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1, ceil_mode=True)),
    "starts with a layer without weights": lambda: stack(nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(2, 4, 3)),
    "in tiles": lambda: stack(nn.Conv2d(2, 32, 2), nn.ReLU(), nn.Conv2d(32, 33, 5, padding=(0, 1)), nn.ReLU()),
    "flattened twice, ReLU twice": lambda: stack(nn.Flatten(), nn.ReLU(), nn.ReLU()),
}


def batch(size=6, image=IMAGE, dtype=torch.float64):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((size, *image))).to(dtype)
    x[:2] = 0.0  # a constant image: all positions of a pool hold the same value
    return x, torch.from_numpy(rng.integers(0, 4, size))


def model_of(module, image=IMAGE):
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return FlatModel(module, image, torch.float64)


def flat(tensors):
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def by_position(model, gradient):
    """Split a gradient in the vector's order into tensors shaped like the module's parameters."""
    places = [parameter.detach() for parameter in model.module.parameters()]
    return [gradient.as_strided(view.shape, view.stride(), view.storage_offset()) for view in places]


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("adjustment", [None, torch.tensor([-1.0, 0.5, 2.0, -torch.inf], dtype=torch.float64)])
def test_gradients_by_hand_equal_those_of_autograd(name, adjustment):
    model = model_of(STACKS[name]())
    assert isinstance(model.gradients, ByHand)
    loss_of = CrossEntropy(adjustment)
    x, y = batch()
    y %= 3
    wanted_loss, wanted_logits, wanted = Autograd(model.module).of(loss_of, x, y)
    before = model.vector.clone()
    loss, logits, (gradient,) = model.gradients.of(loss_of, x.clone(), y)
    assert torch.equal(model.vector, before)
    torch.testing.assert_close(loss, wanted_loss.detach(), **DOUBLE)
    torch.testing.assert_close(logits, wanted_logits, **DOUBLE)
    torch.testing.assert_close(flat(by_position(model, gradient)), flat(wanted), **DOUBLE)


@pytest.mark.parametrize("name", STACKS)
def test_descending_takes_a_step_against_the_gradient(name):
    model = model_of(STACKS[name]())
    x, y = batch()
    before = model.vector.clone()
    _, _, (gradient,) = model.gradients.of(CrossEntropy(), x.clone(), y)
    wanted = before - 0.1 * gradient
    model.gradients.descend(CrossEntropy(), x.clone(), y, 0.1)
    torch.testing.assert_close(model.vector, wanted, **DOUBLE)


def test_descending_with_autograd_takes_the_same_step():
    module = nn.Sequential(nn.Flatten(), nn.Linear(198, 5), nn.Tanh(), nn.Linear(5, 4))
    model = model_of(module)
    assert isinstance(model.gradients, Autograd)
    x, y = batch()
    F.cross_entropy(module(x), y).backward()
    wanted = model.vector - 0.1 * flat([parameter.grad for parameter in module.parameters()])
    model.gradients.descend(CrossEntropy(), x, y, 0.1)
    torch.testing.assert_close(model.vector, wanted, **DOUBLE)


@pytest.mark.parametrize("network", [LeNet(), Cnn(), CnnMcMahan(), CnnPsfl(), Mlp(), Logistic()])
def test_the_named_networks_are_stacks(network):
    image = (1, 28, 28)
    assert isinstance(FlatModel(create(network, image, 10, 0), image).gradients, ByHand)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def watched():
    module = stack(nn.Conv2d(2, 3, 3))
    module[0][0].register_forward_hook(lambda *_: None)
    return module


def tied():
    module = nn.Sequential(nn.Flatten(), nn.Linear(198, 198), nn.ReLU(), nn.Linear(198, 198), nn.Linear(198, 4))
    module[3].weight = module[1].weight
    return module


def partly_frozen():
    module = stack(nn.Conv2d(2, 3, 3))
    module[0][0].bias.requires_grad_(False)
    return module


@pytest.mark.parametrize(
    "make",
    [
        watched,
        tied,
        partly_frozen,
        lambda: nn.Sequential(nn.Flatten(), Doubled(198, 4)),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(198, 4), nn.Dropout(0.5)),
        lambda: stack(nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect")),
        lambda: stack(nn.Conv2d(2, 3, 2, padding="same")),
        lambda: stack(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)),
        lambda: nn.Sequential(nn.Linear(11, 4), nn.Flatten(), nn.Linear(72, 4)),
        lambda: create(CnnFedcs(channels=(4,), pool_after=(), hidden=()), IMAGE, 4, 0),
    ],
)
def test_a_module_that_is_not_a_plain_stack_uses_autograd(make):
    module = make().double()
    model = FlatModel(module, IMAGE, torch.float64)
    assert isinstance(model.gradients, Autograd)
    loss, _, gradients = model.gradients.of(CrossEntropy(), *batch())
    assert loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_module_without_weights_uses_autograd():
    assert isinstance(make_gradients(nn.Flatten(), (4,), torch.empty(0)), Autograd)

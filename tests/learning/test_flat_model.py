import numpy as np
import pytest
import torch
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.networks import CnnFedcs, LeNet, create
from fedtempo.learning.state import FlatModel
from tests.precision import DOUBLE


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class ViewsFeatures(nn.Module):
    """A module that works only with contiguous strides."""

    def __init__(self):
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 2)

    def forward(self, x):
        return self.head(self.convolution(x).view(len(x), -1))


def test_parameters_are_views_of_the_vector_and_the_function_is_unchanged():
    module = create(LeNet(), (1, 28, 28), 10, 0).double()
    x = torch.randn(4, 1, 28, 28, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = module(x).detach()
    model = FlatModel(module, (1, 28, 28), torch.float64)
    torch.testing.assert_close(model.module(x).detach(), before, **DOUBLE)
    assert model.size == model.n_parameters == 422_474
    model.vector.zero_()
    assert all(not parameter.any() for parameter in module.parameters())


def test_convolution_weights_are_stored_channels_last():
    model = FlatModel(create(LeNet(), (1, 28, 28), 10, 0), (1, 28, 28))
    assert model.channels_last
    assert model.module[3].weight.is_contiguous(memory_format=torch.channels_last)


def test_a_module_that_needs_contiguous_strides_gets_them():
    model = FlatModel(ViewsFeatures(), (3, 8, 8))
    assert not model.channels_last
    assert model.module.convolution.weight.is_contiguous()


def test_tied_weights_occur_once_and_stay_tied():
    model = FlatModel(Tied(), (4,))
    assert model.size == 16 + 4 + 4
    model.load(np.arange(24, dtype=np.float32))
    assert model.module.second.weight is model.module.first.weight
    assert model.module.first.weight[0, 1] == 1


def test_float_buffers_are_part_of_the_vector_and_counters_restart():
    model = FlatModel(create(CnnFedcs(), (1, 8, 8), 10, 0), (1, 8, 8))
    assert model.size == model.n_parameters + 896
    start = model.vector.clone()
    model.module.train()
    model.module(torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0)))
    counters = [buffer for buffer in model.module.buffers() if not buffer.is_floating_point()]
    assert torch.equal(model.vector[: model.n_parameters], start[: model.n_parameters])
    assert not torch.equal(model.vector[model.n_parameters :], start[model.n_parameters :])
    assert all(counter == 1 for counter in counters)
    model.load(start)
    assert torch.equal(model.vector, start)
    assert all(counter == 0 for counter in counters)


def test_buffers_outside_the_state_dict_are_not_part_of_the_vector():
    class WithConstant(nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self.register_buffer("constant", torch.ones(5), persistent=False)

    assert FlatModel(WithConstant(), (2,)).size == 6


class Rotates(nn.Module):
    """Multiplies pairs of numbers by complex ones, as rotary position embeddings do."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(2), torch.tensor([0.5, 1.0])))
        self.register_buffer("hidden", torch.polar(torch.ones(2), torch.tensor([0.5, 1.0])), persistent=False)
        self.weight = nn.Parameter(torch.ones(4, 2, dtype=dtype))

    def forward(self, x):
        turned = torch.view_as_complex(x.view(-1, 2, 2)) * self.turns.to(torch.complex64)
        return torch.view_as_real(turned).flatten(1).to(self.weight.dtype) @ self.weight


@pytest.mark.filterwarnings("error")
def test_complex_buffers_keep_their_imaginary_parts():
    module = Rotates()
    turns, x = module.turns.clone(), torch.ones(1, 4)
    before = module(x)
    model = FlatModel(module, (4,))
    assert model.size == 8
    assert torch.equal(module.turns, turns)
    assert torch.equal(module.hidden, turns)
    assert torch.equal(module(x), before)
    module.turns.zero_()
    model.load(model.vector.numpy().copy())  # as other constants, they restart with each visit
    assert torch.equal(model.state_dict()["turns"], turns)
    assert np.array_equal(model.naming.named(model.vector.numpy())["turns"], turns.numpy())


def test_complex_parameters_are_rejected_by_name():
    with pytest.raises(ConfigError, match=r"parameter weight is torch.complex64; parameters must be real"):
        FlatModel(Rotates(torch.complex64), (4,))


def test_read_only_arrays_can_be_loaded():
    model = FlatModel(nn.Linear(2, 2), (2,))
    vector = np.ones(6, dtype=np.float32)
    vector.flags.writeable = False
    model.load(vector)
    assert model.vector.tolist() == [1.0] * 6


def test_the_state_dict_loads_into_the_plain_module():
    model = FlatModel(create(CnnFedcs(), (1, 8, 8), 10, 0), (1, 8, 8))
    plain = create(CnnFedcs(), (1, 8, 8), 10, 99)
    plain.load_state_dict(model.state_dict())
    assert all(torch.equal(value, model.module.state_dict()[name]) for name, value in plain.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_vector_has_the_requested_dtype(dtype):
    assert FlatModel(nn.Linear(2, 2), (2,), dtype).vector.dtype == dtype

"""Parts of the flat vector by name: ordinary strides, tied parameters, buffers, and files from anybody."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.loading import load_named
from fedtempo.learning.naming import METADATA_KEY, Naming
from fedtempo.learning.networks import Cnn, CnnFedcs, create
from fedtempo.learning.state import FlatModel
from tests.learning.test_flat_model import Tied


class Small(nn.Sequential):
    """Two input channels, kernels of 1 x 2: small enough to lay out by hand."""

    def __init__(self):
        super().__init__(nn.Conv2d(2, 1, (1, 2)), nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(3, 1, bias=False))


def test_convolutions_get_ordinary_strides():
    model = FlatModel(Small(), (2, 1, 4))
    assert model.channels_last
    # trainable: weights as (out, height, width, in), bias, scale, shift, linear; then running mean and variance
    names = model.naming.named(np.arange(12, dtype=np.float32))
    assert names["0.weight"].tolist() == [[[[0.0, 2.0]], [[1.0, 3.0]]]]
    assert names["0.weight"].strides == (16, 8, 8, 4)
    assert {name: array.tolist() for name, array in names.items() if name != "0.weight"} == {
        "0.bias": [4.0],
        "1.weight": [5.0],
        "1.bias": [6.0],
        "1.running_mean": [10.0],
        "1.running_var": [11.0],
        "1.num_batches_tracked": 0,
        "3.weight": [[7.0, 8.0, 9.0]],
    }
    assert list(names) == list(Small().state_dict())


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (Small(), (2, 1, 4)),
        (Tied(), (4,)),
        (create(CnnFedcs(), (1, 8, 8), 10, 0), (1, 8, 8)),
        (create(Cnn((4, 6), batch_norm=True, running_statistics=False), (3, 8, 8), 10, 0), (3, 8, 8)),
    ],
)
def test_a_plain_module_computes_the_same_with_the_named_tensors(module, shape):
    model = FlatModel(module, shape)
    vector = np.random.default_rng(0).uniform(0.5, 1.0, model.size).astype(np.float32)
    model.load(vector)
    named = model.naming.named(vector)
    expected = {name: value.detach().clone() for name, value in module.state_dict().items()}
    assert list(named) == list(expected)
    for name, array in named.items():
        assert np.array_equal(array, expected[name].numpy())
        assert array.flags.c_contiguous
    assert model.naming.flat(named).tobytes() == vector.tobytes()
    read = Naming.of_file(named, model.naming.metadata())
    assert read.flat(named).tobytes() == vector.tobytes()
    assert {name: array.tolist() for name, array in read.named(vector).items()} == {
        name: array.tolist() for name, array in named.items()
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 13}, "do not make up a model of 13"),
        ({"order": ["0.weight"]}, "do not make up a model"),
        ({"pieces": [["0.weight", 0, True], ["0.bias", 5, False]]}, "a gap or overlap at 4"),
        ({"pieces": [["0.weight", 1, True]]}, "a gap or overlap at 0"),
        ({"pieces": [["nothing", 0, True]]}, "cannot be read: KeyError"),
        ({"pieces": 3}, "cannot be read: TypeError"),
    ],
)
def test_a_file_that_does_not_cover_the_vector_is_rejected(change, message):
    model = FlatModel(Small(), (2, 1, 4))
    named = model.naming.named(model.vector.numpy())
    layout = json.loads(model.naming.metadata()[METADATA_KEY]) | change
    with pytest.raises(ValueError, match=message):
        Naming.of_file(named, {METADATA_KEY: json.dumps(layout)})


def test_what_does_not_fit_is_named_in_one_line():
    tensors = {name: value.clone() for name, value in Small().state_dict().items()}
    del tensors["0.bias"]
    tensors["3.weight"] = torch.zeros(1, 4)
    tensors |= {f"head.{i}": torch.zeros(1) for i in range(5)}
    with pytest.raises(ConfigError) as caught:
        load_named(Small(), tensors, "this model")
    assert str(caught.value) == (
        "this model does not fit the network: missing: 0.bias; not in the network: head.0, head.1, head.2 and 2 more; "
        "wrong shape: 3.weight (1, 4) instead of (1, 3)"
    )


def test_a_part_of_several_vectors_by_name():
    """The first axis is the vector; the parts of a vector lie where its names say."""
    model = FlatModel(Small(), (2, 1, 4))
    vectors = np.arange(24, dtype=np.float32).reshape(2, 12)
    part = model.naming.part(vectors[:, :5], 0)
    assert {name: array.tolist() for name, array in part.items()} == {
        "0.weight": [[[[[0.0, 2.0]], [[1.0, 3.0]]]], [[[[12.0, 14.0]], [[13.0, 15.0]]]]],
        "0.bias": [[4.0], [16.0]],
    }
    assert part["0.weight"].flags.c_contiguous
    assert model.naming.part_of(part, 0, 2).tolist() == vectors[:, :5].tolist()
    assert model.naming.part_of(model.naming.part(vectors[:0, 7:], 7), 7, 0).shape == (0, 5)
    with pytest.raises(ValueError, match="entries 0 to 3 are no whole tensors"):
        model.naming.part(vectors[:, :3], 0)
    with pytest.raises(ValueError, match=r"0\.bias has shape \(1, 1\), not \(2, 1\)"):
        model.naming.part_of({**part, "0.bias": part["0.bias"][:1]}, 0, 2)
    with pytest.raises(ValueError, match="not those of the model"):
        model.naming.part_of({**part, "other": part["0.bias"]}, 0, 2)

"""A course trains like `local.train`, reads no value from the device, and stays on it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.learning.course import MOST_STEPS, Course, pieces, statistics
from fedtempo.learning.examples import Examples
from fedtempo.learning.gradients import Autograd
from fedtempo.learning.local import batches, train
from fedtempo.learning.losses import CrossEntropy
from fedtempo.learning.networks import CharLstm, Cnn, LeNet, Mlp, ResNet18, create
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.recordable import obstacle
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from tests.precision import double_precision

ALL = frozenset({"squared_loss", "gradient_variance", "gradient_norm", "effective_steps"})
EVERYTHING = Training(
    lr=0.05,
    momentum=0.9,
    nesterov=True,
    weight_decay=0.01,
    clip_norm=0.5,
    proximal=0.1,
    loss="logit-adjusted",
    prior=(1.0,) * 10,
    statistics=ALL,
)
SETTINGS = {
    "plain": Training(lr=0.05),
    "momentum": Training(lr=0.05, momentum=0.9, epochs=2),
    "everything": EVERYTHING,
    "adam": Training(optimizer="adam", lr=0.01, steps=9, weight_decay=0.01, statistics=ALL),
    "batch-adjusted": Training(loss="batch-adjusted", lr=0.05, tau=0.7),
    "full batch": Training(full_batch=True, lr=0.1, epochs=3),
    "accumulated": Training(lr=0.05, batch_size=4, accumulate=3, statistics=ALL),
    "accumulated clipped": Training(lr=0.05, batch_size=5, accumulate=2, momentum=0.9, clip_norm=0.5, steps=7),
}


@pytest.fixture(autouse=True)
def numerics():
    with fixed_numerics():
        yield


def examples_of(shape, count=47, dtype=torch.float32, device="cpu"):
    rng = np.random.default_rng(0)
    images = rng.standard_normal((count, *shape)) if len(shape) > 1 else rng.integers(0, 10, (count, *shape))
    return Examples(images, rng.integers(0, 10, count), len(shape) == 3, dtype, device)


def model_of(network, shape, dtype=torch.float32, device="cpu"):
    return FlatModel(create(network, shape, 10, 1), shape, dtype, device)


def train_by_course(course, received, rows, training, rng):
    """Train like `local.train`, with a course that earlier visits may have used."""
    rng.integers(2**63)
    if course.measures:
        course.begin_measuring(received)
        for batch in torch.split(rows, training.batch_size):
            course.measure(batch)
    course.begin(received, training.lr)
    used = 0
    for batch in batches(rows, training, rng):
        course.step(batch)
        used += len(batch)
    return statistics(course.outcome(), training, len(rows), used)


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (Cnn((4,), pool_after=(1,), batch_norm=True), (3, 8, 8)),
        (LeNet(), (1, 28, 28)),
        (Mlp((8,)), (3, 4)),
        (CharLstm(hidden=8), (6,)),
    ],
    ids=["batch norm", "lenet", "mlp", "lstm"],
)
@pytest.mark.parametrize("name", SETTINGS)
def test_a_course_equals_local_training_on_first_and_repeated_use(name, network, shape):
    training = SETTINGS[name]
    examples = examples_of(shape, dtype=torch.float64)
    model, other = (model_of(network, shape, torch.float64) for _ in range(2))
    received = model.vector.clone()
    course = Course(model, examples, training)
    for visit, count in enumerate((47, 13)):
        rows = torch.arange(count)
        expected = train(other, examples, training, np.random.default_rng(visit), received, rows.numpy())
        measured, finite = train_by_course(course, received, rows, training, np.random.default_rng(visit))
        assert finite
        assert measured == pytest.approx(expected, rel=1e-10)
        assert set(measured) == set(expected)
        torch.testing.assert_close(model.vector, other.vector, **double_precision(training))
        assert not torch.equal(model.vector, received)


def test_steps_with_powers_of_two_are_exact_under_autograd():
    """A gradient times such a step size is exact. By hand the step is a factor in products, which reorders sums."""
    shape = (3, 32, 32)
    examples, training = examples_of(shape), Training(lr=2**-4)
    model, other = (model_of(Cnn((4, 4), batch_norm=True), shape) for _ in range(2))
    assert isinstance(model.gradients, Autograd)
    received, rows = model.vector.clone(), torch.arange(47)
    train(other, examples, training, np.random.default_rng(0), received, rows.numpy())
    train_by_course(Course(model, examples, training), received, rows, training, np.random.default_rng(0))
    assert torch.equal(model.vector, other.vector)


def test_nonfinite_parameters_are_detected():
    model = model_of(Mlp((4,)), (2, 2))
    course = Course(model, examples_of((2, 2)), Training())
    course.begin(model.vector.clone(), 0.1)
    course.step(torch.arange(10))
    assert statistics(course.outcome(), Training(), 47, 10)[1]
    model.vector[3] = torch.inf
    assert not statistics(course.outcome(), Training(), 47, 10)[1]


NETWORKS = {
    "lenet": (LeNet(), (1, 28, 28)),
    "batch norm": (Cnn((4, 4), batch_norm=True), (3, 8, 8)),
    "lstm": (CharLstm(hidden=8), (6,)),
    "lstm with one bias": (CharLstm(hidden=8, bias_vectors=1), (6,)),
    "residual": (ResNet18(channels=(4, 8)), (3, 8, 8)),
}


def whole_visit(course, received, rows):
    def visit():
        if course.measures:
            course.begin_measuring(received)
            course.measure(rows)
        course.begin(received, 0.1)
        course.step(rows)
        course.step(rows[:3])
        course.outcome()

    return visit


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("settings", ["everything", "adam"])
def test_every_visit_can_be_recorded(name, settings):
    network, shape = NETWORKS[name]
    model = model_of(network, shape)
    course = Course(model, examples_of(shape), SETTINGS[settings])
    assert obstacle(whole_visit(course, model.vector.clone(), torch.arange(10))) is None


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("settings", ["everything", "adam"])
def test_a_visit_creates_tensors_only_on_its_device(name, settings):
    """On the meta device, mixing in tensors from main memory is an error."""
    network, shape = NETWORKS[name]
    model = model_of(network, shape, device="meta")
    course = Course(model, examples_of(shape, device="meta"), SETTINGS[settings])
    rows = torch.zeros(10, dtype=torch.int64, device="meta")
    assert obstacle(whole_visit(course, torch.empty_like(model.vector), rows)) is None
    course._loss_of = CrossEntropy(torch.ones(10))
    with pytest.raises(RuntimeError, match="device"):
        course.step(rows)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 100)), max_size=5))
def test_pieces_are_the_batches_in_order_and_of_few_kinds(runs):
    sizes = [size for size, steps in runs for _ in range(steps)]
    cut = list(pieces(sizes))
    assert [size for size, steps in cut for _ in range(steps)] == sizes
    assert all(steps <= MOST_STEPS and steps.bit_count() == 1 for _, steps in cut)
    assert len(set(cut)) <= len({size for size, _ in runs}) * 6


def test_a_visit_of_ten_steps_is_two_pieces():
    assert list(pieces([10] * 10)) == [(10, 8), (10, 2)]
    assert list(pieces([10] * 9 + [5])) == [(10, 8), (10, 1), (5, 1)]
    assert list(pieces([])) == []

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.networks import CnnPsfl, create
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from tests.precision import DOUBLE, double_precision

N = 23


def data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 5)), rng.integers(0, 3, n)


def network(activation=nn.Tanh):
    """Return a small network: with Tanh it uses autograd, with ReLU it is a stack with gradients by hand."""
    generator = torch.Generator().manual_seed(1)
    module = nn.Sequential(nn.Linear(5, 7), activation(), nn.Linear(7, 3)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def trained(training, seed=3, rows=None, module=None):
    x, y = data()
    model = FlatModel(module or network(), (5,), torch.float64)
    received = model.vector.clone()
    rng = np.random.default_rng(seed)
    statistics = train(model, Examples(x, y, False, torch.float64), training, rng, received, rows)
    return model, received, statistics


def reference(training, activation, seed=3):
    """Train with torch.optim, autograd on a loss with the proximal term, and clip_grad_norm_."""
    x, y = map(torch.from_numpy, data())
    module = network(activation)
    received = [parameter.detach().clone() for parameter in module.parameters()]
    if training.optimizer == "adam":
        optimizer = torch.optim.Adam(module.parameters(), training.lr, weight_decay=training.weight_decay)
    else:
        optimizer = torch.optim.SGD(
            module.parameters(),
            training.lr,
            momentum=training.momentum,
            nesterov=training.nesterov,
            weight_decay=training.weight_decay,
        )
    rng = np.random.default_rng(seed)
    rng.integers(2**63)
    steps = 0
    while steps < training.steps_per_visit(len(x)):
        order = np.arange(len(x)) if training.full_batch else rng.permutation(len(x))
        size = len(x) if training.full_batch else training.batch_size
        for batch in (order[start : start + size] for start in range(0, len(x), size)):
            if steps == training.steps_per_visit(len(x)):
                break
            loss = F.cross_entropy(module(x[batch]), y[batch])
            distance = sum(((p - r) ** 2).sum() for p, r in zip(module.parameters(), received))
            optimizer.zero_grad()
            (loss + training.proximal / 2 * distance).backward()
            if training.clip_norm is not None:
                nn.utils.clip_grad_norm_(module.parameters(), training.clip_norm)
            optimizer.step()
            steps += 1
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
        {"weight_decay": 0.1},
        {"clip_norm": 0.3, "momentum": 0.5},
        {"proximal": 2.0},
        {"proximal": 0.5, "clip_norm": 0.2, "weight_decay": 0.05, "momentum": 0.9},
        {"optimizer": "adam", "lr": 0.02},
        {"optimizer": "adam", "weight_decay": 0.1, "proximal": 1.0},
        {"steps": 5},
        {"full_batch": True, "epochs": 3},
        {"steps": 2, "full_batch": True},
    ],
)
def test_training_equals_that_of_torch_optim(options, activation):
    training = Training(**{"lr": 0.1, "batch_size": 5, "epochs": 2, **options})
    model, _, _ = trained(training, module=network(activation))
    torch.testing.assert_close(model.vector, reference(training, activation), **double_precision(training))


def test_the_reported_loss_is_the_mean_over_examples_before_each_step():
    x, y = map(torch.from_numpy, data())
    _, _, statistics = trained(Training(lr=1e-300, batch_size=5, statistics={"squared_loss"}))
    losses = F.cross_entropy(network()(x), y, reduction="none")
    assert statistics["loss"] == pytest.approx(losses.mean().item(), rel=1e-12)
    assert statistics["squared_loss"] == pytest.approx((losses**2).mean().item(), rel=1e-12)


def test_gradient_statistics_refer_to_the_received_model():
    x, y = map(torch.from_numpy, data())

    def gradient(rows):
        module = network()
        F.cross_entropy(module(x[rows]), y[rows]).backward()
        return torch.cat([parameter.grad.flatten() for parameter in module.parameters()])

    whole = gradient(slice(None))
    batches = [slice(start, min(start + 5, N)) for start in range(0, N, 5)]
    variance = sum(float(((gradient(b) - whole) ** 2).sum()) * (b.stop - b.start) for b in batches) / N
    _, _, statistics = trained(Training(batch_size=5, statistics={"gradient_variance", "gradient_norm"}))
    assert statistics["gradient_variance"] == pytest.approx(variance, rel=1e-10)
    assert statistics["gradient_norm"] == pytest.approx(float(whole.norm()), rel=1e-12)


def test_requesting_statistics_does_not_change_the_model():
    module = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Dropout(0.5), nn.Linear(7, 3)).double()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    plain = trained(Training(batch_size=5), module=module)[0].vector.clone()
    module.load_state_dict(state)
    everything = {"squared_loss", "gradient_variance", "gradient_norm"}
    other, _, statistics = trained(Training(batch_size=5, statistics=everything), module=module)
    assert torch.equal(plain, other.vector)
    assert statistics.keys() == everything | {"loss"}


def test_dropout_depends_only_on_the_visits_generator():
    def once(seed, pollution):
        torch.manual_seed(pollution)
        module = nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5)).double()
        nn.init.ones_(module[0].weight), nn.init.zeros_(module[0].bias)
        vector = trained(Training(batch_size=N), seed=seed, module=module)[0].vector
        state = torch.get_rng_state()
        torch.manual_seed(pollution)
        nn.Linear(5, 3)
        assert torch.equal(state, torch.get_rng_state())
        return vector

    assert torch.equal(once(1, 10), once(1, 20))
    assert not torch.equal(once(1, 10), once(2, 10))


def test_rows_select_the_clients_examples():
    rows = np.array([3, 4, 5, 9, 11, 2, 1])
    training = Training(batch_size=3)
    model, received, _ = trained(training, rows=rows)
    x, y = data()
    alone = FlatModel(network(), (5,), torch.float64)
    train(alone, Examples(x[rows], y[rows], False, torch.float64), training, np.random.default_rng(3), received)
    assert torch.equal(model.vector, alone.vector)


@pytest.mark.parametrize("size", [1, 2, 9, 10, 11])
def test_uneven_batch_sizes_use_every_example_once_per_epoch(size):
    seen = []

    class Spy(nn.Linear):
        def forward(self, x):
            seen.append(x[:, 0].tolist())
            return super().forward(x)

    x = np.arange(size, dtype=np.float64)[:, None]
    model = FlatModel(Spy(1, 2), (1,), torch.float64)
    examples = Examples(x, np.zeros(size, dtype=np.int64), False, torch.float64)
    training = Training(batch_size=10, epochs=2)
    train(model, examples, training, np.random.default_rng(0), model.vector.clone())
    batches = -(-size // 10)
    assert len(seen) == 2 * batches == training.steps_per_visit(size)
    for epoch in (seen[:batches], seen[batches:]):
        assert sorted(value for batch in epoch for value in batch) == list(range(size))
    assert training.examples_per_visit(size) == 2 * size == sum(map(len, seen))


@pytest.mark.parametrize(("steps", "examples"), [(1, 10), (3, 23), (4, 33), (6, 46), (7, 56)])
def test_examples_per_visit_follow_from_the_number_of_steps(steps, examples):
    assert Training(batch_size=10, steps=steps).examples_per_visit(23) == examples


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.1},
        {"lr": 0.1, "momentum": 0.9, "clip_norm": 0.3, "proximal": 0.5},
        {"lr": 0.01, "optimizer": "adam", "steps": 7},
        {"lr": 0.01, "optimizer": "torch.optim:RMSprop"},
        {"lr": 0.1, "loss": "batch-adjusted", "tau": 0.0, "epochs": 3},
    ],
)
@pytest.mark.parametrize(("size", "times"), [(2, 4), (3, 2), (7, 3), (5, 9)])
def test_accumulated_steps_are_those_of_a_larger_batch(options, activation, size, times):
    statistics = frozenset({"squared_loss"})
    accumulated = Training(batch_size=size, accumulate=times, statistics=statistics, **options)
    at_once = Training(batch_size=size * times, statistics=statistics, **options)
    one, _, ours = trained(accumulated, module=network(activation))
    two, _, theirs = trained(at_once, module=network(activation))
    torch.testing.assert_close(one.vector, two.vector, **double_precision(at_once))
    assert ours == pytest.approx(theirs, rel=1e-8)
    for examples in (1, 22, 23, 24, 100):
        assert accumulated.steps_per_visit(examples) == at_once.steps_per_visit(examples)
        assert accumulated.examples_per_visit(examples) == at_once.examples_per_visit(examples)


def test_accumulation_averages_uneven_batches_by_their_sizes():
    """Squared errors of one weight: gradients 2 x (w x - y); three examples in batches of two."""
    x, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 0.0, 2.0], dtype=np.float32)
    module = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        module.weight.fill_(0.5)
    model = FlatModel(module, (1,), torch.float64)
    training = Training(lr=0.25, batch_size=2, accumulate=2)
    train(model, Examples(x, y, False, torch.float64), training, np.random.default_rng(0), model.vector.clone())
    # 2 (0.5 - 1) = -1, 2 * 2 (1 - 0) = 4, 2 * 3 (1.5 - 2) = -3: their mean is 0, whatever the batches.
    assert model.vector.item() == pytest.approx(0.5, abs=1e-15)


def test_a_full_batch_is_not_accumulated():
    plain, _, _ = trained(Training(lr=0.1, full_batch=True))
    one, _, _ = trained(Training(lr=0.1, full_batch=True, accumulate=4))
    assert torch.equal(plain.vector, one.vector)


def test_a_client_without_examples_is_an_error():
    with pytest.raises(ConfigError, match="no examples"):
        trained(Training(), rows=np.array([], dtype=np.int64))


def test_frozen_and_unused_parameters_keep_their_values():
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused, self.frozen = nn.Linear(5, 3), nn.Linear(2, 2), nn.Linear(5, 3)
            self.frozen.requires_grad_(False)

        def forward(self, x):
            return self.used(x) + self.frozen(x)

    model, received, _ = trained(Training(lr=0.1, proximal=0.1), module=Partly().double())
    changed = (model.vector != received).tolist()
    assert changed == [True] * 18 + [False] * 6 + [False] * 18


def test_logit_adjusted_training_with_equal_class_shares_equals_cross_entropy():
    plain, _, _ = trained(Training(batch_size=5))
    adjusted, _, _ = trained(Training(batch_size=5, loss="logit-adjusted", prior=(1.0, 1.0, 1.0)))
    skewed, _, _ = trained(Training(batch_size=5, loss="logit-adjusted", prior=(8.0, 1.0, 1.0)))
    torch.testing.assert_close(adjusted.vector, plain.vector, **DOUBLE)
    assert not torch.allclose(skewed.vector, plain.vector, rtol=1e-4)


@pytest.mark.parametrize(
    ("prior", "message"),
    [((), "is empty"), ((1.0, 1.0), "an example of class 2"), ((1.0, 0.0, 1.0), "class 1 has share 0")],
)
def test_priors_that_do_not_match_the_labels_are_rejected(prior, message):
    with pytest.raises(ConfigError, match=message):
        trained(Training(loss="logit-adjusted", prior=prior))


def test_channels_last_training_agrees_up_to_rounding():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 3, 32, 32)), rng.integers(0, 10, 20)
    results = []
    for channels_last in (True, False):
        model = FlatModel(create(CnnPsfl(), (3, 32, 32), 10, 0), (3, 32, 32), torch.float64)
        assert model.channels_last
        examples = Examples(x, y, channels_last, torch.float64)
        train(model, examples, Training(lr=0.1), np.random.default_rng(0), model.vector.clone())
        results.append(model.vector.clone())
    torch.testing.assert_close(results[0], results[1], **DOUBLE)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.0},
        {"momentum": 1.0},
        {"nesterov": True},
        {"optimizer": "adam", "momentum": 0.9},
        {"steps": 0},
        {"clip_norm": 0.0},
        {"statistics": ["median"]},
        {"batch_size": 0},
        {"learning_rate": 0.1},
    ],
)
def test_invalid_settings_are_rejected(options):
    with pytest.raises((ValidationError, TypeError)):
        Training(**options)

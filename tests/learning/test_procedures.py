"""Procedures at a client: what they see, what they may keep, and what they must return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedtempo.errors import ConfigError, FedtempoError, RunError, StrategyError, UserCodeError
from fedtempo.federation import EVALUATE
from fedtempo.learning.examples import Examples
from fedtempo.learning.exchange import EVERYTHING, Exchange
from fedtempo.learning.kept import Kept
from fedtempo.learning.local import train
from fedtempo.learning.procedures import ClientVisit, make_visit
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.runtime.executors.journalled import as_vector, from_vector

TRAINING = Training(lr=0.1, batch_size=4)
ROWS = np.arange(10)


def model(exchange: Exchange = EVERYTHING) -> FlatModel:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    return FlatModel(module, (3,), exchange=exchange)


def examples() -> Examples:
    rng = np.random.default_rng(0)
    return Examples(rng.normal(size=(10, 3)).astype(np.float32), rng.integers(0, 3, 10), False)


def visited(procedure: str | None, flat: FlatModel | None = None, **options: Any) -> Any:
    flat = flat or model()
    received = flat.sent.numpy().copy()
    training = options.pop("training", TRAINING)
    return make_visit(
        flat, examples(), training, np.random.default_rng(1), received, ROWS, procedure=procedure, **options
    )


# Procedures that configurations of these tests name


def counts(visit: ClientVisit) -> list[Tensor]:
    visit.state["visits"] = visit.state.get("visits", torch.zeros(1, dtype=torch.int64)) + 1
    visit.train()
    return [visit.zeros() + visit.payload[0], visit.parameters * 2]


def personal(visit: ClientVisit) -> list[Tensor]:
    """Ditto's personal model: a step on it, then the usual training of the received model."""
    own = visit.state.get("own", visit.received)
    visit.train()
    visit.state["own"] = own - 0.5 * (own - visit.received)
    return []


def diverges(visit: ClientVisit) -> list[Tensor]:
    visit.state["large"] = torch.tensor([torch.inf])
    visit.train()
    return []


def corrected(visit: ClientVisit) -> list[Tensor]:
    visit.train(correction=visit.zeros() + 0.5)
    return []


def starts_elsewhere(visit: ClientVisit) -> list[Tensor]:
    visit.train(start=visit.zeros() + 0.5, steps=1, full_batch=True, proximal=visit.numbers["proximal"])
    return []


def only_local(visit: ClientVisit) -> list[Tensor]:
    visit.train(only="local")
    return []


def only_travelling(visit: ClientVisit) -> list[Tensor]:
    visit.train(only="travelling")
    return []


def one_short(visit: ClientVisit) -> list[Tensor]:
    visit.train()
    return [visit.parameters[1:]]


def without_loss(visit: ClientVisit) -> list[Tensor]:
    return []


def fails(visit: ClientVisit) -> list[Tensor]:
    raise ZeroDivisionError("too bad")


HERE = "tests.learning.test_procedures"


def test_without_a_procedure_the_visit_is_the_usual_training() -> None:
    flat, other = model(), model()
    statistics, sent, state = visited(None, flat)
    expected = train(other, examples(), TRAINING, np.random.default_rng(1), other.vector.clone())
    assert statistics == expected
    assert torch.equal(flat.vector, other.vector)
    assert sent == []
    assert state is None


def test_a_procedure_keeps_tensors_and_returns_vectors() -> None:
    payload = np.arange(39, dtype=np.float32)  # the last 8 entries are statistics
    flat = model()
    _, sent, state = visited(f"{HERE}:counts", flat, payload=[payload], returns=2)
    assert flat.sections.trainable == len(payload)
    assert sent[0][:39].tolist() == payload.tolist()
    assert np.array_equal(sent[1][:39], 2 * flat.vector[:39].numpy())
    assert sent[0][39:].tolist() == [0.0] * 4 + [1.0] * 4  # the received statistics
    _, _, again = visited(f"{HERE}:counts", payload=[payload], returns=2, state=state)
    assert Kept.decoded(again, 0).tensors["visits"].tolist() == [2]
    assert Kept.decoded(state, 0).tensors["visits"].tolist() == [1]


def test_a_personal_model_stays_at_the_client() -> None:
    _, _, state = visited(f"{HERE}:personal")
    assert torch.equal(Kept.decoded(state, 0).tensors["own"], model().vector[:39])


def test_training_may_start_elsewhere_with_other_settings() -> None:
    """One step from 0.5 along g + mu * (0.5 - w_received): with mu = 2 it ends 0.1 * 2 * (0.5 - w) nearer to w."""
    ends = []
    for mu in (0.0, 2.0):
        flat = model()
        visited(f"{HERE}:starts_elsewhere", flat, numbers={"proximal": mu})
        ends.append(flat.vector[:39].clone())
    torch.testing.assert_close(ends[1], ends[0] - 0.1 * 2 * (0.5 - model().vector[:39]))
    assert torch.linalg.vector_norm(ends[0] - 0.5) < 0.5  # one step, not three


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "weight_decay": 0.1}, {"optimizer": "adam"}])
@pytest.mark.parametrize("local", ["2.*", "1.*"])  # without and with running statistics
def test_training_may_be_that_of_local_or_of_travelling_parameters_only(local: str, settings: dict[str, Any]) -> None:
    training = Training(lr=0.1, batch_size=4, clip_norm=1.0, **settings)
    for procedure, moves in (("only_local", "local"), ("only_travelling", "trainable")):
        flat, first = model(Exchange(local=(local,))), model(Exchange(local=(local,)))
        visited(f"{HERE}:{procedure}", flat, training=training)
        assert torch.equal(flat.vector[: flat.sections.trainable], first.vector[: flat.sections.trainable]) == (
            moves == "local"
        )
        names = dict(flat.module.named_parameters())
        own = [name for name in names if name.startswith(local[0])]
        stayed = [torch.equal(names[name], dict(first.module.named_parameters())[name]) for name in own]
        assert stayed == [moves != "local"] * len(own)


def test_a_correction_is_added_to_each_gradient() -> None:
    """One full step with lr 0.1: the parameters move 0.05 further, the statistics are the same."""
    training = Training(lr=0.1, full_batch=True)
    plain, other = model(), model()
    visited(None, plain, training=training)
    visited(f"{HERE}:corrected", other, training=training)
    torch.testing.assert_close(other.vector[:39], plain.vector[:39] - 0.05)
    assert torch.equal(other.vector[39:], plain.vector[39:])


def test_the_gradient_is_that_of_autograd() -> None:
    flat = model()
    data = examples()
    visit = ClientVisit(
        flat, data, torch.arange(10), Training(batch_size=10), np.random.default_rng(1), flat.sent.clone(), {}, ()
    )
    gradient = visit.gradient()
    module = model().module
    module.train()
    x, y = data.gather(torch.arange(10))
    nn.functional.cross_entropy(module(x), y).backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in module.parameters() if parameter.grad is not None])
    torch.testing.assert_close(gradient, expected)


def test_an_evaluation_changes_nothing_and_measures_all_or_some_examples() -> None:
    flat, data = model(), examples()
    before = flat.vector.clone()
    statistics, sent, state = visited(EVALUATE, flat, upload=lambda change, residual: pytest.fail("no upload"))
    module = model().module.eval()
    x, y = data.gather(torch.arange(10))
    outputs = module(x)
    assert statistics["loss"] == pytest.approx(nn.functional.cross_entropy(outputs, y).item(), rel=1e-6)
    assert statistics["accuracy"] == (outputs.argmax(dim=1) == y).double().mean().item()
    assert torch.equal(flat.vector, before)
    assert sent == []
    assert Kept.decoded(state, 0).tensors == {}
    some = Training(lr=0.1, batch_size=3, steps=2)
    of_each = nn.functional.cross_entropy(outputs, y, reduction="none")
    chosen = np.random.default_rng(1).permutation(10)[:6]
    assert visited(EVALUATE, training=some)[0]["loss"] == pytest.approx(of_each[chosen].mean().item(), rel=1e-6)


def test_an_evaluation_of_numbers_has_no_accuracy() -> None:
    flat = FlatModel(nn.Linear(3, 1), (3,))
    data = Examples(np.ones((4, 3), np.float32), np.arange(4, dtype=np.float32), False)
    rng, rows = np.random.default_rng(1), np.arange(4)
    statistics, _, _ = make_visit(flat, data, TRAINING, rng, flat.sent.numpy().copy(), rows, procedure=EVALUATE)
    assert statistics.keys() == {"loss"}


def test_local_values_are_kept_and_used() -> None:
    flat = model(Exchange(local=("1.*",)))
    _, _, state = visited(None, flat)
    assert torch.equal(Kept.decoded(state, 16).local, flat.kept)
    again, fresh = model(Exchange(local=("1.*",))), model(Exchange(local=("1.*",)))
    visited(None, again, state=state)
    visited(None, fresh)
    assert not torch.equal(again.sent, fresh.sent)
    assert again.local is None


def test_what_left_the_finite_numbers_is_not_kept() -> None:
    _, _, state = visited(f"{HERE}:counts", payload=[np.zeros(39, np.float32)], returns=2)
    assert visited(f"{HERE}:diverges", state=state)[2] == state
    assert visited(f"{HERE}:diverges")[2] is None


@pytest.mark.parametrize(
    ("procedure", "returns", "error", "message"),
    [
        (f"{HERE}:corrected", 1, StrategyError, r"returned 0 vectors; Work\.returns is 1$"),
        (
            f"{HERE}:one_short",
            1,
            StrategyError,
            r"returned torch\.Size\(\[38\]\); each vector must be a tensor of shape",
        ),
        (f"{HERE}:without_loss", 0, StrategyError, r"set visit\.statistics\['loss'\], or call visit\.train\(\)$"),
        (f"{HERE}:nothing", 0, ConfigError, r"^Work\.procedure = 'tests\.\S+:nothing': module .* has no 'nothing'$"),
        ("no_such_module:f", 0, ConfigError, r"cannot import 'no_such_module'"),
        (f"{HERE}:HERE", 0, ConfigError, r"it must be a function of a ClientVisit, not str$"),
        (f"{HERE}:fails", 0, UserCodeError, r"ZeroDivisionError: too bad"),
        ("scafold", 0, ConfigError, r"^Work\.procedure = 'scafold': no such procedure; did you mean 'scaffold'\? "),
    ],
)
def test_a_wrong_procedure_is_named(procedure: str, returns: int, error: type[FedtempoError], message: str) -> None:
    with pytest.raises(error, match=message):
        visited(procedure, returns=returns)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 100])
def test_a_state_survives_as_a_models_file(length: int) -> None:
    data = bytes(range(length))
    vector = as_vector(data)
    assert vector.dtype == np.float32
    assert from_vector(vector.copy()) == data


def test_a_damaged_state_is_rejected() -> None:
    with pytest.raises(RunError, match=r"^a client's state is damaged: "):
        Kept.decoded(b"nothing of this kind", 0)
    whole = Kept(torch.zeros(16)).encoded()
    with pytest.raises(RunError, match=r"does not hold the model's 4 local values"):
        Kept.decoded(whole, 4)
    with pytest.raises(RunError, match=r"^a client's state is damaged: it has 12 bytes and should have 50$"):
        from_vector(np.frombuffer((50).to_bytes(8, "little") + bytes(4), dtype="<f4"))

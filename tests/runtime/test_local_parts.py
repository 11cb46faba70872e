"""Parameters that stay at clients: each client has its own, in every executor, through losses and resumptions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedtempo.federation import ClientUnavailable, Federation, Work
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.training import Training
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from fedtempo.strategies import FedAvg
from tests.crash import lives
from tests.precision import DOUBLE
from tests.runtime.learning import Built, Learned, learn
from tests.strategies.test_every_strategy import BASE

CNN = {
    "model.network": "cnn",
    "model.channels": [4],
    "model.pool_after": [1],
    "model.hidden": [8],
    "model.batch_norm": True,
}
CHOICES: dict[str, dict[str, Any]] = {
    "FedBN": {"model.local": ["2.*"]},
    "FedPer": {"model.local": ["4.3.*"]},
    "head only": {"model.exchange": ["4.*"]},
    "local statistics": {"model.buffers": "local"},
    "frozen statistics": {"model.buffers": "frozen"},
}


def small(changes: dict[str, Any], strategy: str = "fedavg") -> Config:
    tables = {**BASE, "strategy": {"name": strategy}, "executor": {"kind": "inline"}}
    settings = {
        "run.horizon": 12.0,
        "run.evaluate_every": 4.0,
        "data.clients": 6,
        "data.examples_per_client": 12,
        "data.test_examples": 40,
        "training.lr": 0.1,
    }
    return parse(tables).with_changes({**settings, **CNN, **changes})


def data(*means: float, n: int = 8) -> list[tuple[Any, Any]]:
    """Return clients whose inputs (n, 3) have different means, with labels of three classes."""
    rng = np.random.default_rng(5)
    return [(rng.normal(mean, 1.0 + mean, (n, 3)), rng.integers(0, 3, n)) for mean in means]


def normalised() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()


@pytest.mark.usefixtures("double")
def test_fedbn_equals_clients_that_share_all_but_their_normalisation() -> None:
    """Three rounds of full-batch steps against plain PyTorch modules, in double precision (Li et al. 2021)."""
    clients = data(0.0, 2.0, n=8)
    training = Training(lr=0.3, full_batch=True, steps=2)
    found = learn(
        FedAvg(),
        Built(normalised),
        clients,
        n_outputs=3,
        training=training,
        commits=3,
        exchange=Exchange(local=("1.*",)),
    )
    modules = [normalised() for _ in clients]
    for _ in range(3):
        for module, (x, y) in zip(modules, clients, strict=True):
            module.train()
            for _ in range(2):
                module.zero_grad()
                nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y)).backward()
                with torch.no_grad():
                    for parameter in module.parameters():
                        parameter -= 0.3 * parameter.grad
        with torch.no_grad():
            for shared in ("0.weight", "0.bias", "2.weight", "2.bias"):
                mean = sum(module.get_parameter(shared) for module in modules) / 2
                for module in modules:
                    module.get_parameter(shared).copy_(mean)
    shared_end = [
        modules[0].get_parameter(name).detach().flatten() for name in ("0.weight", "0.bias", "2.weight", "2.bias")
    ]
    torch.testing.assert_close(torch.from_numpy(found.final[:31].copy()), torch.cat(shared_end), **DOUBLE)
    for kept, module in zip(found.kept, modules, strict=True):
        norm = module[1]
        own = [norm.weight.detach(), norm.bias.detach(), norm.running_mean, norm.running_var]
        torch.testing.assert_close(kept.local, torch.cat(own), **DOUBLE)
    assert not torch.allclose(found.kept[0].local, found.kept[1].local)
    assert found.final[31:].tobytes() == found.initial[31:].tobytes()  # the server's values never change


@pytest.mark.usefixtures("double")
def test_a_personal_bias_by_hand() -> None:
    """Squared loss of w * x + b with one example each: the gradient is 2 (w x + b - y) times x or 1.

    Client 0 has x = 1, y = 3, client 1 has x = 2, y = 1; w = 1, b = 0 at first, step 0.25, b is local.
    Round 1. Client 0: error 1 - 3 = -2, w = 1 + 1 = 2, b = 1. Client 1: error 2 - 1 = 1, w = 1 - 1 = 0, b = -0.5.
    The mean of w is 1. Round 2. Client 0: error 1 + 1 - 3 = -1, w = 1.5, b = 1.5. Client 1: error 2 - 0.5 - 1 = 0.5,
    w = 1 - 0.5 = 0.5, b = -0.75. The mean of w is 1 again.
    """

    def line() -> nn.Linear:
        layer = nn.Linear(1, 1).double()
        nn.init.constant_(layer.weight, 1.0)
        nn.init.constant_(layer.bias, 0.0)
        return layer

    clients = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[2.0]]), np.array([[1.0]]))]
    training = Training(lr=0.25, loss="squared")
    for commits, biases in ((1, (1.0, -0.5)), (2, (1.5, -0.75))):
        found = learn(
            FedAvg(),
            Built(line),
            clients,
            n_outputs=1,
            training=training,
            commits=commits,
            exchange=Exchange(exchange=("weight",)),
        )
        assert found.final.tolist() == [1.0, 0.0]
        assert tuple(kept.local.item() for kept in found.kept if kept.local is not None) == biases


def same_on_all_executors(config: Config, *further: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a run in this process, the same as with one worker, two, and with these changes."""
    workers = [{"executor.kind": "processes", "executor.workers": count} for count in (1, 2)]
    expected, *others = (run(config.with_changes(changes))[0] for changes in ({}, *workers, *further))
    for other in others:
        for name in ("model_sha256", "events_sha256", "final_accuracy", "final_loss", "bytes"):
            assert other[name] == expected[name]
    return expected


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_bits_do_not_depend_on_the_executor(choice: dict[str, Any]) -> None:
    spawned = {"executor.kind": "processes", "executor.workers": 2, "executor.start_method": "spawn"}
    same_on_all_executors(small(choice), spawned)


@pytest.mark.parametrize("strategy", ["fedavg", "scaffold", "fedbuff"])
@pytest.mark.parametrize("availability", ["always", {"kind": "dropout", "probability": 0.3}], ids=["always", "dropout"])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path, strategy: str, availability: Any) -> None:
    config = small(
        {
            "model.local": ["2.*"],
            "run.horizon": 24.0,
            "run.checkpoint_every": 1e-6,
            "run.verify": True,
            "fleet.availability": availability,
        },
        strategy,
    )
    lives.Run(config).complete(tmp_path / "whole")
    lives.interrupted_at(config, tmp_path / "run", 9.0)
    assert any((tmp_path / "run" / "models").iterdir())
    lives.interrupted_at(config, tmp_path / "run", 17.0)
    lives.Run(config).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", tmp_path / "whole")


def keeping(script: Any, **options: Any) -> Learned:
    return learn(
        script,
        Built(normalised_single),
        [(x.astype(np.float32), y) for x, y in data(0.0, 1.0)],
        n_outputs=3,
        training=Training(lr=0.1, batch_size=4),
        commits=1,
        exchange=Exchange(local=("1.*",)),
        **options,
    )


def normalised_single() -> nn.Sequential:
    return normalised().float()


async def one_visit(fed: Federation) -> None:
    updates = await fed.train_all(fed.clients[:1], fed.model)
    fed.commit(await fed.average(updates))


def test_a_client_keeps_what_it_learned_even_if_its_upload_is_lost() -> None:
    """The visit computes from 1 to 2 s and uploads until 3 s; it is given up at 2.5 s, or at 1.5 s."""

    def given_up_at(instant: float) -> Any:
        async def script(fed: Federation) -> None:
            import asyncio

            visit = asyncio.ensure_future(fed.train(fed.clients[0], fed.model))
            await fed.sleep_until(instant)
            visit.cancel()
            await asyncio.wait([visit])
            fed.commit(fed.model)

        return script

    link = {"kind": "fixed", "download_s": 1.0, "upload_s": 1.0}
    whole, lost, early = (keeping(script, link=link) for script in (one_visit, given_up_at(2.5), given_up_at(1.5)))
    assert whole.kept[0].local is not None
    assert torch.equal(lost.kept[0].local, whole.kept[0].local)
    assert early.kept[0].local is None
    assert whole.kept[1].local is None


def test_a_client_whose_training_diverged_keeps_its_earlier_values() -> None:
    async def script(fed: Federation) -> None:
        first = await fed.train(fed.clients[0], fed.model)
        with pytest.raises(ClientUnavailable, match="not finite"):
            await fed.train(fed.clients[0], first.model, Work(lr=1e30))
        fed.commit(first.model)

    once = keeping(one_visit)
    diverged = keeping(script)
    assert torch.equal(diverged.kept[0].local, once.kept[0].local)


@pytest.mark.usefixtures("double")
def test_evaluations_use_the_clients_own_parts() -> None:
    """The measure is the mean over the clients, weighted by examples, of the models with their own bias."""

    def line() -> nn.Linear:
        layer = nn.Linear(1, 1).double()
        nn.init.constant_(layer.weight, 1.0)
        nn.init.constant_(layer.bias, 0.0)
        return layer

    clients = [(np.array([[1.0], [1.0], [1.0]]), np.array([[3.0]] * 3)), (np.array([[2.0]]), np.array([[1.0]]))]
    test = np.array([[0.0], [0.0]]), np.array([[1.0], [2.0]])
    results = {}
    for count in (0, 1, 2, 5):
        found = learn(
            FedAvg(),
            Built(line),
            clients,
            n_outputs=1,
            training=Training(lr=0.25, loss="squared", full_batch=True),
            commits=1,
            test=test,
            exchange=Exchange(local=("bias",)),
            evaluate_clients=count,
        )
        results[count] = found.records.evaluations["loss"].tolist()
    # biases 1 and -0.5 after the round (see above): errors at x = 0 are b - 1 and b - 2
    own = ((0 + 1) / 2, (2.25 + 6.25) / 2)
    first = (1 + 4) / 2
    assert results[0] == [first, first]
    assert results[2] == results[5] == [first, (3 * own[0] + 1 * own[1]) / 4]
    assert results[1] in ([first, own[0]], [first, own[1]])


def test_frozen_parameters_and_local_values_are_received_once() -> None:
    """4 bytes a number: 31 travel, 16 are local; each of two clients downloads the latter once."""

    async def script(fed: Federation) -> None:
        for _ in range(3):
            updates = await fed.train_all(fed.clients, fed.model)
        fed.commit(await fed.average(updates))

    link = {"kind": "rates", "download_bps": 992.0, "upload_bps": 992.0}  # 31 numbers take 1 s
    found = keeping(script, link=link)
    total = found.records.facts["bytes"]
    assert total["down"] == 4 * (2 * 3 * 31 + 2 * 16)
    assert total["up"] == 4 * 2 * 3 * 31
    visits = found.records.visits
    first_s = visits["received"] - visits["started"]
    assert first_s.tolist() == pytest.approx([1 + 16 / 31] * 2 + [1.0] * 4)
    assert (visits["finished"] - visits["computed"]).tolist() == pytest.approx([1.0] * 6)

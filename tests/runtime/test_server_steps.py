"""`server.optimizer` in runs: every strategy, executor and kind of interruption, and what cannot use it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation
from fedtempo.learning.server_optimizers import SERVER_OPTIMIZERS, Adam
from fedtempo.learning.training import Training
from fedtempo.runs import moved
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.strategies import FedAvg
from tests.crash import lives
from tests.runtime.learning import Built, learn
from tests.runtime.test_averaging import AVERAGES_CHAINS, AVERAGES_CLIENTS, configured
from tests.runtime.world import play
from tests.strategies.everyone import with_every_strategy

COMPUTED = {"ca2fl", "favas", "fedbuff", "fedcompass", "fedstale", "fedvarp", "mifa", "refl"}
"""Strategies of rounds or buffers whose model is no `fed.average`."""
AVERAGING = AVERAGES_CLIENTS | AVERAGES_CHAINS | COMPUTED | {"scaffold"}
KINDS = [{"kind": "sgd", "momentum": 0.9}, "adagrad", "adam", {"kind": "yogi", "beta1": 0.5}]


@pytest.mark.usefixtures("double")
def test_two_rounds_of_a_run_by_hand() -> None:
    """Squared loss of w x with x = 1, y = 14: a visit with rate 1/4 moves w halfway to 14, from 0 by 7.

    With m = 7/2 and v = 1/2 + 49/2 = 25 the first step is 1/2 * 7/2 / (5 + 1) = 7/24.
    """

    def line() -> nn.Linear:
        layer = nn.Linear(1, 1, bias=False).double()
        nn.init.zeros_(layer.weight)
        return layer

    def final(commits: int) -> list[float]:
        server = {"optimizer": {"kind": "adam", "lr": 0.5, "beta1": 0.5, "beta2": 0.5, "tau": 1.0}}
        data, training = [(np.array([[1.0]]), np.array([[14.0]]))], Training(lr=0.25, loss="squared")
        learned = learn(FedAvg(), Built(line), data, n_outputs=1, training=training, commits=commits, server=server)
        return learned.final.tolist()

    change = (14 - 7 / 24) / 2
    m, v = 7 / 4 + change / 2, 25 / 2 + change**2 / 2
    assert final(1) == pytest.approx([7 / 24], rel=1e-6)
    assert final(2) == pytest.approx([7 / 24 + m / 2 / (v**0.5 + 1)], rel=1e-6)


@pytest.mark.parametrize("name", sorted(COMPUTED | {"fedavg"}))
def test_a_step_leads_towards_the_model_of_a_round(name: str) -> None:
    """SGD with the step 1/2 goes half of the way that the strategy would go, and with 1 all of it."""
    plain = configured(name, {"run.horizon": 200.0, "run.max_commits": 1})
    start, whole, all_of_it, half = (
        run(plain.with_changes(changes))[2]
        for changes in (
            {"training.lr": 1e-12},
            {},
            {"server.optimizer": {"kind": "sgd", "lr": 1.0}},
            {"server.optimizer": {"kind": "sgd", "lr": 0.5}},
        )
    )
    assert start is not None
    assert whole is not None
    np.testing.assert_allclose(all_of_it, whole, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(half, (start + whole) / 2, rtol=1e-5, atol=1e-7)
    assert np.abs(whole - start).max() > 1e-3


def test_mifa_may_wait_for_all_before_it_takes_a_step() -> None:
    changes = {"strategy.wait_for_all": True, "strategy.clients_per_round": 4, "server.optimizer": "adam"}
    assert run(configured("mifa", {**changes, "run.horizon": 60.0}))[0]["commits"] >= 1


@with_every_strategy()
def test_strategies_that_average_rounds_use_it_and_others_say_that_they_cannot(name: str) -> None:
    changes = {"run.horizon": 40.0, "strategy.round_s": 10.0} if name == "centralized" else {"run.horizon": 40.0}
    plain = configured(name, changes)
    config = plain.with_changes({"server.optimizer": {"kind": "adam", "lr": 0.05}})
    if name in AVERAGING:
        summary = run(config)[0]
        assert summary["commits"] >= 1
        assert summary["model_sha256"] != run(plain)[0]["model_sha256"]
        planned = run(config.with_changes({"executor.kind": "none"}))[0]
        assert planned["commits"] >= 1
    else:
        for executor in ("inline", "none"):
            with pytest.raises(ConfigError, match=r"^server\.optimizer: this strategy commits single results"):
                run(config.with_changes({"executor.kind": executor}))


def test_a_strategy_may_average_only_once_per_commit() -> None:
    async def twice(fed: Federation) -> None:
        updates = await fed.train_all(fed.clients, fed.model)
        halves = [await fed.average(updates[:2]), await fed.average(updates[2:])]
        fed.commit(await fed.average(halves))

    with pytest.raises(ConfigError, match=r"^server\.optimizer: this strategy averages twice before it commits"):
        play(twice, server={"optimizer": "adam"})
    play(twice, horizon=None, max_commits=1)


@pytest.mark.parametrize("optimizer", KINDS, ids=str)
def test_bits_do_not_depend_on_the_executor(optimizer: Any) -> None:
    config = configured(changes={"server.optimizer": optimizer, "run.horizon": 16.0})
    expected, *others = (
        run(config.with_changes({"executor.kind": kind, **more}))[0]
        for kind, more in (
            ("inline", {}),
            ("processes", {"executor.workers": 1}),
            ("processes", {"executor.workers": 2}),
        )
    )
    for other in others:
        for name in ("model_sha256", "events_sha256", "final_loss"):
            assert other[name] == expected[name]


@pytest.mark.parametrize("optimizer", KINDS, ids=str)
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path, optimizer: Any) -> None:
    config = lives.config("fedavg", {"server.optimizer": optimizer, "run.horizon": 24.0})
    lives.Run(config).complete(tmp_path / "whole")
    lives.interrupted_at(config, tmp_path / "run", 9.0)
    lives.interrupted_at(config, tmp_path / "run", 17.0)
    lives.Run(config).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "whole", tmp_path / "run")


def test_a_step_is_an_operation_of_its_own_at_the_server() -> None:
    _, records = play(FedAvg(), server_s=0.5, server={"optimizer": "yogi"}, horizon=8.0)
    assert records.commits["time"].tolist() == [2.0, 4.0, 6.0, 8.0]


@dataclass(frozen=True)
class Halfway:
    """A step half of the way, written by a user."""

    def step(self, model: Any, average: Any) -> Any:
        return ((model + average) / 2,)


@dataclass(frozen=True)
class NoTuple:
    """A step that returns a list."""

    def step(self, model: Any, average: Any) -> Any:
        return [average]


def test_an_optimizer_of_ones_own() -> None:
    half = configured(changes={"server.optimizer": {"kind": f"{__name__}:Halfway"}, "run.max_commits": 1})
    summary, _, model = run(half)
    assert summary["model_sha256"] != run(half.with_changes({"server.optimizer": {"kind": "sgd"}}))[0]["model_sha256"]
    sgd = run(half.with_changes({"server.optimizer": {"kind": "sgd", "lr": 0.5}}))[2]
    np.testing.assert_allclose(model, sgd, rtol=1e-5, atol=1e-8)
    with pytest.raises(ConfigError, match=r"^server\.optimizer: NoTuple\.step must return a tuple of vectors"):
        run(half.with_changes({"server.optimizer": {"kind": f"{__name__}:NoTuple"}}))


@pytest.mark.parametrize(
    ("optimizer", "line"),
    [
        ("adamw", r"^server\.optimizer: kind = 'adamw': no such server optimiser; did you mean 'adam'"),
        ({"kind": "adam", "beta2": 1.0}, r"beta2 = 1\.0: .*less than 1"),
        ({"kind": "adam", "tau": 0.0}, r"tau = 0\.0: .*greater than or equal"),
        ({"kind": "sgd", "beta1": 0.9}, r"beta1"),
        (3, r"server\.optimizer = 3"),
    ],
    ids=str,
)
def test_wrong_settings_are_named_in_one_line(optimizer: Any, line: str) -> None:
    with pytest.raises(ConfigError, match=line) as caught:
        configured(changes={"server.optimizer": optimizer})
    assert "\n" not in str(caught.value)


def test_configurations_are_written_back_with_their_optimizer() -> None:
    for name in SERVER_OPTIMIZERS:
        config = configured(changes={"server.optimizer": name})
        assert config.tables["server"]["optimizer"]["kind"] == name
        assert parse(config.tables).server == config.server
    assert configured(changes={"server.optimizer": Adam(lr=0.2)}).server.optimizer == Adam(lr=0.2)


def test_former_keys_of_fedavg_become_the_optimizer_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    moved._say.cache_clear()
    with caplog.at_level(logging.WARNING, "fedtempo"):
        former = configured(changes={"strategy.server_momentum": 0.7, "run.horizon": 10.0})
        former.with_changes({"run.seed": 2})
    assert [record.getMessage() for record in caplog.records] == [
        "strategy.server_momentum = 0.7: now server.optimizer = { kind = 'sgd', momentum = 0.7, lr = 1.0 }, used here"
    ]
    now = configured(changes={"server.optimizer": {"kind": "sgd", "momentum": 0.7}, "run.horizon": 10.0})
    assert former.tables == now.tables
    assert former.strategy == FedAvg()
    plain = configured(changes={"strategy.server_momentum": 0.0, "strategy.server_lr": 1.0})
    assert plain.tables == configured().tables
    with pytest.raises(ConfigError, match=r"^strategy\.server_lr = 0\.5: replaced by server\.optimizer"):
        now.with_changes({"strategy.server_lr": 0.5})
    with pytest.raises(ConfigError, match=r"^server\.optimizer: .*momentum = 2"):
        configured(changes={"strategy.server_momentum": 2})

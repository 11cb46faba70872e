"""The learning rate that each visit trains with, if `training.schedule` changes it during the run."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import fedtempo
from fedtempo.federation import Federation, Work
from fedtempo.learning.training import Training
from fedtempo.runs.config import parse
from fedtempo.runs.run import Run, run
from fedtempo.runtime.executors.none import NoTraining
from tests.runtime.world import play
from tests.strategies.everyone import with_every_strategy
from tests.strategies.test_every_strategy import BASE, SPECIAL

HALVING = {"kind": "exponential", "gamma": 0.5}
FIXED = {"kind": "fixed", "download_s": 0.25, "upload_s": 0.25}


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """Collect the client and the learning rate of each training."""
    seen: list[tuple[int, float]] = []
    train = NoTraining.train

    def watched(self: NoTraining, location: Any, client: int, visit: int, training: Training, *carried: Any) -> Any:
        assert training.schedule is None
        seen.append((client, training.lr))
        return train(self, location, client, visit, training, *carried)

    monkeypatch.setattr(NoTraining, "train", watched)
    return seen


def by(unit: str, **table: Any) -> Training:
    return Training(lr=1.0, schedule={**HALVING, "by": unit, **table})


def test_rounds_are_those_of_the_model_and_commits_those_of_the_server(rates: list[tuple[int, float]]) -> None:
    async def script(fed: Federation) -> None:
        first = fed.model
        fed.commit(first)
        fed.commit(first)
        await fed.train(fed.clients[0], first)
        update = await fed.train(fed.clients[1], fed.model)
        await fed.train(fed.clients[2], update.model)

    for unit, expected in (("round", [1.0, 0.25, 0.25]), ("commit", [0.25, 0.25, 0.25])):
        rates.clear()
        play(script, training=by(unit), horizon=100.0)
        assert rates == list(enumerate(expected))


def test_time_is_that_at_which_a_visit_begins(rates: list[tuple[int, float]]) -> None:
    async def whole(fed: Federation) -> None:
        await fed.train_all([fed.clients[0], fed.clients[1], fed.clients[0]], fed.model)
        await fed.train(fed.clients[2], fed.model)

    async def single(fed: Federation) -> None:
        async def one(client: int) -> None:
            await fed.train(fed.clients[client], fed.model)

        async with asyncio.TaskGroup() as tasks:
            for client in (0, 1, 0):
                tasks.create_task(one(client))
        await one(2)

    for script in (whole, single):
        rates.clear()
        play(script, compute=3.0, training=by("time", every=3.0), horizon=100.0)
        # Client 0's second visit waits for its first, until t = 3; client 2 begins at t = 6.
        assert rates == [(0, 1.0), (1, 1.0), (0, 0.5), (2, 0.25)]


def test_what_a_strategy_requests_is_multiplied(rates: list[tuple[int, float]]) -> None:
    async def script(fed: Federation) -> None:
        assert fed.lr == 1.0
        fed.commit(fed.model)
        assert fed.lr == 1.0, "the configured rate"
        for work in (None, Work(lr_scale=0.5), Work(lr=0.1), Work(lr=0.1, lr_scale=0.5), Work(lr=fed.lr / 4)):
            await fed.train(fed.clients[0], fed.model, work)

    play(script, training=by("round"), horizon=100.0)
    assert [rate for _, rate in rates] == [0.5, 0.25, 0.05, 0.025, 0.125]


def test_a_rate_of_zero_leaves_the_model_as_it_is() -> None:
    settings = parse({**BASE, "strategy": {"name": "fedavg"}, "executor": {"kind": "inline"}})
    changes = {"run.horizon": 20.0, "training.schedule": {"kind": "linear", "over": 2.0}, "run.evaluate": "commit"}
    _, records, model = run(settings.with_changes(changes))
    _, _, after_two = run(settings.with_changes(changes | {"run.max_commits": 2}))
    assert records.commits["version"].max() > 3
    np.testing.assert_allclose(model, after_two, rtol=1e-6)
    losses = records.evaluations["loss"]
    assert losses[0] > losses[1] > losses[2] == pytest.approx(losses[-1], rel=1e-5)


def recorded(name: str, schedule: dict[str, Any] | None, rates: list[tuple[int, float]]) -> list[tuple[int, float]]:
    rates.clear()
    changes = {"executor.kind": "none", "training.lr": 0.5} | SPECIAL.get(name, {})
    if schedule is not None:
        changes["training.schedule"] = schedule
    run(parse({**BASE, "strategy": {"name": name}}).with_changes(changes))
    return list(rates)


@with_every_strategy()
def test_every_strategy_follows_a_schedule(name: str, rates: list[tuple[int, float]]) -> None:
    plain = recorded(name, None, rates)
    for unit in ("round", "commit", "time"):
        constant = recorded(name, {"kind": "constant", "by": unit}, rates)
        assert constant == plain
        changed = recorded(name, {"kind": "step", "by": unit, "every": 1.0, "gamma": 0.5}, rates)
        assert [client for client, _ in changed] == [client for client, _ in plain]
        if not plain:  # it trains at the server
            continue
        halvings = [math.log2(before / after) for (_, before), (_, after) in zip(plain, changed, strict=True)]
        assert np.allclose(halvings, np.round(halvings))
        assert min(halvings) == 0 < max(halvings)


SCHEDULES: Sequence[dict[str, Any]] = (
    {"kind": "cosine", "over": 20.0, "warmup": 2.0},
    {"kind": "step", "by": "commit", "every": 2.0},
    {"kind": "exponential", "by": "time", "gamma": 0.9, "every": 2.0},
    {"kind": "PolynomialLR", "by": "time", "unit": 3.0, "options": {"total_iters": 9}},
)


@pytest.mark.parametrize("name", ["fedavg", "fedasync", "sequential"])
def test_executors_agree(name: str) -> None:
    config = parse({**BASE, "strategy": {"name": name}, "executor": {"kind": "inline"}})
    config = config.with_changes({"run.horizon": 12.0, "data.clients": 6, **SPECIAL.get(name, {})})
    seen = [run(config)[0]["model_sha256"]]
    for schedule in SCHEDULES:
        changed = config.with_changes({"training.schedule": schedule})
        seen.append(run(changed)[0]["model_sha256"])
        workers = changed.with_changes({"executor.kind": "processes", "executor.workers": 2})
        assert run(workers)[0]["model_sha256"] == seen[-1]
    assert len(set(seen)) == len(seen)


@dataclasses.dataclass(frozen=True)
class Rounds:
    """Rounds of all clients, interrupted once."""

    async def run(self, fed: Federation) -> None:
        while True:
            fed.commit(await fed.average(await fed.train_all(fed.clients, fed.model)))
            if fed.now > INTERRUPT_AT[0]:
                raise KeyboardInterrupt


INTERRUPT_AT = [math.inf]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_resumed_run_has_the_same_rates(schedule: dict[str, Any], tmp_path: Any) -> None:
    tables = {**BASE, "strategy": {"name": "tests.runtime.test_scheduled_rates:Rounds"}}
    config = parse(tables).with_changes({"executor.kind": "inline", "run.horizon": 12.0, "training.schedule": schedule})
    whole, _, _ = run(config)
    INTERRUPT_AT[0] = 6.0
    try:
        half = Run(config).begin(tmp_path / "run")
    finally:
        INTERRUPT_AT[0] = math.inf
    assert half["ended"] == "interrupted"
    assert fedtempo.resume(tmp_path / "run").summary["model_sha256"] == whole["model_sha256"]

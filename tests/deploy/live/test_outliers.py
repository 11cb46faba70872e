"""Updates far outside the others are rejected; those of honest clients, however different, never are."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import parse_client
from fedtempo.deploy.live import requests
from fedtempo.deploy.live.messages import Call, Reply
from fedtempo.deploy.live.outliers import Outliers
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import Client, ClientUnavailable, Federation, Work
from fedtempo.record import load_run
from fedtempo.runs.run import run
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients
from tests.deploy.live.test_live_resume import killed, resumed

LIAR = 103


@dataclass(eq=False)
class OneVisit:
    client: Any


def judged(
    lengths: list[float],
    client: int = 0,
    work: list[float] | None = None,
    factor: float = 20.0,
    model: float = 10.0,
) -> str | None:
    """Judge the update of one client beside those of the others. model: its length."""
    visits = SimpleNamespace(in_progress=list)
    outliers = Outliers(factor, visits, lambda: 0.0)  # type: ignore[arg-type]

    async def judge() -> str | None:
        order = [*(i for i in range(len(lengths)) if i != client), client]
        for i in order:
            visit: Any = OneVisit(SimpleNamespace(id=i))
            part = ("change of the model", lengths[i], model, 100)
            flaw = await outliers.judge(visit, "", 1.0 if work is None else work[i], [part])
        return flaw

    return asyncio.run(judge())


def test_an_update_far_outside_the_others_is_rejected() -> None:
    assert judged([1.0, 1.0, 1.2, 0.8]) is None
    assert judged([19.0, 1.0, 1.2, 0.8]) is None
    flaw = judged([21.0, 1.0, 1.2, 0.8])
    assert flaw is not None
    assert "length 21, far outside the other clients'; at most 20 is accepted (deploy.max_change = 20)" in flaw
    assert judged([21.0, 1.0, 1.2, 0.8], factor=0.0) is None
    assert judged([3e38, 1.0, 1.0]) is not None


def test_without_others_only_what_no_training_does_is_rejected() -> None:
    assert judged([1e3]) is None
    assert judged([1e3, 1.0]) is None
    assert judged([3e38]) is not None


def test_what_is_short_beside_the_model_does_no_harm() -> None:
    assert judged([1.9, 1e-9, 1e-9, 1e-9]) is None
    assert judged([2.1, 1e-9, 1e-9, 1e-9]) is not None


@pytest.mark.parametrize("model", [0.0, 5e-324, 10.0])
@pytest.mark.parametrize("work", [0.0, 5e-324])
def test_no_length_and_no_work_are_numbers_like_others(model: float, work: float) -> None:
    assert judged([0.0] * 4, work=[work] * 4, model=model) is None
    assert judged([5e-324, 0.0, 0.0, 0.0], work=[work] * 4, model=model) is None
    assert judged([1e9, 0.0, 0.0, 0.0], work=[work] * 4, model=model) is not None


def test_clients_that_work_more_may_move_further() -> None:
    assert judged([90.0, 1.0, 1.0, 1.0], work=[5.0, 1.0, 1.0, 1.0]) is None
    assert judged([110.0, 1.0, 1.0, 1.0], work=[5.0, 1.0, 1.0, 1.0]) is not None
    assert judged([1.0, 50.0, 50.0, 50.0], work=[1.0, 50.0, 50.0, 50.0]) is None


@pytest.mark.parametrize("lie", [0.0, 1e-30, 1e-3, 1e3, 3e38])
@pytest.mark.parametrize("clients", [3, 4, 5, 7, 10])
def test_no_liar_has_an_honest_client_rejected(lie: float, clients: int) -> None:
    """Honest lengths spread over a factor of ten; less than half of the clients lie."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        honest = np.exp(rng.uniform(0, np.log(10), clients)).tolist()
        for liars in range(1, (clients - 1) // 2 + 1):
            lengths = [lie] * liars + honest[liars:]
            assert all(judged(lengths, client) is None for client in range(liars, clients))


def skewed(count: int = 4) -> list[Answers]:
    """Clients with one or two classes each, and between 10 and 80 examples."""
    data = {
        "source": "digits",
        "clients": count,
        "examples_per_client": [10, 80],
        "partition": {"kind": "dirichlet", "alpha": 0.1},
    }
    return [
        Answers(parse_client({"name": f"c{i}", "insecure": True, "data": {**data, "part": i}, "tell_labels": True}))
        for i in range(count)
    ]


STRATEGIES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedasync": {"run__max_commits": 9},
    "fednova": {"strategy__deadline_s": 0.02},
    "scaffold": {},
    "feddyn": {},
    "sequential": {},
    "ditto": {},
    "fedavg compressed": {"server__compression": {"up": {"kind": "top-k", "share": 0.1}}},
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_honest_clients_with_skewed_data_are_not_rejected(name: str, tmp_path: Path) -> None:
    grid = Loopback(skewed())
    settings = config(data__clients=4, **{"strategy__name": name.split()[0], "run__max_commits": 4, **STRATEGIES[name]})
    deploy_to_folder(settings, tmp_path / "run", grid)
    grid.close()
    outcomes = load_run(tmp_path / "run").visits["outcome"].tolist()
    assert "done" in outcomes
    assert "refused" not in outcomes


def scaled(factor: float, first: int = 0) -> Callable[[Call, Reply], Reply]:
    """Multiply what the liar sends, from its visit number `first` on."""
    count = itertools.count()

    def change(call: Call, reply: Reply) -> Reply:
        if call.node != LIAR or not reply.arrays or next(count) < first:
            return reply
        with np.errstate(over="ignore"):
            arrays = tuple(np.clip(array * np.float32(factor), -3e38, 3e38) for array in reply.arrays)
        return replace(reply, arrays=arrays)

    return change


async def rounds(fed: Federation) -> None:
    while True:
        updates = await fed.train_all(fed.clients, fed.model)
        fed.commit(await fed.average([update for update in updates if update.client.id < 3]))


@pytest.mark.parametrize("factor", [1e3, 1e38])
@pytest.mark.parametrize("first", [0, 2], ids=["from the first visit", "later"])
def test_a_liar_is_rejected_and_the_others_are_not(
    factor: float, first: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = Loopback(digits_clients(4))
    grid.change = scaled(factor, first)
    deploy_to_folder(config(data__clients=4), tmp_path / "run", grid)
    grid.close()
    visits = load_run(tmp_path / "run").visits
    assert visits["outcome"][visits["client"] == 3].tolist() == ["done"] * first + ["refused"] * (3 - first)
    assert (visits["outcome"][visits["client"] < 3] == "done").all()
    assert "client c3: its update is rejected: its change of the model has the length" in caplog.text
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["final_loss"] < 3
    if not first:  # with it, the mean is that of the others
        simulated, _, _ = run(config(rounds, data__clients=4))
        summary = json.loads((tmp_path / "run" / "summary.json").read_text())
        assert summary["model_sha256"] == simulated["model_sha256"]


def test_who_begins_to_lie_in_a_chain_is_rejected_and_the_chain_goes_on(tmp_path: Path) -> None:
    grid = Loopback(digits_clients(4))
    grid.change = scaled(1e3, 1)
    deploy_to_folder(config(strategy__name="sequential", data__clients=4, run__max_commits=12), tmp_path / "run", grid)
    grid.close()
    visits = load_run(tmp_path / "run").visits
    outcomes = visits["outcome"][visits["client"] == 3].tolist()
    assert outcomes == ["done"] + ["refused"] * (len(outcomes) - 1)
    assert len(outcomes) >= 3
    assert (visits["outcome"][visits["client"] < 3] == "done").all()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["final_loss"] < 3


def test_without_the_bound_a_liar_ruins_the_model(tmp_path: Path) -> None:
    grid = Loopback(digits_clients(4))
    grid.change = scaled(1e3)
    deploy_to_folder(config(data__clients=4, deploy__max_change=0.0), tmp_path / "run", grid)
    grid.close()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["final_loss"] > 10


def test_when_all_clients_move_far_none_is_rejected(tmp_path: Path) -> None:
    grid = Loopback(digits_clients(4))

    async def script(fed: Federation) -> None:
        for lr in (1e-4, 1e-4, 0.5):
            fed.commit(await fed.average(await fed.train_all(fed.clients, fed.model, Work(lr=lr))))

    deploy_to_folder(config(script, data__clients=4), tmp_path / "run", grid)
    grid.close()
    assert (load_run(tmp_path / "run").visits["outcome"] == "done").all()


def test_a_resumed_run_judges_as_before(tmp_path: Path) -> None:
    grid = Loopback(digits_clients(4))
    grid.change = scaled(1e3)
    settings = config(data__clients=4, run__max_commits=4, run__checkpoint_every=0.001)
    before = killed(settings, tmp_path / "run", grid, 6)
    resumed(settings, tmp_path / "run", grid)
    grid.close()
    visits = load_run(tmp_path / "run").visits
    after = set(zip(*(visits[name].tolist() for name in ("number", "client", "outcome", "finished"))))
    assert {(row.number, row.client, row.outcome, row.finished) for row in before} <= after
    assert "refused" in {row.outcome for row in before}
    assert (visits["outcome"][visits["client"] == 3] == "refused").all()
    assert (visits["outcome"][visits["client"] < 3] == "done").all()


def test_first_updates_wait_for_no_client_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_HOPED_S", 0.3)
    grid = Loopback(digits_clients(3))

    def change(call: Call, reply: Reply) -> Reply:
        if call.node == 100 and call.kind == "train":
            time.sleep(4.0)
        return reply

    grid.change = change
    took: list[float] = []

    async def script(fed: Federation) -> None:
        hanging = asyncio.create_task(fed.train(fed.clients[0], fed.model))
        updates = await fed.train_all(fed.clients[1:], fed.model)
        took.append(fed.now)
        fed.commit(await fed.average(updates))
        await hanging
        fed.commit(fed.model)

    deploy_to_folder(config(script, run__max_commits=2), tmp_path / "run", grid)
    grid.close()
    assert 0.3 <= took[0] < 3.0


def rejected_after_s(clients: int, liar: int, folder: Path, lie: float) -> list[float]:
    """Return when the update of one client was judged while the others train again and again, in seconds."""
    grid = Loopback(digits_clients(clients))
    judged_at: list[float] = []

    def change(call: Call, reply: Reply) -> Reply:
        if call.kind == "train":
            time.sleep(0.02 if call.node == 100 + liar else 0.1 + 0.03 * (call.node % 10))
            if call.node == 100 + liar:
                return replace(reply, arrays=tuple(np.float32(lie) * array for array in reply.arrays))
        return reply

    grid.change = change

    async def script(fed: Federation) -> None:
        async def busy(client: Client) -> None:
            while not judged_at and fed.now < 10.0:
                await fed.train(client, fed.model)

        async def one_visit() -> None:
            with contextlib.suppress(ClientUnavailable):
                await fed.train(fed.clients[liar], fed.model)
            judged_at.append(fed.now)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one_visit())
            for client in fed.clients:
                if client.id != liar:
                    tasks.create_task(busy(client))
        fed.commit(fed.model)

    deploy_to_folder(config(script, run__max_commits=1, data__clients=clients), folder / "run", grid)
    grid.close()
    return judged_at


def test_an_update_that_is_too_long_waits_for_no_visits_that_begin_later(tmp_path: Path) -> None:
    assert rejected_after_s(4, 3, tmp_path, 1e8)[0] < 5.0


def test_the_first_update_waits_for_no_visits_that_begin_later(tmp_path: Path) -> None:
    assert rejected_after_s(2, 0, tmp_path, 1.0)[0] < 5.0

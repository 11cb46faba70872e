"""`train_all` if nothing can delay a visit: the same events in the same order as with one task per visit."""

import asyncio
import math
import random
from typing import Any

import pytest

from fedtempo.errors import RunError
from fedtempo.federation import Federation
from fedtempo.fleet.links import Links
from fedtempo.runtime.central import Central
from fedtempo.runtime.executors.none import NoTraining
from fedtempo.runtime.simulation import Simulation
from tests.runtime.world import play

COMPUTE = [1.0, 2.0, {"unit": "s/visit", "kind": "uniform", "low": 1, "high": 3, "variation": 0.2}]
LINKS = ["none", {"kind": "fixed", "download_s": 0.5, "upload_s": 0.5}]


class Crowd:
    """Run tasks that request the same clients at the same instants and are cancelled at others."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.log: list[Any] = []

    async def run(self, fed: Federation) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name in range(self.rng.randint(1, 4)):
                tasks.create_task(self.work(fed, name))

    async def work(self, fed: Federation, name: int) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 6)):
            chosen = [rng.choice(fed.clients) for _ in range(rng.randint(0, 6))]
            way = rng.random()
            self.log.append((fed.now, name, [client.id for client in chosen]))
            try:
                async with asyncio.timeout(rng.choice([None, 0.0, 0.5, 1.0, 2.0, 3.0, 7.5])):
                    if way < 0.7:
                        updates = await fed.train_all(chosen, fed.model, group=rng.choice([None, 1, 2]))
                    elif way < 0.85 and chosen:
                        updates = [await fed.train(chosen[0], fed.model)]
                    else:
                        updates = []
                        await fed.sleep_until(fed.now + rng.choice([0.0, 1.0, 2.0]))
            except TimeoutError:
                self.log.append((fed.now, name, "timeout"))
                continue
            self.log.append(
                (fed.now, name, [(update.client.id, update.started, update.finished) for update in updates])
            )
            if updates and rng.random() < 0.5:
                fed.commit(await fed.average(updates))


def played(seed: int, **changes: Any) -> tuple[Any, ...]:
    rng, crowd = random.Random(seed), Crowd(seed)  # noqa: S311
    fleet = {"compute": rng.choice(COMPUTE), "link": rng.choice(LINKS), "clients": rng.randint(1, 5)}
    horizon = rng.choice([3.0, 10.0, 1000.0])
    outcome, records = play(crowd, horizon=horizon, seed=seed, **(fleet | changes))
    return crowd.log, outcome.ended, outcome.end_s, records.facts["events_sha256"], records.facts["bytes"]


def with_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Simulation, "train_all", Central.train_all)


@pytest.mark.parametrize("seeds", [range(20 * part, 20 * part + 20) for part in range(5)])
def test_events_are_the_same_as_with_tasks(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [played(seed) for seed in seeds]
    with_tasks(monkeypatch)
    assert ours == [played(seed) for seed in seeds]


@pytest.mark.parametrize("at_visit", [1, 3, 4])
@pytest.mark.parametrize("where", ["train", "result"])
def test_an_error_cancels_the_other_visits(at_visit: int, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised when a visit begins to compute, or when its update arrives."""
    calls = 0
    train = NoTraining.train

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == at_visit:
            raise RunError("the executor broke")

    class Pending:
        def result(self) -> Any:
            check()
            return pending.result()

        def done(self) -> bool:
            return True

    def broken(self: Any, *arguments: Any) -> Any:
        nonlocal pending
        pending = train(self, *arguments)
        if where == "result":
            return Pending()
        check()
        return pending

    pending: Any = None
    monkeypatch.setattr(NoTraining, "train", broken)

    async def script(fed: Federation) -> None:
        with pytest.raises(RunError, match="broke"):
            await fed.train_all([*fed.clients, fed.clients[0]], fed.model)
        log.append(fed.now)
        await fed.sleep_until(50.0)

    def ran() -> Any:
        nonlocal calls
        calls = 0
        log.clear()
        _, records = play(script, compute={"unit": "s/visit", "kind": "list", "values": [1.0, 2.0, 2.0, 3.0]})
        return list(log), records.facts["events_sha256"], records.visits["outcome"].tolist()

    log: list[float] = []
    ours = ran()
    assert "cancelled" in ours[2]
    with_tasks(monkeypatch)
    assert ours == ran()


def test_visits_without_duration_end_when_they_begin() -> None:
    async def script(fed: Federation) -> None:
        with fed.preparation():
            updates = await fed.train_all(fed.clients, fed.model)
        assert [update.client for update in updates] == list(fed.clients)
        assert fed.now == 0.0
        assert await fed.train_all([], fed.model) == []

    play(script, horizon=None, max_commits=1)


def test_no_client_stays_busy_after_a_timeout() -> None:
    async def script(fed: Federation) -> None:
        busy = asyncio.create_task(fed.train(fed.clients[0], fed.model))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await fed.train_all(fed.clients, fed.model)
        updates = await fed.train_all(fed.clients, fed.model)
        assert [update.started for update in updates] == [1.0, 0.5, 0.5, 0.5]
        await busy

    play(script)


def test_visits_may_be_cancelled_again_while_they_are_being_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    async def script(fed: Federation) -> None:
        batch = asyncio.create_task(fed.train_all(fed.clients, fed.model))
        await asyncio.sleep(0.5)
        batch.cancel()
        await asyncio.sleep(0)
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        updates = await fed.train_all(fed.clients, fed.model)
        assert [update.started for update in updates] == [0.5] * 4

    play(script)
    assert not caplog.records


@pytest.mark.parametrize(("link", "doing"), [((math.nan, 0.0), "receiving"), ((0.0, math.inf), "sending")])
def test_a_transfer_time_that_is_not_finite_ends_the_run(
    link: tuple[float, float], doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Links, "download_s", lambda *_: link[0])
    monkeypatch.setattr(Links, "upload_s", lambda *_: link[1])

    async def script(fed: Federation) -> None:
        await fed.train_all(fed.clients, fed.model)

    with pytest.raises(RunError, match=f"client 0: {doing} takes .* finite and not negative"):
        play(script)

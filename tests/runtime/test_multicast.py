"""Multicasts: duration, clients held, and clients that leave."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import RunError
from fedtempo.federation import Federation
from fedtempo.fleet.links import Rates
from tests.runtime.world import play

RATES = [8e6, 2e6, 4e6, 1e6]
LINK = {"kind": "rates", "download_bps": RATES, "upload_bps": 8e6}


async def finish(fed: Federation, visits: list[Any]) -> None:
    for visit in visits:
        await fed.compute(visit)
        await fed.upload(visit)


def test_a_multicast_is_sent_once_and_lasts_as_long_as_for_its_slowest_client() -> None:
    async def script(fed: Federation) -> None:
        visits = await fed.multicast([fed.clients[i] for i in (2, 0, 1)], fed.model, group=3)
        assert fed.now == 4.0
        assert [visit.client.id for visit in visits] == [2, 0, 1]
        await finish(fed, visits)
        assert await fed.multicast([], fed.model) == []
        assert fed.now == 4.0 + 3 * 2.0

    _, records = play(script, link=LINK)
    assert records.facts["bytes"] == {"down": 1_000_000, "up": 3_000_000, "relay": 0}
    assert records.visits["received"].tolist() == [4.0] * 3
    assert records.visits["group"].tolist() == [3] * 3
    links = Rates(download_bps=RATES, upload_bps=8e6).build(4, np.random.default_rng(0))  # type: ignore[arg-type]
    assert links.multicast_s([2, 0, 1], 1_000_000) == 4.0


def test_a_multicast_begins_when_the_last_client_is_free_and_holds_the_others_until_then() -> None:
    order: list[tuple[str, float]] = []

    async def script(fed: Federation) -> None:
        async def busy() -> None:
            await fed.train(fed.clients[1], fed.model)
            order.append(("alone", fed.now))

        async def later() -> None:
            await fed.sleep_until(0.5)
            update = await fed.train(fed.clients[0], fed.model)
            order.append(("after", update.started))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(busy())
            tasks.create_task(later())
            await fed.sleep_until(0.25)
            visits = await fed.multicast(fed.clients[:2], fed.model)
            order.append(("multicast", fed.now))
            await finish(fed, visits)

    play(script, link=LINK)
    assert order == [("alone", 6.0), ("multicast", 10.0), ("after", 12.0)]


def test_the_slowest_client_is_determined_when_the_multicast_begins() -> None:
    times: list[float] = []

    async def script(fed: Federation) -> None:
        for _ in range(50):
            before = fed.now
            visits = await fed.multicast(fed.clients, fed.model)
            needed = [8.0 * visit.state.link_factor for visit in visits]
            assert fed.now - before == pytest.approx(max(needed), abs=1e-9)
            assert [visit.state.download_s for visit in visits] == needed
            assert [fed.estimate(client).download_s for client in fed.clients] == [8.0] * 4
            times.append(max(needed))
            for visit in visits:
                visit.release()

    play(script, link={"kind": "rates", "download_bps": 1e6, "upload_bps": 1e6, "fluctuation": 0.3}, horizon=9999.0)
    assert 8.0 / 1.3 <= min(times) < max(times) <= 8.0 / 0.7


def test_clients_that_leave_are_left_out_and_the_others_continue() -> None:
    async def script(fed: Federation) -> None:
        visits = await fed.multicast(fed.clients, fed.model)
        assert [visit.client.id for visit in visits] == [0, 3]
        assert fed.now == 8.0
        await finish(fed, visits)

    windows = [[(0.0, 99.0)], [(0.0, 3.0)], [(50.0, 99.0)], [(0.0, 99.0)]]
    _, records = play(script, link=LINK, availability={"kind": "windows", "windows": windows})
    lost = records.visits["outcome"] == "unavailable"
    assert records.visits["client"][lost].tolist() == [1, 2]
    assert records.visits["finished"][lost].tolist() == [3.0, 0.0]


@pytest.mark.parametrize("given_up_at", [1.0, 8.0, 9.0])
def test_cancelling_a_multicast_frees_every_client(given_up_at: float) -> None:
    async def script(fed: Federation) -> None:
        blocker = await fed.download(fed.clients[3], fed.model)
        assert fed.now == 8.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(given_up_at):
                await fed.multicast(fed.clients, fed.model)
        blocker.release()
        before = fed.now
        updates = await fed.train_all(fed.clients[:3], fed.model)
        assert [update.started for update in updates] == [before] * 3
        assert len(await fed.multicast(fed.clients, fed.model)) == 4

    play(script, link=LINK)


def test_multicasts_to_the_same_clients_run_in_the_order_of_their_requests() -> None:
    ends: list[tuple[str, float]] = []

    async def script(fed: Federation) -> None:
        async def one(name: str, order: list[int]) -> None:
            visits = await fed.multicast([fed.clients[i] for i in order], fed.model)
            await finish(fed, visits)
            ends.append((name, fed.now))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one("first", [0, 1]))
            tasks.create_task(one("second", [1, 0]))

    play(script, link=LINK)
    assert ends == [("first", 8.0), ("second", 16.0)]


def test_a_duplicate_client_is_rejected() -> None:
    with pytest.raises(RunError, match="multicast: duplicate client 0"):
        play(lambda fed: fed.multicast([fed.clients[i] for i in (0, 1, 0)], fed.model))


def test_a_multicast_takes_one_channel() -> None:
    async def script(fed: Federation) -> None:
        async with asyncio.TaskGroup() as tasks:
            both = [tasks.create_task(fed.multicast(fed.clients[a : a + 2], fed.model)) for a in (0, 2)]
        assert [visit.state.received_at for task in both for visit in task.result()] == [4.0, 4.0, 12.0, 12.0]

    play(script, link={**LINK, "download_channels": 1})

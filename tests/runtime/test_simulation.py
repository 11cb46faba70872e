"""The simulated federation as a strategy sees it: queueing, phases, links, estimates, faults, endings, records."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtempo.errors import DeadlockError, RunError, UserCodeError
from fedtempo.federation import ClientUnavailable, ConsentError, Federation, Update, Work
from fedtempo.record.measures import busy_ratios
from tests.runtime.world import play

FIXED = {"kind": "fixed", "download_s": 2.0, "upload_s": 3.0}


def rows(records: Any, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(records.visits[column].tolist() for column in columns)))


def test_a_visit_lasts_as_long_as_its_download_training_and_upload() -> None:
    updates: list[Update] = []

    async def script(fed: Federation) -> None:
        updates.append(await fed.train(fed.clients[1], fed.model))

    _, records = play(script, compute=5.0, link=FIXED)
    (update,) = updates
    assert (update.started, update.computed, update.finished) == (0.0, 7.0, 10.0)
    assert (update.client.id, update.num_examples, update.base_version) == (1, 10, 0)
    assert rows(records, "client", "queued", "started", "received", "computed", "finished", "outcome") == [
        (1, 0.0, 0.0, 2.0, 7.0, 10.0, "done")
    ]
    assert records.facts["bytes"] == {"down": 1_000_000, "up": 1_000_000, "relay": 0}


def test_a_client_serves_one_request_at_a_time_in_order_of_arrival() -> None:
    finished: list[tuple[str, float]] = []

    async def script(fed: Federation) -> None:
        async def one(name: str, at: float) -> None:
            await fed.sleep_until(at)
            update = await fed.train(fed.clients[0], fed.model)
            finished.append((name, update.finished))

        async with asyncio.TaskGroup() as tasks:
            for name, at in (("late", 2.0), ("first", 0.0), ("tie b", 1.0), ("tie c", 1.0)):
                tasks.create_task(one(name, at))

    play(script, compute=4.0)
    assert finished == [("first", 4.0), ("tie b", 8.0), ("tie c", 12.0), ("late", 16.0)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=25), st.integers(0, 5))
def test_no_client_is_ever_in_two_visits(visits: list[tuple[int, int]], seed: int) -> None:
    async def script(fed: Federation) -> None:
        async def one(client: int, at: int) -> None:
            await fed.sleep_until(float(at))
            await fed.train(fed.clients[client], fed.model)

        async with asyncio.TaskGroup() as tasks:
            for client, at in visits:
                tasks.create_task(one(client, at))

    compute = {"unit": "s/visit", "speed": {"kind": "exponential", "mean": 3.0}, "variation": 0.5}
    _, records = play(script, compute=compute, link=FIXED, seed=seed)
    assert len(rows(records, "client")) == len(visits)
    for client in range(4):
        spans = sorted((s, f) for c, s, f in rows(records, "client", "started", "finished") if c == client)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_shared_channels_limit_parallel_transfers() -> None:
    ends: list[float] = []

    async def script(fed: Federation) -> None:
        ends.extend(update.finished for update in await fed.train_all(fed.clients, fed.model))

    play(script, compute=1.0, link={"kind": "fixed", "download_s": 0.0, "upload_s": 2.0, "channels": 2}, clients=5)
    assert ends == [3.0, 3.0, 5.0, 5.0, 7.0]


def test_transfer_times_follow_from_rates_and_sizes() -> None:
    async def script(fed: Federation) -> None:
        update = await fed.train(fed.clients[0], fed.model)
        assert (update.computed, update.finished) == (1.0 + 4.0, 1.0 + 4.0 + 8.0)

    link = {"kind": "rates", "download_bps": 2e6, "upload_bps": 1e6}
    play(script, compute=1.0, link=link)


def test_compute_time_per_example_follows_the_work() -> None:
    seen: list[float] = []

    async def script(fed: Federation) -> None:
        for work in (None, Work(epochs=3), Work(steps=1, batch_size=4), Work(full_batch=True)):
            update = await fed.train(fed.clients[0], fed.model, work)
            seen.append(update.finished - update.started)

    play(script, compute={"unit": "s/example", "speed": 0.5}, examples=10)
    assert seen == [5.0, 15.0, 2.0, 5.0]
    seen.clear()
    play(script, compute={"unit": "s/visit", "speed": 2.0}, examples=10)
    assert seen == pytest.approx([2.0, 6.0, 0.8, 2.0])


def test_a_model_takes_the_faster_route_to_the_next_client() -> None:
    ends: list[float] = []

    async def script(fed: Federation) -> None:
        first = await fed.train(fed.clients[0], fed.model, to=fed.clients[1])
        second = await fed.train(fed.clients[1], first.model)
        ends.extend([first.finished, second.started, second.computed, second.finished])

    slow_server = {"kind": "rates", "download_bps": 1e6, "upload_bps": 1e6, "peer_bps": 8e6}
    _, records = play(script, compute=1.0, link=slow_server)
    assert ends == [8 + 1 + 1, 10.0, 11.0, 19.0]
    assert records.facts["bytes"] == {"down": 1_000_000, "up": 1_000_000, "relay": 1_000_000}
    ends.clear()
    _, records = play(script, compute=1.0, link={**slow_server, "peer_bps": 0.4e6})
    assert ends == [8 + 1 + 8, 17.0, 17 + 8 + 1, 34.0]
    assert records.facts["bytes"]["relay"] == 0


def test_phases_can_be_scheduled_separately_and_hold_the_client() -> None:
    order: list[tuple[str, float]] = []

    async def script(fed: Federation) -> None:
        async def pipelined() -> None:
            visit = await fed.download(fed.clients[0], fed.model, group=7)
            await fed.compute(visit)
            await fed.sleep_until(20.0)
            update = await fed.upload(visit)
            order.append(("pipelined", update.finished))

        async def other() -> None:
            update = await fed.train(fed.clients[0], fed.model)
            order.append(("other", update.started))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pipelined())
            tasks.create_task(other())

    _, records = play(script, compute=5.0, link=FIXED)
    assert order == [("pipelined", 23.0), ("other", 23.0)]
    assert records.visits["group"].tolist() == [7, -1]


def test_leaving_a_visit_frees_the_client() -> None:
    async def script(fed: Federation) -> None:
        with await fed.download(fed.clients[0], fed.model) as visit:
            await fed.compute(visit)
        update = await fed.train(fed.clients[0], fed.model)
        assert update.started == 7.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await fed.train(fed.clients[0], fed.model)
        again = await fed.train(fed.clients[0], fed.model)
        assert again.started == 20.0

    _, records = play(script, compute=5.0, link=FIXED)
    assert records.visits["outcome"].tolist() == ["cancelled", "done", "cancelled", "done"]


def test_uploading_before_training_is_an_error() -> None:
    async def script(fed: Federation) -> None:
        await fed.upload(await fed.download(fed.clients[0], fed.model))

    with pytest.raises(RunError, match="client 0: upload before compute"):
        play(script)


def test_a_client_that_leaves_ends_its_visit_and_train_all_continues_without_it() -> None:
    came: list[int] = []
    reasons: list[str] = []

    async def script(fed: Federation) -> None:
        came.extend(update.client.id for update in await fed.train_all(fed.clients, fed.model))
        try:
            await fed.train(fed.clients[2], fed.model)
        except ClientUnavailable as error:
            reasons.append(str(error))

    windows = [[(0.0, 99.0)], [(0.0, 4.0)], [(50.0, 99.0)], [(0.0, 99.0)]]
    _, records = play(script, compute=5.0, availability={"kind": "windows", "windows": windows})
    assert came == [0, 3]
    assert sorted(rows(records, "client", "finished", "outcome")) == [
        (0, 5.0, "done"),
        (1, 4.0, "unavailable"),
        (2, 0.0, "unavailable"),
        (2, 5.0, "unavailable"),
        (3, 5.0, "done"),
    ]
    assert reasons == ["client 2 is unavailable: it left while receiving at t = 5 s"]


def test_forecasts_follow_from_the_fleet_and_include_the_present() -> None:
    found: list[list[float]] = []

    async def script(fed: Federation) -> None:
        await fed.sleep_until(3.0)
        for begin, end in ((3.0, 3.0), (3.0, 4.0), (3.0, 5.0), (10.0, 60.0), (50.0, 60.0)):
            found.append([fed.forecast(client, begin, end) for client in fed.clients])

    windows = [[(0.0, 99.0)], [(0.0, 4.0)], [(50.0, 99.0)], []]
    play(script, availability={"kind": "windows", "windows": windows})
    assert found == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0]]


def test_dropouts_fail_visits_at_their_rate() -> None:
    outcomes = {True: 0, False: 0}

    async def script(fed: Federation) -> None:
        for _ in range(500):
            try:
                await fed.train(fed.clients[0], fed.model)
                outcomes[True] += 1
            except ClientUnavailable:
                outcomes[False] += 1

    play(script, availability={"kind": "dropout", "probability": 0.3})
    assert abs(outcomes[False] - 150) < 5 * (500 * 0.3 * 0.7) ** 0.5


def test_examples_need_consent_take_time_and_are_sent_once() -> None:
    labels = [np.array([0, 0, 1, 2, 0])] * 4
    got: list[tuple[tuple[int, ...], float, list[int]]] = []

    async def script(fed: Federation) -> None:
        for _ in range(2):
            examples = await fed.upload_examples(fed.clients[0], [2, 1, 0])
            got.append((examples.counts, fed.now, examples.location.tolist()))

    link = {"kind": "rates", "download_bps": 1e6, "upload_bps": 800.0}
    play(script, labels=labels, consent=True, link=link)
    assert got == [((2, 1, 0), 3.0, [0, 1, 2]), ((1, 0, 0), 4.0, [4])]
    with pytest.raises(ConsentError, match="client 0 did not agree"):
        play(script, labels=labels, consent=False)


def test_commits_count_versions_and_a_budget_ends_the_run() -> None:
    async def script(fed: Federation) -> None:
        while True:
            update = await fed.train(fed.clients[0], fed.model)
            model = fed.commit(update.model, staleness=2)
            assert fed.model is model
            assert update.base_version == model.version - 1

    outcome, records = play(script, compute=2.0, horizon=None, max_commits=3)
    assert (outcome.ended, outcome.end_s) == ("budget", 6.0)
    assert list(zip(*(records.commits[c].tolist() for c in ("version", "time", "staleness")))) == [
        (1, 2.0, 2),
        (2, 4.0, 2),
        (3, 6.0, 2),
    ]


def test_visits_that_end_at_the_horizon_count_and_later_ones_are_cut() -> None:
    async def script(fed: Federation) -> None:
        async def forever(client: int) -> None:
            while True:
                updates = await fed.train_all([fed.clients[client]], fed.model)
                fed.commit(await fed.average(updates))

        async with asyncio.TaskGroup() as tasks:
            for client in range(2):
                tasks.create_task(forever(client))

    outcome, records = play(script, compute=[2.5, 4.0], clients=2, horizon=10.0)
    assert (outcome.ended, outcome.end_s) == ("horizon", 10.0)
    assert records.commits["time"].tolist() == [2.5, 4.0, 5.0, 7.5, 8.0, 10.0]
    assert [row for row in rows(records, "client", "finished", "outcome") if row[2] == "cut"] == [(1, 10.0, "cut")]
    assert busy_ratios(records).tolist() == [1.0, 1.0]


def test_a_strategy_that_ends_early_leaves_the_clock_running_to_the_horizon() -> None:
    async def script(fed: Federation) -> None:
        await fed.train(fed.clients[0], fed.model)

    outcome, _ = play(script, horizon=50.0)
    assert (outcome.ended, outcome.end_s) == ("horizon", 50.0)


def test_preparation_takes_no_time_and_only_before_the_clock_runs() -> None:
    async def script(fed: Federation) -> None:
        with fed.preparation():
            await fed.train_all(fed.clients, fed.model)
            assert fed.now == 0.0
        await fed.train(fed.clients[0], fed.model)
        assert fed.now == 10.0
        with pytest.raises(RunError, match="before the clock runs, not at t = 10 s"), fed.preparation():
            pass

    play(script, compute=5.0, link=FIXED)


def test_estimates_are_a_prior_then_the_mean_of_observations() -> None:
    async def script(fed: Federation) -> None:
        client = fed.clients[0]
        assert fed.estimate(client).visit_s == 42.0
        await fed.train(client, fed.model, Work(epochs=2))
        believed = fed.estimate(client)
        assert (believed.download_s, believed.compute_s, believed.upload_s) == (2.0, 5.0, 3.0)
        assert fed.estimate(fed.clients[1]).visit_s == 42.0

    play(script, compute=5.0, link=FIXED, estimates={"kind": "observed", "prior_s": 42.0})


def test_arithmetic_on_handles_takes_the_servers_time() -> None:
    async def script(fed: Federation) -> None:
        update = await fed.train(fed.clients[0], fed.model)
        mixed = await fed.mix(fed.model, update.model, 0.5)
        mean = await fed.average([update, mixed])
        pair = await fed.on_server(lambda a, *, others: (a, others[0]), mixed, others=[mean])
        assert [model.version for model in (mixed, mean, *pair)] == [0, 0, 0, 0]
        assert await fed.on_server(lambda a: {"size": a.size}, mean) == {"size": 0}
        assert fed.now == 1.0 + 4 * 0.25

    play(script, server_s=0.25)
    with pytest.raises(RunError, match="at least one update"):
        play(lambda fed: fed.average([]))


def test_generators_depend_only_on_seed_purpose_and_keys() -> None:
    drawn: list[float] = []

    async def script(fed: Federation) -> None:
        fed.rng("sampling", 1).random()
        drawn.extend(fed.rng(purpose, key).random() for purpose in ("sampling", "order") for key in (1, 2))

    play(script)
    first, drawn = drawn, []
    play(script)
    assert drawn == first
    assert len(set(first)) == 4
    drawn = []
    play(script, seed=2)
    assert not set(first) & set(drawn)


def test_a_failing_strategy_shows_its_own_error() -> None:
    async def script(fed: Federation) -> None:
        async def fails() -> None:
            await fed.sleep_until(3.0)
            raise KeyError("the strategy's mistake")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fails())
            tasks.create_task(fed.sleep_until(500.0))

    with pytest.raises(UserCodeError, match=r": KeyError: \"the strategy's mistake\" \(.*:\d+ in fails\)") as raised:
        play(script)
    assert isinstance(raised.value.__cause__, KeyError)


def test_waiting_for_nothing_without_a_horizon_is_a_deadlock() -> None:
    async def script(fed: Federation) -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="strategy"):
        play(script, horizon=None, max_commits=5)


def test_a_run_whose_time_does_not_advance_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtempo.runtime.visits._STUCK", 1000)

    async def script(fed: Federation) -> None:
        while True:
            fed.commit((await fed.train(fed.clients[0], fed.model)).model)

    with pytest.raises(RunError, match="time did not move"):
        play(script, compute={"unit": "s/example", "speed": 1.0}, examples=0)


def test_runs_with_the_same_seed_agree_and_with_another_differ() -> None:
    async def script(fed: Federation) -> None:
        while True:
            chosen = fed.rng("sampling", fed.model.version).permutation(len(fed.clients))[:2]
            fed.commit(await fed.average(await fed.train_all([fed.clients[i] for i in chosen], fed.model)))

    compute = {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 3.0}, "variation": 0.2}
    hashes = [play(script, compute=compute, seed=seed)[1].facts["events_sha256"] for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]

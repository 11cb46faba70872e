"""Uploaded examples and training at the server: time, consent, channels, and equal bits."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import RunError
from fedtempo.federation import ClientUnavailable, ConsentError, Examples, Federation, Work
from fedtempo.learning.networks import CnnPsfl, Mlp
from fedtempo.learning.training import Training
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.none import NoTraining
from fedtempo.runtime.executors.processes import Processes
from fedtempo.runtime.work import resolve
from tests.runtime.world import play

LABELS = [np.array([0, 0, 1, 2, 0]), np.array([1, 1, 2]), np.array([2, 0]), np.array([1])]
LINK = {"kind": "rates", "download_bps": 1e6, "upload_bps": 800.0}  # an example of 100 bytes takes 1 s
TRAINING = Training(lr=0.1, batch_size=8)


def job(network: Any = None) -> Job:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((90, 3, 32, 32)).astype(np.float32), rng.integers(0, 10, 90)
    return Job(network or CnnPsfl(), 10, x, y, [np.arange(0, 40), np.arange(30, 90)], x[:20], y[:20], 4)


def digest(executor: Any, location: Any) -> str:
    return hashlib.sha256(executor.vector(location).tobytes()).hexdigest()


def trained_on_rows(executor: Any) -> list[tuple[str, dict[str, float]]]:
    """Train twice in a row at the server, in parallel with a client's visit."""
    rows = np.array([80, 3, 41, 7, 7, 60, 12, 33, 34, 35, 0])
    first = executor.train_rows(executor.initial(), rows, 1, TRAINING)
    client = executor.train(executor.initial(), 0, 1, TRAINING)
    second = executor.train_rows(first.result().location, rows[::-1], 2, TRAINING)
    return [
        (digest(executor, done.location), done.statistics)
        for done in (first.result(), client.result(), second.result())
    ]


@pytest.mark.parametrize(("workers", "method"), [(1, "fork"), (2, "fork"), (1, "spawn")])
def test_every_executor_gives_the_same_bits(workers: int, method: Any) -> None:
    with Inline(job()) as inline, Processes(job(), workers, method) as processes:
        expected = trained_on_rows(inline)
        assert trained_on_rows(processes) == expected
    assert len({model for model, _ in expected}) == 3


def test_training_on_a_clients_rows_equals_the_clients_own_training() -> None:
    work = job(Mlp((4,)))
    with Inline(work) as executor:
        model, whole = executor.initial(), Training(lr=0.1, full_batch=True, epochs=2)
        by_client = executor.train(model, 1, 1, whole).result()
        by_server = executor.train_rows(model, work.clients[1].astype(np.uint16), 1, whole).result()
        assert digest(executor, by_server.location) == digest(executor, by_client.location)
        again, other = (executor.train_rows(model, work.clients[1], visit, TRAINING).result() for visit in (1, 2))
        assert digest(executor, again.location) != digest(executor, other.location)


def test_without_examples_nothing_is_trained() -> None:
    with NoTraining(10) as executor:
        pending = executor.train_rows(executor.initial(), np.arange(3), 1, TRAINING)
        assert pending.done()
        assert pending.result().statistics == {}


def test_the_server_trains_on_all_uploaded_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    trainings: list[tuple[list[int], int, Training]] = []
    train_rows = NoTraining.train_rows

    def watched(self: NoTraining, location: Any, rows: Any, visit: int, training: Training) -> Any:
        trainings.append((rows.tolist(), visit, training))
        return train_rows(self, location, rows, visit, training)

    monkeypatch.setattr(NoTraining, "train_rows", watched)

    async def script(fed: Federation) -> None:
        gathered = [await fed.upload_examples(fed.clients[1], [0, 2, 0])]
        model = await fed.train_on_server(fed.model, gathered)
        gathered.append(await fed.upload_examples(fed.clients[0], [1, 1, 1]))
        before = fed.now
        again = await fed.train_on_server(model, gathered, Work(lr=0.5, lr_scale=0.1))
        assert (again.version, fed.now - before) == (0, 0.25)

    play(script, labels=LABELS, consent=True, link=LINK, server_s=0.25)
    assert [(rows, visit) for rows, visit, _ in trainings] == [([5, 6], 1), ([5, 6, 0, 2, 3], 2)]
    assert [training.lr for _, _, training in trainings] == pytest.approx([0.01, 0.05])


def test_the_server_cannot_train_without_examples() -> None:
    async def script(fed: Federation) -> None:
        nothing = await fed.upload_examples(fed.clients[0], [0, 0, 0])
        await fed.train_on_server(fed.model, [nothing])

    with pytest.raises(RunError, match="at least one example"):
        play(script, labels=LABELS, consent=True, link=LINK)
    with pytest.raises(RunError, match="no data"):
        play(lambda fed: fed.upload_examples(fed.clients[0], [1]), consent=True)


def test_lr_scale_applies_to_the_configured_or_requested_step_size() -> None:
    configured = Training(lr=0.25)
    assert resolve(configured, Work(lr_scale=0.5)).lr == 0.125
    assert resolve(configured, Work(lr=1.0, lr_scale=0.5)).lr == 0.5
    assert resolve(configured, Work()).lr == 0.25


def uploaded(per_class: list[int], until: float | None, **settings: Any) -> tuple[Examples, float]:
    got: list[tuple[Examples, float]] = []

    async def script(fed: Federation) -> None:
        await fed.sleep_until(10.0)
        got.append((await fed.upload_examples(fed.clients[0], per_class, until=until), fed.now))
        rest = await fed.upload_examples(fed.clients[0], [9, 9, 9])
        assert len({*got[0][0].location.tolist(), *rest.location.tolist()}) == 5

    play(script, labels=LABELS, consent=True, **{"link": LINK, **settings})
    return got[0]


def test_a_cut_upload_keeps_whole_examples_and_leaves_the_rest_with_the_client() -> None:
    examples, end = uploaded([2, 1, 1], until=12.5)
    assert (examples.counts, examples.location.tolist(), examples.cut, end) == ((2, 0, 0), [0, 1], True, 12.0)
    examples, end = uploaded([2, 1, 1], until=14.0)
    assert (examples.counts, examples.cut, end) == ((2, 1, 1), False, 14.0)
    examples, end = uploaded([0, 5, 5], until=None)
    assert (examples.counts, examples.cut, end) == ((0, 1, 1), False, 12.0)


@pytest.mark.parametrize("until", [9.0, 10.0, 10.5])
def test_an_upload_window_that_is_past_or_too_short_takes_no_time(until: float) -> None:
    examples, end = uploaded([2, 1, 1], until=until)
    assert (examples.counts, examples.size_bytes, examples.cut, end) == ((0, 0, 0), 0, True, 10.0)


def test_an_upload_of_examples_fluctuates_like_one_of_models_and_ends_within_its_window() -> None:
    cut = set()
    for seed in range(1, 9):
        examples, end = uploaded([3, 1, 0], until=14.0, link={**LINK, "fluctuation": 0.5}, seed=seed)
        example_s = (end - 10.0) / sum(examples.counts)
        assert 1 / 1.5 <= example_s <= 1 / 0.5
        assert examples.cut == (10.0 + 4 * example_s > 14.0)
        assert end <= 14.0
        cut.add(examples.cut)
    assert cut == {True, False}


def test_an_upload_of_examples_holds_the_client_and_a_channel_and_is_recorded_as_a_visit() -> None:
    async def script(fed: Federation) -> None:
        async with asyncio.TaskGroup() as tasks:
            sending = [tasks.create_task(fed.upload_examples(fed.clients[i], [9, 9, 9], group=5)) for i in (0, 1, 0)]
        assert [task.result().counts for task in sending] == [(3, 1, 1), (0, 2, 1), (0, 0, 0)]

    _, records = play(script, labels=LABELS, consent=True, link={**LINK, "channels": 1})
    columns = ("client", "group", "queued", "started", "received", "computed", "finished", "examples")
    visits = [tuple(records.visits[name][i].item() for name in columns) for i in range(3)]
    assert visits == [
        (0, 5, 0.0, 0.0, 0.0, 0.0, 5.0, 0),
        (1, 5, 0.0, 0.0, 0.0, 0.0, 8.0, 0),
        (0, 5, 0.0, 5.0, 5.0, 5.0, 8.0, 0),
    ]
    assert records.facts["bytes"] == {"down": 0, "up": 800, "relay": 0}


def test_a_client_that_leaves_sends_no_examples() -> None:
    async def script(fed: Federation) -> None:
        with pytest.raises(ClientUnavailable, match="left while sending examples at t = 3 s"):
            await fed.upload_examples(fed.clients[0], [9, 9, 9])
        await fed.sleep_until(20.0)
        assert (await fed.upload_examples(fed.clients[0], [9, 9, 9])).counts == (3, 1, 1)

    windows = [[(0.0, 3.0), (20.0, 99.0)]] * 4
    _, records = play(
        script, labels=LABELS, consent=True, link=LINK, availability={"kind": "windows", "windows": windows}
    )
    assert records.visits["outcome"].tolist() == ["unavailable", "done"]
    assert records.facts["bytes"]["up"] == 500


def test_no_examples_are_sent_without_consent() -> None:
    async def script(fed: Federation) -> None:
        assert (await fed.upload_examples(fed.clients[0], [1, 0, 0])).counts == (1, 0, 0)
        with pytest.raises(ConsentError, match="client 2 did not agree"):
            await fed.upload_examples(fed.clients[2], [1, 0, 0])

    _, records = play(script, labels=LABELS, consent=[True, True, False, True], link=LINK)
    assert records.visits["client"].tolist() == [0]


def test_the_estimate_for_an_example_is_its_share_of_the_estimate_for_a_model() -> None:
    async def script(fed: Federation) -> None:
        client = fed.clients[0]
        believed = fed.estimate_example_s(client)
        assert believed == pytest.approx(fed.estimate(client).upload_s * 100 / 1_000_000)
        seen.append(believed)

    seen: list[float] = []
    for estimates in ("exact", {"kind": "observed", "prior_s": [1.0, 1.0, 50.0]}):
        play(script, labels=LABELS, consent=True, link=LINK, estimates=estimates)
    assert seen == pytest.approx([1.0, 0.005])

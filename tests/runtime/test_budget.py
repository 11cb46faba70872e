"""Budgets: a run ends at the visit that uses them up, and says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.federation import Client, Federation
from fedtempo.learning.privacy import epsilon
from fedtempo.record.measures import client_seconds, energy_wh
from fedtempo.record.summary import summarise
from fedtempo.runtime.budget import Budget, in_words
from fedtempo.runtime.spending import _Meter
from fedtempo.strategies import FedAvg
from tests.runtime.world import play

LINK = {"kind": "fixed", "download_s": 1.0, "upload_s": 2.0}
"""A visit that computes for 7 s takes 10 s, and moves 1 MB each way."""


async def one_by_one(fed: Federation) -> None:
    """Clients 0, 1, 2, ... train one after the other."""
    while True:
        for client in fed.clients:
            update = await fed.train(client, fed.model)
            fed.commit(await fed.average([update]))


async def all_at_once(fed: Federation) -> None:
    while True:
        fed.commit(await fed.average(await fed.train_all(fed.clients, fed.model)))


def test_bytes() -> None:
    outcome, records = play(one_by_one, compute=7.0, link=LINK, budget=Budget(bytes=5_000_000))
    # After three visits 6 MB have moved; the download of the third began at 4 MB.
    assert (outcome.ended, outcome.end_s, len(records.visits["number"])) == ("bytes", 30.0, 3)
    assert outcome.reason == "6.0 MB used; run.budget.bytes allows 5.0 MB"


def test_a_budget_that_is_met_exactly_is_used_up() -> None:
    outcome, _ = play(one_by_one, compute=7.0, link=LINK, budget=Budget(bytes=4_000_000))
    assert (outcome.ended, outcome.end_s) == ("bytes", 20.0)


def test_client_hours_count_visits_in_progress() -> None:
    # Visits take 10, 10, 10 and 30 s; after 10 s they have used 40 client seconds, three of them in finished visits.
    hours = Budget(client_hours=40 / 3600)
    outcome, records = play(all_at_once, compute=[7.0, 7.0, 7.0, 27.0], link=LINK, budget=hours)
    assert (outcome.ended, outcome.end_s) == ("client_hours", 10.0)
    assert client_seconds(records) == pytest.approx(40.0)
    assert outcome.reason == "0.01111 client hours used; run.budget.client_hours allows 0.01111 client hours"


def test_client_hours_are_checked_when_a_visit_ends() -> None:
    # 45 client seconds are reached at 15 s, while only the slow client works; the next visit ends at 30 s.
    hours = Budget(client_hours=45 / 3600)
    outcome, _ = play(all_at_once, compute=[7.0, 7.0, 7.0, 27.0], link=LINK, budget=hours)
    assert (outcome.ended, outcome.end_s) == ("client_hours", 30.0)


@pytest.mark.parametrize("seconds", [40.0, 95.0, 400.0, 1234.0])
def test_sparing_sums_miss_no_end(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is that of a meter that sums at each visit, which the bound on the next sum must not delay."""
    world: dict[str, Any] = {
        "compute": [1.0, 2.5, 7.0, 31.0],
        "link": LINK,
        "budget": Budget(client_hours=seconds / 3600),
    }

    async def each_for_itself(fed: Federation) -> None:
        async with asyncio.TaskGroup() as tasks:
            for client in fed.clients:
                tasks.create_task(again(fed, client))

    async def again(fed: Federation, client: Client) -> None:
        while True:
            fed.commit((await fed.train(client, fed.model)).model)

    outcome, _ = play(each_for_itself, **world)
    measure = _Meter.measure

    def always(self: Any, now: float, in_progress: Any) -> float:
        used = measure(self, now, in_progress)
        self.next_s = 0.0
        return used

    monkeypatch.setattr(_Meter, "measure", always)
    reference, _ = play(each_for_itself, **world)
    assert outcome == reference
    assert outcome.ended == "client_hours"


def test_watt_hours() -> None:
    # Each visit computes for 7 s at 4 W and receives and sends for 3 s at 2 W: 34 J.
    link, compute = {**LINK, "watts": 2.0}, {"unit": "s/visit", "speed": 7.0, "watts": 4.0}
    outcome, records = play(one_by_one, compute=compute, link=link, budget=Budget(watt_hours=100 / 3600))
    assert (outcome.ended, outcome.end_s) == ("watt_hours", 30.0)
    watts = {"compute": [4.0] * 4, "link": [2.0] * 4}
    measured = replace(records, facts={**records.facts, "watts": watts})
    assert energy_wh(measured) == pytest.approx(102 / 3600)
    assert outcome.reason == "0.02833 watt hours used; run.budget.watt_hours allows 0.02778 watt hours"


def test_watt_hours_of_a_visit_in_progress() -> None:
    # At 10 s the first three visits have used 28 J each, and the slow client has computed for 9 s at 4 W: 120 J in all.
    compute = {"unit": "s/visit", "speed": [7.0, 7.0, 7.0, 27.0], "watts": 4.0}
    outcome, _ = play(all_at_once, compute=compute, link=LINK, budget=Budget(watt_hours=120 / 3600))
    assert (outcome.ended, outcome.end_s) == ("watt_hours", 10.0)


def test_epsilon_is_never_exceeded() -> None:
    privacy = {"privacy": {"clip_norm": 1.0, "noise_multiplier": 4.0, "delta": 1e-5}}
    spent, next_one = (epsilon(4.0, averages, 1e-5) for averages in (3, 4))
    budget = Budget(epsilon=(spent + next_one) / 2)
    outcome, records = play(FedAvg(), compute=7.0, server=privacy, budget=budget)
    assert (outcome.ended, outcome.end_s, records.commits["version"].tolist()) == ("epsilon", 28.0, [1, 2, 3])
    assert records.facts["privacy"]["epsilon"] == spent
    assert outcome.reason == (
        f"epsilon {spent:.4g} spent, and another average would make it {next_one:.4g}; run.budget.epsilon allows "
        f"{budget.epsilon:g}"
    )


def test_epsilon_too_small_for_one_average() -> None:
    privacy = {"privacy": {"clip_norm": 1.0, "noise_multiplier": 1.0}}
    with pytest.raises(
        ConfigError, match=r"run\.budget\.epsilon = 0\.5: the first average would spend 4\.\d+; raise it"
    ):
        play(FedAvg(), server=privacy, budget=Budget(epsilon=0.5))


def test_the_first_budget_to_be_used_up_ends_the_run() -> None:
    both = Budget(bytes=8_000_000, client_hours=25 / 3600)
    outcome, _ = play(one_by_one, compute=7.0, link=LINK, budget=both)
    assert (outcome.ended, outcome.end_s) == ("client_hours", 30.0)


def test_other_ends_say_why_too() -> None:
    assert play(one_by_one, compute=7.0, horizon=25.0)[0].reason == "horizon of 25 s reached"
    assert play(one_by_one, compute=7.0, horizon=None, max_commits=2)[0].reason == "2 commits made"

    async def nothing(fed: Federation) -> None:
        return

    assert play(nothing, horizon=None, max_commits=2)[0].reason == "the strategy ended"


def test_the_reason_in_the_summary_of_earlier_records() -> None:
    _, records = play(one_by_one, compute=7.0, horizon=25.0)
    records.facts.update({"strategy": "x", "seed": 1, "ended": "horizon"})  # type: ignore[attr-defined]
    assert summarise(records)["end_reason"] == "horizon"


@pytest.mark.parametrize(
    ("given", "size"), [(1500, 1500), ("10 GB", 10**10), ("1.5 MB", 1_500_000), ("2 GiB", 2 * 2**30), ("7B", 7)]
)
def test_sizes(given: Any, size: int) -> None:
    assert Budget(bytes=given).bytes == size
    assert type(Budget(bytes=given).bytes) is int


@pytest.mark.parametrize("given", [0, -1, "0 GB", "ten", "10 parsecs", 1.5, True])
def test_sizes_that_are_none(given: Any) -> None:
    with pytest.raises(ValidationError):
        Budget(bytes=given)


def test_words() -> None:
    assert [in_words("bytes", 2.5e9), in_words("client_hours", 12.0), in_words("epsilon", 8.0)] == [
        "2.5 GB",
        "12 client hours",
        "epsilon 8",
    ]

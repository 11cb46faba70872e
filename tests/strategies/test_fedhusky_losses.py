"""FedHusky if clients disappear: their groups end or continue, and planning continues."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fedtempo.strategies import FedHusky, FedHuskyPaper
from fedtempo.strategies.planning.hopping import HoppingSchedule
from tests.strategies.test_fedhusky import assert_clients_do_one_thing_at_a_time, groups_of, hops, husky, paper, run

VARIANTS = [husky(on_loss="abort"), husky(on_loss="skip"), paper(on_loss="abort"), husky(pace=0.9)]
IDS = ["abort", "skip", "paper", "paced"]


def there(client_leaves: dict[int, float], clients: int = 20) -> dict[str, Any]:
    """Return the availability of clients that leave for good; all others are always available."""
    windows = [[[0.0, client_leaves.get(client, 1e6)]] for client in range(clients)]
    return {"kind": "windows", "windows": [own if own[0][1] > 0 else [] for own in windows]}


@pytest.mark.parametrize("abort", [True, False])
def test_an_aborted_group_releases_its_later_bookings(abort: bool) -> None:
    schedule = HoppingSchedule([2.0, 3.0], [0, 1], horizon=100.0, tick_s=1.0)
    group = schedule.form(0.0, head=0)
    assert group is not None
    assert group.stops == ((0, 0), (1, 2))
    assert schedule.goes_on(group, 0, 2.0, rebook=True, abort=abort) != abort
    assert schedule.alive != abort
    # Client 1 is booked in [2, 5): without waiting nothing fits before 5, unless the booking was released.
    assert (schedule.form(2.0) is not None) == abort


def test_a_group_that_loses_a_client_ends_or_continues() -> None:
    for on_loss in ("abort", "skip"):
        records = run(husky(on_loss=on_loss), 20, 4, availability={"kind": "dropout", "probability": 0.3})
        assert_clients_do_one_thing_at_a_time(records)
        after_a_loss = [
            outcome
            for visits in groups_of(records).values()
            for (*_, before), (*_, outcome) in itertools.pairwise(visits)
            if before == "unavailable"
        ]
        assert (after_a_loss == []) == (on_loss == "abort")


def test_released_bookings_are_used_by_other_groups() -> None:
    availability = {"kind": "on-off", "mean_on_s": 40.0, "mean_off_s": 20.0}
    done = {
        on_loss: sum(
            (run(husky(on_loss=on_loss), 20, 4, availability=availability, seed=seed).visits["outcome"] == "done").sum()
            for seed in (1, 2)
        )
        for on_loss in ("abort", "skip")
    }
    assert done["abort"] > 1.05 * done["skip"]


def test_a_group_whose_work_was_lost_is_not_committed() -> None:
    def commits_and_whole(on_loss: str) -> tuple[int, int, int]:
        records = run(paper(on_loss=on_loss), 20, 4, availability={"kind": "dropout", "probability": 0.3})
        groups = [[outcome for *_, outcome in visits] for visits in groups_of(records).values()]
        whole = sum(outcomes == ["done"] * 4 for outcomes in groups)
        some = sum(len(outcomes) == 4 and "done" in outcomes for outcomes in groups)
        return records.commits["version"].size, whole, some

    commits, whole, _ = commits_and_whole("abort")
    assert commits == whole > 10
    commits, whole, some = commits_and_whole("skip")
    assert some >= commits > whole


@pytest.mark.parametrize("strategy", VARIANTS, ids=IDS)
@pytest.mark.parametrize(
    "leaves",
    [
        dict.fromkeys(range(0, 20, 4), 50.0),
        dict.fromkeys(range(10), 50.0),
        dict.fromkeys(range(0, 20, 4), 0.0),
    ],
    ids=["a whole cluster", "half of all", "a cluster never there"],
)
def test_clients_that_left_for_good_do_not_delay_the_others(strategy: Any, leaves: dict[int, float]) -> None:
    records = run(strategy, 20, 4, availability=there(leaves), horizon=200.0)
    assert_clients_do_one_thing_at_a_time(records)
    visits = records.visits
    later = (visits["outcome"] == "done") & (visits["finished"] > 100.0)
    staying = set(range(20)) - leaves.keys()
    assert len(set(visits["client"][later].tolist())) >= 0.75 * len(staying)
    assert later.sum() > 2 * len(staying)
    assert visits["finished"][later].max() > 180.0


@pytest.mark.parametrize("strategy", VARIANTS, ids=IDS)
def test_groups_form_again_when_all_clients_are_back(strategy: Any) -> None:
    windows = [[[0.0, 30.0], [80.0, 1000.0]]] * 20
    records = run(strategy, 20, 4, availability={"kind": "windows", "windows": windows}, horizon=150.0)
    visits = records.visits
    done = visits["outcome"] == "done"
    assert not (done & (visits["started"] > 30.0) & (visits["started"] < 80.0)).any()
    assert (done & (visits["started"] >= 80.0) & (visits["finished"] <= 100.0)).sum() > 5
    assert records.commits["time"].max() > 135.0


def test_spaced_attempts_do_not_end_the_run_if_the_last_group_ends_between_them() -> None:
    strategy = hops(min_attempt_gap=30.0)
    records = run(strategy, 2, 2, compute={"unit": "s/visit", "speed": 2.0}, horizon=300.0)
    starts = np.unique([visits[0][1] for visits in groups_of(records).values()])
    assert len(starts) >= 9
    assert (np.diff(starts[starts > 2.0]) >= 30.0 - 1e-6).all()


def test_options_for_lost_clients_are_stored() -> None:
    assert FedHusky().on_loss == "abort"
    assert FedHuskyPaper().on_loss == "skip"

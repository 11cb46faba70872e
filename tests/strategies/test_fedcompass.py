"""FedCompass: groups on the clock and weights of changes, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.federation import Client, Federation, Update
from fedtempo.learning.training import Training
from fedtempo.strategies import FedCompass
from tests.runtime.learning import Built, learn
from tests.runtime.world import play

ONE_STEP = Training(lr=0.1, batch_size=10)
"""A configured visit to ten examples is one step, so a fleet's seconds per visit are seconds per step."""


def steps(records: Any, compute: list[float]) -> list[tuple[int, float, int]]:
    """Return the client, start and number of steps of each visit, in the order of their ends."""
    visits = records.visits
    took = (visits["finished"] - visits["started"]) / np.array(compute)[visits["client"]]
    return list(zip(visits["client"].tolist(), visits["started"].tolist(), np.round(took).astype(int).tolist()))


def test_three_clients_arrive_together() -> None:
    """1, 1.5 and 4 s per step, Q_max = 10, Q_min = 2, lambda = 1.2. First results come at 10, 15 and 40 s.

    10 s: client 0 founds A: 10 steps, T_a = 20. 15 s: client 1 joins it with floor(5 / 1.5) = 3 steps, until 19.5 s.
    20 s: A; client 0 founds B, T_a = 30; client 1 joins with floor(10 / 1.5) = 6 steps. 30 s: B; C likewise, T_a = 40.
    40 s: client 2 commits alone. T_a = 40 is too near to join; C waits until 42 s, and its fastest client may then make
    10 steps until 52 s: floor(12 / 4) = 3 steps, so it founds D with T_a = 52, T_max = 40 + 1.2 * 12. Then C is
    complete: client 0 would make 12 steps for D, too many, and founds E with 10, T_a = 50; client 1 joins D with
    floor(12 / 1.5) = 8 steps rather than E with 6. 50 s: E; client 0 joins D with 2 steps. 52 s: all of D arrive.
    """
    compute = [1.0, 1.5, 4.0]
    strategy = FedCompass(most_steps=10)
    _, records = play(strategy, compute=compute, clients=3, horizon=52.0, training=ONE_STEP)
    assert records.commits["time"].tolist() == [10.0, 15.0, 20.0, 30.0, 40.0, 40.0, 50.0, 52.0]
    done = [visit for visit in steps(records, compute) if visit[1] < 52.0]
    assert sorted(done) == [
        (0, 0.0, 10),
        (0, 10.0, 10),
        (0, 20.0, 10),
        (0, 30.0, 10),
        (0, 40.0, 10),
        (0, 50.0, 2),
        (1, 0.0, 10),
        (1, 15.0, 3),
        (1, 20.0, 6),
        (1, 30.0, 6),
        (1, 40.0, 8),
        (2, 0.0, 10),
        (2, 40.0, 3),
    ]
    # Commits since the oldest start: client 1 missed that of client 0 and so on; D holds models of versions 5, 6 and 7.
    assert records.commits["staleness"].tolist() == [0, 1, 1, 0, 4, 1, 0, 2]


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("weights", ["equal", "examples"])
def test_changes_are_weighted_by_staleness_and_share(weights: Any) -> None:
    """Losses (w - 3)^2 and (w - 1)^2; with rate 1/2 any number of steps ends at 3 or 1. The times are those above.

    w = 1. 10 s: client 0 changes it by 2: w = 1 + 0.9 p_0 2. 15 s: client 1's change is 0. 20 s: client 0 began with
    version 1 and changes that by 3 - w_1, one commit missed: 0.9 / sqrt(2); client 1 began with version 2, the same w,
    and brings 1 - w_1 with weight 0.9.
    """
    clients = [(np.ones((3, 1)), np.full((3, 1), 3.0)), (np.array([[1.0]]), np.array([[1.0]]))]
    training = Training(lr=0.5, loss="squared", batch_size=3)
    strategy = FedCompass(most_steps=10, weights=weights)
    found = learn(strategy, Built(line), clients, n_outputs=1, training=training, commits=3, compute=[1.0, 1.5])
    shares = (0.5, 0.5) if weights == "equal" else (0.75, 0.25)
    first = 1 + 0.9 * shares[0] * 2
    third = first + 0.9 * (shares[0] * (3 - first) / np.sqrt(2) + shares[1] * (1 - first))
    assert found.final.tolist() == pytest.approx([third], abs=1e-12)


def test_a_group_does_not_wait_for_a_client_that_failed() -> None:
    """Client 1 leaves at 16 s, while it works for group A, so that client 0 is the last when it arrives at 20 s.

    After that it is assigned to groups again, and fails at once, until it is back at 30 s.
    """
    windows = {"kind": "windows", "windows": [[[0.0, 100.0]], [[0.0, 16.0], [30.0, 100.0]]]}
    strategy = FedCompass(most_steps=10)
    _, records = play(strategy, compute=[1.0, 1.5], clients=2, availability=windows, horizon=40.0, training=ONE_STEP)
    visits = records.visits
    lost = visits["outcome"] == "unavailable"
    assert set(visits["client"][lost].tolist()) == {1}
    assert records.commits["time"].tolist() == [10.0, 15.0, 20.0, 30.0, 40.0]
    assert visits["started"][(visits["client"] == 1) & ~lost].max() >= 30.0


class Delayed:
    """A federation in which the second result of client 1 takes 4.5 s longer."""

    def __init__(self, fed: Federation) -> None:
        self._fed, self._results = fed, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fed, name)

    async def train(self, client: Client, *arguments: Any) -> Update:
        update = await self._fed.train(client, *arguments)
        self._results += client.id
        if client.id == 1 and self._results == 2:
            await self._fed.sleep_until(self._fed.now + 4.5)
        return update


def test_who_misses_the_latest_time_begins_again_at_once() -> None:
    """A: client 0 from 10 s, T_a = 20, T_max = 22. Client 1 joins at 15 s with 3 steps, which take 9 s, until 24 s.

    At 22 s A is over, and client 0 founds B, T_a = 32. At 24 s client 1 begins again, with 0.1 * 1.5 + 0.9 * 3 = 2.85 s
    per step: it joins B with floor(8 / 2.85) = 2 steps, which take 3 s. At 32 s B is committed, with the late result,
    which has missed the commit at 22 s.
    """
    _, records = play(
        lambda fed: FedCompass(most_steps=10).run(Delayed(fed)),  # type: ignore[arg-type]
        compute=[1.0, 1.5],
        clients=2,
        horizon=33.0,
        training=ONE_STEP,
    )
    assert records.commits["time"].tolist() == [10.0, 15.0, 22.0, 32.0]
    assert records.commits["staleness"].tolist() == [0, 1, 1, 1]
    of_1 = records.visits["client"] == 1
    assert records.visits["started"][of_1].tolist() == [0.0, 15.0, 24.0, 32.0]
    assert records.visits["finished"][of_1].tolist()[2] == 27.0


def test_without_most_steps_it_is_the_longest_configured_visit() -> None:
    """40 examples in tens: 4 steps. Client 0 makes them in four passes over its 10 examples, 4 configured visits."""
    _, records = play(FedCompass(), compute=[1.0, 1.0], clients=2, examples=[10, 40], horizon=5.0, training=ONE_STEP)
    visits = records.visits
    first = visits["started"] == 0.0
    assert dict(zip(visits["client"][first].tolist(), visits["finished"][first].tolist(), strict=True)) == {
        0: 4.0,
        1: 1.0,
    }


def test_unusable_values_are_refused() -> None:
    for fields in ({"most_steps": 0}, {"least_share": 0.0}, {"latest": 0.9}, {"alpha": 0.0}, {"weights": "size"}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            FedCompass(**fields)  # type: ignore[arg-type]

"""A client that rejects requests is asked less and less often, and fills no log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedtempo.deploy.live.bounds import MAX_NUMBER, number
from fedtempo.deploy.live.messages import Call, Reply
from fedtempo.deploy.live.refusals import Refusals
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import Client
from fedtempo.record import load_run
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients

CLIENT = Client(2, 20, None, False, "c2")


@pytest.mark.parametrize("name", ["fedasync", "fedbuff"])
def test_a_client_that_rejects_everything_is_asked_less_and_less_often(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = 0

    def change(call: Call, reply: Reply) -> Reply:
        nonlocal asked
        if call.node != 102 or call.kind != "train":
            return reply
        asked += 1
        return replace(reply, content={"refused": "no"}, arrays=())

    grid = Loopback(digits_clients(3))
    grid.change = change
    deploy_to_folder(config(run__horizon=4.0, run__max_commits=None, strategy__name=name), tmp_path / "run", grid)
    grid.close()
    assert 2 <= asked <= 7  # after 0, 0.1, 0.3, 0.7, 1.5 and 3.1 seconds
    assert [line for line in caplog.messages if "c2" in line] == ["client c2 rejects the request: no"]
    visits = load_run(tmp_path / "run").visits
    assert set(visits["outcome"][visits["client"] == 2]) <= {"unavailable", "cut"}
    assert (visits["outcome"] == "done").sum() > 10


def test_the_pause_doubles_up_to_a_minute_and_ends_with_a_success() -> None:
    refusals = Refusals()
    pauses = []
    for _ in range(2000):
        refusals.add(CLIENT, "no", 5.0)
        pauses.append(refusals.left_s(CLIENT, 5.0))
    assert pauses[:4] == pytest.approx([0.1, 0.2, 0.4, 0.8])
    assert pauses[-1] == 60.0
    assert refusals.left_s(CLIENT, 70.0) == 0.0
    refusals.forgive(CLIENT)
    assert refusals.left_s(CLIENT, 5.0) == 0.0
    refusals.add(CLIENT, "no", 5.0)
    assert refusals.left_s(CLIENT, 5.0) == pytest.approx(0.1)


def test_each_reason_is_logged_once_and_then_counted() -> None:
    refusals = Refusals()
    lines = [refusals.add(CLIENT, "no", 0.0) for _ in range(100)]
    assert [line for line in lines if line] == [
        "client c2 rejects the request: no",
        "client c2 rejects the request: no (10 times)",
        "client c2 rejects the request: no (100 times)",
    ]
    lines = [refusals.add(CLIENT, f"reason {i}", 0.0) for i in range(1000)]
    told = [line for line in lines if line]
    assert len(told) == 10
    assert told[-1] == "client c2 rejects requests for ever new reasons; further ones are not logged"
    assert refusals.add(Client(1, 20, None, False, "c1"), "no", 0.0) == "client c1 rejects the request: no"


@pytest.mark.parametrize("tiny", [5e-324, -5e-324, 0.9e-30])
def test_a_number_without_a_finite_reciprocal_counts_as_0(tiny: float) -> None:
    assert number(tiny, "loss") == 0.0
    assert number(2e-30, "loss") == 2e-30
    assert number(MAX_NUMBER, "loss") == MAX_NUMBER

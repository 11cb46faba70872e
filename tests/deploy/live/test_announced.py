"""What clients announce weighs no more than the other clients' numbers allow; long tails of sizes are welcome."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import parse_client
from fedtempo.deploy.live.announced import Patience, credited, medians_of_others, most_times, objections
from fedtempo.deploy.live.joining import Admission, wait_for_clients
from fedtempo.deploy.live.messages import Call, Reply
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import Client
from fedtempo.record import load_run
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients

LIAR = 103


def announcing(number: int, noise: float) -> Callable[[Call, Reply], Reply]:
    """Let the liar announce and confirm a number of examples, and add noise to the models that it sends."""

    def change(call: Call, reply: Reply) -> Reply:
        if call.node != LIAR or call.kind == "notice":
            return reply
        content = {**reply.content, **({"num_examples": number} if "num_examples" in reply.content else {})}
        rng = np.random.default_rng(0)
        arrays = tuple((array + noise * rng.standard_normal(array.shape)).astype(np.float32) for array in reply.arrays)
        return replace(reply, content=content, arrays=arrays)

    return change


def of_sizes(*sizes: int) -> list[Answers]:
    """Create clients that have so many of the digits; those of two clients may be the same."""
    data = {"source": "digits", "clients": 1, "part": 0}
    return [
        Answers(parse_client({"name": f"c{i}", "insecure": True, "data": {**data, "examples_per_client": size}}))
        for i, size in enumerate(sizes)
    ]


def test_the_median_is_that_of_the_others() -> None:
    rng = np.random.default_rng(1)
    for count in range(3, 9):
        numbers = rng.integers(1, 5, count).tolist()
        expected = [statistics.median_high(numbers[:i] + numbers[i + 1 :]) for i in range(count)]
        assert medians_of_others(numbers) == expected
    assert medians_of_others([1, 10**9]) == [math.inf, math.inf]


def test_a_number_far_above_the_others_is_rejected() -> None:
    objection = objections({"a": 20, "b": 30, "c": 10**9}, 100.0)
    assert objection == {
        "c": "client c: it announces 1,000,000,000 examples, more than 100 times the median of the other clients', "
        "30; leave it out, or set deploy.max_change to at least 33333334, or to 0 for no such limit"
    }
    assert not objections({"a": 20, "b": 20, "c": 2000}, most_times(20.0))
    assert objections({"a": 20, "b": 20, "c": 2001}, most_times(20.0))
    assert not objections({"a": 20, "b": 20, "c": 10**9}, most_times(0.0))
    assert not objections({"a": 20, "b": 20, "c": 20000}, most_times(1000.0))
    assert not objections({"a": 20, "b": 10**9}, most_times(20.0))  # nobody can tell who lies


@pytest.mark.parametrize("lie", [1, 10**9])
def test_no_liar_has_an_honest_client_rejected(lie: int) -> None:
    assert not objections({"a": lie, "b": 100, "c": 10_000}, 100.0).keys() & {"b", "c"}
    rng = np.random.default_rng(1)
    for honest in range(2, 9):
        sizes = {f"c{i}": int(size) for i, size in enumerate(rng.integers(10, 1001, honest))}
        liars = {f"liar{i}": lie for i in range(honest - 1)}
        assert not objections({**liars, **sizes}, 100.0).keys() & sizes.keys()


def test_what_a_client_announces_excuses_no_longer_updates_than_deploy_max_change() -> None:
    assert credited([20, 20, 20, 10**9], 20.0) == [20, 20, 20, 400]
    assert credited([20, 60, 20, 20], 20.0) == [20, 60, 20, 20]
    assert credited([20, 10**9], 20.0) == [20, 10**9]
    assert credited([20, 20, 20, 10**9], 0.0) == [20, 20, 20, 10**9]


def test_a_client_that_announces_too_much_gives_its_place_to_another(tmp_path: Path) -> None:
    lines: list[str] = []
    grid = Loopback(digits_clients(5))
    grid.online = {100, 101, 102, LIAR}
    grid.change = announcing(10**9, 1e4)

    def say(line: str) -> None:
        lines.append(line)
        if "rejected" in line:
            grid.online.add(104)

    deploy_to_folder(config(data__clients=4), tmp_path / "run", grid, say=say)
    grid.close()
    assert [line for line in lines if "rejected" in line] == [
        "node 103 rejected: client c3: it announces 1,000,000,000 examples, more than 100 times the median of the "
        "other clients', 20; leave it out, or set deploy.max_change to at least 50000000, or to 0 for no such limit"
    ]
    assert [call.content for call in grid.calls if call.kind == "notice" and call.node == LIAR]
    assert load_run(tmp_path / "run").facts["client_names"] == ["c0", "c1", "c2", "c4"]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["final_loss"] < 3


def test_a_run_begins_without_a_client_that_announces_too_much() -> None:
    grid = Loopback(digits_clients(4))
    grid.change = announcing(10**9, 0.0)
    joined = wait_for_clients(grid, 5, 2.0, Admission(most_times=100.0), at_least=3)
    grid.close()
    assert [client.description.name for client in joined] == ["c0", "c1", "c2"]


@pytest.mark.parametrize("noise", [10.0, 1e4])
def test_the_most_that_a_client_may_announce_excuses_no_long_update(noise: float, tmp_path: Path) -> None:
    grid = Loopback(digits_clients(4))
    grid.change = announcing(2000, noise)
    deploy_to_folder(config(data__clients=4), tmp_path / "run", grid)
    grid.close()
    visits = load_run(tmp_path / "run").visits
    assert (visits["outcome"][visits["client"] == 3] == "refused").all()
    assert (visits["outcome"][visits["client"] < 3] == "done").all()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["final_loss"] < 3


@pytest.mark.parametrize("lr", [0.0001, 0.1])
@pytest.mark.parametrize("sizes", [(10, 10, 10, 1000), (1000, 1000, 1000, 10), (10, 46, 215, 1000)], ids=str)
def test_a_long_tail_of_sizes_is_welcome(sizes: tuple[int, ...], lr: float, tmp_path: Path) -> None:
    grid = Loopback(of_sizes(*sizes), one_thread=True)
    changes: dict[str, Any] = {"data__clients": 4, "run__max_commits": 2, "training__lr": lr}
    deploy_to_folder(config(**changes), tmp_path / "run", grid)
    grid.close()
    records = load_run(tmp_path / "run")
    assert records.visits["client"].tolist().count(3) == 2
    assert (records.visits["outcome"] == "done").all()


def test_no_client_is_waited_for_more_than_100_times_as_long_as_the_others(tmp_path: Path) -> None:
    """The number of examples makes the expected time; without a limit on it, the time still has one."""
    grid = Loopback(digits_clients(4))
    honest = announcing(10**9, 0.0)
    grid.change = lambda call, reply: None if call.node == LIAR and call.kind == "train" else honest(call, reply)
    changes: dict[str, Any] = {
        "fleet__compute": {"unit": "s/example", "speed": 0.001},
        "fleet__estimates": "exact",
        "server__deadline": 2.0,
        "deploy__max_change": 0.0,
        "deploy__deadline_floor_s": 0.5,
        "deploy__outage_s": 1.0,
        "run__horizon": 20.0,
    }
    deploy_to_folder(config(data__clients=4, run__max_commits=1, **changes), tmp_path / "run", grid)
    grid.close()
    ttl = {call.node: call.ttl_s for call in grid.calls if call.kind == "train"}
    assert ttl[LIAR] == pytest.approx(2 * (2.0 * 100 * 0.02) + 1.0)
    assert ttl[100] == pytest.approx(2 * 0.5 + 1.0)
    visits = load_run(tmp_path / "run").visits
    assert visits["outcome"][visits["client"] == 3].tolist() == ["late"]


def test_patience_follows_what_is_expected_of_the_others() -> None:
    clients = [Client(i, 20, None, False, f"c{i}") for i in range(4)]
    expected = [1.0, 2.0, 3.0, 150.0]
    patience = Patience(clients, lambda client: expected[client.id])
    assert patience.share(clients[3]) == 1.0
    expected[3] = 800.0  # it takes longer each time
    assert patience.share(clients[3]) == pytest.approx(200 / 800)
    assert patience.share(clients[0]) == 1.0
    expected[:3] = [0.0, 0.0, 0.0]
    assert [patience.share(client) for client in clients[:3]] == [1.0, 1.0, 1.0]
    assert Patience(clients[:2], lambda client: 10.0**client.id).share(clients[1]) == 1.0

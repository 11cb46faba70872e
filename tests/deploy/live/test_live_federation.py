"""The federation in real time with messages: the same bits as the simulation, and failing clients."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.flower.measuring import Measure, as_toml, fleet_table
from fedtempo.deploy.live import joining, transport
from fedtempo.deploy.live.joining import wait_for_clients
from fedtempo.deploy.live.messages import Call, Failure, Reply
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError, RunError
from fedtempo.federation import ClientUnavailable, ConsentError, Federation, Work
from fedtempo.record import load_run
from fedtempo.runs.config import Config, parse
from fedtempo.runs.models import read_model
from fedtempo.runs.run import Run, run
from fedtempo.runtime.run_settings import RunSettings
from tests.deploy.live.deployments import TABLES, config
from tests.deploy.live.loopback import Loopback, digits_clients


def played(config: Config, tmp_path: Path, grid: Loopback) -> Any:
    """Deploy and return the records."""
    deploy_to_folder(config, tmp_path / "run", grid)
    return load_run(tmp_path / "run")


def outcomes(run: Any) -> list[str]:
    return run.visits["outcome"].tolist()


@pytest.mark.parametrize("strategy", ["fedavg", "sequential", "csgd"])
def test_a_deployment_gives_the_bits_of_the_simulation(strategy: str, tmp_path: Path, grid: Loopback) -> None:
    settings = config(strategy__name=strategy)
    simulated, records, _ = run(settings)
    summary = deploy_to_folder(settings, tmp_path / "run", grid)
    assert summary["model_sha256"] == simulated["model_sha256"]
    assert summary["visits"] == simulated["visits"]
    deployed = load_run(tmp_path / "run")
    np.testing.assert_array_equal(deployed.evaluations["accuracy"], records.evaluations["accuracy"])
    assert sorted(deployed.visits["loss"]) == sorted(records.visits["loss"])
    assert [path.name for path in (tmp_path / "run" / "models").iterdir()] == ["last.safetensors"]
    assert read_model(tmp_path / "run", "last", summary["model_sha256"]).vector.size == 610


def test_a_deployment_keeps_the_best_model_of_the_simulation(tmp_path: Path, grid: Loopback) -> None:
    settings = config(run__keep=["best"], run__max_commits=6, training__lr=1.0)
    Run(settings).begin(tmp_path / "simulated")
    deploy_to_folder(settings, tmp_path / "run", grid)
    simulated, deployed = (load_run(tmp_path / name).facts["best_model"] for name in ("simulated", "run"))
    assert (simulated["sha256"], simulated["version"]) == (deployed["sha256"], deployed["version"])
    assert read_model(tmp_path / "run", "best", simulated["sha256"]).vector.size == 610


NETWORK = "tests.strategies.nets:both"


def test_frozen_parameters_are_sent_once_and_never_come_back(tmp_path: Path) -> None:
    """389 numbers travel. A client that also sends the 40 frozen ones, or a negative variance, is refused."""
    changes = {"server.optimizer": {"kind": "sgd", "momentum": 0.9}, "run.max_commits": 4}
    settings = parse({**TABLES, "model": {"network": NETWORK}}).with_changes(changes)
    simulated, _, _ = run(settings)

    def tamper(call: Call, reply: Reply) -> Reply:
        if call.kind != "train":
            return reply
        after_failure = call.node == 101 and call.content["visit"] == 4
        assert len(call.arrays) == (2 if call.content["visit"] == 1 or after_failure else 1)
        changed = reply.arrays[0].copy()
        if call.node == 101 and call.content["visit"] == 3:
            changed[-1] = -0.5  # the last variance
        if call.node == 101 and call.content["visit"] == 4:
            changed = np.concatenate([changed, np.ones(40, np.float32)])
        return replace(reply, arrays=(changed,))

    summaries = []
    for name, change in (("honest", lambda call, reply: reply), ("not", tamper)):
        grid = Loopback(digits_clients(3, networks=[NETWORK]), change)
        summaries.append(deploy_to_folder(settings, tmp_path / name, grid))
        grid.close()
    assert summaries[0]["model_sha256"] == simulated["model_sha256"]
    records = load_run(tmp_path / "not")
    assert outcomes(records).count("refused") == 2
    assert {value["why"] for name, value in records.notes if name == "refused"} == {
        "a running variance in it is negative",
        "its model is float32 of shape (429,), not float32 of shape (389,)",
    }
    assert load_run(tmp_path / "honest").facts["bytes"] == {
        "down": 4 * (12 * 389 + 3 * 40),
        "up": 4 * 12 * 389,
        "relay": 0,
    }
    frozen = [
        read_model(tmp_path / name, "last", summary["model_sha256"]).vector[-40:].tobytes()
        for name, summary in zip(("honest", "not"), summaries, strict=True)
    ]
    assert frozen[0] == frozen[1]


def test_visits_are_recorded_with_their_times(tmp_path: Path, grid: Loopback) -> None:
    def slow(call: Call, reply: Reply) -> Reply:
        time.sleep(0.1)
        return reply

    grid.change = slow
    visits = played(config(), tmp_path, grid).visits
    assert set(visits["outcome"]) == {"done"}
    assert np.all(visits["started"] <= visits["received"])
    assert np.all(visits["received"] <= visits["computed"])
    assert np.all(visits["computed"] <= visits["finished"])
    assert np.all(visits["finished"] - visits["started"] >= 0.1)


def test_a_client_that_leaves_during_a_visit_is_unavailable_and_can_return(tmp_path: Path, grid: Loopback) -> None:
    seen: list[str] = []
    back = threading.Event()

    def leave(call: Call, reply: Reply) -> Reply:
        if call.kind == "train" and call.node == 100 and not back.is_set():
            grid.online.discard(100)
        return reply

    async def script(fed: Federation) -> None:
        with pytest.raises(ClientUnavailable, match="offline"):
            await fed.train(fed.clients[0], fed.model)
        with pytest.raises(ClientUnavailable, match="it is offline"):
            await fed.train(fed.clients[0], fed.model)
        updates = await fed.train_all(fed.clients, fed.model)
        seen.extend(str(update.client.id) for update in updates)
        assert [fed.forecast(client, fed.now, fed.now + 9.0) for client in fed.clients] == [0.0, 1.0, 1.0]
        back.set()
        grid.online.add(100)
        for _ in range(100):
            try:
                seen.append((await fed.train(fed.clients[0], fed.model)).client.name)
            except ClientUnavailable:
                continue
            return

    grid.change = leave
    records = played(config(script), tmp_path, grid)
    assert seen == ["1", "2", "c0"]
    assert outcomes(records).count("done") == 3


def test_a_client_can_return_as_another_node(tmp_path: Path, grid: Loopback, clients: list[Answers]) -> None:
    async def script(fed: Federation) -> None:
        grid.online.discard(101)
        grid.clients[555] = clients[1]
        grid.online.add(555)
        for _ in range(100):
            try:
                await fed.train(fed.clients[1], fed.model)
            except ClientUnavailable:
                continue
            return

    played(config(script), tmp_path, grid)
    assert [call.node for call in grid.calls if call.kind == "train"][-1] == 555


def test_a_name_in_use_cannot_be_taken_over(tmp_path: Path, grid: Loopback, clients: list[Answers]) -> None:
    async def script(fed: Federation) -> None:
        grid.clients[666] = clients[1]
        grid.online.add(666)
        while not any(call.node == 666 for call in grid.calls):
            await fed.sleep_until(fed.now + 0.05)
        await fed.sleep_until(fed.now + 0.2)
        await fed.train(fed.clients[1], fed.model)

    played(config(script), tmp_path, grid)
    assert [call.node for call in grid.calls if call.kind == "train"] == [101]


def test_a_late_client_is_busy_until_it_answers(tmp_path: Path, grid: Loopback) -> None:
    release = threading.Event()

    def hang(call: Call, reply: Reply) -> Reply:
        if call.kind == "train" and call.node == 100:
            release.wait(5)
        return reply

    async def script(fed: Federation) -> None:
        with pytest.raises(ClientUnavailable, match="no answer within"):
            await fed.train(fed.clients[0], fed.model)
        with pytest.raises(ClientUnavailable, match="busy"):
            await fed.train(fed.clients[0], fed.model)
        release.set()
        update = await fed.train(fed.clients[0], fed.model)
        assert update.started >= 0.3

    grid.change = hang
    records = played(config(script, deploy__deadline_floor_s=0.2, deploy__patience_s=1.0), tmp_path, grid)
    assert outcomes(records) == ["late", "unavailable", "done"]


def test_the_client_of_a_cancelled_visit_stays_busy(tmp_path: Path, grid: Loopback) -> None:
    def slow(call: Call, reply: Reply) -> Reply:
        if call.kind == "train":
            time.sleep(0.5)
        return reply

    async def script(fed: Federation) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await fed.train(fed.clients[0], fed.model)
        update = await fed.train(fed.clients[0], fed.model)
        assert update.started >= 0.5

    grid.change = slow
    records = played(config(script), tmp_path, grid)
    assert outcomes(records) == ["cancelled", "done"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda reply: replace(reply, arrays=(reply.arrays[0][:-1],)), "shape"),
        (lambda reply: replace(reply, arrays=(reply.arrays[0].astype(np.float64),)), "float64"),
        (lambda reply: replace(reply, arrays=reply.arrays * 2), "2 arrays"),
        (lambda reply: replace(reply, arrays=(reply.arrays[0] * np.float32("nan"),)), "not finite"),
        (lambda reply: replace(reply, arrays=(np.full_like(reply.arrays[0], np.inf),)), "not finite"),
        (lambda reply: replace(reply, content={**reply.content, "num_examples": 10_000}), "10000 examples"),
        (lambda reply: replace(reply, content={**reply.content, "statistics": {"loss": "low"}}), "not a finite"),
        (lambda reply: replace(reply, content={**reply.content, "compute_s": None}), "compute_s"),
        (lambda reply: replace(reply, content={}), "statistics"),
    ],
)
def test_a_bad_update_is_rejected(
    spoil: Callable[[Reply], Reply], why: str, tmp_path: Path, grid: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(fed: Federation) -> None:
        with pytest.raises(ClientUnavailable, match=why):
            await fed.train(fed.clients[1], fed.model)
        grid.change = lambda call, reply: reply
        await fed.train(fed.clients[1], fed.model)  # only for that visit

    grid.change = lambda call, reply: spoil(reply) if call.kind == "train" else reply
    records = played(config(script), tmp_path, grid)
    assert outcomes(records) == ["refused", "done"]
    assert records.notes[0][0] == "refused"
    assert re.search(f"client c1: its update is rejected: .*{why}", caplog.text)
    (message,) = [
        record.getMessage()
        for record in caplog.records
        if record.name == "fedtempo.client" and record.levelname == "WARNING"
    ]
    assert re.match(f"visit 1: the server rejects the update: .*{why}", message)
    assert [call.node for call in grid.calls if call.kind == "notice"] == [101]


def test_an_unresponsive_client_is_logged_once(
    tmp_path: Path, grid: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(fed: Federation) -> None:
        for why in ("no answer within", "busy", "busy"):
            with pytest.raises(ClientUnavailable, match=why):
                await fed.train(fed.clients[0], fed.model)
        fed.commit((await fed.train(fed.clients[1], fed.model)).model)

    grid.change = lambda call, reply: None if call.kind == "train" and call.node == 100 else reply
    played(config(script, deploy__deadline_floor_s=0.2), tmp_path, grid)
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert messages == [
        "client c0 does not answer: no reply within 0.2 s from node 100, which is online; further late answers of "
        "this client are not logged"
    ]


@pytest.mark.parametrize("asks", [False, True])
def test_a_node_that_is_not_a_client_is_logged_once(
    asks: bool,
    tmp_path: Path,
    grid: Loopback,
    clients: list[Answers],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joining, "SILENT_S", 0.1)
    monkeypatch.setattr(joining, "DESCRIBE_S", 0.2)

    async def script(fed: Federation) -> None:
        grid.clients[777] = clients[0]
        grid.online.add(777)
        while sum(call.node == 777 for call in grid.calls) < 3:
            await fed.sleep_until(fed.now + 0.05)
        await fed.sleep_until(fed.now + 0.15)
        fed.commit((await fed.train(fed.clients[0], fed.model)).model)

    def change(call: Call, reply: Reply) -> Reply | None:
        return reply if call.node != 777 else Reply({"protocol": 0}) if asks else None

    grid.change = change
    assert outcomes(played(config(script), tmp_path, grid)) == ["done"]
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    (message,) = [record.getMessage() for record in warnings if record.name == "fedtempo.run"]
    if asks:
        assert message.startswith("node 777 rejected: protocol version 0")
    else:
        assert message.startswith("node 777 is online but has not described its client for 0.1 s: it is busy")


def test_a_node_that_fetches_nothing_is_reported_before_the_run(
    grid: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "SILENT_S", 0.1)
    grid.change = lambda call, reply: None if call.node == 101 else reply
    lines: list[str] = []
    assert len(wait_for_clients(grid, 3, 1.0, at_least=2, say=lines.append)) == 2
    assert [line for line in lines if "has not described" in line] == [
        "node 101 is online but has not described its client for 0.1 s: it is busy, or hangs"
    ]


@pytest.mark.parametrize(("failure", "tries"), [("crashed", 2), ("failed", 1)])
def test_a_call_to_a_crashed_process_is_repeated_once(failure: Any, tries: int, tmp_path: Path, grid: Loopback) -> None:
    async def script(fed: Federation) -> None:
        with pytest.raises(ClientUnavailable, match="gone wrong"):
            await fed.train(fed.clients[2], fed.model)

    grid.change = lambda call, reply: Reply(failure=Failure(failure, "gone wrong")) if call.kind == "train" else reply
    played(config(script), tmp_path, grid)
    assert sum(call.kind == "train" for call in grid.calls) == tries


def test_a_visit_in_phases_can_be_cancelled_between_them(tmp_path: Path, grid: Loopback) -> None:
    async def script(fed: Federation) -> None:
        first, second = fed.clients[:2]
        with await fed.download(first, fed.model):
            pass
        with pytest.raises(RunError, match="before compute"):
            await fed.upload(await fed.download(second, fed.model))
        visits = await fed.multicast([fed.clients[2], first], fed.model)
        assert [visit.client.id for visit in visits] == [2, 0]
        await fed.compute(visits[1], Work(epochs=2))
        update = await fed.upload(visits[1])
        assert update.statistics["loss"] > 0
        visits[0].release()
        whole = await fed.train(fed.clients[2], fed.model)
        assert whole.model != update.model

    records = played(config(script), tmp_path, grid)
    assert outcomes(records) == ["cancelled", "cut", "cancelled", "done", "done"]


def test_preparation_takes_no_run_time(tmp_path: Path, grid: Loopback) -> None:
    def slow(call: Call, reply: Reply) -> Reply:
        time.sleep(0.1)
        return reply

    async def script(fed: Federation) -> None:
        with fed.preparation():
            await fed.train_all(fed.clients, fed.model)
            assert fed.now == 0.0
            prepared = time.monotonic()
        assert fed.now <= time.monotonic() - prepared
        await fed.sleep_until(0.2)
        assert 0.2 <= fed.now <= time.monotonic() - prepared
        assert fed.estimate(fed.clients[0]).visit_s >= 0.1

    grid.change = slow
    visits = played(config(script), tmp_path, grid).visits
    assert visits["finished"].tolist() == [0.0] * 3


def test_the_run_ends_at_its_horizon(tmp_path: Path, grid: Loopback) -> None:
    def hang(call: Call, reply: Reply) -> Reply:
        if call.kind == "train":
            time.sleep(0.6)
        return reply

    grid.change = hang
    summary = deploy_to_folder(config(run__horizon=0.3, run__max_commits=None), tmp_path / "run", grid)
    assert summary["ended"] == "horizon"
    visits = load_run(tmp_path / "run").visits
    assert set(visits["outcome"]) == {"cut"}
    assert visits["finished"].tolist() == [0.3] * 3


def test_the_run_ends_at_its_target(tmp_path: Path, grid: Loopback) -> None:
    settings = config(run__stop_at_target=True, run__target_accuracy=0.01, run__max_commits=None)
    summary = deploy_to_folder(settings, tmp_path / "run", grid)
    assert summary["ended"] == "target"
    assert summary["time_to_target_s"] is not None


def test_the_run_ends_when_its_budget_is_used_up(tmp_path: Path, grid: Loopback) -> None:
    settings = config(run__budget={"bytes": "100 kB"}, run__max_commits=None)
    summary = deploy_to_folder(settings, tmp_path / "run", grid)
    assert (summary["ended"], sum(summary["bytes"].values()) >= 100_000) == ("bytes", True)
    assert summary["end_reason"].endswith("used; run.budget.bytes allows 100.0 kB")


def test_the_run_ends_when_a_measure_does_not_improve(tmp_path: Path, grid: Loopback) -> None:
    settings = config(run__patience={"evaluations": 2, "min_delta": 1.0}, run__max_commits=None)
    summary = deploy_to_folder(settings, tmp_path / "run", grid)
    assert summary["ended"] == "patience"
    assert summary["end_reason"].startswith("accuracy did not improve by more than 1 in the last 2 evaluated versions")


def test_examples_come_only_from_clients_that_share_them(tmp_path: Path) -> None:
    sharing, keeping = digits_clients(2, share_examples=True)[0], digits_clients(2)[1]
    grid = Loopback([sharing, keeping])

    async def script(fed: Federation) -> None:
        with pytest.raises(ConsentError):
            await fed.upload_examples(fed.clients[1], [1] * 10)
        some = await fed.upload_examples(fed.clients[0], [1] * 10)
        rest = await fed.upload_examples(fed.clients[0], [99] * 10)
        assert sum(some.counts) + sum(rest.counts) == fed.clients[0].num_examples == 20
        assert max(some.counts) == 1
        assert not rest.cut
        assert (await fed.upload_examples(fed.clients[0], [99] * 10)).size_bytes == 0
        model = await fed.train_on_server(fed.model, [some, rest])
        assert await fed.on_server(lambda a, b: float(np.abs(a - b).max()), model, fed.model) > 0

    try:
        played(config(script, data__clients=2), tmp_path, grid)
    finally:
        grid.close()


def test_too_few_clients_are_reported_with_their_number(grid: Loopback) -> None:
    with pytest.raises(RunError, match="3 of 4 clients joined"):
        wait_for_clients(grid, 4, 0.5)
    assert len(wait_for_clients(grid, 4, 0.5, at_least=2)) == 3


def test_a_client_restarted_before_the_run_is_asked_again(grid: Loopback) -> None:
    dead = next(iter(grid.online))  # still online for the SuperLink, for a minute
    lines: list[str] = []

    def change(call: Call, reply: Reply) -> Reply | None:
        if call.node == dead and dead_yet:
            dead_yet.clear()
            grid.online.discard(dead)
            threading.Timer(0.3, grid.online.add, [dead]).start()
            return None
        return reply

    dead_yet = [True]
    grid.change = change
    assert len(wait_for_clients(grid, 3, 5.0, say=lines.append)) == 3
    assert len(lines) == 3, "its absence is not reported"


def test_a_measured_fleet_can_be_simulated(tmp_path: Path, grid: Loopback) -> None:
    def slow(call: Call, reply: Reply) -> Reply:
        time.sleep(0.2 if call.node == 101 else 0.0)
        return reply

    grid.change = slow
    measured = replace(config(), strategy=Measure(2), run=RunSettings(max_commits=1))
    records = played(measured, tmp_path, grid)
    assert len(records.visits["client"]) == 6
    tables = tomllib.loads(as_toml(records))
    downloads = tables["fleet"]["link"]["download_s"]
    assert downloads[1] > max(downloads[0], downloads[2])
    summary, _, _ = run(parse({**TABLES, "fleet": tables["fleet"]}))
    assert summary["visits"] == 9


def test_a_client_without_a_visit_cannot_be_measured(tmp_path: Path, grid: Loopback) -> None:
    grid.change = lambda call, reply: replace(reply, content={}) if call.node == 102 and call.kind == "train" else reply
    records = played(replace(config(), strategy=Measure(1), run=RunSettings(max_commits=1)), tmp_path, grid)
    with pytest.raises(RunError, match="client c2 made no visits"):
        fleet_table(records)


def test_a_cancelled_visit_of_an_unresponsive_client_does_not_block_the_run(tmp_path: Path, grid: Loopback) -> None:
    release = threading.Event()

    def hang(call: Call, reply: Reply) -> Reply:
        if call.kind == "train":
            release.wait(10)
        return reply

    async def script(fed: Federation) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await fed.train(fed.clients[0], fed.model)
        with pytest.raises(ClientUnavailable, match="busy with an abandoned visit"):
            await fed.train(fed.clients[0], fed.model)
        assert fed.now >= 0.5
        release.set()

    grid.change = hang
    played(config(script, deploy__deadline_floor_s=0.5), tmp_path, grid)


@pytest.mark.parametrize("rules", [{"server.aggregation": "median"}, {"server.clip_norm": 0.01}])
def test_robust_averages_equal_those_of_the_simulation(rules: dict[str, Any], tmp_path: Path, grid: Loopback) -> None:
    settings = config().with_changes(rules)
    simulated, _, _ = run(settings)
    assert simulated["model_sha256"] != run(config())[0]["model_sha256"]
    assert deploy_to_folder(settings, tmp_path / "run", grid)["model_sha256"] == simulated["model_sha256"]
    with pytest.raises(ConfigError, match="no average"):
        deploy_to_folder(config(strategy__name="sequential").with_changes(rules), tmp_path / "other", grid)


def test_garbage_is_collected_often_while_a_run_waits(tmp_path: Path, grid: Loopback) -> None:
    """Every poll leaves garbage in cycles, and the commands of fedtempo start with rare collections."""
    seen = []

    async def strategy(fed: Federation) -> None:
        seen.append(gc.get_threshold())
        fed.commit(fed.model)

    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        deploy_to_folder(config(strategy, run__max_commits=1), tmp_path / "run", grid)
        assert gc.get_threshold() == (100_000, 20, 20)
    finally:
        gc.set_threshold(*before)
    assert seen == [(700, 10, 10)]


def test_too_many_bad_updates_end_the_run(tmp_path: Path, grid: Loopback) -> None:
    grid.change = lambda call, reply: replace(reply, content={}) if call.kind == "train" else reply
    with pytest.raises(RunError, match="max_bad_updates = 1"):
        deploy_to_folder(config(server__max_bad_updates=1), tmp_path / "run", grid)


def test_a_failing_grid_ends_the_run(tmp_path: Path, grid: Loopback) -> None:
    async def script(fed: Federation) -> None:
        def broken(names: Any) -> Any:
            raise OSError("no route")

        grid.pull = broken  # type: ignore[method-assign]
        await fed.train(fed.clients[0], fed.model)

    with pytest.raises(RunError, match="no route"):
        deploy_to_folder(config(script), tmp_path / "run", grid)


def test_a_client_that_restarts_immediately_under_its_old_number_is_found_again(tmp_path: Path, grid: Loopback) -> None:
    fails = [True]

    def restart(call: Call, reply: Reply) -> Reply:
        if call.kind == "train" and fails:
            fails.clear()
            return Reply(failure=Failure("gone", "its node is offline"))
        return reply

    async def script(fed: Federation) -> None:
        with pytest.raises(ClientUnavailable):
            await fed.train(fed.clients[0], fed.model)
        await fed.train(fed.clients[0], fed.model)

    grid.change = restart
    records = played(config(script, deploy__patience_s=5.0), tmp_path, grid)
    assert outcomes(records) == ["unavailable", "done"]


def test_what_an_interrupted_server_lost_is_sent_again(
    tmp_path: Path, grid: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_RETURN_S", 0.1)
    dropped: list[Call] = []

    def drop(call: Call, reply: Reply) -> Reply | None:
        if call.kind == "train" and call.content["visit"] == 2 and not dropped:
            dropped.append(call)
            grid.interruptions += 1
            return None
        return reply

    grid.change = drop
    settings = config(run__max_commits=3, deploy__deadline_floor_s=120.0)
    simulated, _, _ = run(settings)
    deployed = deploy_to_folder(settings, tmp_path / "run", grid)
    (lost,) = dropped
    assert [call.content.get("call") for call in grid.calls].count(lost.content["call"]) == 2
    assert set(outcomes(load_run(tmp_path / "run"))) == {"done"}
    assert deployed["model_sha256"] == simulated["model_sha256"]

"""Compressed models and updates on real clients: the bytes and the bits of a simulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.deploy.live.messages import Call, Reply
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import Federation
from fedtempo.record import load_run
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from tests.deploy.live.deployments import TABLES, Script
from tests.deploy.live.loopback import Loopback
from tests.deploy.live.test_live_parts import NETWORK, clients, killed_and_resumed

UP = {"kind": "top-k", "share": 0.1}
BOTH = {"up": UP, "down": {"kind": "quantized"}}
SIGN, RANDOM = {"up": {"kind": "sign"}}, {"up": {"kind": "random-k", "share": 0.2, "error_feedback": False}}


def settings(compression: dict[str, Any], strategy: str = "fedavg", **changes: Any) -> Config:
    tables = {**TABLES, "model": {"network": NETWORK}, "strategy": {"name": strategy}}
    keys = {name.replace("__", "."): value for name, value in changes.items()}
    few = {"run.max_commits": 4, "run.horizon": 600.0, "run.evaluate_clients": 0}
    return parse(tables).with_changes({**few, "server.compression": compression, **keys})


@pytest.mark.parametrize("strategy", ["fedavg", "scaffold", "csgd", "sequential"])
@pytest.mark.parametrize(
    "compression",
    [BOTH, SIGN, RANDOM, {"down": {"kind": "quantized", "bits": 4}}],
    ids=["both", "sign", "random", "down"],
)
def test_a_deployment_sends_what_a_simulation_counts(
    tmp_path: Path, strategy: str, compression: dict[str, Any]
) -> None:
    config = settings(compression, strategy)
    simulated, _, _ = run(config)
    grid = Loopback(clients())
    deployed = deploy_to_folder(config, tmp_path / "run", grid)
    trained = [call for call in grid.calls if call.kind in ("train", "receive")]
    grid.close()
    assert deployed["model_sha256"] == simulated["model_sha256"]
    assert deployed["final_loss"] == simulated["final_loss"]
    facts = load_run(tmp_path / "run").facts
    assert {call.arrays[0].nbytes for call in trained} == {facts["download_bytes"]}
    assert deployed["bytes"]["up"] == simulated["bytes"]["up"]


def test_the_phases_of_a_visit_are_compressed_too(tmp_path: Path) -> None:
    async def phases(fed: Federation) -> None:
        while True:
            visits = await fed.multicast(fed.clients, fed.model)
            updates = []
            for visit in visits:
                await fed.compute(visit)
                updates.append(await fed.upload(visit))
            fed.commit(await fed.average(updates))

    config = replace(settings(BOTH), strategy=Script(phases))
    simulated, _, _ = run(config)
    grid = Loopback(clients())
    deployed = deploy_to_folder(config, tmp_path / "run", grid)
    sent = [reply.arrays[0].nbytes for reply in grid.replies.values() if reply.arrays]
    grid.close()
    assert deployed["model_sha256"] == simulated["model_sha256"]
    assert deployed["bytes"]["up"] == simulated["bytes"]["up"]
    assert all(size == load_run(tmp_path / "run").facts["upload_bytes"] for size in sent)


@pytest.mark.parametrize("restart", [False, True], ids=["same clients", "restarted clients"])
def test_error_feedback_survives_restarts_of_server_and_clients(tmp_path: Path, restart: bool) -> None:
    config = settings(BOTH, run__checkpoint_every=0.001)
    simulated, _, _ = run(config)
    assert killed_and_resumed(config, tmp_path, restart)["model_sha256"] == simulated["model_sha256"]


BAD: dict[str, tuple[Any, str]] = {
    "a model": (lambda array: np.zeros(421, np.float32), "float32 of shape"),
    "too few bytes": (lambda array: array[:-1], "bytes that cannot be decoded"),
    "next to none": (lambda array: array[:3], "3 bytes, too few for"),
    "descending positions": (lambda array: np.r_[array[4:8], array[:4], array[8:]], "positions must ascend"),
    "not a number": (
        lambda array: np.r_[array[:-4], np.frombuffer(np.float32("nan").tobytes(), np.uint8)],
        "not finite",
    ),
    "too large": (
        lambda array: np.r_[array[: -4 * 9], np.frombuffer(np.float32(3e38).tobytes(), np.uint8), array[-4 * 8 :]],
        "entries above 1e",
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bytes_that_no_client_sends_are_a_bad_update(
    tmp_path: Path, case: tuple[Any, str], caplog: pytest.LogCaptureFixture
) -> None:
    change, reason = case

    def tampered(call: Call, reply: Reply) -> Reply:
        if call.kind != "train" or call.node != 101:
            return reply
        return replace(reply, arrays=(change(reply.arrays[0]), *reply.arrays[1:]))

    grid = Loopback(clients(), tampered)
    deploy_to_folder(settings({"up": UP}, run__max_commits=1), tmp_path / "run", grid)
    grid.close()
    records = load_run(tmp_path / "run")
    outcomes = dict(zip(records.visits["client"], records.visits["outcome"], strict=True))
    assert outcomes == {0: "done", 1: "refused", 2: "done"}
    assert reason in caplog.text


def test_a_client_decodes_only_with_what_it_agreed_to() -> None:
    client = clients()[0]
    job = {"seed": 1, "network": {"network": "mlp", "hidden": [8]}, "n_classes": 10}
    from fedtempo.learning.networks import Mlp, create
    from fedtempo.learning.state import FlatModel

    model = FlatModel(create(Mlp(hidden=(8,)), (1, 8, 8), 10, 0), (1, 8, 8))
    call: dict[str, Any] = {"job": job | {"layout": model.layout}, "client": 0, "visit": 1, "training": {}}

    def refused(compression: Any, array: Any) -> str:
        reply, _ = client.answer("train", {**call, "job": call["job"] | {"compression": compression}}, (array,))
        return str(reply["refused"])

    whole = model.vector.numpy()
    assert "neither fedtempo's nor among `training`" in refused({"up": {"kind": "os:system"}}, whole)
    assert "the compressed model is float32" in refused({"up": {"kind": "sign"}}, whole)
    assert "cannot be decoded" in refused({"down": {"kind": "quantized"}}, np.zeros(7, np.uint8))
    assert "server.compression" in refused({"up": {"kind": "top-k", "share": 2.0}}, whole)
    assert "invalid call" in refused({"up": {}}, whole)

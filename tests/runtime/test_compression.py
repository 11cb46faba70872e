"""Compressed downloads and uploads in simulated runs: what arrives, what is counted, how long it takes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation
from fedtempo.learning.compression import Quantized
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.runs.config import parse
from fedtempo.runs.launch import make_job
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.job import Trainer
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.strategies import FedAvg
from fedtempo.studies.fleet import describe_fleet
from tests.crash import lives
from tests.runtime.learning import Built, learn
from tests.runtime.test_local_parts import same_on_all_executors, small
from tests.strategies.everyone import with_every_strategy
from tests.strategies.test_sections import configured

BOTH = {"up": {"kind": "top-k", "share": 0.1}, "down": {"kind": "quantized"}}
KINDS: dict[str, dict[str, Any]] = {
    "both": BOTH,
    "random-k": {"up": "random-k"},
    "sign": {"up": "sign"},
    "4 bits": {"up": {"kind": "quantized", "bits": 4}, "down": {"kind": "quantized", "bits": 4}},
    "down alone": {"down": "quantized"},
}
each_kind = pytest.mark.parametrize("compression", KINDS.values(), ids=KINDS)


@pytest.mark.usefixtures("double")
def test_top_k_with_error_feedback_by_hand() -> None:
    """Squared loss of w x with one example each: a step of 1/4 changes w by -(w x - y) x / 2; one entry is sent.

    Client 0 has x = (1, 2), y = 2, client 1 has x = (2, 1), y = 1; w = (0, 0) at first.
    Round 1. Client 0: change (1, 2), sends (0, 2), keeps (1, 0). Client 1: change (1, 1/2), sends (1, 0), keeps
    (0, 1/2). The mean of (0, 2) and (1, 0) is (1/2, 1).
    Round 2. Client 0: error 1/2, change (-1/4, -1/2), with what it kept (3/4, -1/2); sends (3/4, 0), keeps (0, -1/2).
    Client 1: error 1, change (-1, -1/2), with what it kept (-1, 0); sends it, keeps nothing. The mean of (5/4, 1) and
    (-1/2, 1) is (3/8, 1).
    """

    def line() -> nn.Linear:
        layer = nn.Linear(2, 1, bias=False).double()
        nn.init.zeros_(layer.weight)
        return layer

    clients = [(np.array([[1.0, 2.0]]), np.array([[2.0]])), (np.array([[2.0, 1.0]]), np.array([[1.0]]))]
    for commits, model, left in ((1, [0.5, 1.0], [[1.0, 0.0], [0.0, 0.5]]), (2, [0.375, 1.0], [[0, -0.5], [0, 0]])):
        learned = learn(
            FedAvg(),
            Built(line),
            clients,
            n_outputs=1,
            training=Training(lr=0.25, loss="squared"),
            commits=commits,
            server={"compression": {"up": {"kind": "top-k", "share": 0.5}}},
        )
        assert learned.final.tolist() == model
        assert [kept.residual.tolist() for kept in learned.kept if kept.residual is not None] == left
        assert learned.records.facts["bytes"]["up"] == commits * 2 * 8


def test_a_client_trains_from_what_it_received_and_the_server_adds_the_change_to_its_own_model() -> None:
    config = configured("normalised", {"name": "fedavg"}, {"server.compression": {"down": "quantized"}})
    job = make_job(config, build_world(config))
    plain = make_job(config.with_changes({"server.compression": {}}), build_world(config))
    trainer, n = Trainer(job, job.model()), job.model().sections.trainable
    model = job.model().sent.numpy().copy()
    down = Quantized()
    start = model.copy()
    start[:n] = down.decode(down.encode(model[:n], keyed_generator(job.seed, "compressed download", 3, 7)), n)
    assert not np.array_equal(start, model)
    out, trained = np.empty_like(model), np.empty_like(model)
    with fixed_numerics():
        trainer.train(model, out, 3, 7, config.training)
        Trainer(plain, plain.model()).train(start, trained, 3, 7, config.training)
    assert out[:n].tobytes() == (model[:n] + (trained[:n] - start[:n])).tobytes()
    assert out[n:].tobytes() == trained[n:].tobytes()  # statistics are sent as they are


def normalised() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


def some_clients() -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(5)
    return [(rng.normal(size=(8, 3)).astype(np.float32), rng.integers(0, 3, 8)) for _ in range(2)]


def test_bytes_and_times_follow_the_messages() -> None:
    """39 parameters and 8 statistics: 4 + 39 + 32 = 75 bytes down at 600 bit/s, 4 + 5 + 32 = 41 up at 164 bit/s."""
    learned = learn(
        FedAvg(),
        Built(normalised),
        some_clients(),
        n_outputs=3,
        training=Training(lr=0.1, batch_size=4),
        commits=2,
        link={"kind": "rates", "download_bps": 600.0, "upload_bps": 164.0},
        server={"compression": {"up": "sign", "down": "quantized"}},
    )
    assert learned.records.facts["bytes"] == {"down": 6 * 75, "up": 4 * 41, "relay": 0}  # a third round begins
    visits = learned.records.visits
    assert (visits["received"] - visits["started"]).tolist() == pytest.approx([1.0] * 4)
    assert (visits["finished"] - visits["computed"]).tolist() == pytest.approx([2.0] * 4)


LINK = {"kind": "rates", "download_bps": 8e3, "upload_bps": 4e3}


@pytest.mark.parametrize("size_bytes", [None, 100_000])
@pytest.mark.parametrize("strategy", ["fedavg", "fedhusky", "fedcs", "csgd"])
def test_a_schedule_has_the_times_of_the_run(strategy: str, size_bytes: int | None) -> None:
    """A size that the user gives is that without compression; it shrinks by the same factor."""
    factor = 1 if size_bytes is None else 64
    link = {"kind": "rates", "download_bps": 8e3 * factor, "upload_bps": 4e3 * factor}
    changes: dict[str, Any] = {"server.compression": BOTH, "fleet.link": link, "run.horizon": 60.0}
    if size_bytes is not None:
        changes["model.size_bytes"] = size_bytes
    if strategy == "fedhusky":
        changes["strategy.clusters"] = "labels"
    config = configured("normalised", {"name": strategy}, changes)
    trained, planned = (run(config.with_changes({"executor.kind": kind}))[1] for kind in ("inline", "none"))
    for column in ("client", "started", "received", "computed", "finished"):
        np.testing.assert_array_equal(trained.visits[column], planned.visits[column])
    assert trained.facts["bytes"] == planned.facts["bytes"]
    facts, n, statistics = trained.facts, 418, 8
    down, up = 4 + n + 4 * statistics, 42 * 8 + 4 * statistics
    if size_bytes is not None:
        down, up = (round(size_bytes * each / (4 * (n + statistics))) for each in (down, up))
    assert (facts["download_bytes"], facts["upload_bytes"]) == (down, up)
    assert facts["size_bytes"] == (4 * (n + statistics) if size_bytes is None else size_bytes)
    row = describe_fleet(config)[0]
    assert (row["download_s"], row["upload_s"]) == pytest.approx((8 * down / 8e3 / factor, 8 * up / 4e3 / factor))


@pytest.mark.parametrize("compression", [{}, {"up": "sign"}], ids=["without", "with"])
def test_models_pass_through_the_server_if_they_are_compressed(compression: dict[str, Any]) -> None:
    """A client could not use another client's change."""

    async def hop(fed: Federation) -> None:
        first, second = fed.clients
        update = await fed.train(first, fed.model, to=second)
        fed.commit((await fed.train(second, update.model)).model)

    learned = learn(
        hop,
        Built(normalised),
        some_clients(),
        n_outputs=3,
        training=Training(lr=0.1, batch_size=4),
        commits=1,
        link={**LINK, "peer_bps": 1e9},
        server={"compression": compression} if compression else {},
    )
    whole, change = 4 * 47, 4 + 5 + 4 * 8
    down_up_relay = (2 * whole, 2 * change, 0) if compression else (whole, whole, whole)
    assert tuple(learned.records.facts["bytes"].values()) == down_up_relay


@each_kind
def test_bits_do_not_depend_on_the_executor(compression: dict[str, Any]) -> None:
    config = small({"server.compression": compression, "model.local": ["2.*"]})
    expected = same_on_all_executors(config)
    assert expected["model_sha256"] != run(config.with_changes({"server.compression": {}}))[0]["model_sha256"]


@pytest.mark.parametrize("strategy", ["fedavg", "scaffold", "fedbuff"])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path, strategy: str) -> None:
    changes = {"server.compression": BOTH, "run.horizon": 24.0, "run.checkpoint_every": 1e-6, "run.verify": True}
    config = small(changes, strategy)
    lives.Run(config).complete(tmp_path / "whole")
    lives.interrupted_at(config, tmp_path / "run", 9.0)
    lives.interrupted_at(config, tmp_path / "run", 17.0)
    lives.Run(config).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", tmp_path / "whole")


@with_every_strategy()
def test_every_strategy_learns_from_compressed_updates(name: str) -> None:
    summary, records, final = run(configured("both", {"name": name}, {"server.compression": BOTH}))
    assert summary["commits"] >= 1
    assert final is not None
    assert np.isfinite(final).all()
    assert set(records.visits["outcome"]) <= {"done", "cut"}


@pytest.mark.parametrize("rules", [{"aggregation": "median"}, {"clip_norm": 0.1}], ids=str)
def test_averages_of_the_server_apply_to_the_changes_that_arrive(rules: dict[str, Any]) -> None:
    changes = {f"server.{name}": value for name, value in rules.items()} | {"server.compression": BOTH}
    assert run(configured("normalised", {"name": "fedavg"}, changes))[0]["commits"] >= 1


def test_the_table_is_written_as_it_was_read() -> None:
    config = configured("normalised", {"name": "fedavg"}, {"server.compression": BOTH})
    assert parse(tomllib.loads(config.dump())).server == config.server
    assert "compression" not in configured("normalised", {"name": "fedavg"}).dump()


@pytest.mark.parametrize(
    ("compression", "says"),
    [
        ({"down": "top-k"}, "server.compression: down = .* only kind = 'quantized' can compress a whole"),
        ({"down": {"kind": "quantized", "error_feedback": True}}, "only clients keep what a message leaves out"),
        ({"up": "topk"}, "kind = 'topk': no such compression; did you mean 'top-k'"),
        ({"up": {"kind": "top-k", "share": 2.0}}, "compression 'top-k': share = 2.0"),
        ({"left": "sign"}, "left"),
        ("sign", "server.compression = 'sign'"),
    ],
)
def test_tables_that_make_no_sense_are_rejected_in_one_line(compression: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        configured("normalised", {"name": "fedavg"}, {"server.compression": compression})
    assert "\n" not in str(raised.value)


def test_a_device_does_not_compress() -> None:
    config = configured("normalised", {"name": "fedavg"}, {"server.compression": BOTH})
    with pytest.raises(ConfigError, match=r"server\.compression works on a CPU only"):
        OnDevice(make_job(config, build_world(config)), "cpu")

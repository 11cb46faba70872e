"""Runs whose clients' examples are noisy or change: which examples a visit sees, and which an evaluation."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation
from fedtempo.report import charts
from fedtempo.report.series import changes_of_data
from fedtempo.runs.config import Config, parse
from fedtempo.runs.launch import _simulation, make_executor, make_job, make_recorder
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world, training_of
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.runner import simulate
from tests.precision import DOUBLE
from tests.runtime.world import Script

STILL = {"lr": 1e-30, "batch_size": 100}
"""Training that leaves the model as it is."""


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    """Four clients with ten examples each, of two classes; twenty test examples, five of each client."""
    rng = np.random.default_rng(5)
    y = np.arange(60) % 2
    x = (rng.normal(size=(60, 3)) + 2 * y[:, None]).astype(np.float32)
    owners = np.repeat(np.arange(4), 10)
    path = tmp_path / "four.npz"
    np.savez(
        path,
        train_x=x[:40],
        train_y=y[:40],
        test_x=x[40:],
        test_y=y[40:],
        train_owners=owners,
        test_owners=np.repeat(np.arange(4), 5),
    )
    return path


def config(npz: Path, partition: Any, **changes: Any) -> Config:
    tables: dict[str, Any] = {
        "run": {"horizon": 9.5, "evaluate_every": 1.0, "verify": True},
        "data": {"source": f"npz:{npz}", **({"partition": partition} if partition else {})},
        "model": {"network": "logistic"},
        "training": STILL,
        "fleet": {
            "compute": {"unit": "s/visit", "speed": 2.0},
            "link": {"kind": "fixed", "download_s": 1.0, "upload_s": 1.0},
            "estimates": "exact",
        },
        "strategy": {"name": "fedavg"},
        "executor": {"kind": "inline"},
    }
    return parse({name: {**table, **changes.get(name, {})} for name, table in tables.items()})


def curve(settings: Config) -> dict[float, float]:
    _, records, _ = run(settings)
    return dict(zip(records.evaluations["time"].tolist(), records.evaluations["accuracy"].tolist()))


# Evaluations --------------------------------------------------------------------------------------------------------


def test_the_test_set_changes_at_the_instant_and_back(npz: Path) -> None:
    """With two classes exchanged, a model that stands still is right exactly where it was wrong."""
    before = curve(config(npz, {}))
    assert len(set(before.values())) == 1
    assert before[0.0] != 0.5
    drift = [{"at": 3.0, "shift": 1}, {"at": 7.0, "swap": [[0, 1]]}]
    after = curve(config(npz, {"drift": drift}))
    assert after.keys() == before.keys()
    for time, accuracy in after.items():
        assert accuracy == pytest.approx(1 - before[0.0] if 3.0 <= time < 7.0 else before[0.0]), time
    assert curve(config(npz, {"drift": {"at": 3.0, "shift": 1, "test": False}})) == before
    assert curve(config(npz, {"drift": {"at": 3.0, "shift": 1, "clients": 0.5}})) == before


def test_own_test_sets_change_with_their_clients(npz: Path) -> None:
    """Client 2 is right where it was wrong from 5 s on; the other clients are as before."""
    changes: dict[str, Any] = {
        "data": {"client_test_share": "data"},
        "run": {"evaluate": "commit", "max_commits": 2, "horizon": 20.0},
    }
    found = []
    for partition in ({}, {"drift": {"at": 5.0, "clients": [2], "shift": 1}}):
        _, records, _ = run(config(npz, partition, **changes))
        rows = records.further["client_evaluations"]
        assert rows["time"].tolist() == [0.0] * 4 + [4.0] * 4 + [8.0] * 4
        found.append(rows["accuracy"].reshape(3, 4))
    plain, drifted = found
    assert np.array_equal(plain, np.tile(plain[0], (3, 1)))
    assert np.array_equal(plain[:2], drifted[:2])
    assert drifted[2] == pytest.approx([plain[0, 0], plain[0, 1], 1 - plain[0, 2], plain[0, 3]])


def test_metrics_are_of_the_test_set_of_the_time(npz: Path) -> None:
    changes = {"run": {"metrics": ["by-class", "confusion"], "evaluate_every": 4.0, "horizon": 7.0}}
    summary, _, _ = run(config(npz, {"drift": {"at": 3.0, "shift": 1}}, **changes))
    plain, _, _ = run(config(npz, {}, **changes))
    before, after = plain["by_class"], summary["by_class"]
    assert after == pytest.approx({"0": 1 - before["1"], "1": 1 - before["0"]})


# Training -----------------------------------------------------------------------------------------------------------


def losses(settings: Config, script: Any) -> list[Any]:
    """Return what a script of `fed` returns, in a run on the real examples."""
    found: list[Any] = []

    async def collected(fed: Federation) -> None:
        found.extend(await script(fed))

    world = build_world(settings)
    training, recorder = training_of(settings, world), make_recorder(settings, None, world)
    with make_executor(settings, world) as executor:
        make = partial(_simulation, settings, world, executor, training, recorder)
        simulate(Script(collected), settings.run, executor, make, recorder)
    recorder.close()
    return found


def expected_loss(x: Any, y: Any, weights: Any, bias: Any) -> float:
    logits = x @ weights.T + bias
    right = logits[np.arange(len(y)), y]
    return float((np.log(np.exp(logits).sum(axis=1)) - right).mean())


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_visit_trains_on_the_examples_that_its_client_has_as_it_computes(npz: Path, one_by_one: bool) -> None:
    """A visit takes 1 s down, 2 s to compute, 1 s up. The first three begin to compute at 1, 5 and 9 s."""
    settings = config(npz, {"drift": {"at": 5.0, "clients": [1], "shift": 1}}, run={"horizon": 60.0})

    async def script(fed: Federation) -> list[Any]:
        found = []
        for _ in range(3):
            if one_by_one:
                visits = [await fed.train(client, fed.model) for client in fed.clients]
            else:
                visits = await fed.train_all(fed.clients, fed.model)
            found.append([(update.client.id, update.computed - 2.0, update.statistics["loss"]) for update in visits])
        return found

    found = losses(settings, script)
    arrays = np.load(npz)
    job = make_job(settings, build_world(settings))
    state = {name: value.double().numpy() for name, value in job.model().state_dict().items()}
    weights, bias = state.values()
    for visits in found:
        for client, began, loss in visits:
            rows = slice(10 * client, 10 * client + 10)
            y = arrays["train_y"][rows]
            changed = client == 1 and began >= 5.0
            assert loss == pytest.approx(
                expected_loss(arrays["train_x"][rows], 1 - y if changed else y, weights, bias), rel=1e-5
            )
    assert [began for _, began, _ in (visits[1] for visits in found)] == (
        [5.0, 21.0, 37.0] if one_by_one else [1, 5, 9]
    )


def test_wrong_labels_are_those_that_clients_report_and_train_on(npz: Path) -> None:
    settings = config(npz, {"label_noise": {"rate": 0.2, "clients": [0], "kind": "pair"}}, data={"tell_labels": True})
    world = build_world(settings)
    assert world.histograms[1:] == [[5, 5]] * 3
    assert sum(world.histograms[0]) == 10
    wrong = world.dataset.train_y[:40] != np.arange(40) % 2
    assert (int(wrong[:10].sum()), int(wrong[10:].sum())) == (2, 0)
    assert world.dataset.about.endswith("wrong labels (pair), 0.2, at clients 0")
    plain = build_world(config(npz, {}, data={"tell_labels": True}))
    assert world.data_sha256 != plain.data_sha256
    assert all(np.array_equal(a, b) for a, b in zip(world.owned, plain.owned))


# Executors ----------------------------------------------------------------------------------------------------------

EVERYTHING = {
    "label_noise": {"rate": 0.2},
    "feature_noise": {"std": 0.1, "clients": 0.5},
    "drift": [{"at": 4.0, "clients": 0.5, "shift": 1}, {"at": 8.0, "scale": 0.5, "noise": 0.1}],
}
LEARNS = {
    "training": {"lr": 0.1, "batch_size": 5},
    "data": {"client_test_share": 0.3},
    "run": {
        "horizon": 16.0,
        "metrics": ["f1-macro"],
        "evaluate_every": 2.0,
        "personalise": {"steps": 2},
        "evaluate_clients": 2,
    },
}


def test_worker_processes_give_the_same_bits(npz: Path) -> None:
    results = []
    for executor in ({"kind": "inline"}, {"kind": "processes", "workers": 2, "start_method": "fork"}):
        summary, records, model = run(config(npz, EVERYTHING, **LEARNS, executor=executor))
        results.append((records.facts["events_sha256"], model, summary["final_accuracy"], summary["metrics"]))
    assert results[0][0] == results[1][0]
    assert np.array_equal(results[0][1], results[1][1])
    assert results[0][2:] == results[1][2:]


@pytest.mark.usefixtures("double")
def test_a_device_agrees_up_to_rounding(npz: Path) -> None:
    learns = {**LEARNS, "run": {"horizon": 16.0, "metrics": ["f1-macro"]}}
    settings = config(npz, EVERYTHING, **learns)
    world = build_world(settings)
    job, training = make_job(settings, world), training_of(settings, world)
    with Inline(job) as inline, OnDevice(job, "cpu", streams=1) as device:
        for holder, phase in ((1, 0), (5, 1), (10, 2)):
            found = []
            for executor in (inline, device):
                trained = executor.train(executor.initial(), holder, 1, training).result()
                tested = executor.evaluate(
                    trained.location, on=world.drifting.phases.test_set("test", 5.0 * phase)
                ).result()
                own = executor.evaluate(trained.location, on=f"clients@{phase}" if phase else "clients").result()
                found.append((executor.vector(trained.location).copy(), tested.loss, own.clients))
            for one, other in zip(*found):
                np.testing.assert_allclose(one, other, **DOUBLE)


def test_results_are_reused_for_each_phase(npz: Path, tmp_path: Path) -> None:
    reuse = {"reuse": True, "reuse_folder": str(tmp_path / "store")}
    _, one, model = run(config(npz, EVERYTHING, **LEARNS, executor=reuse))
    again, other, same = run(config(npz, EVERYTHING, **LEARNS, executor=reuse))
    assert np.array_equal(model, same)
    assert one.facts["events_sha256"] == other.facts["events_sha256"]
    plain, _, fresh = run(config(npz, EVERYTHING, **LEARNS))
    assert np.array_equal(model, fresh)
    assert plain["metrics"] == again["metrics"]


def test_strategies_can_be_compared_under_noise_and_a_schedule_needs_no_training(npz: Path) -> None:
    for name in ("fedavg", "fedasync", "oort"):
        learns = LEARNS if name != "oort" else {**LEARNS, "training": {"lr": 0.1, "statistics": ["squared_loss"]}}
        summary, _, _ = run(config(npz, EVERYTHING, **learns, strategy={"name": name}))
        assert math.isfinite(summary["final_loss"])
    nothing, _, _ = run(
        config(npz, EVERYTHING, executor={"kind": "none"}, model={"network": "logistic", "size_bytes": 9})
    )
    assert nothing["commits"] == 2


def test_charts_over_time_have_a_line_at_each_change(npz: Path) -> None:
    drift = [
        {"at": time, "clients": clients, "shift": 1}
        for time, clients in ((5.0, 0.5), (3.0, 1.0), (5.0, [1]), (99.0, 1.0))
    ]
    _, records, _ = run(config(npz, {"drift": drift}))
    runs: dict[str, Any] = {"fedavg": [records]}
    assert records.facts["data"]["changes"] == [3.0, 5.0, 99.0]
    assert changes_of_data(runs) == [3.0, 5.0]  # the run ends before the last
    for chart in (charts.accuracy(runs, 0.5), charts.loss(runs)):
        assert chart is not None
        lines = [shape.x0 for shape in chart.layout.shapes if shape.x0 == shape.x1]
        assert lines == [3.0, 5.0]
        assert [note.text for note in chart.layout.annotations if note.x == 3.0] == ["data change"]
    _, plain, _ = run(config(npz, {}))
    assert "changes" not in plain.facts["data"]
    assert changes_of_data({"fedavg": [plain]}) == []


def test_data_that_share_examples_are_rejected(npz: Path) -> None:
    partition = {"kind": "classes", "mean": 2.0, "share": True, "drift": {"at": 1.0, "shift": 1}}
    with pytest.raises(ConfigError, match=r"data.partition: clients share examples, so these cannot differ"):
        build_world(config(npz, partition, data={"examples_per_client": 20, "clients": 4}))

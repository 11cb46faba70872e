"""Runs that share a store of results have the bits of runs without, and compute only what differs."""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.record import load_run
from fedtempo.runs.config import Config, parse
from fedtempo.runs.launch import make_job
from fedtempo.runs.reuse import recipes_of
from fedtempo.runs.run import Run, run
from fedtempo.runs.world import build_world
from fedtempo.runtime.executors.job import Job
from fedtempo.studies.check import check
from tests.crash import lives
from tests.strategies.everyone import with_every_strategy
from tests.strategies.test_every_strategy import BASE, SPECIAL


def config(name: str = "fedavg", changes: dict[str, Any] | None = None, store: Path | None = None) -> Config:
    """Return a small run. store: folder of the results that it reuses, if it does."""
    tables = {**BASE, "strategy": {"name": name}, "executor": {"kind": "inline"}}
    reuse = {} if store is None else {"executor.reuse": True, "executor.reuse_folder": str(store)}
    return parse(tables).with_changes({"run.horizon": 20.0, **SPECIAL.get(name, {}), **reuse, **(changes or {})})


def played(config: Config) -> tuple[tuple[Any, ...], dict[str, int]]:
    """Run; return what must not depend on reuse, and the numbers of operations reused and computed."""
    summary, records, models = Run(config, quiet=True).in_memory()
    facts = dict(records.facts)
    reuse = facts.get("executor", {}).get("reuse", {})
    evaluations = {name: column.tobytes() for name, column in records.evaluations.items()}
    vector = models["last"].vector.tobytes()
    return (summary["model_sha256"], summary["events_sha256"], evaluations, vector), reuse


def computed(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if not name.endswith("_reused")}


@with_every_strategy()
def test_every_strategy_has_the_same_bits_without_a_store_and_with_one_cold_or_warm(name: str, tmp_path: Path) -> None:
    until = {"run.horizon": 30.0}
    expected, none = played(config(name, until))
    assert none == {}
    cold, first = played(config(name, until, tmp_path / "store"))
    warm, second = played(config(name, until, tmp_path / "store"))
    assert cold == warm == expected
    assert sum(computed(first).values()) > 0
    assert computed(second).keys() <= {"server_computed"}  # such as the calls that return what cannot be stored
    for what in ("visits", "server_trainings", "evaluations"):  # some visits were cut by the end
        assert second.get(f"{what}_reused", 0) <= first.get(f"{what}_computed", 0)
    assert second.get("visits_reused", 0) + second.get("server_trainings_reused", 0) > 1


FADED = {
    "fleet.faults": {"nan": 0.1, "scaled": 0.1},
    "fleet.availability": {"kind": "dropout", "probability": 0.1},
    "server.deadline": 3.0,
}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("fedavg", FADED),
        ("fedbuff", FADED),
        ("fedavg", {"server.aggregation": "median"}),
        ("fedavg", {"server.privacy": {"clip_norm": 1.0, "noise_multiplier": 0.1, "delta": 1e-5}}),
        ("fedavg", {"server.compression": {"up": {"kind": "top-k", "share": 0.1, "error_feedback": True}}}),
        ("fedprox", {"model.network": "mlp", "model.hidden": [4], "model.local": ["*.bias"]}),
        ("fedhusky", {"training.schedule": {"kind": "cosine", "by": "time", "over": 20.0}}),
    ],
)
def test_the_same_holds_for_what_clients_keep_and_for_settings_of_the_server(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    expected, _ = played(config(name, changes))
    for warm in (False, True):
        result, counts = played(config(name, changes, tmp_path / "store"))
        assert result == expected
        assert counts.get("visits_computed", 0) == 0 or not warm


def test_worker_processes_share_results_with_others_and_are_not_started_for_a_warm_run(tmp_path: Path) -> None:
    expected, _ = played(config("fedhusky"))
    workers = {"executor.kind": "processes", "executor.workers": 2}
    cold, _ = played(config("fedhusky", workers, tmp_path / "store"))
    summary, records, _ = Run(config("fedhusky", workers, tmp_path / "store"), quiet=True).in_memory()
    inline, counts = played(config("fedhusky", store=tmp_path / "store"))
    assert cold == inline == expected
    assert computed(counts) == {}
    assert summary["model_sha256"] == expected[0]
    assert records.facts["executor"].keys() == {"reuse"}  # no facts about workers


FEDAVG = {"strategy.clients_per_round": 4, "run.horizon": None, "run.max_commits": 5, "run.evaluate": "commit"}


def test_fedavg_on_another_fleet_trains_nothing(tmp_path: Path) -> None:
    """Five rounds of four visits, whatever the clients' speeds; the four visits of a sixth round begin as it ends."""
    _, first = played(config(changes=FEDAVG, store=tmp_path / "store"))
    assert first == {"evaluations_computed": 6, "server_computed": 5, "visits_computed": 24}
    slower = {**FEDAVG, "fleet.compute": {"unit": "s/visit", "kind": "uniform", "low": 5.0, "high": 90.0}}
    result, counts = played(config(changes=slower, store=tmp_path / "store"))
    assert counts == {"evaluations_reused": 6, "server_reused": 5, "visits_reused": 20}
    assert result == played(config(changes=slower))[0]


def test_an_asynchronous_strategy_on_another_fleet_trains_what_differs(tmp_path: Path) -> None:
    played(config("fedbuff", store=tmp_path / "store"))
    slower = {"fleet.compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 4.0}}
    result, counts = played(config("fedbuff", slower, tmp_path / "store"))
    assert counts["visits_reused"] >= 3
    assert counts["visits_computed"] >= 3
    assert result == played(config("fedbuff", slower))[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"run.seed": 2},
        {"training.lr": 0.1},
        {"training.batch_size": 5},
        {"training.loss": "logit-adjusted"},
        {"model.network": "mlp", "model.hidden": [4]},
        {"data.partition.alpha": 5.0},
        {"data.transform": "tests.runs.own_parts:doubled"},
        {"data.augment": "tests.runs.own_parts:shifted"},
        {"server.compression": {"up": {"kind": "sign"}}},
        {"fleet.faults": {"scaled": 0.5}},
        {"data.partition.label_noise": {"rate": 0.5}},
        {"data.partition.drift": {"at": 100.0, "scale": 0.5}},
    ],
)
def test_nothing_is_reused_if_anything_that_decides_bits_differs(changes: dict[str, Any], tmp_path: Path) -> None:
    played(config(store=tmp_path / "store"))
    result, counts = played(config(changes=changes, store=tmp_path / "store"))
    assert counts.get("visits_reused", 0) == 0
    assert counts["visits_computed"] > 0
    assert result == played(config(changes=changes))[0]


def test_other_test_examples_need_evaluations_only(tmp_path: Path) -> None:
    played(config(changes=FEDAVG, store=tmp_path / "store"))
    fewer = {**FEDAVG, "data.test_examples": 30}
    result, counts = played(config(changes=fewer, store=tmp_path / "store"))
    assert counts["visits_reused"] == 20
    assert counts["evaluations_computed"] == 6
    assert result == played(config(changes=fewer))[0]


def test_a_switch_of_the_processor_or_another_version_makes_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    world, model = build_world(config()), make_job(config(), build_world(config())).model()

    def common() -> bytes:
        return recipes_of(config(), world, model).common

    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    before = common()
    assert common() == before
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    switched = common()
    monkeypatch.delenv("ATEN_CPU_CAPABILITY")
    monkeypatch.setattr("fedtempo.runs.reuse._installed", lambda: {"packages": {"torch": "9.9"}})
    assert len({before, switched, common()}) == 3


def test_every_field_of_a_job_is_part_of_the_keys() -> None:
    """If you add a field to Job, say in `recipes_of` how results depend on it, then add it here."""
    assert {field.name for field in dataclasses.fields(Job)} == {
        *("network", "n_classes", "x", "y", "clients", "test_x", "test_y", "seed", "faults", "augment"),
        *("evaluation_batch", "initial", "exchange", "compression", "metrics", "client_tests", "personalise"),
        *("validation_x", "validation_y", "phases"),
    }


def test_evaluations_on_the_validation_set_are_told_apart_from_others(tmp_path: Path) -> None:
    held = {**FEDAVG, "data.validation_share": 0.2}
    alone = played(config(changes=held))[0]
    assert alone == played(config(changes=held, store=tmp_path / "store"))[0]
    result, counts = played(config(changes=held, store=tmp_path / "store"))
    assert result == alone
    assert counts.get("evaluations_computed", 0) == 0


def test_a_resumed_run_reuses_results_and_has_the_same_bits(tmp_path: Path) -> None:
    changes = {"run.checkpoint_every": 1e6, "run.horizon": 25.0}
    plain, reusing = config("scaffold", changes), config("scaffold", changes, tmp_path / "store")
    Run(plain).complete(tmp_path / "whole")
    lives.interrupted_at(reusing, tmp_path / "cold", 12.0)
    Run(reusing).complete(tmp_path / "cold")
    lives.assert_the_same(tmp_path / "cold", tmp_path / "whole")
    lives.interrupted_at(reusing, tmp_path / "warm", 12.0)
    Run(reusing).complete(tmp_path / "warm")
    lives.assert_the_same(tmp_path / "warm", tmp_path / "whole")
    counts = load_run(tmp_path / "warm").facts["executor"]["reuse"]
    assert counts["visits_reused"] > 0
    assert computed(counts) == {}


def test_a_run_may_be_resumed_with_or_without_reuse(tmp_path: Path) -> None:
    changes = {"run.checkpoint_every": 1e6, "run.horizon": 25.0}
    Run(config("fedbuff", changes)).complete(tmp_path / "whole")
    lives.interrupted_at(config("fedbuff", changes, tmp_path / "store"), tmp_path / "run", 12.0)
    Run(config("fedbuff", changes)).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", tmp_path / "whole")


def test_damaged_and_missing_files_are_computed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run goes on after what is stored, so its first new visit needs a model of which the file is damaged."""
    longer = {**FEDAVG, "run.max_commits": 7}
    expected, _ = played(config(changes=longer))
    played(config(changes=FEDAVG, store=tmp_path / "store"))
    for number, path in enumerate(sorted((tmp_path / "store" / "contents").glob("*/*"))):
        if number % 2:
            path.unlink()
        else:
            content = bytearray(path.read_bytes())
            content[100] ^= 1
            path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "fedtempo"):
        result, counts = played(config(changes=longer, store=tmp_path / "store"))
    assert result == expected
    assert (counts["visits_reused"], counts["visits_computed"]) == (20, 8 + 4)
    assert counts["recomputed"] == 25  # 20 visits and 5 averages, back to the initial model
    lines = [record.message for record in caplog.records if "damaged" in record.message]
    assert lines
    assert len(lines) == len(set(lines))
    assert all("computed again" in line for line in lines)
    again, counts = played(config(changes=longer, store=tmp_path / "store"))
    assert again == expected
    assert computed(counts) == {}


def test_a_store_that_is_much_too_small_costs_only_time(tmp_path: Path) -> None:
    """A model of 650 numbers takes 2,600 bytes; a megabyte holds the latest 350 or so of 750."""
    many = {"run.horizon": 120.0, "strategy.clients_per_round": 10, "executor.reuse_bytes": 2**20}
    expected, _ = played(config(changes={"run.horizon": 120.0, "strategy.clients_per_round": 10}))
    for _ in range(2):
        result, _ = played(config(changes=many, store=tmp_path / "store"))
        assert result == expected
    size = sum(path.stat().st_size for path in (tmp_path / "store" / "contents").glob("*/*"))
    assert 0 < size <= 2**20


def test_checking_executors_never_reuses_results(tmp_path: Path) -> None:
    result = check(config(changes={"run.horizon": 5.0}, store=tmp_path / "store"))
    assert result.agree
    assert not (tmp_path / "store").exists()


def test_a_run_without_training_uses_no_store(tmp_path: Path) -> None:
    run(config(changes={"executor.kind": "none"}, store=tmp_path / "store"))
    assert not (tmp_path / "store").exists()


def test_the_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"executor.*reuse = true: not with kind = 'ray'"):
        config(changes={"executor.kind": "ray", "executor.reuse": True})
    with pytest.raises(ConfigError, match=r"executor.reuse_bytes"):
        config(changes={"executor.reuse_bytes": 1000})
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"executor.reuse_folder: .* holds other files \(letter.txt\)"):
        run(config(store=tmp_path))
    assert (tmp_path / "letter.txt").read_text() == "mine"


NETWORK = """
from torch import nn
def network(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.{}(), nn.Linear(6, classes))
"""
IDENTITY = """
import sys
sys.path.insert(0, sys.argv[1])
import mine
from fedtempo.runs.users_code import users_code
print(users_code(["mine"]).hex())
"""


def test_the_files_of_all_modules_of_users_count(tmp_path: Path) -> None:
    def identity() -> str:
        time.sleep(0.05)  # a process counts files as older only if they are so by a tick of the system's clock
        arguments = [sys.executable, "-B", "-c", IDENTITY, str(tmp_path)]
        return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout

    (tmp_path / "mine.py").write_text("import helper")
    (tmp_path / "helper.py").write_text("WIDTH = 6")
    (tmp_path / "not_imported.py").write_text("")
    first = identity()
    (tmp_path / "not_imported.py").write_text("WIDTH = 7")
    assert identity() == first
    (tmp_path / "helper.py").write_text("WIDTH = 7")
    assert identity() != first
    (tmp_path / "helper.py").write_text("WIDTH = 6")
    assert identity() == first


def test_code_that_is_younger_than_the_process_shares_results_within_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook may hold another version in memory than the file has."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "young.py").write_text(NETWORK.format("ReLU"))
    own = {"model.network": "young:network"}
    played(config(changes=own, store=tmp_path / "store"))
    _, counts = played(config(changes=own, store=tmp_path / "store"))
    assert computed(counts) == {}
    monkeypatch.setattr("fedtempo.runs.users_code._SESSION", b"another process")
    monkeypatch.setattr("fedtempo.runs.users_code._identities", {})
    _, counts = played(config(changes=own, store=tmp_path / "store"))
    assert counts.get("visits_reused", 0) == 0


def test_code_without_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("notebook")
    monkeypatch.setattr(
        module, "network", lambda _, classes: nn.Sequential(nn.Flatten(), nn.Linear(64, classes)), False
    )
    monkeypatch.setitem(sys.modules, "notebook", module)
    own = config(changes={"model.network": "notebook:network"}, store=tmp_path / "store")
    with pytest.raises(ConfigError, match=r"executor.reuse = true: 'notebook' has no file"):
        run(own)


def test_the_models_of_a_warm_run_are_those_of_the_store(tmp_path: Path) -> None:
    """A network with running statistics, frozen parameters and integer buffers gets all of them back."""
    changes = {
        "model.network": "cnn",
        "model.channels": [2],
        "model.pool_after": [1],
        "model.hidden": [4],
        "model.batch_norm": True,
        "run.horizon": 6.0,
        "run.keep": ["last", "best"],
    }
    models = [Run(config(changes=changes, store=store), quiet=True).in_memory()[2] for store in (None, *[tmp_path] * 2)]
    for kind in ("last", "best"):
        plain, cold, warm = (each[kind].arrays() for each in models)
        assert plain.keys() == cold.keys() == warm.keys()
        assert all(np.array_equal(plain[name], cold[name]) for name in plain)
        assert all(np.array_equal(plain[name], warm[name]) for name in plain)


def test_measures_are_reused_and_evaluated_again_where_they_differ(tmp_path: Path) -> None:
    asked = {
        "run.horizon": 10.0,
        "run.metrics": ["f1-macro"],
        "data.client_test_share": 0.3,
        "run.personalise": {"steps": 1},
        "run.evaluate_clients": 2,
    }

    def measured(changes: dict[str, Any], store: Path | None = tmp_path) -> tuple[list[Any], dict[str, int]]:
        _, records, _ = Run(config("fedavg", asked | changes, store), quiet=True).in_memory()
        metrics = records.further["metrics"]
        values = list(zip(metrics["name"].tolist(), metrics["value"].tolist(), strict=True))
        return values, records.facts.get("executor", {}).get("reuse", {})

    cold, first = measured({})
    warm, second = measured({})
    assert cold == warm == measured({}, None)[0]
    assert second["evaluations_reused"] == first["evaluations_computed"]
    for change in (
        {"run.metrics": ["f1-macro", "top-5"]},
        {"run.personalise": {"steps": 3}},
        {"run.evaluation_batch": 7},
    ):
        changed, counts = measured(change)
        assert changed == measured(change, None)[0]
        assert counts["visits_reused"] == second["visits_reused"]
        assert 0 < counts["evaluations_computed"] <= first["evaluations_computed"]

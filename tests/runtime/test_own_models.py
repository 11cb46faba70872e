"""Models that a strategy gives to each client (`ClientVisit.personal`), and how they are evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedtempo.learning.training import Training
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from fedtempo.runtime.executors import Carried
from fedtempo.runtime.executors.inline import Inline
from tests.crash import lives
from tests.runtime.test_client_evaluations import lines
from tests.strategies.test_every_strategy import BASE


def test_a_clients_own_model_is_evaluated_on_its_own_test_set_only() -> None:
    """As in the tests of evaluations: w = 1 and b = 0 have the errors -2 and -1 on client 0's tests (2, 4) and (0, 1).

    One step of 1/4 on (1, 3), with the error -2, makes w = 2 and b = 1: errors 1 and 0.
    """
    training = Training(lr=0.25, loss="squared", steps=2, full_batch=True)
    with Inline(lines()) as executor:
        carried = Carried(procedure="ditto", numbers={"lam": 1.0, "personal_steps": 1})
        trained = executor.train(executor.initial(), 0, 1, training, carried).result()
        assert executor.evaluate(executor.initial(), trained.state, 0).result().loss == pytest.approx(0.5)
        assert executor.evaluate(executor.initial(), None, 0).result().loss == pytest.approx(2.5)
        whole = executor.evaluate(executor.initial(), trained.state, "test").result()
        assert whole.loss == executor.evaluate(executor.initial(), None, "test").result().loss


def configured(name: str = "ditto", **changes: Any) -> Config:
    tables = {**BASE, "strategy": {"name": name}, "executor": {"kind": "inline"}}
    settings = {
        "run.horizon": 20.0,
        "run.evaluate_every": 10.0,
        "run.evaluate_clients": 20,
        "data.client_test_share": 0.25,
        "data.examples_per_client": 24,
        "data.partition.alpha": 0.1,
    }
    return parse(tables).with_changes({**settings, **changes})


def scores(config: Config) -> dict[str, Any]:
    summary = run(config)[0]
    return {name: summary[name] for name in ("clients", "model_sha256", "final_accuracy")}


def test_runs_report_the_own_models_beside_the_global_one_on_every_executor() -> None:
    expected = scores(configured())
    assert set(expected["clients"]) == {"clients", "own"}
    assert expected["clients"]["own"]["mean"] > expected["clients"]["clients"]["mean"]
    assert set(scores(configured("fedavg"))["clients"]) == {"clients"}
    for workers in (1, 2):
        assert scores(configured(**{"executor.kind": "processes", "executor.workers": workers})) == expected


def test_an_interrupted_run_and_one_with_stored_results_report_the_same(tmp_path: Path) -> None:
    config = configured(**{"run.checkpoint_every": 4.0})
    lives.Run(config).complete(tmp_path / "whole")
    lives.interrupted_at(config, tmp_path / "run", 12.0)
    lives.Run(config).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", tmp_path / "whole")
    stored = {"executor.reuse": True, "executor.reuse_folder": str(tmp_path / "store")}
    expected = scores(configured())
    assert [scores(configured(**stored)) for _ in range(2)] == [expected] * 2

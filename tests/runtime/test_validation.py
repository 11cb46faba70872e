"""Validation sets: evaluated with the same bits on every executor, and deciding alone when a run ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo import Experiment
from fedtempo.errors import ConfigError
from fedtempo.federation import Model
from fedtempo.learning.networks import Logistic
from fedtempo.learning.training import Training
from fedtempo.record import Recorder, load_run
from fedtempo.record.metric import CLASSES
from fedtempo.record.validation import facts_of
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import Run, configuration
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.executors import Evaluation, On
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.none import Done
from fedtempo.runtime.executors.processes import Processes
from fedtempo.runtime.patience import Patience
from fedtempo.runtime.run_settings import Goal

VALIDATION = [0.1, 0.4, 0.3, 0.2, 0.2]
TEST = [0.9, 0.8, 0.85, 0.95, 0.99]
"""Accuracies of the versions 0 to 4."""


class Scripted:
    """An executor whose models have these accuracies; the loss is 1 - accuracy."""

    trains = True

    def __init__(self) -> None:
        self.asked: list[tuple[int, On]] = []

    def evaluate(self, location: int, state: Any = None, on: On = "test") -> Done[Evaluation]:
        self.asked.append((location, on))
        value = (VALIDATION if on == "validation" else TEST)[location]
        return Done(Evaluation(value, 1 - value, metrics={"auc": value}))


def play(versions: int = 5, **options: Any) -> tuple[Recorder, Evaluations, Scripted, list[str]]:
    recorder, executor, ends = Recorder(None), Scripted(), []
    recorder.fact("data", {"task": "classes", "validation": 7})
    recorder.fact("metrics", facts_of(CLASSES, []))
    evaluations = Evaluations(
        executor,  # type: ignore[arg-type]
        recorder,
        every=None,
        validates=True,
        reached=lambda: ends.append("target"),
        exhausted=ends.append,
        **options,
    )
    evaluations.begin(Model(0, 0))
    for version in range(1, versions):
        if not ends:
            evaluations.committed(float(version), Model(version - 1, version - 1), Model(version, version))
    evaluations.finish(10.0, Model(versions - 1, versions - 1))
    return recorder, evaluations, executor, ends


def test_both_sets_are_recorded() -> None:
    recorder, evaluations, executor, _ = play()
    records = recorder.records()
    assert records.evaluations["accuracy"].tolist() == TEST
    metrics = records.further["metrics"]
    for name, values in (
        ("validation-accuracy", VALIDATION),
        ("validation-auc", VALIDATION),
        ("auc", TEST),
        ("validation-loss", [1 - value for value in VALIDATION]),
    ):
        assert metrics["value"][metrics["name"] == name].tolist() == values
    assert evaluations.accuracy == 0.99
    assert sorted(executor.asked) == sorted((version, on) for version in range(5) for on in ("test", "validation"))


def test_the_best_model_is_that_of_the_validation_set() -> None:
    best = play(keep_best=True)[1].best
    assert best is not None
    assert (best.model.version, best.accuracy, best.validation) == (1, 0.8, 0.4)


@pytest.mark.parametrize("measure", ["accuracy", "loss", "validation-loss"])
def test_patience_goes_by_the_validation_set(measure: str) -> None:
    """It is best at version 1, and versions 2 and 3 are worse, while the test set improves."""
    *_, executor, ends = play(patience=Patience(2, measure))
    best = "0.4" if measure == "accuracy" else "0.6"
    assert ends[:1] == [
        f"{measure} on the validation set did not improve in the last 2 evaluated versions (best: {best} at 1 s)"
    ]
    assert [version for version, on in executor.asked if on == "validation"][:4] == [0, 1, 2, 3]


def test_a_target_is_reached_on_the_validation_set() -> None:
    """The means of three validation accuracies in a row are 0.267, 0.3 and 0.233; those of the test are above 0.8."""
    assert play(target=Goal("accuracy", 0.31, "higher"), stop=True)[3] == []
    *_, executor, ends = play(target=Goal("accuracy", 0.29, "higher"), stop=True)
    assert ends == ["target"]
    assert (3, "validation") in executor.asked
    assert play(target=Goal("auc", 0.8, "higher"), stop=True)[3] == []


def digits(**options: Any) -> Job:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 6)).astype(np.float32), rng.integers(0, 3, 60)
    clients = np.split(np.arange(12, 60), 4)
    more = {"evaluation_batch": 5, "metrics": ("auc", "confusion"), "validation_x": x[:12], "validation_y": y[:12]}
    return Job(Logistic(), 3, x, y, clients, seed=1, **{"test_x": x[40:], "test_y": y[40:], **more, **options})


def test_every_executor_measures_the_same() -> None:
    found = []
    for make in (lambda: Inline(digits()), lambda: Processes(digits(), 2), lambda: OnDevice(digits(), "cpu", 1)):
        with make() as executor:  # type: ignore[attr-defined]
            trained = executor.train(executor.initial(), 1, 1, Training(lr=0.1)).result()
            found.append(executor.evaluate(trained.location, None, "validation").result())
    with Inline(
        digits(test_x=digits().x[:12], test_y=digits().y[:12], validation_x=None, validation_y=None)
    ) as executor:
        trained = executor.train(executor.initial(), 1, 1, Training(lr=0.1)).result()
        alone = executor.evaluate(trained.location).result()
    assert found[0] == found[1] == alone
    assert found[0].metrics["auc"] == found[1].metrics["auc"] == alone.metrics["auc"]
    assert found[2].accuracy == pytest.approx(alone.accuracy)
    assert found[2].metrics["confusion"].sum() == 12


def config(changes: dict[str, Any]) -> Config:
    tables = {
        "run": {"horizon": 30.0, "evaluate_every": 2.0, "keep": ["last", "best"]},
        "data": {"source": "digits", "clients": 5, "validation_share": 0.2, "partition": "one-label"},
        "model": {"network": "logistic"},
        "training": {"lr": 0.05},
        "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
        "strategy": {"name": "fedavg", "clients_per_round": 2},
        "executor": {"kind": "inline"},
    }
    return parse(tables).with_changes(changes)


def test_a_run_with_a_validation_set_ends_by_it_and_says_so(tmp_path: Path) -> None:
    summary = Run(config({"run.target_accuracy": 0.3, "run.stop_at_target": True}), page=False).begin(tmp_path / "run")
    run = load_run(tmp_path / "run")
    metrics = run.further["metrics"]
    values = metrics["value"][metrics["name"] == "validation-accuracy"]
    assert summary["end_reason"] == "target of 0.3 reached on the validation set"
    reached = [bool(np.mean(values[i : i + 3]) >= 0.3) for i in range(len(values) - 2)]
    assert reached.index(True) >= len(reached) - 2  # an evaluation may be due until the run ends
    assert summary["target"] == {"name": "validation-accuracy", "value": 0.3, "better": "higher", "as_share": True}
    assert summary["target_accuracy"] is None
    assert summary["time_to_target_s"] is not None
    assert summary["metrics"]["validation-accuracy"]["best"] == values.max()
    best = run.facts["best_model"]
    assert best["validation_accuracy"] == values.max()
    at = run.evaluations["version"] == best["version"]
    assert best["accuracy"] == run.evaluations["accuracy"][at][0]
    held, trained = summary["data"]["validation"], summary["data"]["train"]
    assert abs(held - 0.2 * (held + trained)) <= 2.5  # each of five clients rounds


def test_a_finished_run_goes_on_by_the_validation_set(tmp_path: Path) -> None:
    state = {"run.keep": ["last", "best", "state"], "run.horizon": 10.0}
    Run(config(state), page=False).begin(tmp_path / "run")
    longer = ["run.horizon=20", 'run.keep=["last","best"]']
    for more, says in (
        (["run.target_accuracy=0.01", "run.stop_at_target=true"], r"target_accuracy = 0\.01: reached after"),
        (["run.patience={evaluations=1, min_delta=0.9}"], r"run\.patience: 1 evaluated versions did not improve"),
    ):
        with pytest.raises(ConfigError, match=says):
            Run(configuration(tmp_path / "run", longer + more), page=False).complete(tmp_path / "run")
    went_on = Run(configuration(tmp_path / "run", longer), page=False).complete(tmp_path / "run")
    whole = Run(config({"run.horizon": 20.0}), page=False).begin(tmp_path / "whole")
    for name in ("model_sha256", "events_sha256", "metrics"):
        assert json.dumps(went_on[name]) == json.dumps(whole[name])


def test_other_sets_change_nothing_of_the_training() -> None:
    """A run without a validation set, and one that is evaluated on it, commit the same models."""
    beside, instead = (Run(config(changes)).in_memory()[0] for changes in ({}, {"run.evaluate_on": "validation"}))
    assert beside["model_sha256"] == instead["model_sha256"]
    assert instead["data"]["evaluated_on"] == "validation"
    assert instead["final_accuracy"] == beside["metrics"]["validation-accuracy"]["final"]


def test_tuning_never_sees_the_test_examples() -> None:
    """Trials have the results of runs on the validation examples; their names say so."""
    experiment = Experiment.of(config({"run.horizon": 6.0, "run.target_accuracy": 0.9, "run.keep": ["last"]}))
    tuning = experiment.tune("fedavg", (0.3, 0.1), seeds=[101])
    assert tuning.note == experiment.chosen_on == "chosen on the validation examples; the test examples were not used"
    assert len(tuning.placed["fedavg"]) == 2
    for place in tuning.placed["fedavg"]:
        changes = {**place.trial.changes, "run.seed": 101, "run.stop_at_target": True}
        alone = experiment.with_({**changes, "run.evaluate_on": "validation"}).run().summary
        assert place.trial.accuracies == (alone["best_accuracy"],)
        assert place.trial.measure.name == "validation accuracy"
        tested = experiment.with_(changes).run().summary
        assert tested["metrics"]["validation-accuracy"]["best"] == alone["best_accuracy"] != tested["best_accuracy"]

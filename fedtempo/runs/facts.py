"""Facts of a run that are known before it begins, whether its clients are simulated or real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtempo.data.dataset import Dataset
from fedtempo.learning.metrics import facts_of as metric_facts
from fedtempo.learning.training import Training
from fedtempo.parts.inputs import Array, is_several, shape_as_json
from fedtempo.record.client_measures import Kind
from fedtempo.record.client_measures import facts_of as client_facts
from fedtempo.record.metric import Measure, measure_of
from fedtempo.record.validation import facts_of as validation_facts
from fedtempo.record.validation import validation_name
from fedtempo.runs.config import Config
from fedtempo.runtime.run_settings import RunSettings
from fedtempo.runtime.transfers import TransferSizes
from fedtempo.version import __version__


def facts_of(
    config: Config,
    dataset: Dataset,
    training: Training,
    *,
    n_clients: int,
    n_train: int,
    n_test: int,
    sizes: TransferSizes,
    own_tests: Sequence[Kind] = (),
    n_validation: int | None = None,
) -> dict[str, Any]:
    """Return the facts that every run records.

    n_train, n_test: numbers of training examples at all clients and of test examples. sizes: of transfers. own_tests:
    which models are evaluated on clients' own test sets. n_validation: number of validation examples, None without a
    validation set.
    """
    data = {
        "source": dataset.name,
        "train": n_train,
        "test": n_test,
        "sha256": dataset.sha256,
        "task": dataset.task,
        "about": dataset.about,
        "warnings": list(dataset.warnings),
        **({} if n_validation is None else {"validation": n_validation}),
        **({"evaluated_on": "validation"} if config.run.evaluate_on == "validation" else {}),
        **({"changes": sorted({drift.at for drift in config.quality.drift})} if config.quality.drift else {}),
    }
    return {
        "strategy": config.strategy_name,
        "label": config.label,
        "seed": config.run.seed,
        "n_clients": n_clients,
        "horizon_s": config.run.horizon,
        "target_accuracy": config.run.target_accuracy,
        **_measured(config.run, own_tests, measure_of(data), validates=n_validation is not None),
        "data": data,
        "network": {
            "input_shape": shape_as_json(dataset.test_x),
            "inputs": _kind_of_inputs(dataset.test_x),
            "outputs": dataset.n_classes,
        },
        "version": __version__,
        "size_bytes": sizes.model,
        **({} if config.server.compression is None else {"download_bytes": sizes.down, "upload_bytes": sizes.up}),
        "label_prior": training.prior or None,
    }


def _measured(run: RunSettings, own_tests: Sequence[Kind], measure: Measure, *, validates: bool) -> dict[str, Any]:
    """Return the facts about further measures and a target among them, if there are any.

    measure: of the data. validates: whether there is a validation set, which the target is then measured on.
    """
    metrics = metric_facts(run.metrics)
    if validates:
        metrics += validation_facts(measure, metrics)
    over_clients = [fact for kind in own_tests for fact in client_facts(kind, measure)]
    facts = {"metrics": metrics, "client_measures": over_clients}
    found: dict[str, Any] = {name: each for name, each in facts.items() if each}
    if (run.target is not None or validates) and (goal := run.goal) is not None:
        if validates and goal.name not in run.client_measures:
            goal = goal._replace(name=validation_name(goal.name, measure))
            found["target_accuracy"] = None
        if goal.name == "accuracy":
            found["target_accuracy"] = goal.value
        else:
            known = {each["name"]: each for each in (*metrics, *over_clients)}
            found["target"] = {"as_share": False, **known.get(goal.name, {}), **goal._asdict()}
    return found


def _kind_of_inputs(x: Array) -> str:
    return "several" if is_several(x) else "symbols" if x.dtype == np.int64 else "numbers"

"""Names of measures on the validation set, and which measures decide."""

from __future__ import annotations

import numpy as np

from fedtempo.record.metric import CLASSES, NUMBERS, TOKENS, measure_of
from fedtempo.record.validation import deciding, facts_of, named, validation_name


def test_measures_on_the_validation_set_have_names_of_their_own() -> None:
    assert validation_name("accuracy", CLASSES) == "validation-accuracy"
    assert validation_name("accuracy", NUMBERS) == "validation-r2"
    assert validation_name("f1-macro", CLASSES) == "validation-f1-macro"
    metrics = [{"name": "f1-macro", "better": "higher", "as_share": True}]
    assert [fact["name"] for fact in facts_of(CLASSES, metrics)] == [
        "validation-f1-macro",
        "validation-accuracy",
        "validation-loss",
    ]
    r2 = [{"name": "r2", "better": "higher", "as_share": False}]  # the same as the accuracy of a regression
    assert facts_of(NUMBERS, r2) == [
        {"name": "validation-r2", "better": "higher", "as_share": False},
        {"name": "validation-loss", "better": "lower", "as_share": False},
        {"name": "validation-mae", "better": "lower", "as_share": False},
    ]


def test_values_with_one_number_are_recorded_by_these_names() -> None:
    values = {"accuracy": 0.5, "loss": 1.5, "mae": None, "by-class": np.ones(2), "auc": 0.75}
    assert named(values, TOKENS) == {"validation-token_accuracy": 0.5, "validation-loss": 1.5, "validation-auc": 0.75}


def test_the_validation_set_and_statistics_over_clients_decide() -> None:
    recorded = {
        "accuracy": 0.9,
        "loss": 0.1,
        "auc": 0.9,
        "validation-r2": 0.5,
        "validation-loss": 1.5,
        "clients-mean": 0.7,
    }
    assert deciding(recorded, NUMBERS, ["clients-mean", "clients-std"]) == {
        "validation-r2": 0.5,
        "validation-loss": 1.5,
        "r2": 0.5,
        "accuracy": 0.5,
        "loss": 1.5,
        "clients-mean": 0.7,
    }


def test_a_measure_says_that_it_is_of_the_validation_set() -> None:
    measure = measure_of({"task": "numbers", "evaluated_on": "validation"})
    assert (measure.name, measure.key) == ("validation R²", "r2")
    assert measure.beside(4.0, 1.0) == {"rmse": 2.0, "mae": 1.0}
    assert measure_of({"task": "numbers"}) == NUMBERS

"""Patience: which evaluations count as improvements, and when it runs out."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from fedtempo.errors import ConfigError
from fedtempo.record.metric import CLASSES, NUMBERS, TOKENS, Measure
from fedtempo.runtime.patience import Patience, Plateau

FURTHER = {
    "f1-macro": Measure("f1-macro", "f1-macro", as_share=True),
    "cost": Measure("cost", "cost", as_share=False, better="lower"),
    "odd": Measure("odd", "odd", as_share=False, better=None),
}


def ends_at(
    accuracies: list[float], *, versions: list[int] | None = None, losses: list[float] | None = None, **patience: Any
) -> int | None:
    """Return the index of the evaluation at which patience runs out."""
    plateau = Plateau(Patience(**patience), CLASSES, {})
    for i, accuracy in enumerate(accuracies):
        version = i if versions is None else versions[i]
        loss = 1.0 if losses is None else losses[i]
        if plateau.add(10.0 * i, version, {"accuracy": accuracy, "loss": loss, "mae": None}):
            return i
    return None


def test_the_run_ends_after_so_many_versions_without_improvement() -> None:
    accuracies = [0.1, 0.5, 0.4, 0.5, 0.6, 0.6, 0.3, 0.2]  # equal is no improvement
    assert ends_at(accuracies, evaluations=1) == 2
    assert ends_at(accuracies, evaluations=2) == 3
    assert ends_at(accuracies, evaluations=3) == 7
    assert ends_at(accuracies, evaluations=4) is None


def test_an_improvement_must_exceed_min_delta() -> None:
    rising = [0.0, 0.125, 0.25, 0.375, 0.5]  # exact in binary, so that steps are exactly 0.125
    assert ends_at(rising, evaluations=2, min_delta=0.1) is None
    assert ends_at(rising, evaluations=2, min_delta=0.125) is None  # against the best: 0.25 improves on 0 by 0.25
    assert ends_at(rising, evaluations=1, min_delta=0.125) == 1


def test_slow_progress_counts_against_the_best() -> None:
    assert ends_at([0.5, 0.51, 0.52, 0.53], evaluations=3, min_delta=0.1) == 3


def test_a_version_evaluated_again_counts_once() -> None:
    assert ends_at([0.5] * 6, versions=[0, 0, 0, 1, 1, 2], evaluations=2) == 5


def test_values_that_are_not_finite_do_not_improve() -> None:
    assert ends_at([nan, 0.2, nan, inf], evaluations=2) == 3
    assert ends_at([nan, nan, 0.2], evaluations=2) == 1


def test_a_loss_improves_downwards() -> None:
    losses = [2.0, 1.0, 1.5, 0.5, 0.5, 0.75]
    assert ends_at([0.5] * 6, losses=losses, evaluations=2, measure="loss") == 5


@pytest.mark.parametrize(
    ("name", "measure", "values", "value"),
    [
        ("accuracy", NUMBERS, {"accuracy": 0.25, "loss": 4.0, "mae": 1.5}, 0.25),
        ("r2", NUMBERS, {"accuracy": 0.25, "loss": 4.0, "mae": 1.5}, 0.25),
        ("rmse", NUMBERS, {"accuracy": 0.25, "loss": 4.0, "mae": 1.5}, 2.0),
        ("mae", NUMBERS, {"accuracy": 0.25, "loss": 4.0, "mae": 1.5}, 1.5),
        ("token_accuracy", TOKENS, {"accuracy": 0.25, "loss": 0.0, "mae": None}, 0.25),
        ("perplexity", TOKENS, {"accuracy": 0.25, "loss": 0.0, "mae": None}, 1.0),
        ("f1-macro", CLASSES, {"accuracy": 0.25, "loss": 0.0, "mae": None, "f1-macro": 0.75}, 0.75),
    ],
)
def test_measures_by_task(name: str, measure: Measure, values: dict[str, Any], value: float) -> None:
    plateau = Plateau(Patience(evaluations=1, measure=name), measure, FURTHER)
    assert not plateau.add(0.0, 1, values)
    assert plateau.add(1.0, 2, values)
    assert plateau.reason.endswith(f"(best: {value:.4g} at 0 s)")


def test_evaluations_without_the_measure_do_not_count() -> None:
    plateau = Plateau(Patience(evaluations=2, measure="cost"), CLASSES, FURTHER)
    costs = [8.0, None, 4.0, None, None, 5.0, None, 4.0]  # None: of an evaluation that did not measure it
    ends = [plateau.add(float(i), i, {} if cost is None else {"cost": cost}) for i, cost in enumerate(costs)]
    assert ends == [False] * 7 + [True]
    assert plateau.reason == "cost did not improve in the last 2 evaluated versions (best: 4 at 2 s)"


def test_which_values_are_better_must_be_known() -> None:
    with pytest.raises(ConfigError, match=r"run\.patience\.measure = 'odd': it is not known which values are better"):
        Plateau(Patience(evaluations=1, measure="odd"), CLASSES, FURTHER)


def test_an_unknown_measure_is_named_with_those_that_exist() -> None:
    with pytest.raises(ConfigError) as caught:
        Plateau(Patience(evaluations=1, measure="mea"), NUMBERS, {})
    assert str(caught.value) == (
        "run.patience.measure = 'mea': these data have no such measure; did you mean 'mae'? "
        "(choose from loss, mae, r2, rmse)"
    )
    with pytest.raises(ConfigError, match=r"run\.patience\.measure = 'perplexity': these data have no such measure"):
        Plateau(Patience(evaluations=1, measure="perplexity"), CLASSES, {})


def test_the_reason_says_what_did_not_improve() -> None:
    plateau = Plateau(Patience(evaluations=2, min_delta=0.01), CLASSES, {})
    for version, accuracy in enumerate([0.8, 0.805, 0.79]):
        plateau.add(5.0 * version, version, {"accuracy": accuracy, "loss": 1.0, "mae": None})
    assert plateau.reason == (
        "accuracy did not improve by more than 0.01 in the last 2 evaluated versions (best: 0.8 at 0 s)"
    )

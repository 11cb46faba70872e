"""Patience: which evaluations count as improvements, and when it runs out."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from fedtempo.errors import ConfigError
from fedtempo.record.metric import CLASSES, NUMBERS, TOKENS, Measure
from fedtempo.record.recorder import EvaluationRow
from fedtempo.runtime.patience import Patience, Plateau


def ends_at(
    accuracies: list[float], *, versions: list[int] | None = None, losses: list[float] | None = None, **patience: Any
) -> int | None:
    """Return the index of the evaluation at which patience runs out."""
    plateau = Plateau(Patience(**patience), CLASSES)
    for i, accuracy in enumerate(accuracies):
        version = i if versions is None else versions[i]
        row = EvaluationRow(10.0 * i, version, accuracy, 1.0 if losses is None else losses[i], None)
        if plateau.add(row.time, row.version, row):
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
    ("name", "measure", "row", "value"),
    [
        ("accuracy", NUMBERS, EvaluationRow(0.0, 1, 0.25, 4.0, 1.5), 0.25),
        ("r2", NUMBERS, EvaluationRow(0.0, 1, 0.25, 4.0, 1.5), 0.25),
        ("rmse", NUMBERS, EvaluationRow(0.0, 1, 0.25, 4.0, 1.5), 2.0),
        ("mae", NUMBERS, EvaluationRow(0.0, 1, 0.25, 4.0, 1.5), 1.5),
        ("token_accuracy", TOKENS, EvaluationRow(0.0, 1, 0.25, 0.0, None), 0.25),
        ("perplexity", TOKENS, EvaluationRow(0.0, 1, 0.25, 0.0, None), 1.0),
    ],
)
def test_measures_by_task(name: str, measure: Measure, row: EvaluationRow, value: float) -> None:
    plateau = Plateau(Patience(evaluations=1, measure=name), measure)
    assert not plateau.add(row.time, row.version, row)
    assert plateau.add(1.0, 2, row._replace(version=2))
    assert plateau.reason.endswith(f"(best: {value:.4g} at 0 s)")


def test_an_unknown_measure_is_named_with_those_that_exist() -> None:
    with pytest.raises(ConfigError) as caught:
        Plateau(Patience(evaluations=1, measure="mea"), NUMBERS)
    assert str(caught.value) == (
        "run.patience.measure = 'mea': these data have no such measure; did you mean 'mae'? "
        "(choose from loss, mae, r2, rmse)"
    )
    with pytest.raises(ConfigError, match=r"run\.patience\.measure = 'perplexity': these data have no such measure"):
        Plateau(Patience(evaluations=1, measure="perplexity"), CLASSES)


def test_the_reason_says_what_did_not_improve() -> None:
    plateau = Plateau(Patience(evaluations=2, min_delta=0.01), CLASSES)
    for version, accuracy in enumerate([0.8, 0.805, 0.79]):
        plateau.add(5.0 * version, version, EvaluationRow(0.0, version, accuracy, 1.0, None))
    assert plateau.reason == (
        "accuracy did not improve by more than 0.01 in the last 2 evaluated versions (best: 0.8 at 0 s)"
    )

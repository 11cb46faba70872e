"""From the results of an evaluation's batches to an `Evaluation`: the same on every executor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtempo.learning.evaluation import Part, combine, parts
from fedtempo.learning.metric_values import Metrics
from fedtempo.learning.metrics import Gathers
from fedtempo.runtime.executors import Evaluation, On

if TYPE_CHECKING:
    from fedtempo.runtime.executors.job import Job


class Scoring:
    """The batches of a job's test sets, and what follows from their results.

    gathers: what each batch of the test or validation set returns for further metrics.
    """

    def __init__(self, job: Job) -> None:
        self._metrics = Metrics(job.metrics, job.n_classes)
        self.gathers: Gathers = self._metrics.gathers
        self._targets = {"test": job.test_y, "validation": job.validation_y} if self.gathers else {}
        self._parts = {"test": job.test_parts}
        if job.validation_y is not None:
            self._parts["validation"] = parts(len(job.validation_y), job.evaluation_batch)
        self._ends: Any = np.zeros(0, dtype=np.int64)
        if job.client_tests is not None:
            self._ends = job.client_tests.ends
            self._parts["clients"] = parts(int(self._ends[-1]), job.evaluation_batch)

    def parts(self, on: On) -> list[tuple[int, int]]:
        """Return the batches as (start, stop), of one client's own test set as one."""
        if isinstance(on, str):
            return self._parts[on]
        return [(int(self._ends[on - 1]) if on else 0, int(self._ends[on]))]

    def evaluation(self, results: Sequence[Part], on: On) -> Evaluation:
        """Return the evaluation that these results of all batches, in order, amount to."""
        batches = self.parts(on)
        size = batches[-1][1] - batches[0][0] if batches else 0
        accuracy, loss, *errors = combine([result.sums for result in results], size)
        evaluation = Evaluation(accuracy, loss, errors[0] if errors else None)
        if on == "clients":
            return replace(evaluation, clients=self._by_client(results))
        if isinstance(on, str) and (targets := self._targets.get(on)) is not None and size:
            gathered = np.concatenate([_gathered(result) for result in results])
            return replace(evaluation, metrics=self._metrics.of(targets, gathered, math.isfinite(loss)))
        return evaluation

    def _by_client(self, results: Sequence[Part]) -> Any:
        """Return each client's mean credit and loss (and absolute error), (clients, 2 or 3); NaN without examples.

        As `combine`, a credit is at least -1, and NaN if the client's loss is not finite.
        """
        scores = np.concatenate([_gathered(result) for result in results], axis=1)
        starts = np.concatenate([[0], self._ends[:-1]])
        counts = self._ends - starts
        held = counts > 0
        means = np.full((len(counts), len(scores)), np.nan)
        means[held] = (np.add.reduceat(scores, starts[held], axis=1) / counts[held]).T
        is_finite = np.isfinite(means[:, 1])
        means[:, 0] = np.where(is_finite, np.maximum(means[:, 0], -1.0), np.nan)
        return means


def _gathered(result: Part) -> Any:
    assert result.gathered is not None
    return result.gathered

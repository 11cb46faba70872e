"""From the results of an evaluation's batches to an `Evaluation`: the same on every executor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtempo.data.phases import in_phase, name_and_phase
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
        self._parts = job.tests_of("test", len(job.test_y))
        if job.validation_y is not None:
            self._parts |= job.tests_of("validation", len(job.validation_y))
        self._ends: Any = np.zeros(0, dtype=np.int64)
        self._holders: dict[str, slice] = {}
        """Holders of own test sets (`Phases.holder`) that an evaluation on all clients is of."""
        if job.client_tests is not None:
            self._ends = job.client_tests.ends
            n_phases = 1 if job.phases is None else len(job.phases.tests)
            n_clients = len(self._ends) // n_phases
            for phase in range(n_phases):
                name = in_phase("clients", phase)
                holders = self._holders[name] = slice(phase * n_clients, (phase + 1) * n_clients)
                start, stop = self._start(holders.start), int(self._ends[holders.stop - 1])
                self._parts[name] = [(start + a, start + b) for a, b in parts(stop - start, job.evaluation_batch)]

    def parts(self, on: On) -> list[tuple[int, int]]:
        """Return the batches as (start, stop), of one client's own test set as one."""
        if isinstance(on, str):
            return self._parts[on]
        return [(self._start(on), int(self._ends[on]))]

    def _start(self, holder: int) -> int:
        """Return where a holder's own test set starts."""
        return int(self._ends[holder - 1]) if holder else 0

    def evaluation(self, results: Sequence[Part], on: On) -> Evaluation:
        """Return the evaluation that these results of all batches, in order, amount to."""
        batches = self.parts(on)
        size = batches[-1][1] - batches[0][0] if batches else 0
        accuracy, loss, *errors = combine([result.sums for result in results], size)
        evaluation = Evaluation(accuracy, loss, errors[0] if errors else None)
        if on in self._holders:
            return replace(evaluation, clients=self._by_client(results, self._holders[str(on)]))
        targets = self._targets.get(name_and_phase(on)[0]) if isinstance(on, str) else None
        if targets is not None and size:
            gathered = np.concatenate([_gathered(result) for result in results])
            targets = targets[batches[0][0] : batches[-1][1]]
            return replace(evaluation, metrics=self._metrics.of(targets, gathered, math.isfinite(loss)))
        return evaluation

    def _by_client(self, results: Sequence[Part], holders: slice) -> Any:
        """Return each client's mean credit and loss (and absolute error), (clients, 2 or 3); NaN without examples.

        As `combine`, a credit is at least -1, and NaN if the client's loss is not finite.
        """
        scores = np.concatenate([_gathered(result) for result in results], axis=1)
        ends = self._ends[holders] - self._start(holders.start)
        starts = np.concatenate([[0], ends[:-1]])
        counts = ends - starts
        held = counts > 0
        means = np.full((len(counts), len(scores)), np.nan)
        means[held] = (np.add.reduceat(scores, starts[held], axis=1) / counts[held]).T
        is_finite = np.isfinite(means[:, 1])
        means[:, 0] = np.where(is_finite, np.maximum(means[:, 0], -1.0), np.nan)
        return means


def _gathered(result: Part) -> Any:
    assert result.gathered is not None
    return result.gathered

"""Evaluations on the clients' own test sets: of the global model, and of each client's own model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.phases import in_phase
from fedtempo.record.client_measures import Kind, names_of
from fedtempo.record.fairness import ClientScores, spread
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.executors import Evaluation, Evaluator, Pending

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClientTesting:
    """How clients' own test sets are used.

    examples: number of test examples of each client, (clients,). kinds: which models are evaluated. every: evaluations
    from one of these to the next; 0: only at the end of the run.
    """

    examples: Ints
    kinds: Sequence[Kind] = ("clients",)
    every: int = 1


class PendingClients:
    """Evaluations in progress of one version on the clients' own test sets."""

    def __init__(
        self,
        whole: Pending[Evaluation] | None,
        own: Sequence[tuple[int, Pending[Evaluation]]],
        examples: Ints,
    ) -> None:
        """whole: of the global model on all clients; None if none. own: of clients' own models, by client."""
        self._whole, self._own, self._examples = whole, own, examples
        self._result: list[ClientScores] | None = None

    def result(self) -> list[ClientScores]:
        """Wait for the results and return them, one for each kind of model."""
        if self._result is None:
            self._result = [*self._of_whole(), *self._of_own()]
        return self._result

    def done(self) -> bool:
        return (self._whole is None or self._whole.done()) and all(pending.done() for _, pending in self._own)

    def _of_whole(self) -> list[ClientScores]:
        if self._whole is None:
            return []
        scores = self._whole.result().clients
        assert scores is not None
        return [self._scores("clients", np.flatnonzero(self._examples), scores[self._examples > 0])]

    def _of_own(self) -> list[ClientScores]:
        if not self._own:
            return []
        results = [pending.result() for _, pending in self._own]
        scores = [[each.accuracy, each.loss, *([] if each.mae is None else [each.mae])] for each in results]
        return [self._scores("own", np.array([client for client, _ in self._own]), np.array(scores, dtype=np.float64))]

    def _scores(self, kind: Kind, clients: Ints, scores: Any) -> ClientScores:
        return ClientScores(kind, clients, self._examples[clients], scores)


def measures_of(results: Sequence[ClientScores]) -> Mapping[str, float]:
    """Return the statistics over clients by the names of measures."""
    values: dict[str, float] = {}
    for result in results:
        statistics = spread(result.scores[:, 0], result.examples)
        values |= {full: statistics[name] for name, full in names_of(result.kind).items()}
    return values


class ClientEvaluations:
    """Starts evaluations on the clients' own test sets.

    own: the clients whose own models are evaluated, drawn once: with the local parts that they have when a version is
    committed, and tuned to them if the run personalises. The global model is evaluated on all clients in one pass.
    """

    def __init__(self, executor: Evaluator, testing: ClientTesting, own: Sequence[ClientState]) -> None:
        self.every = testing.every
        self._executor, self._examples = executor, testing.examples
        self._owners = [owner for owner in own if testing.examples[owner.client.id]] if "own" in testing.kinds else []
        self._with_whole = "clients" in testing.kinds
        self._parts: list[tuple[int, Any]] = []

    def take_parts(self) -> None:
        """Take the local parts that clients have now."""
        self._parts = [(owner.client.id, owner.kept) for owner in self._owners]

    def start(self, location: Any, phase: int = 0) -> PendingClients:
        """Start evaluating the model at `location`. phase: of the clients' examples (`fedtempo.data.phases`)."""
        whole = self._executor.evaluate(location, on=in_phase("clients", phase)) if self._with_whole else None
        first = phase * len(self._examples)
        own = [(client, self._executor.evaluate(location, kept, first + client)) for client, kept in self._parts]
        return PendingClients(whole, own, self._examples)

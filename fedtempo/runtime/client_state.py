"""State of each client, and of each visit in progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedtempo.federation import Client, Model, Work
from fedtempo.fleet.fleet import Fleet
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Pending, Trained
from fedtempo.runtime.fair_lock import FairLock


class VisitState:
    """State of one visit (`Visit.state`).

    at: time that the visit's phases have reached, seconds; the clock may be behind it. link_factor: transfer times of
    the visit relative to their means. trains: False if it only evaluates or sends examples. training: the pending
    training until the model is sent. patience_s: seconds of work for which the server still waits. silent: the client
    no longer answers. faulty: the fleet's faults affect the visit. flaw: flaw of the update in a run without training,
    where no model can show it. neighbour: the client to which it sends its model directly. work: the work announced
    when the visit began. keeps: whether its training changes what the client keeps.
    """

    at: float = 0.0
    link_factor: float = 1.0
    download_s: float = 0.0
    compute_s: float = 0.0
    received_at: float | None = None
    training: Pending[Trained] | None = None
    patience_s: float = math.inf
    silent: bool = False
    faulty: bool = False
    flaw: str | None = None
    statistics: Mapping[str, float] | None = None
    upload_s: float = 0.0
    neighbour: ClientState | None = None
    work: Work | None = None
    keeps: bool = False

    def __init__(self, number: int, group: int | None, queued: float, trains: bool = True) -> None:
        self.number, self.group, self.queued, self.trains = number, group, queued, trains


class ClientState:
    """A client's turns, its mean times, what it keeps, and the models that neighbours have sent it.

    visits: number of trainings begun so far. has_base: whether it has received what does not travel. kept: location of
    what it keeps from visit to visit, if anything. rng(purpose, client): makes the client's generators.
    """

    __slots__ = (
        "_configured",
        "_delivered",
        "_failures",
        "_fleet",
        "_planned",
        "_rng",
        "_training",
        "client",
        "download_s",
        "has_base",
        "kept",
        "turns",
        "upload_s",
        "visits",
    )

    def __init__(
        self,
        client: Client,
        fleet: Fleet,
        training: Training,
        down_bytes: int,
        up_bytes: int,
        rng: Callable[[str, int], np.random.Generator],
    ) -> None:
        """down_bytes, up_bytes: of a model in each direction."""
        self.client = client
        self.turns = FairLock()
        self.visits = 0
        self.has_base = False
        self.kept: Any = None
        self._delivered: set[Model] | None = None
        self.download_s = fleet.links.download_s(client.id, down_bytes)
        self.upload_s = fleet.links.upload_s(client.id, up_bytes)
        self._fleet, self._rng = fleet, rng
        self._failures: np.random.Generator | None = None
        self._configured = max(1, training.examples_per_visit(client.num_examples))
        self._training: Training | None = None
        self._planned = 0, 0.0

    def failures(self) -> np.random.Generator:
        """Return the generator that decides which of the client's visits fail, and when."""
        if self._failures is None:
            self._failures = self._rng("failures", self.client.id)
        return self._failures

    def takes_delivered(self, model: Model) -> bool:
        """Return whether another client sent `model` to this one directly, and forget that it did."""
        if not self._delivered or model not in self._delivered:
            return False
        self._delivered.discard(model)
        return True

    def deliver(self, model: Model) -> None:
        """Note that another client has sent `model` to this one directly."""
        if self._delivered is None:
            self._delivered = set()
        self._delivered.add(model)

    def planned(self, training: Training) -> tuple[int, float]:
        """Return the number of examples that a visit with this training processes, and the mean seconds for them."""
        if training is not self._training:
            examples = training.examples_per_visit(self.client.num_examples)
            self._training, self._planned = training, (examples, self.mean_compute_s(examples))
        return self._planned

    def mean_compute_s(self, examples: int | None = None) -> float:
        """Return the mean seconds to compute on `examples` (default: those of a configured visit).

        With unit "s/visit" the speed is the time of a configured visit, and other work takes proportionally long.
        """
        speed = self._fleet.speed
        examples = self._configured if examples is None else examples
        seconds = speed.client_mean_s(self.client.id, examples)
        return seconds * examples / self._configured if speed.unit == "s/visit" else seconds

    def as_configured_s(self, seconds: float, examples: int) -> float:
        """Scale the seconds of a visit that processed `examples` to a configured visit."""
        return seconds * self._configured / max(1, examples)

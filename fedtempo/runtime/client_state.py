"""What the runtime keeps of each client, and of each visit while it lasts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from fedtempo.federation import Client, Model
from fedtempo.fleet.fleet import Fleet
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Pending, Trained
from fedtempo.runtime.fair_lock import Turns


class Stay:
    """One visit (`Visit.state`). link_factor: this visit's times on the link over their means.

    at: the visit's own time, to which its phases have brought it; the clock may be behind. trains: False where the
    client sends raw examples instead. training: what the executor was given, until the model is sent. patience_s: how
    much longer the server waits while the client works. silent: the client does not answer any more. faulty: whether a
    fault of the fleet makes it go wrong. flaw: that of its update, where nothing is trained that could show it.
    neighbour: to which it sends its model directly.
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

    def __init__(self, number: int, group: int | None, queued: float, trains: bool = True) -> None:
        self.number, self.group, self.queued, self.trains = number, group, queued, trains


class ClientState:
    """A client's turns, its mean times, and what it holds.

    visits: begun so far. rng(purpose, client): makes the client's generators, those of failures when it is first asked.
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
        "turns",
        "upload_s",
        "visits",
    )

    def __init__(
        self,
        client: Client,
        fleet: Fleet,
        training: Training,
        size_bytes: int,
        rng: Callable[[str, int], np.random.Generator],
    ) -> None:
        self.client = client
        self.turns = Turns()
        self.visits = 0
        self._delivered: set[Model] | None = None
        self.download_s = fleet.links.download_s(client.id, size_bytes)
        self.upload_s = fleet.links.upload_s(client.id, size_bytes)
        self._fleet, self._rng = fleet, rng
        self._failures: np.random.Generator | None = None
        self._configured = max(1, training.examples_per_visit(client.num_examples))
        self._training: Training | None = None
        self._planned = 0, 0.0

    def failures(self) -> np.random.Generator:
        """Says which of the client's visits fail, and when."""
        if self._failures is None:
            self._failures = self._rng("failures", self.client.id)
        return self._failures

    def takes_delivered(self, model: Model) -> bool:
        """Whether another client sent `model` to this one directly; it is used up by that."""
        if not self._delivered or model not in self._delivered:
            return False
        self._delivered.discard(model)
        return True

    def deliver(self, model: Model) -> None:
        """Another client has sent `model` to this one directly."""
        if self._delivered is None:
            self._delivered = set()
        self._delivered.add(model)

    def planned(self, training: Training) -> tuple[int, float]:
        """Examples that a visit with this training processes, and the mean seconds to compute on them."""
        if training is not self._training:
            examples = training.examples_per_visit(self.client.num_examples)
            self._training, self._planned = training, (examples, self.mean_compute_s(examples))
        return self._planned

    def mean_compute_s(self, examples: int | None = None) -> float:
        """Mean seconds to compute on so many examples, those of a configured visit by default.

        "s/visit" is the time of a configured visit, so more work takes proportionally longer.
        """
        speed = self._fleet.speed
        examples = self._configured if examples is None else examples
        seconds = speed.client_mean_s(self.client.id, examples)
        return seconds * examples / self._configured if speed.unit == "s/visit" else seconds

    def as_configured_s(self, seconds: float, examples: int) -> float:
        """What a visit that computed `seconds` on so many examples says of a configured visit."""
        return seconds * self._configured / max(1, examples)

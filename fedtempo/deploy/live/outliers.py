"""Updates far outside the others: a robust bound on how far a client's update may move a model.

Each client has one vote, the length of its latest update of a kind, whether it was accepted or not. An update may be
`factor` times as long as the median of the other clients' votes, and more if these differ much among themselves: the
rule is that of the median and the median absolute deviation, on logarithms. As the median of several clients lies
among the honest ones' votes as long as liars are fewer, no liar can have an honest client's update rejected.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedtempo.deploy.live.lengths import Length
from fedtempo.deploy.live.visits import LiveVisits, LiveVisitState
from fedtempo.federation import Visit

_DEVIATIONS = 5.0
"""Robust standard deviations (of logarithms) above the median that are accepted in any case."""

_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""

_NEGLIGIBLE = 0.01
"""Part of the model's length below which votes count as this part: what is that short does no harm."""

_MAX_LENGTH = 1e6
"""Longest update in lengths of the model, or of one with entries of 1, while there are too few clients to compare."""

_FEWEST = 2
"""Votes of others that are needed for a comparison: between two clients nobody can tell who lies."""

_AGAIN_S = 1.0
"""Seconds after which a wait for other clients looks again whether their visits are still in progress."""


class Outliers:
    """Judges the updates of one run. factor: see the module; 0 accepts all of them."""

    def __init__(self, factor: float, visits: LiveVisits, clock: Callable[[], float]) -> None:
        """clock: returns the loop's time, in which a visit's `hoped` is."""
        self._factor, self._visits, self._clock = factor, visits, clock
        self._votes: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}
        """Length and work of each client's latest update, by procedure and part, and client."""
        self._waiting: set[Visit[LiveVisitState]] = set()

    async def judge(
        self, visit: Visit[LiveVisitState], procedure: str, work: float, lengths: Sequence[Sequence[float | str]]
    ) -> str | None:
        """Return why an update is rejected; None if it is accepted.

        procedure: kind of the update; only those of the same kind are compared. work: steps times learning rate. An
        update that is too long beside the others waits for the visits of other clients that are in progress when it
        arrives, since all clients may have moved far. One that cannot be compared yet waits for those of them that are
        not overdue.
        """
        if not self._factor:
            return None
        parts = [Length(*part) for part in lengths]  # type: ignore[arg-type]
        client, work = visit.client.id, max(work, 1e-12)
        for part in parts:
            self._votes.setdefault((procedure, part.of), {})[client] = (part.length, work)
        others = set(self._visits.in_progress()) - {visit}
        self._waiting.add(visit)
        try:
            while True:
                few = any(len(self._others(client, procedure, part)) < _FEWEST for part in parts)
                flaw = self._flaw(client, procedure, work, parts)
                pending = self._pending(others, few) if few or flaw is not None else set()
                if not pending:
                    return flaw
                await asyncio.wait(pending, timeout=_AGAIN_S, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)  # the other update is judged first, which counts its vote
        finally:
            self._waiting.discard(visit)

    def _pending(self, others: set[Visit[LiveVisitState]], few: bool) -> set[asyncio.Future[Any]]:
        """Return the calls of these visits that are in progress; without those that are overdue if `few`."""
        return {
            other.state.pending.future
            for other in others.intersection(self._visits.in_progress())
            if other not in self._waiting
            and other.state.pending is not None
            and not other.state.pending.future.done()
            and not (few and self._clock() >= other.state.hoped)
        }

    def _others(self, client: int, procedure: str, part: Length) -> list[tuple[float, float]]:
        return [vote for other, vote in self._votes[procedure, part.of].items() if other != client]

    def _flaw(self, client: int, procedure: str, work: float, parts: Sequence[Length]) -> str | None:
        """Return why an update is rejected with the votes so far."""
        for part in parts:
            at_most = _MAX_LENGTH * max(part.model, math.sqrt(part.size))
            if len(others := self._others(client, procedure, part)) >= _FEWEST:
                at_most = min(at_most, self._bound(part, work, others))
            if part.length > at_most:
                return (
                    f"its {part.of} has the length {part.length:.3g}, far outside the other clients'; at most "
                    f"{at_most:.3g} is accepted (deploy.max_change = {self._factor:g})"
                )
        return None

    def _bound(self, part: Length, work: float, others: Sequence[tuple[float, float]]) -> float:
        """Return the longest part that is accepted beside those of others; who works more may move further."""
        least = max(_NEGLIGIBLE * part.model, 1e-30)
        votes = np.log([max(length * max(1.0, work / own), least) for length, own in others])
        centre = float(np.median(votes))
        deviation = _NORMAL * float(np.median(np.abs(votes - centre)))
        return math.exp(min(700.0, centre + max(math.log(self._factor), _DEVIATIONS * deviation)))

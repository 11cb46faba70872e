"""Ways to break fedtempo on purpose, each of which some invariant must notice. Applied in the server's process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fedtempo.deploy import run as deploying
from fedtempo.deploy.live.event_log import EventLog, OperationEnded
from fedtempo.deploy.live.federation import LiveFederation
from fedtempo.deploy.live.loop import Instant
from fedtempo.deploy.live.messages import TrainingResult
from fedtempo.deploy.live.visits import LiveVisits
from fedtempo.federation import Client


def _counts_an_update_twice() -> None:
    average = LiveFederation.average

    async def twice(self: LiveFederation, updates: Sequence[Any], *arguments: Any, **options: Any) -> Any:
        return await average(self, [*updates, updates[0]], *arguments, **options)

    LiveFederation.average = twice  # type: ignore[method-assign,assignment]


def _leaves_an_update_out() -> None:
    average = LiveFederation.average

    async def fewer(self: LiveFederation, updates: Sequence[Any], *arguments: Any, **options: Any) -> Any:
        return await average(self, updates[1:] or updates, *arguments, **options)

    LiveFederation.average = fewer  # type: ignore[method-assign,assignment]


def _takes_another_update() -> None:
    """Count the statistics of the last update for this one, as if a reply had answered the wrong call."""
    note = LiveFederation._note_training
    last: list[TrainingResult] = []

    def noted(self: LiveFederation, visit: Any, result: TrainingResult, *others: Any) -> None:
        other = last[0] if last else result
        last[:] = [result]
        note(self, visit, replace(result, statistics=other.statistics), *others)

    LiveFederation._note_training = noted  # type: ignore[method-assign]


def _records_a_visit_twice() -> None:
    end = LiveVisits.end

    def ended(self: LiveVisits, visit: Any, outcome: str) -> None:
        state = visit.state
        if visit in self._held and outcome == "done":
            times = (visit.started, state.received_at, visit.computed, self._now)
            self._record(visit.client, visit.received.version, state, *times, outcome)
        end(self, visit, outcome)

    LiveVisits.end = ended  # type: ignore[method-assign]


def _forgets_what_it_has_written() -> None:
    read = EventLog._read

    def forgetful(self: EventLog, row: Any) -> Instant:
        instant = read(self, row)
        return replace(
            instant, events=tuple(event for event in instant.events if not isinstance(event, OperationEnded))
        )

    EventLog._read = forgetful  # type: ignore[method-assign]


def _leaves_a_client_busy() -> None:
    turn = LiveVisits._turn
    visited = set()

    async def never_again(self: LiveVisits, client: Client) -> bool:
        if client.id == 0 and client.id in visited:
            return False
        visited.add(client.id)
        return await turn(self, client)

    LiveVisits._turn = never_again  # type: ignore[method-assign]


def _leaves_its_files() -> None:
    deploying.forget = lambda folder: None


BREAKS: dict[str, Callable[[], None]] = {
    "counts an update twice": _counts_an_update_twice,
    "leaves an update out": _leaves_an_update_out,
    "takes another update": _takes_another_update,
    "records a visit twice": _records_a_visit_twice,
    "forgets what it has written": _forgets_what_it_has_written,
    "leaves a client busy": _leaves_a_client_busy,
    "leaves its files": _leaves_its_files,
}

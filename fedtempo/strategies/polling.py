"""Clients that train by themselves until the server polls them, a few at a time and at regular times."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Annotated, NamedTuple

from fedtempo.federation import Client, ClientUnavailable, Federation, Model, Visit, Work
from fedtempo.parts.fields import Count, Doc, Positive
from fedtempo.strategies.planning.polls import Expected, expected_steps, steps_within
from fedtempo.strategies.rounds import uniform_sample

PolledPerRound = Annotated[Count, Doc("number of clients that the server polls per round, uniformly; s in the paper")]
RoundSeconds = Annotated[
    Positive | None,
    Doc(
        "time from one poll to the next, seconds (default: the mean expected time of all clients' visits times the "
        "share of clients per round, so that an average client has just received a model and finished its local work)"
    ),
]


class Answer(NamedTuple):
    """What a polled client sends. start: the model that it began with. model: after `steps` local steps, maybe 0."""

    client: Client
    start: Model
    model: Model
    steps: int


class _Session(NamedTuple):
    """A client's training since its last poll. visit: None if there is no time for a single step."""

    start: Model
    steps: int
    visit: asyncio.Task[Visit | None] | None


class Polling:
    """Rounds in which the server polls a few clients, drawn uniformly, without waiting for their local work.

    A client starts from the model that it received at its last poll and takes its local steps until it is polled again,
    at most as many as configured. Nothing can interrupt a visit. But the clients of a round depend on its number only,
    so the server knows when a client will be polled next, and plans the steps that fit, as it estimates their times.
    A client that needs longer may answer until the round ends; after that it works on, and is left out of the round.
    A client that is lost gets the global model at its next poll.
    """

    def __init__(self, fed: Federation, tasks: asyncio.TaskGroup, per_round: int, round_s: float | None) -> None:
        self._fed, self._tasks = fed, tasks
        self.per_round = min(per_round, len(fed.clients))
        if round_s is None:
            visits_s = math.fsum(fed.estimate(client).visit_s for client in fed.clients)
            round_s = visits_s * self.per_round / len(fed.clients) ** 2
        self.round_s = round_s
        self._number, self._polled_at = 0, fed.now
        self._drawn = deque[list[Client]]()  # the clients of the rounds to come
        self._polls = [deque[int]() for _ in fed.clients]  # and of each client, the numbers of these rounds
        self._sessions: dict[int, _Session] = {}
        for client in fed.clients:
            self.begin(client, fed.model)

    def begin(self, client: Client, model: Model) -> None:
        """Send a model to a client, which trains it until its next poll."""
        steps = self._steps(client)
        visit = self._tasks.create_task(self._work(client, model, steps)) if steps else None
        self._sessions[client.id] = _Session(model, steps, visit)

    async def answers(self) -> list[Answer]:
        """Wait for the next round, poll its clients, and return the answers of those that have any, in ascending order.

        Then call `begin` for each client that answered.
        """
        await self._fed.sleep_until(self._polled_at + self.round_s)
        self._draw_until(self._number + 1)
        self._number, self._polled_at, clients = self._number + 1, self._fed.now, self._drawn.popleft()
        for client in clients:
            self._polls[client.id].popleft()
        sessions = [self._sessions[client.id] for client in clients]
        if visits := [session.visit for session in sessions if session.visit is not None]:
            await asyncio.wait(visits, timeout=self.round_s)
        async with asyncio.TaskGroup() as uploads:
            answers = [uploads.create_task(self._answer(*each)) for each in zip(clients, sessions)]
        return [answer for each in answers if (answer := each.result()) is not None]

    def expected(self, client: Client) -> Expected:
        """Return how many local steps a client is expected to take between two polls."""
        times, most = self._fed.estimate(client), self._fed.steps(client)
        chance = self.per_round / len(self._fed.clients)
        return expected_steps(chance, self.round_s, times.download_s + times.upload_s, times.compute_s / most, most)

    async def _answer(self, client: Client, session: _Session) -> Answer | None:
        if session.visit is None:
            return Answer(client, session.start, session.start, 0)
        if not session.visit.done():
            return None
        try:
            if (visit := session.visit.result()) is not None:
                update = await self._fed.upload(visit)
                return Answer(client, session.start, update.model, session.steps)
        except ClientUnavailable:
            pass
        self.begin(client, self._fed.model)
        return None

    async def _work(self, client: Client, model: Model, steps: int) -> Visit | None:
        """Run the first phases of a visit, download and training; return None if the client is lost."""
        try:
            visit = await self._fed.download(client, model)
            await self._fed.compute(visit, None if steps == self._fed.steps(client) else Work(steps=steps))
        except ClientUnavailable:
            return None
        return visit

    def _steps(self, client: Client) -> int:
        """Return how many local steps a client that begins now can take until it is polled."""
        times, most = self._fed.estimate(client), self._fed.steps(client)
        enough = math.ceil((self._fed.now - self._polled_at + times.download_s + times.compute_s) / self.round_s)
        self._draw_until(self._number + enough)
        polls = self._polls[client.id]
        rounds = polls[0] - self._number if polls else enough
        left_s = self._polled_at + rounds * self.round_s - self._fed.now - times.download_s
        return steps_within(left_s, times.compute_s / most, most)

    def _draw_until(self, number: int) -> None:
        """Draw the clients of the rounds up to this one; the first has the number 1."""
        for each in range(self._number + len(self._drawn) + 1, number + 1):
            drawn = uniform_sample(self._fed.clients, self.per_round, self._fed.rng("sampling", each))
            self._drawn.append(drawn)
            for client in drawn:
                self._polls[client.id].append(each)

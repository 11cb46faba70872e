"""What FedHusky and its paper's literal version share: clusters, a schedule, and groups that hop along it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, ClientUnavailable, Federation, Model, Update, Work
from fedtempo.parts.fields import STRICT, Doc, NonNegative, Positive
from fedtempo.strategies.forming import keep_forming
from fedtempo.strategies.grouping import ClusterChoice, CountWarmup, WarmupEpochs, find_clusters
from fedtempo.strategies.planning.hopping import Group, HoppingSchedule, Pace

OnLoss = Annotated[
    Literal["abort", "skip"], Doc("a group that loses a client ends and frees its later bookings, or skips it")
]
Rebook = Annotated[bool, Doc("move the rest of a late group to times when its clients are free")]


class Journey:
    """A living group's way along its stops. aborted: it ends because a client was lost."""

    def __init__(
        self,
        fed: Federation,
        schedule: HoppingSchedule,
        group: Group,
        released: Callable[[], None],
        *,
        abort_on_loss: bool,
        rebook: bool,
    ) -> None:
        """released: called whenever a client of the group is released."""
        self._fed, self._schedule, self._group, self._released = fed, schedule, group, released
        self._abort_on_loss, self._rebook = abort_on_loss, rebook
        self._position = 0
        self.alive, self.aborted = True, False

    @property
    def client(self) -> Client:
        """The client whose turn it is."""
        return self._fed.clients[self._group.client(self._position)]

    @property
    def at_last_stop(self) -> bool:
        """Whether no client comes after this one."""
        return self._position + 1 == len(self._group.stops)

    async def wait_for_turn(self) -> None:
        """Wait until the client may start: until its earlier bookings end."""
        await self._fed.sleep_until(self._schedule.may_start(self._group, self._position, self._fed.now))

    async def train(self, model: Model, work: Work | None = None, *, hand_over: bool = False) -> Update | None:
        """Train a model on the client; return None if the client is lost, at the booked end of its visit.

        work: how the visit differs from the configured training. hand_over: the client sends the result to the group's
        next client as well as to the server.
        """
        fed, group, position = self._fed, self._group, self._position
        successor = fed.clients[group.client(position + 1)] if hand_over and not self.at_last_stop else None
        try:
            return await fed.train(self.client, model, work, group=group.number, to=successor)
        except ClientUnavailable:
            await fed.sleep_until(self._schedule.ends(group, position))
            self.aborted = self._abort_on_loss
            return None

    def hop(self) -> None:
        """Release the client and turn to the next one; the group is no longer alive if there is none."""
        fed, schedule, client = self._fed, self._schedule, self.client
        schedule.learn(client.id, fed.estimate(client).visit_s)
        self.alive = schedule.goes_on(self._group, self._position, fed.now, rebook=self._rebook, abort=self.aborted)
        self._position += 1
        self._released()


@dataclass(frozen=True, config=STRICT)
class HoppingGroups:
    """Fields and steps of strategies whose groups hop along booked calendars; a subclass has `run`."""

    clusters: ClusterChoice = "models"
    warmup_epochs: WarmupEpochs = 3
    count_warmup: CountWarmup = True
    tick_s: Annotated[Positive, Doc("time step of the calendars, seconds")] = 0.1
    guard: Annotated[NonNegative, Doc("share added to every estimated visit before it is booked")] = 0.0
    max_wait: Annotated[NonNegative, Doc("longest wait of a model before a planned hop, seconds")] = 0.0
    on_loss: OnLoss = "abort"
    rebook: Rebook = True

    async def find_clusters(self, fed: Federation, *, even_speeds: bool = False) -> list[int]:
        """Return each client's cluster (step 1); see `grouping.find_clusters`."""
        return await find_clusters(fed, self.clusters, self.warmup_epochs, self.count_warmup, even_speeds=even_speeds)

    def schedule(
        self,
        fed: Federation,
        cluster: Sequence[int],
        *,
        paced: Pace | None = None,
        min_attempt_gap_s: float = 0.0,
        most_alive: int | None = None,
        first_group: np.random.Generator | None = None,
    ) -> HoppingSchedule:
        """Return the schedule that forms groups of one client of each cluster; see `HoppingSchedule`."""
        return HoppingSchedule(
            [fed.estimate(client).visit_s for client in fed.clients],
            cluster,
            horizon=fed.horizon,
            tick_s=self.tick_s,
            guard=self.guard,
            max_wait_s=self.max_wait,
            paced=paced,
            min_attempt_gap_s=min_attempt_gap_s,
            most_alive=most_alive,
            first_group=first_group,
        )

    async def form_groups(
        self, fed: Federation, schedule: HoppingSchedule, live: Callable[[Journey], Coroutine[Any, Any, None]]
    ) -> None:
        """Form groups until the horizon (steps 2, 4 and 5), and let each of them live."""

        def life(group: Group, released: Callable[[], None]) -> Coroutine[Any, Any, None]:
            abort = self.on_loss == "abort"
            return live(Journey(fed, schedule, group, released, abort_on_loss=abort, rebook=self.rebook))

        await keep_forming(fed, schedule, life)

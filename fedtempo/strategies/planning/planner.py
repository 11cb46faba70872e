"""What group planners share: durations, clusters, and calendars that change during a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from fedtempo.strategies.planning.calendars import Calendars
from fedtempo.strategies.planning.plan import Plan


class Planner:
    """Keeps the calendars of clients in clusters. All times are integer ticks, intervals half-open.

    durations: ticks of each client's visit, (n_clients,), positive. cluster: (n_clients,), in 0..n_clusters - 1.
    horizon: last tick at which a group may end. calendars: used and updated by this planner (default: empty).
    past_busy: ticks of work that are not in the calendars, (n_clients,).
    Raises ValueError naming an unusable argument.
    """

    def __init__(
        self,
        durations: Sequence[int],
        cluster: Sequence[int],
        n_clusters: int,
        horizon: int,
        calendars: Calendars | None = None,
        past_busy: Sequence[int] | None = None,
    ) -> None:
        n_clients = len(durations)
        if calendars is None:
            calendars = Calendars(n_clients)
        past = [0] * n_clients if past_busy is None else list(past_busy)
        for name, values in (("cluster", cluster), ("calendars", calendars), ("past_busy", past)):
            if len(values) != n_clients:
                raise ValueError(f"{name} is for {len(values)} clients, durations for {n_clients}; they must agree")
        for client, (duration, c) in enumerate(zip(durations, cluster)):
            _check_duration(client, duration)
            if not 0 <= c < n_clusters:
                raise ValueError(f"cluster[{client}] = {c} must lie in 0..{n_clusters - 1}")
        self.horizon = horizon
        self.calendars = calendars
        self._durations = [int(duration) for duration in durations]
        self._cluster = [int(c) for c in cluster]
        self._n_clusters = n_clusters
        self._past_busy = past
        self._now = 0
        self._members: list[list[int]] = [[] for _ in range(n_clusters)]
        for client, c in enumerate(self._cluster):
            self._members[c].append(client)

    @property
    def durations(self) -> tuple[int, ...]:
        """Current estimate of each client's visit, ticks."""
        return tuple(self._durations)

    def busy_ticks(self, client: int) -> int:
        """Return all ticks that the client was and is booked for."""
        return self.calendars.busy_ticks(client) + self._past_busy[client]

    def random_plan(self, t0: int, head: int, rng: np.random.Generator) -> Plan:
        """Return a group in random order: `head`, then a random client of every other cluster, back to back from t0.

        It is the FedHusky paper's first group, so nothing may be booked yet. Its status is "feasible", or "infeasible"
        if it would end after the horizon. Nothing is booked.
        """
        others = [members for c, members in enumerate(self._members) if members and c != self._cluster[head]]
        chosen = [members[int(rng.integers(len(members)))] for members in others]
        clients = [head, *(chosen[i] for i in rng.permutation(len(chosen)).tolist())]
        durations = tuple(self._durations[client] for client in clients)
        begins = [t0 + sum(durations[:position]) for position in range(len(clients))]
        end = t0 + sum(durations)
        if end > self.horizon:
            return Plan("infeasible")
        booked = dict(zip(clients, durations))
        z = min(self.busy_ticks(client) + booked.get(client, 0) for members in self._members for client in members)
        return Plan("feasible", tuple(zip(clients, begins)), durations, end, z)

    def book(self, plan: Plan) -> None:
        """Book all stops of a plan with the durations it was made with."""
        for (client, begin), duration in zip(plan.stops, plan.durations):
            self._book(client, begin, begin + duration)

    def book_stop(self, client: int, begin: int) -> None:
        """Book one visit of the client, for its estimated duration. Raises ValueError if the client is not free."""
        self._book(client, begin, begin + self._durations[client])

    def release(self, client: int, begin: int) -> None:
        """Release the client's visit that is booked from `begin` on. Raises ValueError if there is none."""
        with self._changing(client):
            end = self.calendars.release(client, begin)
        self._released(client, end)

    def rebook(self, stops: Sequence[tuple[int, int]], ready: int) -> tuple[tuple[int, int], ...]:
        """Move a group's remaining stops, in order, to times from tick `ready` on at which their clients are free.

        Each stop starts as soon as its client is free for the whole duration and the previous stop has ended. Returns
        the new stops; the caller checks whether they end by the horizon.
        """
        for client, begin in stops:
            self.release(client, begin)
        moved = []
        for client, _ in stops:
            begin = self.calendars.next_free(client, ready, self._durations[client])
            self.book_stop(client, begin)
            moved.append((client, begin))
            ready = begin + self._durations[client]
        return tuple(moved)

    def set_duration(self, client: int, ticks: int) -> None:
        """Replace the estimated duration of a client's visit; existing bookings do not change."""
        _check_duration(client, ticks)
        if ticks != self._durations[client]:
            with self._changing(client):
                self._durations[client] = ticks
            self._redefined(client)

    def remove(self, client: int) -> None:
        """Never plan this client again; its bookings stay. A cluster without clients is no longer served."""
        members = self._members[self._cluster[client]]
        if client in members:
            with self._changing(client):
                members.remove(client)
            self._redefined(client)

    def forget_before(self, now: int) -> None:
        """Forget what ended by `now`; from then on no group can be planned to start earlier."""
        if now > self._now:
            self._now = now
            self.calendars.forget_before(now)

    def _check_start(self, t0: int) -> None:
        if t0 < self._now:
            raise ValueError(f"t0 = {t0} lies before tick {self._now}; earlier calendars are forgotten")

    def _book(self, client: int, begin: int, end: int) -> None:
        with self._changing(client):
            self.calendars.book(client, begin, end)
        self._booked(client, begin, end)

    # Hooks for planners that derive data from calendars and durations.

    @contextmanager
    def _changing(self, client: int) -> Iterator[None]:
        """Wrap any change of the client's booked ticks, duration or membership."""
        yield

    def _booked(self, client: int, begin: int, end: int) -> None:
        """React to the booking of [begin, end)."""

    def _released(self, client: int, end: int) -> None:
        """React to the release of an interval that ends at `end`."""

    def _redefined(self, client: int) -> None:
        """React to a change of the client's duration, or to its removal."""


def _check_duration(client: int, ticks: int) -> None:
    if ticks < 1:
        raise ValueError(f"durations[{client}] = {ticks} must be at least 1 tick")

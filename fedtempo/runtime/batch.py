"""Visits of one `train_all` that nothing can delay or end early, driven by timers at half the cost of tasks."""

from __future__ import annotations

from asyncio import Future, TimerHandle
from collections.abc import Callable, Sequence
from functools import partial

from fedtempo.federation import Client, ClientUnavailable, Model, Update, Visit
from fedtempo.runtime.client_state import VisitState
from fedtempo.runtime.clock import TimerSeries, VirtualLoop
from fedtempo.runtime.visits import Visits


class Batch:
    """The visits of one `train_all`, without a task for each. Events and their order are the same as with tasks.

    One callback begins all visits and takes each through its phases at its own times; one series of timers ends them. A
    busy client's visit is begun by a separate callback and ended by a separate timer.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        visits: Visits,
        model: Model,
        group: int | None,
        phases: Callable[[Visit], None],
        arrived: Callable[[Visit], Update],
        *,
        trains: bool = True,
    ) -> None:
        """phases: takes a visit through its phases at its own times. arrived: ends it when the clock has caught up.
        trains: whether the visits train.
        """
        self._loop, self._visits, self._model, self._group = loop, visits, model, group
        self._phases, self._arrived, self._trains = phases, arrived, trains
        self._in_progress: list[Visit | None] = []
        self._updates: list[Update | None] = []
        self._in_order = iter(range(0))
        """Clients' numbers in the order in which the visits of the series end."""
        self._turns: dict[int, Future[None]] = {}
        self._timers: list[TimerSeries | TimerHandle] = []
        self._open = 1
        """Number of visits that have not ended, plus one for the callback that begins them."""
        self._over: Future[None] = loop.create_future()
        self._cancelled: Future[None] | None = None
        """Set once the visits are being cancelled; done when all are."""

    async def updates(self, clients: Sequence[Client]) -> list[Update]:
        """Return the updates in the order of the clients, without visits that ended in ClientUnavailable.

        The first other error cancels the remaining visits and is then raised; a cancellation does the same.
        """
        if not clients:
            return []
        self._in_progress, self._updates = [None] * len(clients), [None] * len(clients)
        self._loop.call_soon(self._begin, clients)
        try:
            await self._over
        except BaseException:
            await self._cancel()
            raise
        finally:
            self._timers.clear()
        return [update for update in self._updates if update is not None]

    def _begin(self, clients: Sequence[Client]) -> None:
        ends: list[tuple[float, int]] = []
        begin_if_free, phases, now = self._visits.begin_if_free, self._phases, self._loop.now
        trains = self._trains
        try:
            for number, client in enumerate(clients):
                try:
                    visit = begin_if_free(client, self._model, self._group, trains=trains)
                    if visit is None:
                        self._queue(number, client)
                        continue
                    phases(visit)
                except Exception as error:  # noqa: BLE001  raised by `updates`
                    self._fail(error)
                    continue
                self._open += 1
                self._in_progress[number] = visit
                if visit.state.at > now:
                    ends.append((visit.state.at, number))
                else:
                    self._end(number)
            if ends:
                ends.sort()
                self._in_order = iter([number for _, number in ends])
                self._timers.append(self._loop.call_each([at for at, _ in ends], self._end_next))
        except ValueError as error:  # a time that is not finite
            self._fail(error)
        finally:
            self._close_one()

    def _queue(self, number: int, client: Client) -> None:
        state, turn = self._visits.queue(client, self._group, trains=self._trains)
        self._open += 1
        self._turns[number] = turn
        turn.add_done_callback(partial(self._begin_in_turn, number, client, state))

    def _begin_in_turn(self, number: int, client: Client, state: VisitState, turn: Future[None]) -> None:
        """Begin the visit of a client that was busy, unless it was cancelled while waiting."""
        del self._turns[number]
        if self._cancelled is not None:
            if not turn.cancelled():
                self._visits.give_turn(client)
            self._close_one()
            return
        try:
            visit = self._visits.hold(client, self._model, state)
            self._phases(visit)
        except Exception as error:  # noqa: BLE001  raised by `updates`
            self._fail(error)
            self._close_one()
            return
        self._in_progress[number] = visit
        if visit.state.at > self._loop.now:
            self._timers.append(self._loop.call_at(visit.state.at, self._end, number))
        else:
            self._end(number)

    def _end_next(self) -> None:
        self._end(next(self._in_order))

    def _end(self, number: int) -> None:
        """End a visit at the present time of the clock."""
        visit, self._in_progress[number] = self._in_progress[number], None
        assert visit is not None
        try:
            if self._cancelled is None:
                self._updates[number] = self._arrived(visit)
            else:
                visit.release()
        except ClientUnavailable:
            pass
        except Exception as error:  # noqa: BLE001  raised by `updates`
            self._fail(error)
        finally:
            self._close_one()

    def _fail(self, error: Exception) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    def _close_one(self) -> None:
        self._open -= 1
        if self._open:
            return
        if self._cancelled is not None:
            self._loop.call_soon(self._all_cancelled)
        elif not self._over.done():
            self._over.set_result(None)

    def _all_cancelled(self) -> None:
        assert self._cancelled is not None
        if not self._cancelled.done():  # cancelled again meanwhile
            self._cancelled.set_result(None)

    async def _cancel(self) -> None:
        """End the visits in the same iterations of the loop as tasks would, and wait for that."""
        self._cancelled = self._loop.create_future()
        self._open += 1
        for turn in self._turns.values():
            turn.cancel()
        self._loop.call_soon(self._release)
        self._close_one()
        await self._cancelled

    def _release(self) -> None:
        for timer in self._timers:
            timer.cancel()
        for number, visit in enumerate(self._in_progress):
            if visit is not None:
                self._in_progress[number] = None
                visit.release()
                self._close_one()

"""An asyncio event loop whose time is virtual: when nothing is ready, it jumps to the next timer instead of waiting.

All of asyncio that needs no input or output works as usual: tasks, TaskGroup, timeout, Lock, cancellation. Beyond
asyncio the loop guarantees that

- timers of the same instant run in the order in which they were set;
- time advances to exactly the time of the next timer, without a limit of resolution at any magnitude;
- if no timer is left and tasks still wait, `DeadlockError` names them: they would wait forever.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from asyncio import Future, Task
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from fedtempo.errors import DeadlockError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Soon(asyncio.Handle):
    """A handle filled in by `call_soon`, without the debug mode, which would double its cost."""

    __slots__ = ()


_new: Callable[[type[_Soon]], Any] = object.__new__


class TimerSeries(asyncio.TimerHandle):
    """Timers with one callback (`VirtualLoop.call_each`), of which only the next one due is in the loop's heap."""

    __slots__ = ("_stopped", "later")

    def __init__(self, times: Sequence[float], callback: Callable[[], object], loop: VirtualLoop) -> None:
        """later: times after the one that is in the heap."""
        super().__init__(times[0], callback, (), loop)
        self.later = iter(times[1:])
        self._stopped = False

    def cancelled(self) -> bool:
        return self._stopped

    def cancel(self) -> None:
        """Cancel the timers that are not due yet; the callback still runs for those that are."""
        if not self._stopped:
            self._stopped = True
            self.later = iter(())
            self._loop._timer_handle_cancelled(self)  # type: ignore[attr-defined]


class NumberedTask(Task[T]):
    """A task whose hash is its number in its loop.

    `TaskGroup` and `asyncio.wait` keep sets of tasks. By default a task's hash is its address, and with it the order in
    which the tasks of a group are cancelled would differ from run to run.
    """

    def __init__(self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], number: int, **settings: Any) -> None:
        self._number = number  # first: asyncio puts a new task into a set
        super().__init__(coro, **settings)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """Event loop on virtual seconds, from 0. It has no sockets, pipes, signals or threads.

    now: the loop's time; cheaper than `time()`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle | Future[None]]] = []
        self._order = itertools.count()
        self._task_numbers = itertools.count()
        self._cancelled_timers = 0

    def time(self) -> float:
        return self.now

    def create_task(self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **settings: Any) -> Task[T]:
        """Create a task as asyncio does, without task factories and the debug mode."""
        return NumberedTask(coro, next(self._task_numbers), loop=self, **settings)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call a function soon, as asyncio does, without the debug mode: half of a run's calls are to this method."""
        if self._closed:  # type: ignore[attr-defined]
            self._check_closed()  # type: ignore[attr-defined]
        handle = _new(_Soon)
        handle._callback, handle._args, handle._loop = callback, args, self
        handle._context = copy_context() if context is None else context
        handle._cancelled = False
        handle._repr = handle._source_traceback = None
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle  # type: ignore[no-any-return]

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run `callback` at virtual time `when` (finite; a past time means now, after what is ready)."""
        if not math.isfinite(when):
            raise ValueError(f"a timer needs a finite time, not {when!r}")
        self._check_closed()  # type: ignore[attr-defined]
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._order), timer))
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def call_each(self, times: Sequence[float], callback: Callable[[], object]) -> TimerSeries:
        """Run `callback` at each of these times (finite, ascending, at least one), as `call_at` for each in turn would.

        Together they take one place in the heap, so that many cost little more than one.
        """
        if not (-math.inf < times[0] and times[-1] < math.inf):
            raise ValueError(f"timers need finite times, not {times[0]!r} to {times[-1]!r}")
        series = TimerSeries(times, callback, self)
        heappush(self._timers, (times[0], next(self._order), series))
        series._scheduled = True  # type: ignore[attr-defined]
        return series

    def wake_at(self, when: float) -> Future[None]:
        """Return a future that is done at virtual time `when`: a sleep that is cheaper than one with a timer."""
        if not -math.inf < when < math.inf:
            raise ValueError(f"a sleep needs a finite time, not {when!r}")
        future: Future[None] = Future(loop=self)
        heappush(self._timers, (when, next(self._order), future))
        return future

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Count a cancelled timer; once half of the heap is cancelled, remove the cancelled timers."""
        if not handle._scheduled:  # type: ignore[attr-defined]
            return
        self._cancelled_timers += 1
        if self._cancelled_timers > 100 and self._cancelled_timers * 2 > len(self._timers):
            self._timers[:] = [entry for entry in self._timers if not entry[2].cancelled()]
            heapify(self._timers)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        """Make one iteration of `run_forever`: if nothing is ready, advance to the next timer; run what is ready."""
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            while timers and timers[0][2].cancelled():
                if not isinstance(heappop(timers)[2], Future):
                    self._cancelled_timers -= 1
            if not timers:
                self._deadlock()
            self.now = max(self.now, timers[0][0])
        now = self.now
        while timers and timers[0][0] <= now:
            _, order, timer = timers[0]
            if isinstance(timer, TimerSeries) and (when := next(timer.later, None)) is not None:
                heapreplace(timers, (when, order, timer))
                ready.append(timer)
                continue
            heappop(timers)
            if isinstance(timer, Future):
                if not timer.done():
                    timer.set_result(None)
            elif timer.cancelled():
                self._cancelled_timers -= 1
            else:
                timer._scheduled = False  # type: ignore[attr-defined]
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                try:  # as the handle's own method does, without the call
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001  as in asyncio, the handler decides
                    self.call_exception_handler(
                        {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
                    )

    def _deadlock(self) -> NoReturn:
        waiting = sorted((task for task in asyncio.all_tasks(self)), key=_creation)
        shown = "; ".join(map(_describe, waiting[:10]))
        more = f"; and {len(waiting) - 10} more" if len(waiting) > 10 else ""
        raise DeadlockError(
            f"nothing can happen any more after t = {self.now:g} s: {len(waiting)} task(s) wait for something that "
            f"no timer or task will bring: {shown}{more}"
        )

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> NoReturn:
        raise RuntimeError(
            "a virtual clock cannot wait for threads: call the function directly, or train through `fed`"
        )

    def _write_to_self(self) -> None:
        """`call_soon_threadsafe` wakes a waiting selector with this; a virtual loop never waits."""


def _creation(task: asyncio.Task[Any]) -> tuple[int, str]:
    """Return a sort key that orders the default names Task-1, Task-2, ... before other names."""
    head, _, number = task.get_name().rpartition("-")
    return (int(number), head) if number.isdigit() else (1 << 60, task.get_name())


def _describe(task: asyncio.Task[Any]) -> str:
    """Return a task's name and where it waits."""
    frames = task.get_stack(limit=1)
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    position = f" at {frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else ""
    return f"{task.get_name()} ({name}{position})"


def run(main: Coroutine[Any, Any, T], *, aborted: Callable[[], None] = lambda: None) -> T:
    """Run a coroutine on a new virtual clock and return its result, like `asyncio.run`, also inside a running loop.

    aborted: called if an exception ends the run, before remaining tasks are cancelled.
    """
    with set_aside(), asyncio.Runner(loop_factory=VirtualLoop) as runner:
        try:
            return runner.run(main)
        except KeyboardInterrupt:
            aborted()
            _abandon(runner)
            raise
        except BaseException:
            aborted()
            raise


def _abandon(runner: asyncio.Runner) -> None:
    """Close a runner whose loop was interrupted at any place, so that what should wake a task may be lost."""
    tasks = asyncio.all_tasks(runner.get_loop())
    with contextlib.suppress(DeadlockError):
        runner.close()
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # as in `asyncio.gather`
        with contextlib.suppress(Exception):  # the loop is closed, and code that awaits at its end cannot
            task.get_coro().close()


@contextlib.contextmanager
def set_aside() -> Iterator[None]:
    """Set aside an event loop running in this thread, like a notebook's, inside the block.

    That loop stands still anyway, as during any other computation in a cell.
    """
    outer = asyncio._get_running_loop()
    if outer is None:
        yield
        return
    task = asyncio.current_task(outer)
    if task is not None:
        asyncio.tasks._leave_task(outer, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(outer)
        if task is not None:
            asyncio.tasks._enter_task(outer, task)

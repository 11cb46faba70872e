"""The virtual clock: order, ties, time, cancellation, task groups, errors, deadlock, size."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import time
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.errors import DeadlockError
from fedtempo.runtime import clock


def test_time_jumps_and_real_time_does_not_pass() -> None:
    async def main() -> float:
        await asyncio.sleep(1e6)
        return asyncio.get_running_loop().time()

    began = time.perf_counter()
    assert clock.run(main()) == 1e6
    assert time.perf_counter() - began < 60.0  # a million seconds pass, however busy the machine


@given(st.lists(st.integers(0, 5), max_size=60))
def test_timers_run_in_order_of_time_then_of_creation(delays: list[int]) -> None:
    ran: list[tuple[int, int]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for order, delay in enumerate(delays):
            loop.call_at(float(delay), ran.append, (delay, order))
        await asyncio.sleep(10)

    clock.run(main())
    assert ran == sorted((delay, order) for order, delay in enumerate(delays))


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=8), max_size=8), st.integers(0, 7))
def test_timers_of_a_series_run_like_single_timers(groups: list[list[int]], cancelled_at: int) -> None:
    """Interleave series and single timers, then cancel all series by the last timer."""

    def ran(*, series: bool) -> list[tuple[float, int]]:
        log: list[tuple[float, int]] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, clock.VirtualLoop)
            timers: list[asyncio.TimerHandle] = []
            for number, group in enumerate(groups):
                times = [float(time) for time in sorted(group)]

                def note(number: int = number) -> None:
                    log.append((loop.now, number))

                if series:
                    timers.append(loop.call_each(times, note))
                else:
                    timers.extend(loop.call_at(time, note) for time in times)
                loop.call_at(times[0], log.append, (times[0], -number))
            loop.call_at(cancelled_at + 0.5, lambda: [timer.cancel() for timer in timers])
            await asyncio.sleep(10)
            assert loop.now == 10.0

        clock.run(main())
        return log

    assert ran(series=True) == ran(series=False)


def test_a_series_takes_one_entry_in_the_timer_heap() -> None:
    async def main() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, clock.VirtualLoop)
        ran: list[float] = []
        series = loop.call_each([float(time) for time in range(1000)], lambda: ran.append(loop.now))
        held = len(loop._timers)
        await asyncio.sleep(500.5)
        series.cancel()
        series.cancel()
        assert loop._cancelled_timers == 1
        await asyncio.sleep(1000.0)
        assert ran == list(range(501))
        assert loop._cancelled_timers == 0
        return held, loop.now

    assert clock.run(main()) == (1, 1500.5)


def test_tasks_that_wake_at_the_same_time_keep_their_order() -> None:
    woken: list[int] = []

    async def sleeper(number: int) -> None:
        await asyncio.sleep(1.0)
        woken.append(number)
        await asyncio.sleep(0.5)
        woken.append(number)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(1000):
                group.create_task(sleeper(number))

    clock.run(main())
    assert woken == [*range(1000), *range(1000)]


def test_timers_are_exact_at_any_magnitude_of_time() -> None:
    """At 1e9 s the spacing of floats is 1.2e-7 s: distinct timers stay distinct, and the loop never spins."""
    seen: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for step in range(100):
            loop.call_at(1e9 + step * 2.0**-23, lambda: seen.append(loop.time()))
        await asyncio.sleep(1e9 + 1)

    clock.run(main())
    assert seen == [1e9 + step * 2.0**-23 for step in range(100)]


def test_a_sleep_too_short_to_move_a_large_time_still_ends() -> None:
    async def main() -> float:
        await asyncio.sleep(1e9)
        for _ in range(1000):
            await asyncio.sleep(1e-12)
        return asyncio.get_running_loop().time()

    assert clock.run(main()) == 1e9


def test_timeouts_and_cancellation_work_as_in_asyncio() -> None:
    cleaned: list[float] = []

    async def worker() -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(100)
        finally:
            cleaned.append(loop.time())

    async def main() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await worker()
        task = asyncio.create_task(worker())
        await asyncio.sleep(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return loop.time()

    assert clock.run(main()) == 7.0
    assert cleaned == [5.0, 7.0]


def test_a_failing_task_cancels_its_group_and_its_traceback_shows_the_cause() -> None:
    ended: list[float] = []

    async def fails() -> None:
        await asyncio.sleep(3)
        raise ValueError("the cause")

    async def other() -> None:
        try:
            await asyncio.sleep(50)
        finally:
            ended.append(asyncio.get_running_loop().time())

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(other())

    with pytest.raises(ExceptionGroup) as caught:
        clock.run(main())
    (cause,) = caught.value.exceptions
    assert isinstance(cause, ValueError)
    assert "in fails" in "".join(traceback.format_exception(cause))
    assert ended == [3.0]


def test_deadlock_names_the_waiting_tasks() -> None:
    async def waits_for_nobody(event: asyncio.Event) -> None:
        await event.wait()

    async def main() -> None:
        event = asyncio.Event()
        await asyncio.sleep(4)
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_nobody(event), name="group 17")
            group.create_task(waits_for_nobody(event), name="group 18")

    with pytest.raises(DeadlockError, match=r"t = 4 s: 3 task\(s\).*group 17 .*waits_for_nobody.*group 18"):
        clock.run(main())


def test_a_lock_that_is_never_released_is_a_deadlock_and_leaves_the_clock_usable() -> None:
    async def main() -> None:
        lock = asyncio.Lock()
        await lock.acquire()
        await lock.acquire()

    with pytest.raises(DeadlockError):
        clock.run(main())

    async def fine() -> int:
        await asyncio.sleep(1)
        return 5

    assert clock.run(fine()) == 5


def test_a_hundred_thousand_tasks_run() -> None:
    total = 0

    async def one(number: int) -> None:
        nonlocal total
        await asyncio.sleep(number % 97)
        total += 1

    async def main() -> float:
        async with asyncio.TaskGroup() as group:
            for number in range(100_000):
                group.create_task(one(number))
        return asyncio.get_running_loop().time()

    assert clock.run(main()) == 96.0
    assert total == 100_000


def test_cancelled_timers_do_not_accumulate() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, clock.VirtualLoop)
        for _ in range(10_000):
            loop.call_later(1e6, print).cancel()
        await asyncio.sleep(1)
        heap = list(loop._timers)
        heapq.heapify(heap)
        assert heap == loop._timers
        return len(loop._timers)

    assert clock.run(main()) < 300


def test_expired_timers_do_not_count_as_cancelled() -> None:
    """`asyncio.sleep` cancels its timer after it ran; counting those would rebuild the heap for nothing."""

    async def main() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, clock.VirtualLoop)
        for _ in range(1000):
            await asyncio.sleep(1)
        return loop._cancelled_timers

    assert clock.run(main()) == 0


@pytest.mark.parametrize("when", [float("inf"), float("nan")])
def test_a_timer_with_an_infinite_or_nan_time_is_rejected(when: float) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_at(when, print)

    async def series() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, clock.VirtualLoop)
        loop.call_each([1.0, when], print)

    for coroutine in (main, series):
        with pytest.raises(ValueError, match="finite time"):
            clock.run(coroutine())


def test_errors_of_callbacks_reach_the_loops_handler_and_other_callbacks_still_run() -> None:
    heard, after = [], []

    def fail() -> None:
        raise KeyError("lost")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context))
        loop.call_soon(fail)
        loop.call_later(1, fail)
        loop.call_later(2, after.append, "all the same")
        await asyncio.sleep(3)

    clock.run(main())
    assert [type(context["exception"]) for context in heard] == [KeyError, KeyError]
    assert all("fail" in context["message"] and context["handle"] for context in heard)
    assert after == ["all the same"]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_exceptions_that_end_the_program_end_the_clock(kind: type[BaseException]) -> None:
    def stop() -> None:
        raise kind

    async def main() -> None:
        asyncio.get_running_loop().call_later(1, stop)
        await asyncio.sleep(2)

    with pytest.raises(kind):
        clock.run(main())


@pytest.mark.filterwarnings("error")
def test_an_interrupt_that_meets_the_loop_itself_ends_the_clock_without_a_word(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """What would wake the tasks is lost, as when the interrupt comes after the loop took it from its queue."""

    def strike() -> None:
        loop._timers.clear()  # type: ignore[attr-defined]
        loop._ready.clear()  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    async def other() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                await waits  # nothing sets it
                raise

    async def main() -> None:
        nonlocal loop, waits
        loop = asyncio.get_running_loop()
        waits = loop.create_future()
        task = asyncio.create_task(other())
        loop.call_later(1.5, strike)
        try:
            await task
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
            await asyncio.sleep(0)

    loop: Any = None
    waits: Any = None
    aborted = []
    with pytest.raises(KeyboardInterrupt):
        clock.run(main(), aborted=lambda: aborted.append("once"))
    gc.collect()
    assert aborted == ["once"]
    assert not caplog.records
    assert capfd.readouterr().err == ""


def test_threads_are_rejected_with_a_reason() -> None:
    async def main() -> None:
        await asyncio.to_thread(time.sleep, 0)

    with pytest.raises(RuntimeError, match="virtual clock cannot wait for threads"):
        clock.run(main())


def test_the_clock_runs_inside_a_running_event_loop_as_in_a_notebook() -> None:
    async def inner() -> float:
        await asyncio.sleep(1e6)
        return asyncio.get_running_loop().time()

    async def failing() -> None:
        await asyncio.sleep(5)
        raise ValueError("inner")

    async def outer() -> list[float]:
        before = asyncio.current_task(), asyncio.get_running_loop()
        waits = asyncio.create_task(asyncio.sleep(0.001, "outer went on"))
        times = [clock.run(inner()), clock.run(inner())]
        with pytest.raises(ValueError, match="inner"):
            clock.run(failing())
        assert (asyncio.current_task(), asyncio.get_running_loop()) == before
        assert await waits == "outer went on"
        return times

    assert asyncio.run(outer()) == [1e6, 1e6]


def test_the_tasks_of_a_group_are_cancelled_in_the_same_order_in_each_run() -> None:
    async def main() -> list[int]:
        cancelled = []

        async def wait(number: int) -> None:
            try:
                await asyncio.sleep(1e6)
            finally:
                cancelled.append(number)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise ValueError("end")

        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for number in range(40):
                    group.create_task(wait(number))
                group.create_task(fail())
        return cancelled

    first, *others = (clock.run(main()) for _ in range(5))
    assert sorted(first) == list(range(40))
    blocks = [[object() for _ in range(count)] for count in range(100)]  # other addresses for what comes
    assert all(order == first for order in [*others, clock.run(main())])
    assert len(blocks) == 100

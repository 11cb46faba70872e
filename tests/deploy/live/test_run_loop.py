"""Real time in discrete instants: readings of the clock, and replay of recorded instants."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from fedtempo.deploy.live.loop import Instant, RunLoop, play


def loop() -> RunLoop:
    running = asyncio.get_running_loop()
    assert isinstance(running, RunLoop)
    return running


def test_time_is_constant_within_an_instant_and_follows_the_clock_between() -> None:
    async def main() -> None:
        began = loop().run_s
        time.sleep(0.05)
        await asyncio.sleep(0)
        assert loop().run_s == began
        await asyncio.sleep(0.1)
        assert 0.1 <= loop().run_s < 5.0

    play(main())


def test_a_task_that_never_blocks_does_not_stop_the_clock() -> None:
    async def main() -> None:
        while loop().run_s < 0.02:
            await asyncio.sleep(0)

    play(main())


def test_time_stops_while_the_server_is_away() -> None:
    async def main() -> None:
        await asyncio.sleep(0.01)
        away = time.monotonic()
        loop().away_s = lambda: min(time.monotonic() - away, 0.3)
        await asyncio.sleep(0.05)
        assert time.monotonic() - away >= 0.34
        assert 0.05 <= loop().run_s <= time.monotonic() - began - 0.3

    began = time.monotonic()
    play(main())


def test_preparation_takes_no_time_but_its_timers_run() -> None:
    async def main() -> None:
        run_timer = loop().call_at(0.5, lambda: seen.append("run"))
        loop().stand_still()
        await asyncio.sleep(0.6)
        assert loop().run_s == 0.0
        assert not seen
        loop().begin()
        assert loop().run_s == 0.0
        run_timer.cancel()

    seen: list[str] = []
    play(main())


def record(past: list[Instant]) -> tuple[list[tuple[float, Any]], list[Instant], list[str]]:
    """Post three events from another thread, with timers in between; return the run's events, instants and phases."""
    seen: list[tuple[float, Any]] = []
    instants: list[Instant] = []
    phases: list[str] = []

    async def main() -> None:
        over = loop().create_future()
        started = []

        def send() -> None:
            for number in range(3):
                time.sleep(0.02)
                running.post(number)

        def live() -> None:
            phases.append("live")
            started.append(threading.Thread(target=send))
            started[0].start()

        def deliver(event: Any) -> None:
            seen.append((loop().now, event))
            if len([entry for entry in seen if isinstance(entry[1], int)]) == 3 + len(
                [e for i in past for e in i.events]
            ):
                over.set_result(None)

        running = loop()
        running.follow(past, deliver=deliver, record=instants.append, go_live=live)
        for _ in range(3):
            await asyncio.sleep(0.015)
            seen.append((loop().now, "timer"))
        await over
        started[0].join()

    play(main())
    return seen, instants, phases


def test_recorded_instants_are_replayed_before_new_ones() -> None:
    first, instants, _ = record([])
    assert [instant for instant in instants if instant.events]
    assert [event for _, event in first if event != "timer"] == [0, 1, 2]
    again, more, phases = record(instants)
    assert again[: len(first)] == first, "the same times, to the bit"
    assert phases == ["live"]
    assert min(instant.time for instant in more) >= instants[-1].time


def test_callbacks_from_another_thread_are_run() -> None:
    async def main() -> None:
        called = loop().create_future()
        running = loop()
        threading.Thread(target=lambda: running.call_soon_threadsafe(called.set_result, 5)).start()
        assert await called == 5

    play(main())


def test_ctrl_c_ends_a_waiting_run() -> None:
    import os
    import signal

    async def main() -> None:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        await loop().create_future()

    with pytest.raises(KeyboardInterrupt):
        play(main())

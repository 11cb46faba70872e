"""How Ctrl-C and SIGTERM end a run: the first cancels it, the second ends it wherever it is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

from fedtempo.parts.user_code import lines_of_frames, place_of

log = logging.getLogger(__name__)

_NOTICED_S = 2.0
"""Real seconds after which a run that has not noticed a signal says what it does instead."""

_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


@contextlib.contextmanager
def cancelled_by_signals(task: asyncio.Task[Any]) -> Iterator[None]:
    """Cancel the task on the first SIGTERM or Ctrl-C, if their handlers raise KeyboardInterrupt.

    A task notices when it awaits. If code does not await, a warning says so, with the line that it is at. The second
    signal ends it there, if the former handler raises KeyboardInterrupt for it too; further signals are ignored then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {int(number): signal.getsignal(number) for number in _NAMES}
    taken = {number: handler for number, handler in handlers.items() if callable(handler)}
    noticed, loop = threading.Event(), task.get_loop()

    def first(number: int, frame: FrameType | None) -> None:
        try:
            taken[number](number, frame)  # that of SIGINT is asyncio's, which cancels
        except KeyboardInterrupt:
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)  # a loop that waits for events looks again
        if not task.cancelling():
            return
        for each in taken:
            signal.signal(each, second)
        threading.Thread(target=_say_where, args=(noticed, number), daemon=True, name="fedtempo-interrupting").start()

    def second(number: int, frame: FrameType | None) -> None:
        try:
            taken[number](number, frame)
        except KeyboardInterrupt:
            for each in taken:
                signal.signal(each, signal.SIG_IGN)
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would show where its tasks were
            raise

    for number in taken:
        signal.signal(number, first)
    try:
        yield
    finally:
        noticed.set()
        for number in taken:
            if signal.getsignal(number) in (first, second):
                signal.signal(number, taken[number])


def _say_where(noticed: threading.Event, number: int) -> None:
    """Warn, with the line of the user's code, if a run has not noticed a signal in time."""
    if noticed.wait(_NOTICED_S):
        return
    name = _NAMES[signal.Signals(number)]
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    lines = lines_of_frames(list(traceback.walk_stack(frame))[::-1])
    if lines and not noticed.is_set():
        log.warning("%s takes effect when this code awaits%s; a second %s ends it there", name, place_of(lines), name)

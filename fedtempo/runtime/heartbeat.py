"""A file with a run's current state, beside its records, which hold a visit only once it has ended."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedtempo.errors import RunError
from fedtempo.federation import Visit
from fedtempo.record.strict_json import to_json, write_text
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.runner import Driven

log = logging.getLogger(__name__)

BEAT_S = 1.0
"""Real seconds between two updates of the file."""

_MAX_VISITS = 20_000
"""Largest number of visits in the file."""

_MAX_SHARE = 0.01
"""Largest share of the time that the thread may take from the run."""


@contextlib.contextmanager
def in_background(
    name: str, follow: Callable[[Driven, Evaluations, threading.Event], None]
) -> Iterator[Callable[[Driven, Evaluations], None]]:
    """Run `follow` beside a run in a thread called `name`; the event is set at the end of the block.

    Yields a function to pass to `simulate` as `watch`.
    """
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def begin(run: Driven, evaluations: Evaluations) -> None:
        threads.append(threading.Thread(target=follow, args=(run, evaluations, stop), name=name, daemon=True))
        threads[-1].start()

    try:
        yield begin
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def heartbeat(
    path: Path, watch: Callable[[Driven, Evaluations], None] | None = None, every_s: float = BEAT_S
) -> Iterator[Callable[[Driven, Evaluations], None]]:
    """Keep the file at `path` up to date inside the block, from a separate thread, and delete it afterwards.

    Yields a function to pass to `simulate` as `watch`; it also calls the given `watch`. The file holds the run's clock
    (now_s), the number of visits begun, and those in progress: client, group (-1 for none), started, received,
    computed; times still unknown are null, or lie after now_s.
    """

    def beat(run: Driven, _: Evaluations, stop: threading.Event) -> None:
        pause_s = 0.0
        while not stop.wait(pause_s):
            began = time.perf_counter()
            try:
                write_text(path, to_json(_state(run)))
            except RunError as error:  # the run writes to the same disk and reports the problem itself
                log.warning("%s; `fedtempo watch` will not show the visits in progress", error)
                return
            pause_s = max(every_s, (time.perf_counter() - began) / _MAX_SHARE)

    try:
        with in_background("heartbeat", beat) as begin:

            def both(run: Driven, evaluations: Evaluations) -> None:
                if watch is not None:
                    watch(run, evaluations)
                begin(run, evaluations)

            yield both
    finally:
        path.unlink(missing_ok=True)


def _state(run: Driven) -> dict[str, Any]:
    visits = run.in_progress()
    return {
        "now_s": run.now,
        "visits_begun": run.visits_begun,
        "busy": len(visits),
        "in_progress": [_row(visit) for visit in visits[:_MAX_VISITS]],
    }


def _row(visit: Visit) -> tuple[int, int, float, float | None, float | None]:
    state = visit.state
    group = -1 if state.group is None else state.group
    return visit.client.id, group, visit.started, state.received_at, visit.computed

"""What a run is at now, in a file beside its records: those hold a visit only once it has ended."""

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
"""Real seconds between two looks."""

_MOST_VISITS = 20_000
_SHARE = 0.01
"""Of the time, at most, that a thread may take from the run."""


@contextlib.contextmanager
def beside(
    name: str, follow: Callable[[Driven, Evaluations, threading.Event], None]
) -> Iterator[Callable[[Driven, Evaluations], None]]:
    """Let `follow` go along with a run in a thread called `name`; it ends when the event is set, as this block ends.

    Yields what `simulate` takes as `watch`.
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
def pulse(
    path: Path, watch: Callable[[Driven, Evaluations], None] | None = None, every_s: float = BEAT_S
) -> Iterator[Callable[[Driven, Evaluations], None]]:
    """Keep `path` up to date while the block lasts, from a thread of its own, and delete it then.

    Yields what `simulate` takes as `watch`, which calls the given one too. The file holds the run's clock (now_s), how
    many visits were begun, and those in progress: client, group (-1 for none), started, received, computed; what is
    still to come is null, or lies after now_s.
    """

    def beat(run: Driven, _: Evaluations, stop: threading.Event) -> None:
        pause_s = 0.0
        while not stop.wait(pause_s):
            began = time.perf_counter()
            try:
                write_text(path, to_json(_state(run)))
            except RunError as error:  # no reason to end the run, which needs the same disk and will say so
                log.warning("%s; who watches the run does not see what is in progress", error)
                return
            pause_s = max(every_s, (time.perf_counter() - began) / _SHARE)

    try:
        with beside("pulse", beat) as begin:

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
        "in_progress": [_row(visit) for visit in visits[:_MOST_VISITS]],
    }


def _row(visit: Visit) -> tuple[int, int, float, float | None, float | None]:
    stay = visit.state
    group = -1 if stay.group is None else stay.group
    return visit.client.id, group, visit.started, stay.received_at, visit.computed

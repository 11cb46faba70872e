"""The main loop of a worker process: receive slot numbers, train, answer."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from fedtempo.learning.evaluation import Part
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import On
from fedtempo.runtime.executors.job import Answer, PackedJob, Trainer
from fedtempo.runtime.executors.shared import Placement, Segment, Slots
from fedtempo.runtime.executors.states import SMALL, write_state
from fedtempo.runtime.executors.states import received as read


def work(
    connection: Connection,
    other_ends: Sequence[Connection],
    packed: PackedJob,
    placement: Placement,
    prefix: str,
    size: int,
) -> None:
    """Run a worker process. others: inherited pipe ends that it must close. placement: of the job's arrays."""
    _leave_signals_to_parent()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    for other in other_ends:
        other.close()
    segment = Segment.attach(placement.segment)
    slots = Slots(prefix, size)
    with fixed_numerics(), contextlib.suppress(EOFError, ConnectionError):  # the parent is gone
        job = packed.opened(placement.views(segment))
        trainer = Trainer(job, job.model())
        while (message := connection.recv()) is not None:
            number, name, arguments = message
            try:
                answer, failed = _OPERATIONS[name](trainer, slots, *arguments), False
            except Exception as error:  # noqa: BLE001  raised again by `result`
                answer, failed = (job.failure(error), traceback.format_exc()), True
            connection.send((number, failed, answer))


def _train(trainer: Trainer, slots: Slots, received: int, out: int, *visit: Any) -> Answer:
    return trainer.train(slots.view(received), slots.view(out), *visit)


def _train_rows(trainer: Trainer, slots: Slots, received: int, out: int, *visit: Any) -> Answer:
    return trainer.train_rows(slots.view(received), slots.view(out), *visit)


def _train_carried(
    trainer: Trainer,
    slots: Slots,
    received: int,
    out: int,
    client: int,
    visit: int,
    training: Training,
    before: bytes | str | None,
    after: str,
    procedure: str | None,
    numbers: Mapping[str, float] | None,
    payload: Sequence[int],
    sent: Sequence[int],
) -> tuple[Answer, bytes | bool]:
    """Make a visit of a client that keeps something.

    before: what it has kept so far (`States.portable`). after: the file for what it keeps now. Returns the answer and
    what it keeps now: itself if it is small, True if it is in the file, False if it keeps nothing.
    """
    answer, state = trainer.train_carried(
        slots.view(received),
        slots.view(out),
        client,
        visit,
        training,
        state=read(before),
        procedure=procedure,
        numbers=numbers,
        payload=list(map(slots.view, payload)),
        sent=list(map(slots.view, sent)),
    )
    if state is None or len(state) <= SMALL:
        return answer, state or False
    write_state(after, state)
    return answer, True


def _evaluate_part(
    trainer: Trainer, slots: Slots, slot: int, start: int, stop: int, state: bytes | str | None, on: On
) -> Part:
    return trainer.evaluate_part(slots.view(slot), start, stop, read(state), on)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "train": _train,
    "train_carried": _train_carried,
    "train_rows": _train_rows,
    "evaluate": _evaluate_part,
}


def _leave_signals_to_parent() -> None:
    """Ignore Ctrl-C and SIGTERM, which may be sent to the whole process group, and drop inherited handlers."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _end_with_parent(parent: int) -> None:
    """Exit immediately when the parent process is gone.

    The parent's sentinel reports that at once, unless another process has inherited its other end; the parent's process
    id shows it within half a second.
    """
    process = parent_process()
    sentinels = [] if process is None else [process.sentinel]
    while os.getppid() == parent:
        if wait(sentinels, timeout=0.5):
            break
    os._exit(1)

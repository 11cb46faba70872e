"""One run of a strategy, from its first instant to its end."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fedtempo.errors import FedtempoError, StrategyError, UserCodeError
from fedtempo.federation import Federation, Strategy, Visit
from fedtempo.parts.user_code import part_name, user_error, with_lines
from fedtempo.runtime import clock
from fedtempo.runtime.evaluations import Best, Evaluations
from fedtempo.runtime.executors import Evaluator
from fedtempo.runtime.interrupting import cancelled_by_signals
from fedtempo.runtime.run_settings import RunSettings

Vector = npt.NDArray[np.float32]


class Interruptible(Protocol):
    """Notified before an interrupted run is cancelled, while the strategy's tasks are still intact."""

    @property
    def replays(self) -> bool:
        """Whether a resumed run is still being replayed, so that models have no parameters."""
        ...

    def interrupt(self) -> None:
        """The run is interrupted between two steps of its tasks."""
        ...

    def conclude(self) -> None:
        """The run ends now, and its state is kept."""
        ...

    def stop(self) -> None:
        """The run is interrupted within a step, or cancelled: ignore what its tasks ask for from now on."""
        ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    ended: "horizon", "target", "budget" (of commits, or the strategy returned), "patience", a kind of `run.budget` or
    "interrupted". reason: the same in words. end_s: the clock then.
    model: the global model's flat parameters; None without training, and for a resumed run that was interrupted again
    during its replay. best: the best model evaluated, if the run keeps it, and its flat parameters. reads_horizon:
    whether the strategy has asked for the horizon.
    """

    ended: str
    reason: str
    end_s: float
    model: Vector | None
    best: tuple[Best, Vector] | None = None
    reads_horizon: bool = True


class Driven(Federation, Protocol):
    """A federation with what the runner and observers need beyond the strategy's view."""

    @property
    def end_s(self) -> float:
        """The run's end if it ended now, seconds."""
        ...

    reads_horizon: bool
    """Whether the strategy has asked for `horizon`."""
    at_end: Callable[[], None] | None
    """Called at the moment when the run ends."""
    end_reason: str
    """Why the run has ended, in words; empty before."""

    @property
    def ended(self) -> asyncio.Future[str]: ...
    @property
    def visits_begun(self) -> int: ...
    def in_progress(self) -> Sequence[Visit]:
        """Return the visits that hold a client now. Thread-safe."""
        ...

    def end(self, why: str, reason: str = "") -> None:
        """End the run now. why: see `Outcome.ended`. reason: the same in words. Does nothing if it has ended."""
        ...

    def close(self) -> None:
        """End the visits in progress as cut; no visit begins after this."""
        ...


F = TypeVar("F", bound=Driven)


def simulate(
    strategy: Strategy,
    settings: RunSettings,
    executor: Evaluator,
    make: Callable[..., F],
    recorder: Any,
    *,
    strategy_name: str | None = None,
    watch: Callable[[F, Evaluations], None] = lambda *_: None,
    journal: Interruptible | None = None,
    play: Callable[[Coroutine[Any, Any, str]], str] | None = None,
    wait: bool = True,
    validates: bool = False,
) -> Outcome:
    """Run `strategy` to its end.

    make: called as `make(evaluations=..., horizon=..., max_commits=..., budget=...)` inside the run's loop, returns the
    federation.
    strategy_name: name of the strategy in errors (default: its class). watch: called once with objects that a progress
    display may read from another thread. journal: notified if the run is interrupted. play: runs a coroutine on a loop
    whose time is the run's clock (default: virtual time). wait, validates: see Evaluations. Ctrl-C interrupts the run:
    records stay, and the outcome is "interrupted". So does SIGTERM if its handler raises KeyboardInterrupt. Raises
    UserCodeError if a user's code failed.
    """
    state: dict[str, Any] = {}

    async def main() -> str:
        evaluations = state["evaluations"] = Evaluations(
            executor,
            recorder,
            every=settings.evaluate_every if settings.evaluate == "time" else None,
            target=settings.goal,
            stop=settings.stop_at_target,
            reached=lambda: sim.end("target", _reached(settings, validates)),
            patience=settings.patience,
            exhausted=lambda reason: sim.end("patience", reason),
            wait=wait,
            keep_best="best" in settings.keep,
            validates=validates,
        )
        horizon = math.inf if settings.horizon is None else settings.horizon
        sim = state["sim"] = make(
            evaluations=evaluations, horizon=horizon, max_commits=settings.max_commits, budget=settings.budget
        )
        watch(sim, evaluations)
        task = asyncio.current_task()
        assert task is not None
        try:
            with cancelled_by_signals(task):
                ended = await _until_the_end(strategy, settings, sim, evaluations, journal, strategy_name)
        finally:
            state["end_s"] = sim.end_s
        evaluations.finish(sim.end_s, sim.model)
        return ended

    playing = main()
    try:
        if play is None:
            ended = clock.run(playing, aborted=journal.stop if journal else lambda: None)
        else:
            ended = play(playing)
    except (KeyboardInterrupt, asyncio.CancelledError):
        ended = "interrupted"
    except FedtempoError as error:
        if "sim" in state:
            error.keeps_run = state["sim"].model.version > 0 or isinstance(error, UserCodeError)
        raise
    finally:
        if inspect.getcoroutinestate(playing) == inspect.CORO_CREATED:  # a signal came before it began
            playing.close()
    sim: F | None = state.get("sim")
    reason = sim.end_reason if sim is not None and ended != "interrupted" else ended
    if sim is None or not executor.trains or (journal and journal.replays):
        return Outcome(ended, reason, state.get("end_s", 0.0), None, None, sim is None or sim.reads_horizon)
    best: Best | None = state["evaluations"].best
    return Outcome(
        ended,
        reason,
        state.get("end_s", 0.0),
        executor.vector(sim.model.location),
        None if best is None else (best, executor.vector(best.model.location)),
        sim.reads_horizon,
    )


def _reached(settings: RunSettings, validates: bool) -> str:
    """Return in words that the target is reached. validates: on the validation set."""
    goal = settings.goal
    assert goal is not None
    where = " on the validation set" if validates and goal.name not in settings.client_measures else ""
    return f"target of {goal.value:g} {'' if goal.name == 'accuracy' else f'for {goal.name} '}reached{where}"


async def _until_the_end(
    strategy: Strategy,
    settings: RunSettings,
    sim: Driven,
    evaluations: Evaluations,
    journal: Interruptible | None,
    strategy_name: str | None,
) -> str:
    """Run the strategy's coroutine until the horizon, the budget or the target; return which ended it."""
    if settings.horizon is not None:
        # Just after the horizon: what ends exactly at the horizon still counts.
        reason = f"horizon of {settings.horizon:g} s reached"
        asyncio.get_running_loop().call_at(math.nextafter(settings.horizon, math.inf), sim.end, "horizon", reason)
    if journal is not None and "state" in settings.keep:
        sim.at_end = journal.conclude
    evaluations.begin(sim.model)
    running: asyncio.Future[Any] = asyncio.create_task(strategy.run(sim), name="strategy")
    try:
        await asyncio.wait([running, sim.ended], return_when=asyncio.FIRST_COMPLETED)
        if settings.horizon is not None and running.done() and running.exception() is None:
            await sim.ended
        if running.done() and (running.cancelled() or running.exception() is None):
            sim.end("budget", "the strategy ended")
    except asyncio.CancelledError:
        if journal is not None:
            journal.interrupt()
        raise
    finally:
        sim.close()
        running.cancel()
        await asyncio.wait([running])
    if not running.cancelled() and (error := running.exception()) is not None:
        raise _reported(error, strategy, f"strategy.name = {strategy_name or part_name(strategy)!r}")
    return sim.ended.result()


def _reported(error: BaseException, strategy: Strategy, where: str) -> BaseException:
    """Return the error to raise for an error in the strategy: fedtempo's own unchanged, a user's with its lines."""
    cause = error
    while isinstance(cause, BaseExceptionGroup) and (
        len(cause.exceptions) == 1 or cause.split(FedtempoError)[1] is None
    ):
        cause = cause.exceptions[0]
    if isinstance(cause, StrategyError):
        reported: BaseException | None = with_lines(cause, where)
    elif isinstance(cause, FedtempoError) or not isinstance(cause, Exception):
        return cause
    else:
        reported = user_error(cause, where, strategy)
    if reported is None:
        return cause
    reported.__cause__ = cause
    return reported

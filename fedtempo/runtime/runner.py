"""One run on the virtual clock, from its first instant to its end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field
from pydantic.dataclasses import dataclass as component

from fedtempo.errors import FedtempoError, StrategyError, UserCodeError
from fedtempo.federation import Federation, Strategy, Visit
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative, Positive, Share
from fedtempo.parts.user_code import part_name, user_error, with_lines
from fedtempo.record.checks import LARGEST_TIME_S
from fedtempo.runtime import clock
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.executors import Evaluator


@component(frozen=True, config=STRICT)
class RunSettings:
    """The `[run]` table: when a run ends, what it aims at, when it is evaluated."""

    seed: Annotated[int, Ge(0), Doc("every random draw depends on it and on its purpose, nothing else")] = 1
    horizon: Annotated[Positive | None, Doc("seconds of the run's clock after which it ends")] = None
    max_commits: Annotated[Count | None, Doc("the run ends with this version of the global model")] = None
    target_accuracy: Annotated[Share | None, Doc("time to it is reported; R^2 where the data ask for numbers")] = None
    stop_at_target: Annotated[bool, Doc("end the run once three evaluations in a row average the target")] = False
    evaluate: Annotated[Literal["time", "commit"], Doc("evaluate every so many seconds, or each commit")] = "time"
    evaluate_every: Annotated[Positive, Doc("seconds of the run's clock between evaluations")] = 5.0
    checkpoint_every: Annotated[
        NonNegative,
        Doc(
            "real seconds after which what was done is on the disk: no more is lost when the run is killed; 0: a run "
            "that is resumed begins from its start"
        ),
    ] = 30.0
    record: Annotated[
        Literal["all", "totals"],
        Doc("a row for each visit and commit, or their totals alone: the run's folder does not grow with them then"),
    ] = "all"
    track: Annotated[
        tuple[str, ...],
        Field(strict=False),
        Doc(
            "where numbers of the run go as well: tensorboard, mlflow, wandb, or module:Class; no result depends on it"
        ),
    ] = ()
    verify: Annotated[
        bool, Doc("check while it runs that the records hold together; for those who change fedtempo")
    ] = False

    def __post_init__(self) -> None:
        if self.horizon is not None and self.horizon > LARGEST_TIME_S:
            raise ValueError(f"horizon = {self.horizon:g}: must be at most {LARGEST_TIME_S:g} s")
        if self.stop_at_target and self.target_accuracy is None:
            raise ValueError("stop_at_target needs target_accuracy")
        if self.horizon is None and self.max_commits is None and not self.stop_at_target:
            raise ValueError("horizon is missing: give seconds, or max_commits, or target_accuracy and stop_at_target")


class Interruptible(Protocol):
    """Who must know that a run ends before its end, while the strategy's tasks are still as they were."""

    @property
    def replays(self) -> bool:
        """Whether a resumed run is not yet where it was: models are names."""
        ...

    def interrupt(self) -> None:
        """Between two steps of its tasks."""
        ...

    def stop(self) -> None:
        """In the midst of one. What tasks ask for from now on is no part of the run."""
        ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "horizon", "target", "budget" (of commits, or the strategy had no more to do) or "interrupted".

    end_s: the clock then. model: the global model's flat parameters; None without training, and for a resumed run that
    was interrupted again before it was where it had been.
    """

    ended: str
    end_s: float
    model: npt.NDArray[np.float32] | None


class Driven(Federation, Protocol):
    """A federation as the runner drives it."""

    @property
    def end_s(self) -> float:
        """The run's end, were it now."""
        ...

    @property
    def ended(self) -> asyncio.Future[str]: ...
    @property
    def visits_begun(self) -> int: ...
    def in_progress(self) -> Sequence[Visit]:
        """Visits that hold their client now, as another thread may ask."""
        ...

    def end(self, why: str) -> None:
        """End the run at this instant: `why` is "target", "budget" or "horizon"."""
        ...

    def close(self) -> None:
        """No visit after this: those still held are recorded as cut."""
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
) -> Outcome:
    """Run `strategy` to its end. `make(evaluations=..., horizon=...)` builds the federation inside the clock.

    Ctrl-C ends the run where it is: what was recorded stays, and the outcome says "interrupted". So does SIGTERM where
    it has a handler, which is called and may raise KeyboardInterrupt. strategy_name: what errors call the strategy; its
    class by default. `watch` is called once with the objects that a progress display may read from another thread.
    journal: told of the end of a run that does not end by itself. play: runs the whole of it on a loop whose time is
    the run's clock; virtual time by default. wait: see Evaluations. Raises UserCodeError if a user's code failed.
    """
    state: dict[str, Any] = {}

    async def main() -> str:
        evaluations = Evaluations(
            executor,
            recorder,
            every=settings.evaluate_every if settings.evaluate == "time" else None,
            target=settings.target_accuracy,
            stop=settings.stop_at_target,
            reached=lambda: sim.end("target"),
            wait=wait,
        )
        horizon = math.inf if settings.horizon is None else settings.horizon
        sim = state["sim"] = make(evaluations=evaluations, horizon=horizon, max_commits=settings.max_commits)
        watch(sim, evaluations)
        this = asyncio.current_task()
        assert this is not None
        try:
            with cancelled_by_sigterm(this):
                ended = await _until_the_end(strategy, settings, sim, evaluations, journal, strategy_name)
        finally:
            state["end_s"] = sim.end_s
        evaluations.finish(sim.end_s, sim.model)
        return ended

    try:
        if play is None:
            ended = clock.run(main(), broken_off=journal.stop if journal else lambda: None)
        else:
            ended = play(main())
    except (KeyboardInterrupt, asyncio.CancelledError):
        ended = "interrupted"
    except FedtempoError as error:
        if "sim" in state:
            error.keeps_run = state["sim"].model.version > 0 or isinstance(error, UserCodeError)
        raise
    sim: F | None = state.get("sim")
    trained = executor.trains and not (journal and journal.replays)
    return Outcome(ended, state.get("end_s", 0.0), executor.vector(sim.model.location) if sim and trained else None)


async def _until_the_end(
    strategy: Strategy,
    settings: RunSettings,
    sim: Driven,
    evaluations: Evaluations,
    journal: Interruptible | None,
    strategy_name: str | None,
) -> str:
    """Run the strategy's coroutine until the horizon, the budget or the target; returns which it was."""
    if settings.horizon is not None:
        # Just after the horizon: whatever ends exactly at it still counts.
        asyncio.get_running_loop().call_at(math.nextafter(settings.horizon, math.inf), sim.end, "horizon")
    evaluations.begin(sim.model)
    running: asyncio.Future[Any] = asyncio.create_task(strategy.run(sim), name="strategy")
    try:
        await asyncio.wait([running, sim.ended], return_when=asyncio.FIRST_COMPLETED)
        if settings.horizon is not None and running.done() and running.exception() is None:
            await sim.ended
    except asyncio.CancelledError:
        if journal is not None:
            journal.interrupt()
        raise
    finally:
        sim.close()
        running.cancel()
        await asyncio.wait([running])
    if not running.cancelled() and (error := running.exception()) is not None:
        raise _told(error, strategy, f"strategy.name = {strategy_name or part_name(strategy)!r}")
    return sim.ended.result() if sim.ended.done() else "budget"


@contextlib.contextmanager
def cancelled_by_sigterm(task: asyncio.Task[Any]) -> Iterator[None]:
    """The first SIGTERM cancels the task where its handler raises KeyboardInterrupt, as asyncio does for Ctrl-C."""
    handler = signal.getsignal(signal.SIGTERM)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def cancel(number: int, frame: Any) -> None:
        signal.signal(number, handler)
        try:
            handler(number, frame)
        except KeyboardInterrupt:
            task.cancel()

    signal.signal(signal.SIGTERM, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def _told(error: BaseException, strategy: Strategy, where: str) -> BaseException:
    """What is raised for an error of the strategy's: ours as it is, one of a user's code with its lines."""
    found = error
    while isinstance(found, BaseExceptionGroup) and (
        len(found.exceptions) == 1 or found.split(FedtempoError)[1] is None
    ):
        found = found.exceptions[0]
    if isinstance(found, StrategyError):
        told: BaseException | None = with_lines(found, where)
    elif isinstance(found, FedtempoError) or not isinstance(found, Exception):
        return found
    else:
        told = user_error(found, where, strategy)
    if told is None:
        return found
    told.__cause__ = found
    return told

"""Real time for a run: the event loop's clock begins at zero, and can stand still before the run."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_STANDSTILL_S = 1e6
"""How far before time 0 the loop's clock runs during preparation: no timer of the run comes into reach there."""


class RunLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is seconds since the run began."""

    def __init__(self) -> None:
        self._zero = 0.0
        super().__init__()
        self._zero = super().time()
        self.preparing = False

    def time(self) -> float:
        return super().time() - self._zero

    def stand_still(self) -> None:
        """From now on `now` is 0. Timers that were set for the run wait; those that are set meanwhile work."""
        self._zero = super().time() + _STANDSTILL_S
        self.preparing = True

    def begin(self) -> None:
        """The run begins: it is 0 s."""
        self._zero = super().time()
        self.preparing = False

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return 0.0 if self.preparing else self.time()


def play(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a loop of its own; Ctrl-C cancels it and raises KeyboardInterrupt."""
    with asyncio.Runner(loop_factory=RunLoop) as runner:
        return runner.run(main)

"""A strategy that first is another one, and then has every client train once more, to see whether it is free."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, ClientUnavailable, Federation
from fedtempo.fields import STRICT
from fedtempo.parts.construct import construct
from fedtempo.strategies import STRATEGIES

CALM = "CHAOS_CALM"
"""Name of the environment variable with the file that says when the roll was called: its existence ends all faults."""


@dataclass(frozen=True, config=STRICT)
class ThenRollCall:
    """Run a strategy for `busy_s`, then give every client `roll_s` to train once; end as soon as all have."""

    first: str
    options: dict[str, Any] = field(default_factory=dict)
    busy_s: float = 2.0
    roll_s: float = 30.0

    async def run(self, fed: Federation) -> None:
        """Run the strategy, cancel it wherever it is, and call the roll."""
        running = asyncio.ensure_future(made(self.first, self.options).run(fed))
        await asyncio.wait([running], timeout=self.busy_s)
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()  # raises what ended it, such as a full disk
        if CALM in os.environ:
            Path(os.environ[CALM]).write_text(repr(fed.now))
        called = asyncio.gather(*(_roll_call(fed, client) for client in fed.clients))
        await asyncio.wait([called], timeout=self.roll_s)
        if called.done():
            called.result()
        called.cancel()


def made(name: str, options: Mapping[str, Any]) -> Any:
    """Return a registered strategy with these settings."""
    return construct(STRATEGIES[name], dict(options), "strategy")


async def _roll_call(fed: Federation, client: Client) -> None:
    while True:
        try:
            await fed.train(client, fed.model)
        except ClientUnavailable:
            await fed.sleep_until(fed.now + 0.05)
        else:
            return

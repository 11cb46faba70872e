"""Keys of earlier versions that stored configurations may still have."""

from __future__ import annotations

import functools
import logging
from typing import Any

from fedtempo.errors import ConfigError

log = logging.getLogger("fedtempo")


def move_server_steps(strategy: dict[str, Any], server: dict[str, Any]) -> None:
    """Write the former `server_momentum` and `server_lr` of fedavg as `server.optimizer`, and say so once.

    strategy, server: tables of a configuration, changed in place. The bits of runs stay the same. Raises ConfigError if
    there is a `server.optimizer`, too.
    """
    former = {name: strategy.pop(name) for name in ("server_momentum", "server_lr") if name in strategy}
    momentum, lr = former.get("server_momentum", 0.0), former.get("server_lr", 1.0)
    if momentum == 0 and lr == 1:
        return
    keys = ", ".join(f"strategy.{name} = {value!r}" for name, value in former.items())
    if "optimizer" in server:
        raise ConfigError(f"{keys}: replaced by server.optimizer, which is there, too; remove the former")
    server["optimizer"] = {"kind": "sgd", "momentum": momentum, "lr": lr}
    _say(f"{keys}: now server.optimizer = {{ kind = 'sgd', momentum = {momentum!r}, lr = {lr!r} }}, used here")


@functools.cache
def _say(line: str) -> None:
    log.warning("%s", line)

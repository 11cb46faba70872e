"""How busy the machines of a deployment are: told by clients, kept with a measured fleet and with a run, compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedtempo.deploy.live.messages import Reply
from fedtempo.errors import ConfigError
from fedtempo.parts.foreign_text import one_line
from fedtempo.parts.machine import usable_cpus
from fedtempo.parts.text_files import parse_toml, read_text
from fedtempo.record import Records

DIFFERS = 1.25
"""Loads differ if programs had to wait this many times as long for a processor in one case as in the other."""

_MOST = 1e6
"""Largest load and number of processors that make sense."""

_FEWEST_CPUS = 0.01
"""Smallest number of processors that makes sense: a container may use a part of one."""


class Load(NamedTuple):
    """A machine's load average (processes that run or wait for a processor), and the processors that may be used."""

    average: float
    cpus: float

    @property
    def wait(self) -> float:
        """How many times as long computing takes as on an idle machine, if the processors are shared fairly."""
        return max(1.0, self.average / self.cpus)

    def __str__(self) -> str:
        return f"{self.average:.1f} on {self.cpus:g} processors"


def load_now() -> Load | None:
    """Return the load of this machine in the last minute; None if the system does not tell."""
    if not hasattr(os, "getloadavg"):
        return None
    try:
        return Load(round(os.getloadavg()[0], 2), usable_cpus())
    except OSError:
        return None


def read_load(value: Any) -> Load | None:
    """Return the load that somebody else told, as `[average, cpus]`; None for anything else."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in value):
        return None
    average, cpus = value
    if not (0 <= average <= _MOST and _FEWEST_CPUS <= cpus <= _MOST):  # false for NaN, too
        return None
    return Load(float(average), float(cpus))


class _Mean:
    """A mean of loads, in constant memory."""

    def __init__(self) -> None:
        self._sum, self._count, self._cpus = 0.0, 0, 0.0

    def add(self, load: Load | None) -> None:
        if load is not None:
            self._sum, self._count, self._cpus = self._sum + load.average, self._count + 1, load.cpus

    def value(self) -> list[float] | None:
        return [round(self._sum / self._count, 2), self._cpus] if self._count else None


class Loads:
    """The loads during a run, of clients' machines and of the server's, noted whenever a client has trained.

    Only what is noted since the run was last resumed counts. Clients of earlier versions tell nothing.
    """

    def __init__(self, clients: int) -> None:
        self._clients = [_Mean() for _ in range(clients)]
        self._server = _Mean()

    def noting(self, client: int, check: Callable[[Reply], Any]) -> Callable[[Reply], Any]:
        """Return a check of a client's reply that also notes the load which the reply tells."""

        def check_and_note(reply: Reply) -> Any:
            result = check(reply)
            self._clients[client].add(read_load(reply.content.get("load")))
            self._server.add(load_now())
            return result

        return check_and_note

    def fact(self) -> dict[str, Any]:
        """Return the mean loads as JSON values: `[average, cpus]`, or None if nothing was told."""
        return {"server": self._server.value(), "clients": [mean.value() for mean in self._clients]}


def _readable(told: Mapping[str, Any]) -> dict[str, Load]:
    """Return the loads that can be read, by name."""
    return {name: load for name, value in told.items() if (load := read_load(value)) is not None}


def loads_of(records: Records) -> dict[str, Load]:
    """Return the loads of a deployment by client's name, and the server's as ""; unknown ones are missing."""
    fact, names = records.facts.get("loads"), records.facts.get("client_names")
    if not isinstance(fact, dict) or not isinstance(names, list) or not isinstance(fact.get("clients"), list):
        return {}
    told = {"": fact.get("server"), **dict(zip(map(str, names), fact["clients"]))}
    return _readable(told)


def measured_loads(path: Path | str) -> dict[str, Load]:
    """Return the loads under which a fleet was measured, from its file, as `loads_of`; empty if the file has none.

    Raises ConfigError if the file cannot be read.
    """
    try:
        measured = parse_toml(read_text(Path(path).expanduser())).get("measured")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(measured, dict):
        return {}
    clients = measured.get("clients")
    told = {"": measured.get("server"), **(clients if isinstance(clients, dict) else {})}
    return _readable(told)


def measured_table(records: Records) -> dict[str, Any]:
    """Return the table `[measured]` of a measured fleet's file."""
    loads = loads_of(records)
    clients = {name: list(load) for name, load in loads.items() if name}
    return {**({"server": list(loads[""])} if "" in loads else {}), **({"clients": clients} if clients else {})}


def differences(measured: Mapping[str, Load], deployed: Mapping[str, Load]) -> list[str]:
    """Return a line for each machine whose load in a deployment differed from that when it was measured.

    Beyond three clients, they are summed up.
    """
    lines = []
    for name in measured.keys() & deployed.keys():
        before, then = measured[name], deployed[name]
        ratio = then.wait / before.wait
        if max(ratio, 1 / ratio) > DIFFERS:
            who = f"client {one_line(name)}" if name else "the server"
            lines.append(f"{who}: load {before} when measured, {then} in the deployment")
    lines.sort()
    if len(lines) > 4:
        lines = [*lines[:3], f"and {len(lines) - 3} more machines"]
    return lines


def warning(lines: Sequence[str]) -> str:
    """Return what differing loads mean for a prediction."""
    return (
        f"the machines' load was not that of the measurement, so visits may take other times than predicted: "
        f"{'; '.join(lines)}"
    )

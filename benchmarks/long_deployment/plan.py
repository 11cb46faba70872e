"""When clients leave and return, and when the server's programs are restarted: all drawn from one seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.fleet.availability import Diurnal
from fedtempo.runtime.keyed import keyed_generator

DRIVER, SUPERLINK = "driver", "superlink"

_STEADY = 0.2
"""Share of the clients that stay for the whole time; the others are away once a day."""

_AWAY = 0.25
"""Share of the day that the others are away."""

_FIRST, _LAST = 0.06, 0.85
"""Share of the time before the first client leaves, and by which the last one has returned."""

_OF_SERVERS = 40
"""One restart in so many is the driver's, and one the SuperLink's."""

_POWER_CUT_S = 75.0
"""A client may only be killed if it stays away for so long: the SuperLink rejects its key for a minute."""

_DOWN_S = {DRIVER: 2.0, SUPERLINK: 3.0}


@dataclass(frozen=True)
class Restart:
    """A program ends and starts again. killed: by SIGKILL, not by SIGTERM. Times are seconds from the begin."""

    program: str
    down_s: float
    up_s: float
    killed: bool


@dataclass(frozen=True)
class Plan:
    """All restarts, in the order in which programs end. day_s: length of a day on the wall clock, seconds."""

    restarts: tuple[Restart, ...]
    day_s: float
    days: int
    steady: int

    def of(self, program: str) -> int:
        """Return how often a program restarts."""
        return sum(restart.program == program for restart in self.restarts)


def client_names(count: int) -> list[str]:
    return [f"client-{number:03d}" for number in range(count)]


def plan(length_s: float, clients: int, restarts: int, seed: int) -> Plan:
    """Return the restarts of a deployment that lasts `length_s` seconds.

    A fifth of the clients stay. The others follow a calendar of fedtempo's (`diurnal`): each is away for a quarter of
    every day, at its own time of day. There are as many days as the number of restarts needs. Every third absence that
    is long enough begins with SIGKILL. The driver and the SuperLink restart in the first third of the time, so that
    their last lives are long enough to see growth.
    """
    steady = max(1, round(_STEADY * clients))
    mobile = clients - steady
    of_each = max(1, restarts // _OF_SERVERS)
    absences = restarts - 2 * of_each
    if mobile < 1 or absences < 1:
        raise ConfigError(f"clients = {clients}, restarts = {restarts}: at least 2 clients and 3 restarts are needed")
    days = math.ceil(absences / mobile)
    first_s = _FIRST * length_s
    day_s = (_LAST * length_s - first_s) / (days + _AWAY)
    calendar = Diurnal(share=1 - _AWAY, period_s=day_s).build(mobile, keyed_generator(seed, "calendar"))
    away = []
    for client, name in enumerate(client_names(clients)[steady:]):
        time = calendar.available_until(client, 0.0)
        time = time or calendar.available_until(client, calendar.next_available(client, 0.0))
        for _ in range(days):
            back = calendar.next_available(client, time)
            away.append(Restart(name, first_s + time, first_s + back, killed=False))
            time = calendar.available_until(client, back)
    away = sorted(away, key=lambda restart: restart.down_s)[:absences]
    away = [_ended(restart, number) for number, restart in enumerate(away)]
    servers = []
    third_s = length_s / 3 - first_s
    for number in range(2 * of_each):
        program = (SUPERLINK, DRIVER)[number % 2]
        at = first_s + third_s * (number + 0.5) / (2 * of_each)
        servers.append(Restart(program, at, at + _DOWN_S[program], killed=number // 2 % 2 == 0))
    ordered = sorted([*away, *servers], key=lambda restart: restart.down_s)
    return Plan(tuple(ordered), day_s, days, steady)


def paces(clients: int, seed: int, fastest_s: float, slowest_s: float) -> list[float]:
    """Return the seconds that an epoch takes at each client, from `fastest_s` to `slowest_s`, evenly and shuffled."""
    order = keyed_generator(seed, "paces").permutation(clients)
    spread = np.linspace(fastest_s, slowest_s, clients)
    return [round(float(spread[position]), 3) for position in order]


def _ended(restart: Restart, number: int) -> Restart:
    killed = number % 3 == 0 and restart.up_s - restart.down_s >= _POWER_CUT_S
    return Restart(restart.program, restart.down_s, restart.up_s, killed)


Kind = Literal["client", "driver", "superlink"]


def kind_of(program: str) -> Kind:
    """Return which kind of program has this name."""
    if program == DRIVER:
        return "driver"
    return "superlink" if program == SUPERLINK else "client"

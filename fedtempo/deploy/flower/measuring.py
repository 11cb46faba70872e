"""Measurement of a fleet: each client makes a few visits, and their times become a `[fleet]` table.

A client that is idle asks for work less and less often, so a visit that follows another begins sooner than one that
follows a pause, by a fifth of a second. A run has both kinds. So half of the visits follow a pause.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import tomli_w

from fedtempo.deploy.loads import measured_table
from fedtempo.errors import RunError
from fedtempo.federation import Client, ClientUnavailable, Federation
from fedtempo.record import Records

_PAUSE_S = 2.0
"""Seconds after which an idle client asks for work as rarely as it ever does; a pause lasts up to a second longer."""


@dataclass(frozen=True)
class Measure:
    """A strategy that only measures: all clients make `visits` visits each, in parallel, and nothing is committed.

    Every other visit, beginning with the first, follows a pause.
    """

    visits: int

    async def run(self, fed: Federation) -> None:
        async def visit(client: Client) -> None:
            pauses = _PAUSE_S + fed.rng("measure", client.id).random(self.visits)
            for number, pause_s in enumerate(pauses.tolist()):
                if number % 2 == 0:
                    await fed.sleep_until(fed.now + pause_s)
                try:
                    await fed.train(client, fed.model)
                except ClientUnavailable:
                    return

        async with asyncio.TaskGroup() as tasks:
            for client in fed.clients:
                tasks.create_task(visit(client))


def fleet_table(records: Records) -> dict[str, Any]:
    """Return the `[fleet]` table of a run's visits: each client's times, which the server estimates exactly.

    A time is the mean of two medians: of the visits that followed a pause, and of the others. Raises RunError if a
    client made no visits.
    """
    visits, names = records.visits, records.facts["client_names"]
    download, compute, upload = [], [], []
    for client in range(len(names)):
        done = (visits["client"] == client) & (visits["outcome"] == "done")
        if not done.any():
            raise RunError(f"client {names[client]} made no visits, so its times are unknown")
        started, received, computed, finished = (
            visits[name][done] for name in ("started", "received", "computed", "finished")
        )
        order = np.argsort(started)
        started, received, computed, finished = (times[order] for times in (started, received, computed, finished))
        paused = np.diff(started, prepend=-np.inf) - np.append(0.0, (finished - started)[:-1]) >= _PAUSE_S
        download.append(_typical(received - started, paused))
        compute.append(_typical(computed - received, paused))
        upload.append(_typical(finished - computed, paused))
    return {
        "compute": {"unit": "s/visit", "speed": compute},
        "link": {"kind": "fixed", "download_s": download, "upload_s": upload},
        "estimates": "exact",
    }


def as_toml(records: Records) -> str:
    """Return the measured fleet as TOML, with the clients' names in a comment, and the load of their machines."""
    names = ", ".join(records.facts["client_names"])
    tables = {"fleet": fleet_table(records)}
    if measured := measured_table(records):
        tables["measured"] = measured
    return f"# Measured on live clients, in this order: {names}.\n{tomli_w.dumps(tables)}"


def _typical(seconds: Any, paused: Any) -> float:
    """Return the mean of the medians of both kinds of visits, or the median of the one that there is."""
    medians = [float(np.median(seconds[kind])) for kind in (paused, ~paused) if kind.any()]
    return round(max(0.0, sum(medians) / len(medians)), 6)

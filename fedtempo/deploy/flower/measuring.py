"""Measurement of a fleet: each client makes a few visits, and their times become a `[fleet]` table."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import tomli_w

from fedtempo.errors import RunError
from fedtempo.federation import Client, ClientUnavailable, Federation
from fedtempo.record import Records


@dataclass(frozen=True)
class Measure:
    """A strategy that only measures: all clients make `visits` visits each, in parallel, and nothing is committed."""

    visits: int

    async def run(self, fed: Federation) -> None:
        async def visit(client: Client) -> None:
            for _ in range(self.visits):
                try:
                    await fed.train(client, fed.model)
                except ClientUnavailable:
                    return

        async with asyncio.TaskGroup() as tasks:
            for client in fed.clients:
                tasks.create_task(visit(client))


def fleet_table(records: Records) -> dict[str, Any]:
    """Return the `[fleet]` table of a run's visits: each client's median times, which the server estimates exactly.

    Raises RunError if a client made no visits.
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
        download.append(_median(received - started))
        compute.append(_median(computed - received))
        upload.append(_median(finished - computed))
    return {
        "compute": {"unit": "s/visit", "speed": compute},
        "link": {"kind": "fixed", "download_s": download, "upload_s": upload},
        "estimates": "exact",
    }


def as_toml(records: Records) -> str:
    """Return the measured fleet as TOML, with the clients' names in a comment."""
    names = ", ".join(records.facts["client_names"])
    return f"# Measured on live clients, in this order: {names}.\n{tomli_w.dumps({'fleet': fleet_table(records)})}"


def _median(seconds: Any) -> float:
    return round(max(0.0, float(np.median(seconds))), 6)

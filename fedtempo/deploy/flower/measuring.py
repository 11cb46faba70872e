"""A fleet as it is: each client makes a few visits, and what they took becomes a `[fleet]` table."""

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
    """A strategy that learns nothing: every client makes so many visits, all at once, one after another at each."""

    visits: int

    async def run(self, fed: Federation) -> None:
        async def ask(client: Client) -> None:
            for _ in range(self.visits):
                try:
                    await fed.train(client, fed.model)
                except ClientUnavailable:
                    return

        async with asyncio.TaskGroup() as tasks:
            for client in fed.clients:
                tasks.create_task(ask(client))


def fleet_table(records: Records) -> dict[str, Any]:
    """The `[fleet]` of a run's visits: medians of each client's seconds; the server knows what was measured.

    Raises RunError naming the clients without a visit.
    """
    visits, names = records.visits, records.facts["client_names"]
    download, compute, upload = [], [], []
    for client in range(len(names)):
        own = (visits["client"] == client) & (visits["outcome"] == "done")
        if not own.any():
            raise RunError(f"client {names[client]} made no visit; its times are not known")
        started, received, computed, finished = (
            visits[name][own] for name in ("started", "received", "computed", "finished")
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
    """The measured fleet as TOML, with the clients' names."""
    names = ", ".join(records.facts["client_names"])
    return f"# Measured on live clients, in this order: {names}.\n{tomli_w.dumps({'fleet': fleet_table(records)})}"


def _median(seconds: Any) -> float:
    return round(max(0.0, float(np.median(seconds))), 6)

"""Clients as processes on this machine, each with the part of the data that a simulation would give it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from fedtempo.data.partitions import ByOwner
from fedtempo.deploy.flower.grid import SuperLink
from fedtempo.deploy.flower.superlink import end, tied
from fedtempo.parts.import_path import search_path
from fedtempo.runs.config import Config
from fedtempo.runs.world import dealt_by, load_data
from fedtempo.runtime.keyed import keyed_generator

_SHARED = ("source", "options", "transform", "examples_per_client", "partition")
"""Keys of [data] that a client's TOML has too."""


def client_tables(config: Config, part: int, superlink: SuperLink) -> dict[str, Any]:
    """Return the settings of the client that holds part number `part` of a configuration's data."""
    data = config.tables["data"]
    network = config.tables["model"]["network"]
    partition, n_clients = dealt_by(config, load_data(config))
    by_owner = {"partition": "by-owner"} if isinstance(partition, ByOwner) else {}
    consent_order = keyed_generator(config.run.seed, "consent").permutation(n_clients)
    return {
        "name": f"client-{part}",
        "superlink": superlink.address,
        **({"insecure": True} if superlink.insecure else {"root_certificates": str(superlink.root_certificates)}),
        "tell_labels": config.data.tell_labels,
        "share_examples": bool(consent_order[part] < round(config.data.share_examples * n_clients)),
        "networks": [network] if ":" in network else [],
        "training": [name for name in (config.training.loss, config.training.optimizer) if name and ":" in name],
        "data": {
            **by_owner,
            **{name: data[name] for name in _SHARED if name in data},
            "clients": n_clients,
            "part": part,
            "seed": config.run.seed,
        },
    }


@contextlib.contextmanager
def clients(config: Config, superlink: SuperLink, folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run a process for each client of the configuration inside the block; settings and logs go to `folder`."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for part in range(dealt_by(config, load_data(config))[1]):
            settings = folder / f"client-{part}.toml"
            settings.write_text(tomli_w.dumps(client_tables(config, part, superlink)), encoding="utf-8")
            processes.append(start_client(settings, folder / f"client-{part}.log"))
        yield processes
    finally:
        end(processes)


def start_client(settings: Path, logfile: Path) -> subprocess.Popen[bytes]:
    """Start a client's process, with the same module search path as this process."""
    path = dict.fromkeys([*search_path(), *sys.path])
    with logfile.open("ab") as output:
        return subprocess.Popen(  # noqa: S603  a list of arguments, no shell
            tied([sys.executable, "-m", "fedtempo", "client", str(settings)]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
            start_new_session=True,  # Ctrl-C goes to the run, which ends its clients itself
        )

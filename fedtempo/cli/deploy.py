"""Commands for real clients: client, deploy and keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedtempo.cli.logs import Format, configure
from fedtempo.cli.options import (
    ConfigFile,
    Local,
    LogFormat,
    Out,
    Seed,
    Sets,
    console,
    local_experiment,
    new_run_folder,
)
from fedtempo.cli.records import show_result
from fedtempo.errors import ConfigError


def client(
    config: Annotated[Path, typer.Argument(help="client configuration file (TOML)", show_default=False)],
    log_format: Annotated[Format, typer.Option(help="format of the log on stderr")] = Format.text,
) -> None:
    """Serve as a client of a deployment.

    Trains on this machine's data whenever the server asks.
    """
    from fedtempo.api.clients import serve_client

    configure(log_format)
    serve_client(config)


def deploy(
    config: ConfigFile,
    local: Local = None,
    out: Out = None,
    set_: Sets = [],  # noqa: B006
    seed: Seed = None,
    log_format: LogFormat = None,
) -> None:
    """Run one strategy on real clients, through Flower.

    Leaves a folder like a simulation's.
    """
    experiment = local_experiment(config, local, set_, seed)
    from fedtempo.cli.progress import terminal

    folder = new_run_folder(out, experiment.label, experiment.config.run.seed)
    result = experiment.deploy(folder, local=local, display=terminal(console, log_format, deployed=True))
    show_result(result)


def superlink(
    keys: Annotated[Path, typer.Argument(help="folder of `fedtempo keys`", show_default=False)],
    address: Annotated[str, typer.Option(help="host:port to listen at")] = "127.0.0.1:8000",
    database: Annotated[
        Path | None, typer.Option(help="file for state that outlives this process (default: in memory)")
    ] = None,
) -> None:
    """Run Flower's SuperLink, with TLS, clients' keys and a secret.

    Deployments start one themselves if none answers.
    """
    from fedtempo.api.clients import serve_superlink

    serve_superlink(keys, address, database)


def keys(
    folder: Annotated[Path, typer.Argument(help="folder of the certificates and keys", show_default=False)],
    host: Annotated[list[str], typer.Option(help="name or address of the server for clients; can be repeated")] = [],  # noqa: B006
    client: Annotated[list[str], typer.Option(help="client to make a key for; can be repeated")] = [],  # noqa: B006
    renew_server: Annotated[bool, typer.Option(help="replace the server's certificate and key")] = False,
    register: Annotated[
        str | None, typer.Option(help="host:port of a running SuperLink to register these clients at")
    ] = None,
    revoke: Annotated[
        list[str], typer.Option(help="with --register: client whose key to revoke there; can be repeated")
    ] = [],  # noqa: B006
) -> None:
    """Make certificates and keys for a deployment.

    An authority, a server's certificate and clients' keys; what is there stays.
    """
    from fedtempo.api.clients import make_keys, register_keys, revoke_keys

    for made in make_keys(folder, host, client, renew_server=renew_server):
        console.print(f"{made}", style="cyan", soft_wrap=True)
    if revoke and register is None:
        raise ConfigError("revoke: give the SuperLink's host:port as --register")
    if register is not None and revoke:
        for name in revoke_keys(folder, register, revoke):
            console.print(f"{name} is revoked at {register}", soft_wrap=True)
    elif register is not None:
        for name in register_keys(folder, register):
            console.print(f"{name} is registered at {register}", soft_wrap=True)

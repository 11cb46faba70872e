"""The arguments of `fedtempo client`, `deploy` and `keys`; see `fedtempo.cli.app`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedtempo.cli.logs import Format
from fedtempo.cli.options import ConfigFile, Local, LogFormat, Out, Sets, console


def client(
    config: Annotated[Path, typer.Argument(help="the client's own TOML", show_default=False)],
    log_format: Annotated[Format, typer.Option(help="how it logs, on stderr")] = Format.text,
) -> None:
    """Be a client of a deployment.

    Trains on this machine's data whenever the server asks.
    """
    from fedtempo.cli import deploy as deploy_commands

    deploy_commands.client(config, log_format)


def deploy(
    config: ConfigFile,
    local: Local = None,
    out: Out = None,
    set_: Sets = [],  # noqa: B006
    seed: Annotated[int | None, typer.Option(help="the same as --set run.seed=N")] = None,
    log_format: LogFormat = None,
) -> None:
    """Run one strategy on real clients, through Flower.

    Leaves a folder like a simulation's.
    """
    from fedtempo.cli import deploy as deploy_commands

    raise typer.Exit(deploy_commands.deploy(console, config, local, out, set_, seed, log_format))


def keys(
    folder: Annotated[Path, typer.Argument(help="where certificates and keys lie", show_default=False)],
    host: Annotated[
        list[str], typer.Option(help="name or address by which clients reach the server; may be repeated")
    ] = [],  # noqa: B006
    client: Annotated[list[str], typer.Option(help="client that gets a key; may be repeated")] = [],  # noqa: B006
    renew_server: Annotated[bool, typer.Option(help="make a new certificate and key for the server")] = False,
    register: Annotated[
        str | None, typer.Option(help="host:port of a running SuperLink that is to let these clients in")
    ] = None,
) -> None:
    """Make certificates and keys for a deployment.

    An authority, a server's certificate and clients' keys; what is there stays.
    """
    from fedtempo.cli import deploy as deploy_commands

    deploy_commands.keys(console, folder, host, client, renew_server, register)

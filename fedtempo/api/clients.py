"""Real clients of a deployment, from Python: serving as one, and their certificates and keys."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedtempo.deploy.flower import need_flower


def serve_client(path: Path | str) -> None:
    """Serve as a client of a deployment until SIGTERM or Ctrl-C (`fedtempo client`).

    path: the client's TOML file. Must be called in the main thread. Raises ConfigError for unusable settings or without
    Flower, RunError if the SuperLink keeps rejecting the client.
    """
    need_flower()
    from fedtempo.deploy.client.settings import load_client

    settings = load_client(Path(path))
    from fedtempo.deploy.flower.node import serve

    serve(settings)


def make_keys(
    folder: Path | str, hosts: Iterable[str] = (), clients: Iterable[str] = (), *, renew_server: bool = False
) -> list[Path]:
    """Make the missing certificates and keys of a deployment; return the new files (`fedtempo keys`).

    folder: gets the authority ca.crt and ca.key, server.crt and server.key, and a key pair <client>, <client>.pub per
    client; existing files are not changed. hosts: names or addresses through which clients reach the server, for its
    certificate. clients: their names. renew_server: replace the server's certificate and key. Raises ConfigError for an
    invalid name, without hosts for a new server certificate, or without Flower.
    """
    need_flower()
    from fedtempo.deploy.flower import keys

    return keys.make_keys(Path(folder), list(hosts), clients, renew_server=renew_server)


def register_keys(folder: Path | str, address: str) -> list[str]:
    """Register the public keys (*.pub) in a folder at a running SuperLink; return the names of the new clients.

    address: host:port of its control API; ca.crt in the folder verifies it (`fedtempo keys --register`). Raises
    ConfigError for an invalid key or without Flower, RunError if the SuperLink does not answer.
    """
    need_flower()
    from fedtempo.deploy.flower.grid import SuperLink
    from fedtempo.deploy.flower.keys import register

    return register(SuperLink(address, Path(folder) / "ca.crt"), Path(folder))

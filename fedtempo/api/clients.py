"""Real clients of a deployment, from Python: serving as one, and their certificates and keys."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

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

    address: host:port of the SuperLink; ca.crt in the folder verifies it, and control.secret is its secret (`fedtempo
    keys --register`). Raises ConfigError for an invalid key or without Flower, RunError if the SuperLink does not
    answer.
    """
    need_flower()
    from fedtempo.deploy.flower.keys import register, superlink_of

    return register(superlink_of(Path(folder), address), Path(folder))


def revoke_keys(folder: Path | str, address: str, clients: Iterable[str]) -> list[str]:
    """Revoke clients' keys at a running SuperLink (`fedtempo keys --revoke`); return the names of the revoked clients.

    folder, address: as for `register_keys`. clients: their names. A revoked key is rejected for good, so its client
    needs a new one. Raises ConfigError for a name that is not registered there or without Flower, RunError if the
    SuperLink does not answer.
    """
    need_flower()
    from fedtempo.deploy.flower.keys import revoke, superlink_of

    return revoke(superlink_of(Path(folder), address), list(clients))


def serve_superlink(
    folder: Path | str, address: str = "127.0.0.1:8000", database: Path | str | None = None
) -> NoReturn:
    """Run Flower's SuperLink in place of this process, with TLS, clients' keys and a secret (`fedtempo superlink`).

    folder: of `make_keys`. address: host:port to listen at. database: file for state that outlives the SuperLink
    (default: in memory). Raises ConfigError for missing files or without Flower.
    """
    need_flower()
    from fedtempo.deploy.flower.superlink import serve

    serve(Path(folder), address, None if database is None else Path(database))

"""The grid of a run: a SuperLink that is joined or started and, if wanted, clients on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedtempo.deploy.addresses import is_here
from fedtempo.deploy.flower.control_secret import read_secret
from fedtempo.deploy.flower.grid import FlowerGrid, Session, SuperLink, joined
from fedtempo.deploy.flower.keys import register
from fedtempo.deploy.flower.local import clients
from fedtempo.deploy.flower.superlink import Certificates, answers, end, free_port, started
from fedtempo.errors import ConfigError, RunError
from fedtempo.parts import leftovers
from fedtempo.runs.config import Config
from fedtempo.runs.deploy_settings import DeploySettings

log = logging.getLogger(__name__)


def to_resume(grid: FlowerGrid, local: int | None) -> dict[str, Any]:
    """Return the values that a deployment's folder must remember for the run to be resumed."""
    return {"local": local, "session": dataclasses.asdict(grid.session)}


@contextlib.contextmanager
def grid(
    config: Config,
    folder: Path,
    local: int | None = None,
    former: Session | None = None,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[FlowerGrid]:
    """Yield the grid of a run. Processes started for it end with the block, and their logs go to the run's folder.

    local: start this many clients and a SuperLink on this machine. former: see `grid.joined`. say: receives a line
    about the SuperLink in use. Raises ConfigError if no SuperLink answers and none can be started.
    """
    settings = config.deploy
    with contextlib.ExitStack() as stack:
        leftovers.remove_leftovers()
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=leftovers.prefix())))
        stack.callback(_keep_logs, work, folder)
        if local is not None:
            superlink = SuperLink(f"127.0.0.1:{free_port()}")
            processes = stack.enter_context(clients(config, superlink, work))  # clients load while the SuperLink starts
            superlink = stack.enter_context(started(work, address=superlink.address))
            stack.callback(end, processes)  # clients end before the SuperLink
        else:
            authority = settings.root_certificates
            superlink = SuperLink(settings.superlink, None if authority is None else Path(authority).expanduser())
            superlink = dataclasses.replace(superlink, secret=_control_secret(settings))
            if answers(superlink):
                say(f"joining the SuperLink at {superlink.address}")
            else:
                superlink = stack.enter_context(_started_superlink(config, work, superlink.secret, say))
        yield stack.enter_context(joined(superlink, settings.outage_s, former))


def _control_secret(settings: DeploySettings) -> str | None:
    """Return the secret of the SuperLink's control interface; None if none is set.

    Raises ConfigError if it cannot be used, or if the SuperLink is elsewhere and would not show by TLS that it belongs
    to the same `fedtempo keys`: the settings may be those of a foreign run folder, whose author wants a proof of the
    secret.
    """
    if settings.control_secret is None:
        return None
    where, file = f"deploy.control_secret = {settings.control_secret!r}", Path(settings.control_secret).expanduser()
    home, authority = file.resolve().parent, settings.root_certificates
    if authority is not None and Path(authority).expanduser().resolve().parent != home:
        raise ConfigError(f"{where}: deploy.root_certificates = {authority!r}: must be in the same folder, {home}")
    if authority is None and not is_here(settings.superlink):
        raise ConfigError(
            f"{where}: without deploy.root_certificates, it is of use only at 127.0.0.1, not at deploy.superlink = "
            f"{settings.superlink!r}"
        )
    return read_secret(file, where)


@contextlib.contextmanager
def _started_superlink(
    config: Config, work: Path, secret: str | None, say: Callable[[str], None]
) -> Iterator[SuperLink]:
    """Start the SuperLink that `[deploy]` describes. secret: of its control interface; None for a new one."""
    settings = config.deploy
    certificates = None
    if settings.certificate is not None and settings.key is not None and settings.root_certificates is not None:
        files = (settings.root_certificates, settings.certificate, settings.key)
        certificates = Certificates(*(Path(file).expanduser() for file in files))
    elif settings.root_certificates is not None:
        raise RunError(
            f"deploy.superlink = {settings.superlink!r}: no SuperLink with a certificate of "
            f"{settings.root_certificates} answers there; set deploy.certificate and deploy.key to have one started"
        )
    elif not is_here(settings.superlink):
        raise ConfigError(
            f"deploy.superlink = {settings.superlink!r}: no SuperLink answers there, and without TLS one is started "
            "on 127.0.0.1 only; set deploy.certificate and deploy.key (made by `fedtempo keys`)"
        )
    with started(
        work,
        address=settings.superlink,
        certificates=certificates,
        keys=settings.client_keys is not None,
        database=None if settings.database is None else Path(settings.database),
        secret=secret,
    ) as superlink:
        say(f"started a SuperLink at {settings.superlink}")
        if settings.client_keys is not None:
            register(superlink, Path(settings.client_keys).expanduser())
        yield superlink


def _keep_logs(work: Path, folder: Path) -> None:
    """Copy logs to the run's folder, as many as fit."""
    if not folder.exists():
        return
    logs = folder / "logs"
    for file in sorted(work.glob("*.log"), key=lambda file: file.name != "superlink.log"):
        try:
            logs.mkdir(exist_ok=True)
            shutil.copy(file, logs)
        except OSError as error:
            log.warning("%s could not be kept: %s", logs / file.name, error.strerror or error)

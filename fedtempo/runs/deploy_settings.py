"""The `[deploy]` table: the SuperLink of a run on real clients, and how long the server waits for clients."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative, Positive


@dataclass(frozen=True, config=STRICT)
class DeploySettings:
    """How `fedtempo deploy` runs on real clients. Simulations ignore this section."""

    superlink: Annotated[str, Doc("host:port of the SuperLink")] = "127.0.0.1:8000"
    root_certificates: Annotated[
        str | None, Doc("PEM file of the authority that signed the SuperLink's certificate (default: no TLS)")
    ] = None
    certificate: Annotated[
        str | None, Doc("PEM file of the server's certificate, if `fedtempo deploy` starts the SuperLink")
    ] = None
    key: Annotated[str | None, Doc("PEM file of the certificate's key, if `fedtempo deploy` starts the SuperLink")] = (
        None
    )
    client_keys: Annotated[
        str | None,
        Doc(
            "folder of public keys (*.pub); only these clients may connect to a SuperLink that `fedtempo deploy` starts"
        ),
    ] = None
    control_secret: Annotated[
        str | None,
        Doc(
            "file with the secret of the SuperLink's control interface, made by `fedtempo keys` (default: none; if "
            "`fedtempo deploy` starts the SuperLink, a new one)"
        ),
    ] = None
    database: Annotated[str | None, Doc("file for the state of a SuperLink that `fedtempo deploy` starts")] = None
    names: Annotated[
        tuple[str, ...],
        Field(strict=False),
        Doc("names of the clients that may take part (default: the first data.clients that connect)"),
    ] = ()
    test_on: Annotated[
        Literal["test", "all"],
        Doc("examples of data.source that the server evaluates on: its test examples, as in a simulation, or all"),
    ] = "test"
    wait_s: Annotated[Positive, Doc("seconds to wait until data.clients clients have connected")] = 120.0
    min_clients: Annotated[
        Count | None, Doc("after wait_s, begin with at least this many clients (default: all must connect)")
    ] = None
    deadline_factor: Annotated[
        float, Ge(1), Doc("a visit is late after this multiple of its expected time; server.deadline takes precedence")
    ] = 5.0
    deadline_floor_s: Annotated[Positive, Doc("shortest deadline of a visit, seconds")] = 30.0
    max_change: Annotated[
        float,
        Ge(0),
        Doc(
            "an update is rejected if it moves the model further than this multiple of the other clients' median "
            "update (more if these differ much); 0: no such limit"
        ),
    ] = 20.0
    patience_s: Annotated[
        NonNegative,
        Doc("seconds that a visit waits for a client that is disconnected or still busy with an earlier visit"),
    ] = 5.0
    outage_s: Annotated[
        Positive, Doc("the run fails when the SuperLink has been unreachable for this many seconds")
    ] = 600.0
    refresh_s: Annotated[Positive, Doc("seconds between checks of which clients are connected")] = 5.0
    metrics: Annotated[
        Annotated[str, Field(pattern=r"^[\w.-]+:\d{1,5}$")] | None,
        Doc("host:port that serves /metrics (for Prometheus) and /health (default: not served)"),
    ] = None

    def __post_init__(self) -> None:
        if 0 < self.max_change < 1:
            raise ValueError(f"max_change = {self.max_change:g}: must be 0, or at least 1")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate, key: give both or none")
        if self.certificate is not None and self.root_certificates is None:
            raise ValueError("root_certificates: give the authority that signed the certificate")
        if self.client_keys is not None and self.certificate is None:
            raise ValueError("client_keys: Flower asks for keys over TLS only; give certificate and key")

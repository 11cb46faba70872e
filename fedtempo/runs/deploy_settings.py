"""The `[deploy]` table: where the clients of a real run are met, and how long the server waits for them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative, Positive


@dataclass(frozen=True, config=STRICT)
class DeploySettings:
    """A run on real clients. A simulation does not look at it."""

    superlink: Annotated[str, Doc("host:port of the SuperLink")] = "127.0.0.1:8000"
    root_certificates: Annotated[
        str | None, Doc("PEM file of the authority that signed the SuperLink's certificate; no TLS where not given")
    ] = None
    certificate: Annotated[str | None, Doc("PEM file of the server's certificate, where the SuperLink is started")] = (
        None
    )
    key: Annotated[str | None, Doc("PEM file of the certificate's key, where the SuperLink is started")] = None
    client_keys: Annotated[
        str | None, Doc("folder of public keys (*.pub): a SuperLink that is started lets in only clients with these")
    ] = None
    database: Annotated[str | None, Doc("file in which a SuperLink that is started keeps its state")] = None
    names: Annotated[
        tuple[str, ...], Field(strict=False), Doc("clients that take part; whoever comes first where none is named")
    ] = ()
    wait_s: Annotated[Positive, Doc("seconds within which data.clients clients must have come")] = 120.0
    min_clients: Annotated[Count | None, Doc("begin with so many where not all came; all must come if not given")] = (
        None
    )
    deadline_factor: Annotated[
        float, Ge(1), Doc("a visit is given up after this times what it is expected to take")
    ] = 5.0
    deadline_floor_s: Annotated[Positive, Doc("no visit is given up before so many seconds")] = 30.0
    patience_s: Annotated[
        NonNegative, Doc("seconds that a visit waits for a client that is away, or has not ended an earlier visit")
    ] = 5.0
    outage_s: Annotated[Positive, Doc("the run fails when the SuperLink is away for so many seconds")] = 600.0
    refresh_s: Annotated[Positive, Doc("seconds between looks at which clients are there")] = 5.0
    metrics: Annotated[
        Annotated[str, Field(pattern=r"^[\w.-]+:\d{1,5}$")] | None,
        Doc("host:port at which /metrics (for Prometheus) and /health are served; nowhere where not given"),
    ] = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate, key: give both or none")
        if self.certificate is not None and self.root_certificates is None:
            raise ValueError("root_certificates: give the authority that signed the certificate")
        if self.client_keys is not None and self.certificate is None:
            raise ValueError("client_keys: Flower asks for keys over TLS only; give certificate and key")

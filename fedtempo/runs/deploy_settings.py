"""The `[deploy]` table: where clients connect to a real run, and how long the server waits for them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative, Positive


@dataclass(frozen=True, config=STRICT)
class DeploySettings:
    """A run on real clients. Simulations ignore it."""

    superlink: Annotated[str, Doc("host:port of the SuperLink")] = "127.0.0.1:8000"
    root_certificates: Annotated[
        str | None, Doc("PEM file of the authority that signed the SuperLink's certificate (default: no TLS)")
    ] = None
    certificate: Annotated[
        str | None, Doc("PEM file of the server's certificate, for a SuperLink that this run starts")
    ] = None
    key: Annotated[str | None, Doc("PEM file of the certificate's key, for a SuperLink that this run starts")] = None
    client_keys: Annotated[
        str | None,
        Doc("folder of public keys (*.pub): a SuperLink that this run starts accepts only clients with these keys"),
    ] = None
    database: Annotated[str | None, Doc("file in which a SuperLink that this run starts keeps its state")] = None
    names: Annotated[
        tuple[str, ...], Field(strict=False), Doc("names of the clients that take part (default: the first to join)")
    ] = ()
    wait_s: Annotated[Positive, Doc("seconds within which data.clients clients must join")] = 120.0
    min_clients: Annotated[
        Count | None, Doc("number of clients that suffices if not all join in time (default: all)")
    ] = None
    deadline_factor: Annotated[
        float, Ge(1), Doc("a visit is given up after this multiple of its expected duration")
    ] = 5.0
    deadline_floor_s: Annotated[Positive, Doc("seconds before which no visit is given up")] = 30.0
    patience_s: Annotated[
        NonNegative, Doc("seconds that a visit waits for a client that is offline or busy with an earlier visit")
    ] = 5.0
    outage_s: Annotated[Positive, Doc("seconds without the SuperLink after which the run fails")] = 600.0
    refresh_s: Annotated[Positive, Doc("seconds between checks for clients that join or leave")] = 5.0
    metrics: Annotated[
        Annotated[str, Field(pattern=r"^[\w.-]+:\d{1,5}$")] | None,
        Doc("host:port that serves /metrics (for Prometheus) and /health (default: not served)"),
    ] = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate, key: give both or none")
        if self.certificate is not None and self.root_certificates is None:
            raise ValueError("root_certificates: give the authority that signed the certificate")
        if self.client_keys is not None and self.certificate is None:
            raise ValueError("client_keys: Flower asks for keys over TLS only; give certificate and key")

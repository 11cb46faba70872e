"""A fleet: its clients' computing speed, links and availability, and the server's estimates of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs

from fedtempo.errors import ConfigError
from fedtempo.fleet.availability import AVAILABILITY, Always, Availability, AvailabilityKind
from fedtempo.fleet.by_name import for_clients
from fedtempo.fleet.compute import ClientSpeed, Compute, compute_from
from fedtempo.fleet.distributions import Distribution, drawn
from fedtempo.fleet.estimates import ESTIMATES, Estimator, EstimatorKind
from fedtempo.fleet.faults import Faults
from fedtempo.fleet.links import LINKS, Link, Links
from fedtempo.fleet.presets import completed
from fedtempo.fleet.truncation import FloatArray
from fedtempo.parts.component import component, made
from fedtempo.parts.fields import STRICT, Doc


class Generators(Protocol):
    """Makes a generator that depends only on the run's seed, `purpose` and `keys`."""

    def __call__(self, purpose: str, *keys: int) -> np.random.Generator: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Fleet:
    """The clients of one run.

    compute_watts, link_watts: power of each client while it computes, and while it receives or sends; None if unknown.
    """

    speed: ClientSpeed
    links: Links
    availability: Availability
    estimates: EstimatorKind
    faults: Faults = dataclasses.field(default_factory=Faults)
    compute_watts: FloatArray | None = None
    link_watts: FloatArray | None = None

    @property
    def n_clients(self) -> int:
        return len(self.speed.values)

    def estimator(self, rng: np.random.Generator) -> Estimator:
        """Return the server's estimates at the start of a run; they learn, so each run needs its own."""
        return self.estimates.build(self.n_clients, rng)

    def describe(
        self, examples_processed: npt.ArrayLike, size_bytes: float, upload_bytes: float | None = None
    ) -> list[dict[str, Any]]:
        """Return one row per client: mean times of a visit and its parts, seconds; rates, bit/s; position, metres.

        examples_processed: as in `ClientSpeed.mean_s`. size_bytes: size of a download, and of an upload unless
        `upload_bytes` is given. Columns that do not apply to the kind of link are left out.
        """
        rows = []
        for client, compute_s in enumerate(self.speed.mean_s(examples_processed).tolist()):
            download_s = self.links.download_s(client, size_bytes)
            upload_s = self.links.upload_s(client, size_bytes if upload_bytes is None else upload_bytes)
            row = {
                "client": client,
                "download_s": download_s,
                "compute_s": compute_s,
                "upload_s": upload_s,
                "visit_s": download_s + compute_s + upload_s,
            }
            if self.links.download_bps is not None:
                row["download_bps"] = float(self.links.download_bps[client])
            if self.links.upload_bps is not None:
                row["upload_bps"] = float(self.links.upload_bps[client])
            if self.links.positions is not None:
                row["x_m"], row["y_m"] = self.links.positions[client].tolist()
            if self.compute_watts is not None:
                row["compute_watts"] = float(self.compute_watts[client])
            if self.link_watts is not None:
                row["link_watts"] = float(self.link_watts[client])
            rows.append(row)
        return rows


def _from(registry: Mapping[str, type], group: str, what: str) -> BeforeValidator:
    """Accept a part itself, its name if it needs no fields, or a table with `kind`."""

    def make(value: object) -> object:
        if isinstance(value, str):
            value = {"kind": value}
        return component(value, registry, group, what) if isinstance(value, Mapping) else value

    return BeforeValidator(make)


def _faults_from(value: object) -> object:
    return made(Faults, value, "faults") if isinstance(value, Mapping) else value


@dataclass(frozen=True, config=STRICT)
class FleetPlan:
    """A fleet as described in a configuration. No timing has a default; a preset is a paper's complete fleet."""

    compute: Annotated[
        Compute, BeforeValidator(compute_from), Doc("computing speed of the clients: {unit, speed, ...}")
    ]
    link: Annotated[Link, _from(LINKS, "links", "link"), Doc("transfer times: {kind, ...}; 'none' for no time")]
    estimates: Annotated[
        EstimatorKind,
        _from(ESTIMATES, "estimates", "kind of estimates"),
        Doc("the server's estimates: exact, or {kind, ...}"),
    ]
    availability: Annotated[
        AvailabilityKind,
        _from(AVAILABILITY, "availability", "kind of availability"),
        Doc("when clients are available: {kind, ...}"),
    ] = dataclasses.field(default_factory=Always)
    faults: Annotated[
        Faults, BeforeValidator(_faults_from), Doc("faults of visits whose clients stay: {nan, hang, ...}")
    ] = dataclasses.field(default_factory=Faults)
    preset: Annotated[
        str | None,
        Doc("name of a paper's fleet, or a TOML file with a [fleet]; other given keys take precedence, field by field"),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: ArgsKwargs) -> ArgsKwargs:
        keys = values.kwargs or {}
        return ArgsKwargs(values.args, keys if keys.get("preset") is None else completed(keys))

    def build(self, n_clients: int, rng: Generators, names: Sequence[str] = ()) -> Fleet:
        """Build the fleet of `n_clients`; each part draws from its own generator, so parts do not affect each other.

        names: the clients' names in order (default: their numbers). Raises ConfigError if a part does not fit the
        number of clients or their names, or a time is unusable.
        """
        client_names = list(names) or [str(client) for client in range(n_clients)]
        compute, link, availability, faults = (
            for_clients(getattr(self, part), client_names, f"fleet.{part}")
            for part in ("compute", "link", "availability", "faults")
        )
        return Fleet(
            speed=compute.build(n_clients, rng("fleet compute")),
            links=link.build(n_clients, rng("fleet links")),
            availability=availability.build(n_clients, rng("fleet availability")),
            estimates=self.estimates,
            faults=faults,
            compute_watts=_power(compute.watts, n_clients, rng("fleet compute watts"), "compute"),
            link_watts=_power(getattr(link, "watts", None), n_clients, rng("fleet link watts"), "link"),
        )


def _power(watts: Distribution | None, n_clients: int, rng: np.random.Generator, part: str) -> FloatArray | None:
    """Return the power of each client, watts. Raises ConfigError for a negative or infinite power."""
    if watts is None:
        return None
    values = drawn(f"fleet.{part}.watts", watts, rng, n_clients)
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if bad.size:
        raise ConfigError(
            f"fleet.{part}.watts: client {bad[0]} draws {values[bad[0]]} W; it must be 0 or more and finite"
        )
    return values

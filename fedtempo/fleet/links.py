"""Transfer times between the server and each client, and from client to client.

`LINKS` maps the name used in a configuration to the class. There is no default: a fleet must say which links it has,
`{kind = "none"}` if transfers take no time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.fleet import radio
from fedtempo.fleet.distributions import PerClient, drawn
from fedtempo.fleet.radio import Placement
from fedtempo.fleet.truncation import FloatArray
from fedtempo.fleet.variation import Variation
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Lt, NonNegative, Positive


@dataclasses.dataclass(frozen=True, eq=False)
class Direction:
    """One direction between the server and each client: fixed times or rates, one per client; exactly one is given."""

    seconds: FloatArray | None = None
    rate_bps: FloatArray | None = None

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.rate_bps is None):
            raise ValueError("seconds, rate_bps: exactly one must be given")

    def time_s(self, client: int, size_bytes: float) -> float:
        if self.rate_bps is not None:
            return radio.transfer_s(size_bytes, float(self.rate_bps[client]))
        assert self.seconds is not None
        return float(self.seconds[client])

    def check(self, name: str) -> None:
        """Raise ConfigError for a time that is negative or not finite, or a rate that is not positive and finite."""
        if self.rate_bps is not None:
            values, good, want = self.rate_bps, self.rate_bps > 0, "bit/s; it must be positive and finite"
        else:
            assert self.seconds is not None
            values, good, want = self.seconds, self.seconds >= 0, "s; it must be 0 or more and finite"
        bad = np.flatnonzero(~(np.isfinite(values) & good))
        if bad.size:
            raise ConfigError(f"fleet.link: the {name} of client {bad[0]} is {values[bad[0]]} {want}")


@dataclasses.dataclass(frozen=True, eq=False)
class Links:
    """The links of a fleet's clients, as mean times; a visit's times are these multiplied by a factor of `variation`.

    channels, download_channels: number of clients that can send to, or receive from, the server in parallel; None: no
    limit. peer_bps: rate between two clients; None if they have no direct link. positions: metres from the server,
    (n_clients, 2); None if clients have no position.
    """

    download: Direction
    upload: Direction
    channels: int | None = None
    download_channels: int | None = None
    peer_bps: float | None = None
    positions: FloatArray | None = None
    variation: Variation = dataclasses.field(default_factory=Variation)

    def __post_init__(self) -> None:
        self.download.check("download")
        self.upload.check("upload")

    @property
    def download_bps(self) -> FloatArray | None:
        """Rate to each client, bit/s; None if times are fixed."""
        return self.download.rate_bps

    @property
    def upload_bps(self) -> FloatArray | None:
        """Rate from each client, bit/s; None if times are fixed."""
        return self.upload.rate_bps

    def download_s(self, client: int, size_bytes: float) -> float:
        """Return the mean time from the server to the client, seconds."""
        return self.download.time_s(client, size_bytes)

    def upload_s(self, client: int, size_bytes: float) -> float:
        """Return the mean time from the client to the server, seconds."""
        return self.upload.time_s(client, size_bytes)

    def peer_s(self, sender: int, receiver: int, size_bytes: float) -> float | None:
        """Return the time of a direct transfer between clients, seconds; None without a link, 0 to itself."""
        if sender == receiver:
            return 0.0
        return None if self.peer_bps is None else radio.transfer_s(size_bytes, self.peer_bps)

    def multicast_s(self, clients: Iterable[int], size_bytes: float) -> float:
        """Return the mean time of a multicast to all of `clients`, seconds; 0 for no clients."""
        chosen = list(clients)
        if not chosen:
            return 0.0
        if self.download_bps is not None:
            return radio.multicast_s(size_bytes, self.download_bps[chosen])
        return max(self.download_s(client, size_bytes) for client in chosen)


@runtime_checkable
class Link(Protocol):
    """A kind of link in a configuration."""

    def build(self, n_clients: int, rng: np.random.Generator) -> Links: ...


@dataclass(frozen=True, kw_only=True, config=STRICT)
class _Common:
    """Fields that every kind of link has."""

    channels: Annotated[Count | None, Doc("number of uploads in parallel (default: no limit)")] = None
    download_channels: Annotated[Count | None, Doc("number of downloads in parallel (default: no limit)")] = None
    peer_bps: Annotated[Positive | None, Doc("rate from client to client, bit/s (default: no direct links)")] = None
    watts: Annotated[
        PerClient | None,
        Doc("power of a client while it receives or sends, watts: a number, a list or {kind, ...}"),
    ] = None

    def _links(
        self,
        download: Direction,
        upload: Direction,
        positions: FloatArray | None = None,
        variation: Variation | None = None,
    ) -> Links:
        return Links(
            download=download,
            upload=upload,
            channels=self.channels,
            download_channels=self.download_channels,
            peer_bps=self.peer_bps,
            positions=positions,
            variation=variation or Variation(),
        )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class NoDelay(_Common):
    """Transfers take no time."""

    def build(self, n_clients: int, rng: np.random.Generator) -> Links:
        nothing = Direction(seconds=np.zeros(n_clients))
        return self._links(nothing, nothing)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Fixed(_Common):
    """Transfers take a fixed time whatever the size (CS-GD: tau_com)."""

    download_s: Annotated[PerClient, Doc("time to receive a model, seconds: a number, a list or {kind, ...}")]
    upload_s: Annotated[PerClient, Doc("time to send a model, seconds: a number, a list or {kind, ...}")]

    def build(self, n_clients: int, rng: np.random.Generator) -> Links:
        download = Direction(seconds=drawn("fleet.link.download_s", self.download_s, rng, n_clients))
        return self._links(download, Direction(seconds=drawn("fleet.link.upload_s", self.upload_s, rng, n_clients)))


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Rates(_Common):
    """Each client has its own download and upload rate."""

    download_bps: Annotated[PerClient, Doc("rate to the client, bit/s: a number, a list or {kind, ...}")]
    upload_bps: Annotated[PerClient, Doc("rate from the client, bit/s: a number, a list or {kind, ...}")]
    fluctuation: Annotated[float, Ge(0), Lt(1), Doc("largest relative change of rates from visit to visit")] = 0.0

    def build(self, n_clients: int, rng: np.random.Generator) -> Links:
        download = Direction(rate_bps=drawn("fleet.link.download_bps", self.download_bps, rng, n_clients))
        upload = Direction(rate_bps=drawn("fleet.link.upload_bps", self.upload_bps, rng, n_clients))
        return self._links(download, upload, variation=Variation.bounded(self.fluctuation, None, of_speed=True))


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PathLoss(_Common):
    """An airborne server over a disc of clients, line of sight (FedHusky, Sec. IV-A): Shannon rate in both directions.

    Loss at distance d: free space at `reference_m`, then 10 * exponent * log10(d / reference_m).
    """

    height_m: Annotated[NonNegative, Doc("height of the server above the clients, metres")] = 100.0
    radius_m: Annotated[Positive, Doc("radius of the disc, metres")] = 1000.0
    placement: Annotated[Placement, Doc("clients uniform in area, or at uniform distances from the centre")] = "area"
    carrier_hz: Annotated[Positive, Doc("carrier frequency, Hz; the paper does not give it")] = 2.4e9
    reference_m: Annotated[Positive, Doc("distance up to which the loss is that of free space, metres")] = 10.0
    exponent: Annotated[Positive, Doc("path loss exponent")] = 2.8
    tx_dbm: Annotated[float, Doc("power of a sender, dBm")] = 23.0
    noise_dbm_per_hz: Annotated[float, Doc("noise density, dBm/Hz")] = radio.THERMAL_NOISE_DBM_PER_HZ
    noise_figure_db: Annotated[NonNegative, Doc("noise that the receiver adds, dB")] = 0.0
    bandwidth_hz: Annotated[Positive, Doc("bandwidth per direction, Hz")] = 50e6
    share: Annotated[
        Literal["whole", "equal"], Doc("each transfer has the whole bandwidth, or 1/n of it with n clients")
    ] = "whole"

    def rates(self, ground_m: FloatArray, n_clients: int) -> FloatArray:
        """Return the rates at horizontal distances `ground_m` from the server in a fleet of `n_clients`, bit/s."""
        bandwidth_hz = self.bandwidth_hz / (n_clients if self.share == "equal" else 1)
        distance_m = np.hypot(ground_m, self.height_m)
        loss_db = radio.log_distance_loss_db(distance_m, self.carrier_hz, self.reference_m, self.exponent)
        noise = radio.noise_dbm(bandwidth_hz, self.noise_dbm_per_hz, self.noise_figure_db)
        return bandwidth_hz * radio.bit_per_s_hz(radio.snr_db(self.tx_dbm, loss_db, noise))

    def build(self, n_clients: int, rng: np.random.Generator) -> Links:
        positions = radio.place(rng, n_clients, self.radius_m, self.placement)
        both = Direction(rate_bps=self.rates(np.hypot(*positions.T), n_clients))
        return self._links(both, both, positions)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Lte(_Common):
    """An LTE cell in a city (Hybrid-FL, Sec. V-A; FedCS): ITU-R M.2135-1 UMi without line of sight in both directions.

    The defaults give the printed mean and maximum, 1.4 and 8.6 Mbit/s. This requires distances uniform in (0, radius);
    with clients uniform in area the mean is 0.3 Mbit/s.
    """

    radius_m: Annotated[Positive, Doc("radius of the cell, metres")] = 2000.0
    placement: Annotated[Placement, Doc("clients at uniform distances from the centre, or uniform in area")] = "radius"
    carrier_hz: Annotated[Positive, Doc("carrier frequency, Hz")] = 2.5e9
    shadowing_db: Annotated[NonNegative, Doc("standard deviation of shadowing, drawn once per client, dB")] = 0.0
    tx_dbm: Annotated[float, Doc("power of a sender, dBm")] = 20.0
    antenna_gain_db: Annotated[float, Doc("total gain of both antennas, dB")] = 0.0
    noise_dbm_per_hz: Annotated[float, Doc("noise density, dBm/Hz")] = radio.THERMAL_NOISE_DBM_PER_HZ
    noise_figure_db: Annotated[NonNegative, Doc("noise that the receiver adds, dB")] = 1.0
    bandwidth_hz: Annotated[Positive, Doc("bandwidth of a client, Hz: 10 resource blocks")] = 1.8e6
    loss_db: Annotated[NonNegative, Doc("loss against Shannon's bound, Delta, dB")] = 1.6
    max_bit_per_s_hz: Annotated[Positive, Doc("largest spectral efficiency, rho_max")] = 4.8
    fluctuation: Annotated[
        float, Ge(0), Lt(1), Doc("largest relative change of the rate from visit to visit, r_var")
    ] = 0.0
    fluctuation_std: Annotated[
        NonNegative | None, Doc("relative standard deviation before truncation at r_var (default: r_var)")
    ] = None

    def rates(self, distance_m: FloatArray, shadowing_db: FloatArray | float = 0.0) -> FloatArray:
        """Return the rates at `distance_m` from the server, bit/s."""
        loss_db = radio.urban_micro_loss_db(distance_m, self.carrier_hz)
        noise = radio.noise_dbm(self.bandwidth_hz, self.noise_dbm_per_hz, self.noise_figure_db)
        snr = radio.snr_db(self.tx_dbm, loss_db, noise, self.antenna_gain_db, shadowing_db)
        return self.bandwidth_hz * radio.bit_per_s_hz(snr, self.loss_db, self.max_bit_per_s_hz)

    def build(self, n_clients: int, rng: np.random.Generator) -> Links:
        positions = radio.place(rng, n_clients, self.radius_m, self.placement)
        shadowing_db = self.shadowing_db * rng.standard_normal(n_clients)
        both = Direction(rate_bps=self.rates(np.hypot(*positions.T), shadowing_db))
        variation = Variation.bounded(self.fluctuation, self.fluctuation_std, of_speed=True)
        return self._links(both, both, positions, variation)


LINKS: dict[str, type] = {
    "fixed": Fixed,
    "lte": Lte,
    "none": NoDelay,
    "path-loss": PathLoss,
    "rates": Rates,
}

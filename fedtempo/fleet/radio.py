"""Radio links as pure functions: path loss, signal-to-noise ratio, rate. Losses and ratios in dB, powers in dBm."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedtempo.fleet.truncation import FloatArray, open_uniforms

SPEED_OF_LIGHT_M_PER_S = 299_792_458.0
THERMAL_NOISE_DBM_PER_HZ = -174.0

Placement = Literal["area", "radius"]


def _floats(values: npt.ArrayLike) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def free_space_loss_db(distance_m: npt.ArrayLike, carrier_hz: float) -> FloatArray:
    """Return the free-space path loss, 20 log10(4 pi d f / c)."""
    return 20 * np.log10(4 * math.pi * _floats(distance_m) * carrier_hz / SPEED_OF_LIGHT_M_PER_S)


def log_distance_loss_db(
    distance_m: npt.ArrayLike, carrier_hz: float, reference_m: float, exponent: float
) -> FloatArray:
    """Return free-space loss at `reference_m` plus 10 * exponent dB per decade of distance (FedHusky, Sec. IV-A)."""
    decades = np.log10(_floats(distance_m) / reference_m)
    return free_space_loss_db(reference_m, carrier_hz) + 10 * exponent * decades


def urban_micro_loss_db(distance_m: npt.ArrayLike, carrier_hz: float) -> FloatArray:
    """Return the loss in an ITU-R M.2135-1 urban micro cell, no line of sight, hexagonal layout; for 10 m to 2000 m."""
    return 36.7 * np.log10(_floats(distance_m)) + 22.7 + 26 * math.log10(carrier_hz / 1e9)


def noise_dbm(bandwidth_hz: float, dbm_per_hz: float = THERMAL_NOISE_DBM_PER_HZ, noise_figure_db: float = 0.0) -> float:
    """Return the noise power at a receiver over `bandwidth_hz`."""
    return dbm_per_hz + 10 * math.log10(bandwidth_hz) + noise_figure_db


def snr_db(
    tx_dbm: float,
    loss_db: npt.ArrayLike,
    noise: float,
    antenna_gain_db: float = 0.0,
    shadowing_db: npt.ArrayLike = 0.0,
) -> FloatArray:
    """Return the signal-to-noise ratio; noise in dBm, total antenna gain; positive shadowing weakens the signal."""
    return tx_dbm + antenna_gain_db - _floats(loss_db) - _floats(shadowing_db) - noise


def bit_per_s_hz(snr: npt.ArrayLike, loss_db: float = 0.0, cap: float = math.inf) -> FloatArray:
    """Return Shannon's spectral efficiency with implementation loss in the logarithm and a cap (Akdeniz et al., 2014).

    snr in dB, loss_db is Delta, cap in bit/s/Hz is rho_max.
    """
    return np.minimum(np.log1p(10 ** ((_floats(snr) - loss_db) / 10)) / math.log(2), cap)


def transfer_s(size_bytes: float, rate_bps: float) -> float:
    """Return the time to send `size_bytes` at `rate_bps` bits per second, seconds."""
    return 8 * size_bytes / rate_bps


def multicast_s(size_bytes: float, rates_bps: npt.ArrayLike) -> float:
    """Return the time of a multicast, seconds: the slowest receiver determines it (FedCS, T^d)."""
    return transfer_s(size_bytes, float(np.min(_floats(rates_bps))))


def place(rng: np.random.Generator, n_clients: int, radius_m: float, placement: Placement) -> FloatArray:
    """Place clients on a disc around the server, (n_clients, 2), metres; none is exactly at the centre.

    "area": uniform in area. "radius": uniform distance, which crowds the centre.
    """
    u = open_uniforms(rng, n_clients)
    distance_m = radius_m * (np.sqrt(u) if placement == "area" else u)
    angle = 2 * math.pi * rng.random(n_clients)
    return np.column_stack((distance_m * np.cos(angle), distance_m * np.sin(angle)))

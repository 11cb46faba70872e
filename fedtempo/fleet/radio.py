"""Radio links as pure functions: path loss, signal to noise, rate. Losses and ratios in dB, powers in dBm."""

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
    """Free space path loss, 20 log10(4 pi d f / c)."""
    return 20 * np.log10(4 * math.pi * _floats(distance_m) * carrier_hz / SPEED_OF_LIGHT_M_PER_S)


def log_distance_loss_db(
    distance_m: npt.ArrayLike, carrier_hz: float, reference_m: float, exponent: float
) -> FloatArray:
    """Free space loss at `reference_m`, then 10 * exponent dB a decade of distance (FedHusky, Sec. IV-A)."""
    decades = np.log10(_floats(distance_m) / reference_m)
    return free_space_loss_db(reference_m, carrier_hz) + 10 * exponent * decades


def urban_micro_loss_db(distance_m: npt.ArrayLike, carrier_hz: float) -> FloatArray:
    """ITU-R M.2135-1 urban micro cell without line of sight, hexagonal layout; meant for 10 m to 2000 m."""
    return 36.7 * np.log10(_floats(distance_m)) + 22.7 + 26 * math.log10(carrier_hz / 1e9)


def noise_dbm(bandwidth_hz: float, dbm_per_hz: float = THERMAL_NOISE_DBM_PER_HZ, noise_figure_db: float = 0.0) -> float:
    """Noise power that a receiver sees over `bandwidth_hz`."""
    return dbm_per_hz + 10 * math.log10(bandwidth_hz) + noise_figure_db


def snr_db(
    tx_dbm: float,
    loss_db: npt.ArrayLike,
    noise: float,
    antenna_gain_db: float = 0.0,
    shadowing_db: npt.ArrayLike = 0.0,
) -> FloatArray:
    """Signal to noise ratio; noise in dBm, gains of both antennas together, positive shadowing weakens the signal."""
    return tx_dbm + antenna_gain_db - _floats(loss_db) - _floats(shadowing_db) - noise


def bit_per_s_hz(snr: npt.ArrayLike, loss_db: float = 0.0, cap: float = math.inf) -> FloatArray:
    """Shannon's spectral efficiency with an implementation loss inside the logarithm and a cap (Akdeniz et al., 2014).

    snr in dB, loss_db is Delta, cap in bit/s/Hz is rho_max.
    """
    return np.minimum(np.log1p(10 ** ((_floats(snr) - loss_db) / 10)) / math.log(2), cap)


def transfer_s(size_bytes: float, rate_bps: float) -> float:
    """Seconds to send `size_bytes` bytes at `rate_bps` bits a second."""
    return 8 * size_bytes / rate_bps


def multicast_s(size_bytes: float, rates_bps: npt.ArrayLike) -> float:
    """Seconds until every receiver has what is sent once to all: the slowest decides (FedCS, T^d)."""
    return transfer_s(size_bytes, float(np.min(_floats(rates_bps))))


def place(rng: np.random.Generator, n_clients: int, radius_m: float, placement: Placement) -> FloatArray:
    """Clients on a disc about the server, shape (n_clients, 2), metres; no client is at its centre.

    "area": equally likely everywhere on the disc. "radius": the distance is uniform, which crowds the centre.
    """
    u = open_uniforms(rng, n_clients)
    distance_m = radius_m * (np.sqrt(u) if placement == "area" else u)
    angle = 2 * math.pi * rng.random(n_clients)
    return np.column_stack((distance_m * np.cos(angle), distance_m * np.sin(angle)))

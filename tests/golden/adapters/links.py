"""Golden cases of radio links against `fedtempo.fleet`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtempo.fleet import radio
from fedtempo.fleet.links import Lte, PathLoss
from fedtempo.fleet.truncation import fluctuation
from tests.golden.compare import close

REL = 1e-11


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    kinds = {
        "lte": _lte,
        "free_space": _free_space,
        "uav": _uav,
        "uav_shared": _uav_shared,
        "multicast": _multicast,
        "fluctuation": _fluctuation,
    }
    kinds[given["kind"]](given, expected)


def _lte(given: dict[str, Any], expected: dict[str, Any]) -> None:
    link = Lte(
        carrier_hz=given["carrier_ghz"] * 1e9,
        tx_dbm=given["tx_dbm"],
        antenna_gain_db=given["antenna_gain_dbi"],
        bandwidth_hz=given["bandwidth_hz"],
        noise_dbm_per_hz=given["noise_dbm_per_hz"],
        noise_figure_db=given["noise_figure_db"],
        loss_db=given["delta_db"],
        max_bit_per_s_hz=given["max_bit_per_s_hz"],
    )
    distance_m = np.array(given["distances_m"], dtype=float)
    loss_db = radio.urban_micro_loss_db(distance_m, link.carrier_hz)
    noise = radio.noise_dbm(link.bandwidth_hz, link.noise_dbm_per_hz, link.noise_figure_db)
    snr = radio.snr_db(link.tx_dbm, loss_db, noise, link.antenna_gain_db, given["shadowing_db"])
    rows = {
        "distance_m": distance_m,
        "path_loss_db": loss_db,
        "snr_db": snr,
        "bit_per_s_hz": radio.bit_per_s_hz(snr, link.loss_db, link.max_bit_per_s_hz),
        "rate_bps": link.rates(distance_m, given["shadowing_db"]),
    }
    _close_rows(rows, expected["rows"])


def _free_space(given: dict[str, Any], expected: dict[str, Any]) -> None:
    for point, row in zip(given["points"], expected["rows"], strict=True):
        loss_db = radio.free_space_loss_db(point["distance_m"], point["carrier_hz"])
        close({**point, "loss_db": loss_db}, row, rel=REL)


def _path_loss(given: dict[str, Any], **more: Any) -> PathLoss:
    names = ("height_m", "carrier_hz", "reference_m", "exponent", "tx_dbm", "bandwidth_hz", "noise_dbm_per_hz")
    return PathLoss(**{name: given[name] for name in names}, noise_figure_db=given.get("noise_figure_db", 0.0), **more)


def _uav(given: dict[str, Any], expected: dict[str, Any]) -> None:
    link = _path_loss(given)
    ground_m = np.array(given["ground_m"], dtype=float)
    distance_m = np.hypot(ground_m, link.height_m)
    loss_db = radio.log_distance_loss_db(distance_m, link.carrier_hz, link.reference_m, link.exponent)
    noise = radio.noise_dbm(link.bandwidth_hz, link.noise_dbm_per_hz, link.noise_figure_db)
    rate_bps = link.rates(ground_m, n_clients=1)
    seconds = np.array([radio.transfer_s(given["size_bytes"], rate) for rate in rate_bps])
    (seconds_key,) = {key for row in expected["rows"] for key in row if key.startswith("seconds")}
    rows = {
        "ground_m": ground_m,
        "distance_m": distance_m,
        "path_loss_db": loss_db,
        "snr_db": radio.snr_db(link.tx_dbm, loss_db, noise),
        "rate_bps": rate_bps,
        seconds_key: seconds,
        "psi_s_down_and_up": 2 * seconds,
    }
    _close_rows(rows, expected["rows"])


def _uav_shared(given: dict[str, Any], expected: dict[str, Any]) -> None:
    link = _path_loss(given, share="equal")
    shares = given["equal_shares"]
    (rate_bps,) = link.rates(np.array([float(given["ground_m"])]), n_clients=shares)
    distance_m = np.hypot(given["ground_m"], link.height_m)
    loss_db = radio.log_distance_loss_db(distance_m, link.carrier_hz, link.reference_m, link.exponent)
    noise = radio.noise_dbm(link.bandwidth_hz / shares, link.noise_dbm_per_hz, link.noise_figure_db)
    actual = {
        "snr_db": radio.snr_db(link.tx_dbm, loss_db, noise),
        "rate_bps": rate_bps,
        "seconds": radio.transfer_s(given["size_bytes"], float(rate_bps)),
    }
    close(actual, expected, rel=REL)


def _multicast(given: dict[str, Any], expected: dict[str, Any]) -> None:
    seconds = radio.multicast_s(given["size_bytes"], given["rates_bps"])
    close({"seconds": seconds, "slowest_bps": 8 * given["size_bytes"] / seconds}, expected, rel=REL)


def _fluctuation(given: dict[str, Any], expected: dict[str, Any]) -> None:
    law = fluctuation(given["mean"], given["r_var"], given["sigma"])
    mean, std = law.moments()
    close({"low": law.low, "high": law.high, "mean": mean, "std": std}, expected, rel=REL)
    low, middle, high = law.inverse_cdf([1e-9, 0.5, 1 - 1e-9])
    close(middle, expected["mean"], rel=REL)
    assert expected["low"] <= low <= middle <= high <= expected["high"]


def _close_rows(columns: dict[str, np.ndarray], rows: list[dict[str, float]]) -> None:
    """Every column of every row; a column that the rows have and we do not is an error of `close`."""
    for position, row in enumerate(rows):
        close({name: values[position] for name, values in columns.items()}, row, rel=REL, where=f"[{position}]")

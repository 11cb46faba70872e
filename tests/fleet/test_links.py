from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.fleet import radio
from fedtempo.fleet.links import LINKS, Fixed, Link, Links, Lte, NoDelay, PathLoss, Rates
from fedtempo.fleet.variation import Factors


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


MINIMAL: dict[str, dict[str, Any]] = {
    "fixed": {"download_s": 0.5, "upload_s": {"kind": "uniform", "low": 1.0, "high": 2.0}},
    "lte": {},
    "none": {},
    "path-loss": {},
    "rates": {"download_bps": 8e6, "upload_bps": {"kind": "exponential", "mean": 1e6}},
}


@pytest.mark.parametrize("kind", LINKS)
def test_every_kind_builds_the_same_links_from_the_same_generator(kind: str) -> None:
    spec = LINKS[kind](channels=3, peer_bps=1e6, **MINIMAL[kind])
    assert isinstance(spec, Link)
    first, second = spec.build(7, rng(5)), spec.build(7, rng(5))
    assert first.channels == 3
    assert first.download_channels is None
    for client in range(7):
        for way in ("download_s", "upload_s"):
            seconds = getattr(first, way)(client, 1_700_000)
            assert type(seconds) is float
            assert 0 <= seconds < math.inf
            assert seconds == getattr(second, way)(client, 1_700_000)
    assert first.peer_s(0, 1, 1_000_000) == 8.0
    assert first.peer_s(2, 2, 1_000_000) == 0.0


def test_the_none_link_takes_no_time_and_has_no_links_between_clients() -> None:
    links = NoDelay().build(2, rng())
    assert [links.download_s(0, 1e9), links.upload_s(1, 1e9)] == [0.0, 0.0]
    assert links.peer_s(0, 1, 10) is None
    assert links.multicast_s([0, 1], 1e9) == 0.0


def test_rates_and_fixed_seconds_give_transfer_times() -> None:
    rates = Rates(download_bps=[8e6, 4e6], upload_bps=1e6).build(2, rng())
    assert [rates.download_s(0, 1e6), rates.download_s(1, 1e6), rates.upload_s(1, 1e6)] == [1.0, 2.0, 8.0]
    assert rates.multicast_s([0, 1], 1e6) == 2.0
    assert rates.multicast_s([], 1e6) == 0.0
    fixed = Fixed(download_s=[0.0, 3.0], upload_s=2).build(2, rng())
    assert [fixed.download_s(1, 5), fixed.upload_s(0, 1e9)] == [3.0, 2.0]
    assert fixed.multicast_s([0, 1], 5) == 3.0
    assert fixed.download_bps is None
    assert fixed.upload_bps is None


@pytest.mark.parametrize("rate", [0, [1e6, 0]])
def test_a_rate_of_zero_is_an_error(rate: object) -> None:
    with pytest.raises(ConfigError, match=r"upload of client \d is 0.0 bit/s; it must be positive"):
        Rates(download_bps=1e6, upload_bps=rate).build(2, rng())


def test_a_signal_too_weak_for_any_rate_is_an_error() -> None:
    with pytest.raises(ConfigError, match="must be positive"):
        Lte(radius_m=1e300).build(3, rng())


def test_infinite_values_and_unknown_fields_are_errors() -> None:
    with pytest.raises(ValidationError):
        Rates(download_bps=math.inf, upload_bps=1e6)
    with pytest.raises(ValidationError):
        PathLoss(hight_m=3.0)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        Lte(fluctuation=1.0)
    with pytest.raises(ValidationError, match="channels"):
        NoDelay(channels=0)


def test_clients_are_placed_uniformly_by_area_or_radius() -> None:
    n, radius = 20_000, 1000.0
    for placement, mean, variance in (("area", 2 / 3, 1 / 18), ("radius", 1 / 2, 1 / 12)):
        positions = radio.place(rng(), n, radius, placement)
        distance = np.hypot(*positions.T) / radius
        assert 0 < distance.min() <= distance.max() <= 1 + 1e-12
        assert abs(distance.mean() - mean) < 5 * math.sqrt(variance / n)
        assert abs(np.mean(positions / radius, axis=0)).max() < 5 * math.sqrt(1 / n)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_lte_rates_have_the_published_mean_and_maximum(seed: int) -> None:
    links = Lte().build(20_000, rng(seed))
    assert links.download_bps is not None
    # Standard error of the mean is 2.4e6 / sqrt(20000) = 0.017e6.
    assert links.download_bps.mean() == pytest.approx(1.41e6, abs=0.085e6)
    assert links.download_bps.max() == 8.64e6
    by_area = Lte(placement="area").build(20_000, rng(seed)).download_bps
    assert by_area is not None
    assert by_area.mean() == pytest.approx(0.30e6, abs=0.05e6)


def test_shadowing_is_drawn_once_per_client_with_its_deviation() -> None:
    # Without the cap the shadowing can be computed from the rate.
    spec = Lte(shadowing_db=4.0, max_bit_per_s_hz=1e6, loss_db=0.0)
    links = spec.build(5000, rng())
    assert links.positions is not None
    assert links.upload_bps is not None
    distance = np.hypot(*links.positions.T)
    snr = 10 * np.log10(np.expm1(links.upload_bps / spec.bandwidth_hz * math.log(2)))
    loss = radio.urban_micro_loss_db(distance, spec.carrier_hz)
    shadowing = radio.snr_db(20.0, loss, radio.noise_dbm(1.8e6, noise_figure_db=1.0)) - snr
    assert abs(shadowing.mean()) < 5 * 4 / math.sqrt(5000)
    assert abs(shadowing.std() - 4) < 5 * 4 / math.sqrt(2 * 5000)


def test_a_share_of_the_band_is_slower_than_the_whole_band() -> None:
    whole, shared = PathLoss().build(10, rng()), PathLoss(share="equal").build(10, rng())
    assert whole.positions is not None
    assert np.array_equal(whole.positions, shared.positions)
    for client in range(10):
        ratio = shared.upload_s(client, 1.7e6) / whole.upload_s(client, 1.7e6)
        assert 1 < ratio < 10  # a tenth of the band, but each hertz gets ten times the power


def test_fluctuating_rates_stay_within_bounds() -> None:
    links = Lte(fluctuation=0.2).build(3, rng())
    factors = Factors(links.variation, 3, lambda _: rng())
    rates = 1 / np.array([factors.next(1) for _ in range(2000)])
    assert 0.8 * (1 - 1e-12) <= rates.min() < 0.81
    assert 1.19 < rates.max() <= 1.2 * (1 + 1e-12)
    assert Factors(Lte().build(3, rng()).variation, 3, lambda _: rng()).next(2) == 1.0


def test_links_reject_times_that_are_not_finite() -> None:
    from fedtempo.fleet.links import Direction

    good = Direction(seconds=np.zeros(2))
    for bad in (math.nan, math.inf, -1.0):
        with pytest.raises(ConfigError, match="download of client 1"):
            Links(download=Direction(seconds=np.array([0.0, bad])), upload=good)
    with pytest.raises(ValueError, match="exactly one"):
        Direction()


def test_a_closer_client_is_never_slower() -> None:
    ground = np.linspace(0, 5000, 200)
    assert (np.diff(PathLoss().rates(ground, 1)) < 0).all()
    assert (np.diff(Lte().rates(ground[1:])) <= 0).all()

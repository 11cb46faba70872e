"""Recorded hours of 38 phones: what the module holds, the fleet that it makes, and how the hours were derived."""

from __future__ import annotations

import base64
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo import import_fleet
from fedtempo.errors import ConfigError
from fedtempo.fleet.presence import Scheduled
from fedtempo.runs.config import parse
from fedtempo.studies.phones import HOURS, PHONES, fleet_of_phones, hours_at_rest, recorded_intervals, recorded_phones
from tools.phones import derived

HOUR = 3600.0
WEEKS = HOURS * HOUR


def test_phones_rest_at_night_and_move_at_noon() -> None:
    hours = np.array([hours_at_rest(phone) for phone in PHONES])
    assert hours.shape == (38, 504)
    by_hour_of_day = hours.reshape(38, 21, 24).mean((0, 1))
    assert by_hour_of_day.argmax() in (3, 4, 5)
    assert by_hour_of_day[2:7].min() > 0.8
    assert by_hour_of_day[11:14].max() < 0.4


@pytest.mark.parametrize("start_h", [0, 12, 500])
def test_windows_begin_at_any_hour_of_the_record(start_h: int) -> None:
    devices = recorded_phones(start_h)
    assert [device.name for device in devices.devices] == sorted(PHONES)
    for device in devices.devices:
        hours = hours_at_rest(device.name)
        assert device.period_s == WEEKS
        assert sum(end - begin for begin, end in device.windows) == HOUR * hours.sum()
        assert all(hours[int(begin / HOUR + start_h) % HOURS] for begin, _ in device.windows)
        assert all(end == WEEKS or not hours[int(end / HOUR + start_h) % HOURS] for _, end in device.windows)


def test_an_inline_trace_holds_the_windows_up_to_a_horizon_with_their_true_ends() -> None:
    periodic = recorded_phones(12).devices
    for horizon_s in (3 * 24 * HOUR, 1.5 * WEEKS):
        intervals = recorded_intervals(horizon_s, 12)
        assert max(begin for _, begin, _ in intervals) < horizon_s
        plan = parse(configured({"kind": "trace", "intervals": intervals})).fleet
        there = plan.build(38, lambda purpose, *keys: np.random.default_rng(1)).availability
        always = Scheduled([list(device.windows) for device in periodic], WEEKS)
        for client in range(38):
            for t in np.arange(0.5 * HOUR, horizon_s, 5 * HOUR).tolist():
                assert there.available_until(client, t) == always.available_until(client, t)


def configured(availability: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": {"horizon": 1.0},
        "strategy": {"name": "fedavg"},
        "data": {"clients": 38},
        "fleet": fleet_of_phones(availability),
    }


def test_the_fleet_is_imported_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    imported = import_fleet("phones", "phones.toml")
    assert (imported.devices, imported.recorded) == (38, 38)
    tables = {**configured({}), "fleet": {"preset": "phones.toml"}}
    built = parse(tables).fleet.build(38, lambda purpose, *keys: np.random.default_rng(1))
    recorded = recorded_phones().devices
    for client in (0, 20, 37):
        begin, end = recorded[client].windows[3]
        assert built.availability.available_until(client, begin) == end
        assert built.availability.available_until(client, begin + WEEKS) == end + WEEKS
    assert set(built.speed.values.tolist()) <= {2862.1, 1357.9, 1068.1}
    few = import_fleet("phones", "few.toml", clients=5, seed=2, estimates="observed")
    assert few.devices == 5
    assert tomllib.loads((tmp_path / "few.toml").read_text())["fleet"]["estimates"] == "observed"
    with pytest.raises(ConfigError, match=r"phones: these phones have no columns to name; remove compute"):
        import_fleet("phones", "other.toml", compute="seconds")


def test_hours_are_derived_by_the_stated_rule() -> None:
    """Rest of up to 24 hours counts, a longer one does not; times may have any offset; short records are left out."""
    midnight = datetime(2013, 4, 3, 4, tzinfo=UTC)  # in New York
    activity = [1] * 600
    for begin, length in ((10, 24), (50, 25), (90, 1), (588, 12)):
        activity[begin : begin + length] = [0] * length
    rows = [
        {"user": "a", "timestamp": (midnight + timedelta(hours=i - 20)).isoformat(), "activity": str(value)}
        for i, value in enumerate(activity)
    ]
    rows += [{"user": "b", "timestamp": midnight.isoformat(), "activity": "0"}]
    table = derived(rows)
    assert list(table) == ["a"]
    expected = [0 <= hour + 20 - 10 < 24 or hour + 20 == 90 for hour in range(HOURS)]
    bits = np.unpackbits(np.frombuffer(base64.b64decode(table["a"]), np.uint8)).astype(bool)
    assert bits.tolist() == expected


def test_the_page_quotes_the_shares_that_the_hours_have() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "fleets.md").read_text().split())
    hours = np.array([hours_at_rest(phone) for phone in PHONES])
    by_hour_of_day = hours.reshape(38, 21, 24).mean((0, 1))
    assert f"available {hours.mean():.0%} of the time".replace("%", " %") in page
    assert f"{by_hour_of_day[5]:.0%} of them at 5 in the morning".replace("%", " %") in page
    assert f"{by_hour_of_day[13]:.0%} at 1 in the afternoon".replace("%", " %") in page
    lengths = [(end - begin) / HOUR for device in recorded_phones(0).devices for begin, end in device.windows]
    assert f"{len(lengths) / 38 / 21:.1f} windows a day" in page
    assert 0.64 < np.mean(np.array(lengths) >= 2) < 0.69  # two thirds

"""A part of a fleet: every client keeps what it had in the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedtempo.fleet.fleet import Fleet, FleetPlan
from fedtempo.fleet.members import members_of
from fedtempo.parts.construct import construct
from fedtempo.runtime.keyed import keyed_generator

WINDOWS = [[[0.0, 10.0 * (i + 1)]] for i in range(5)]


def fleet(**changes: Any) -> Fleet:
    table = {
        "compute": {"unit": "s/visit", "speed": [1.0, 2.0, 3.0, 4.0, 5.0], "watts": [1.0, 2.0, 3.0, 4.0, 5.0]},
        "link": {"kind": "fixed", "download_s": [0.1, 0.2, 0.3, 0.4, 0.5], "upload_s": 1.0},
        "estimates": "exact",
        **changes,
    }
    plan = construct(FleetPlan, table, "fleet")
    return plan.build(5, lambda purpose, *keys: keyed_generator(1, purpose, *keys))


def test_members_keep_speed_links_and_power() -> None:
    some = members_of(fleet(), [1, 4])
    assert some.n_clients == 2
    assert some.speed.values.tolist() == [2.0, 5.0]
    assert [some.links.download_s(client, 1) for client in (0, 1)] == [0.2, 0.5]
    assert some.compute_watts is not None
    assert some.compute_watts.tolist() == [2.0, 5.0]
    assert [row["visit_s"] for row in some.describe(1, 1)] == pytest.approx([3.2, 6.5])


@pytest.mark.parametrize(
    "availability",
    [
        "always",
        {"kind": "windows", "windows": WINDOWS, "period_s": 100.0},
        {"kind": "on-off", "mean_on_s": 5.0, "mean_off_s": 5.0},
        {"kind": "dropout", "probability": 0.5},
    ],
)
def test_members_keep_their_availability(availability: Any) -> None:
    whole, members = fleet(availability=availability).availability, [1, 4]
    some = members_of(fleet(availability=availability), members).availability
    for number, client in enumerate(members):
        for t in np.linspace(0, 250, 60).tolist():
            assert some.available_until(number, t) == whole.available_until(client, t)
            assert some.next_available(number, t) == whole.next_available(client, t)
        assert some.failure_point(number, lambda: np.random.default_rng(1)) == whole.failure_point(
            client, lambda: np.random.default_rng(1)
        )


def test_members_keep_their_faults() -> None:
    faults = {"nan": 0.5, "clients": [0, 4]}
    assert members_of(fleet(faults=faults), [1, 4]).faults.clients == (1,)
    assert members_of(fleet(faults=faults), [1, 2]).faults.total == 0
    assert members_of(fleet(faults={"nan": 0.5}), [1, 2]).faults.total == 0.5

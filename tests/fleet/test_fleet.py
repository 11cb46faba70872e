from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.fleet.availability import Always
from fedtempo.fleet.estimates import Exact
from fedtempo.fleet.fleet import FleetPlan

PAPER: dict[str, Any] = {
    "compute": {"kind": "uniform", "low": 1.0, "high": 10.0, "unit": "s/visit"},
    "link": {"kind": "path-loss"},
    "estimates": "exact",
}


def rng(purpose: str, *keys: int) -> np.random.Generator:
    return np.random.default_rng([*purpose.encode(), *keys])


def test_a_plan_is_read_from_tables() -> None:
    plan = FleetPlan(**PAPER)
    assert plan.estimates == Exact()
    assert plan.availability == Always()
    fleet = plan.build(50, rng)
    assert fleet.n_clients == 50
    rows = fleet.describe(100, 1_700_000)
    assert [row["client"] for row in rows] == list(range(50))
    for row in rows:
        assert row["visit_s"] == row["download_s"] + row["compute_s"] + row["upload_s"]
        assert row["upload_s"] == 8 * 1_700_000 / row["upload_bps"]
        assert np.hypot(row["x_m"], row["y_m"]) <= 1000


def test_columns_that_do_not_apply_are_left_out() -> None:
    (row,) = FleetPlan(**{**PAPER, "link": "none"}).build(1, rng).describe(100, 1e6)
    assert set(row) == {"client", "download_s", "compute_s", "upload_s", "visit_s"}


def test_each_part_draws_from_a_separate_generator() -> None:
    plain = FleetPlan(**PAPER).build(20, rng)
    other = FleetPlan(**{**PAPER, "link": "lte", "availability": {"kind": "on-off", "mean_on_s": 1, "mean_off_s": 1}})
    assert np.array_equal(plain.speed.values, other.build(20, rng).speed.values)


def test_each_run_has_separate_estimates() -> None:
    fleet = FleetPlan(**{**PAPER, "estimates": {"kind": "observed", "prior_s": 5}}).build(2, rng)
    first = fleet.estimator(rng("estimates"))
    first.observe(0, 1.0, 1.0, 1.0)
    assert fleet.estimator(rng("estimates")).estimate(0, 1.0, 1.0, 1.0) == (0.0, 5.0, 0.0)


@pytest.mark.parametrize("missing", ["compute", "link", "estimates"])
def test_everything_that_takes_time_must_be_configured(missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        FleetPlan(**{key: value for key, value in PAPER.items() if key != missing})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"link": "fixed"}, "link 'fixed': download_s: Field required; upload_s: Field required"),
        ({"link": {"kind": "path_loss"}}, "did you mean 'path-loss'"),
        ({"link": {"kind": "lte", "radius": 3}}, "radius"),
        ({"estimates": "exakt"}, "did you mean 'exact'"),
        ({"compute": {"kind": "uniform", "low": 1.0, "high": 10.0}}, "unit: Field required"),
        ({"availability": {"kind": "dropout", "probability": 1.5}}, "probability = 1.5"),
    ],
)
def test_invalid_fleets_are_rejected_with_the_field(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as error:
        FleetPlan(**{**PAPER, **change})
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"compute": {"speed": [1, 2], "unit": "s/visit"}}, "fleet.compute"),
        ({"compute": {"speed": 1, "unit": "s/visit", "watts": [1, 2]}}, "fleet.compute.watts"),
        ({"link": {"kind": "fixed", "download_s": 1, "upload_s": [1, 2]}}, "fleet.link.upload_s"),
        ({"link": {"kind": "rates", "download_bps": [1, 2], "upload_bps": 1}}, "fleet.link.download_bps"),
    ],
)
def test_a_list_for_another_number_of_clients_is_rejected(change: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: 2 values are listed for 3 clients; give one value per client"):
        FleetPlan(**{**PAPER, **change}).build(3, rng)

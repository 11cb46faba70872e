"""The papers' fleets by name, and fields that override them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.fleet.distributions import Constant, Uniform
from fedtempo.fleet.fleet import FleetPlan
from fedtempo.fleet.links import Fixed, Lte, PathLoss
from fedtempo.fleet.presets import PRESETS
from fedtempo.runs.config import parse


def plan(**fields: Any) -> FleetPlan:
    return parse({"run": {"horizon": 1.0}, "strategy": {"name": "fedavg"}, "fleet": fields}).fleet


def seconds(name: str, n_clients: int = 20_000) -> np.ndarray:
    fleet = plan(preset=name).build(n_clients, lambda purpose, *keys: np.random.default_rng(7))
    return fleet.speed.mean_s(1)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_built_and_written_back_unchanged(name: str) -> None:
    tables = {"run": {"horizon": 1.0}, "strategy": {"name": "fedavg"}, "fleet": {"preset": name}}
    config = parse(tables)
    assert parse(config.tables).fleet == config.fleet
    assert config.tables["fleet"]["preset"] == name
    fleet = config.fleet.build(30, lambda purpose, *keys: np.random.default_rng(1))
    assert all(row["visit_s"] > 0 for row in fleet.describe(50, 1_700_000))


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        ("fedhusky", 5.5, 9 / math.sqrt(12)),
        ("psfl-uniform", 2.5, 4 / math.sqrt(12)),
        ("psfl-exponential", 2.5, 2.5),
        ("psfl-discrete", 2.5, math.sqrt((0.25 + 1 + 4 + 16 + 25) / 5 - 6.25)),
    ],
)
def test_times_have_the_mean_and_spread_of_the_papers(name: str, mean: float, std: float) -> None:
    times = seconds(name)
    assert abs(times.mean() - mean) < 5 * std / math.sqrt(len(times))
    assert abs(times.std() / std - 1) < 0.05  # more than five standard errors of the widest, sqrt(2) / 2 / sqrt(n)


def test_truncated_distributions_stay_within_their_bounds() -> None:
    assert seconds("psfl-normal").min() >= 0.05
    zipf = seconds("fch-zipf")
    assert set(np.unique(zipf)) <= set(range(1, 61))
    normaliser = sum(k**-1.2 for k in range(1, 61))
    share = 1 / normaliser
    assert abs((zipf == 1).mean() - share) < 5 * math.sqrt(share * (1 - share) / len(zipf))


def test_networks_are_those_of_the_papers() -> None:
    assert plan(preset="fedhusky").link == PathLoss()
    assert plan(preset="fedcs-lte").link == Lte()
    assert plan(preset="csgd-mnist").link == Fixed(download_s=Constant(0.0), upload_s=Constant(1.0), channels=8)
    fleet = plan(preset="csgd-mnist").build(2, lambda purpose, *keys: np.random.default_rng(1))
    low, high = fleet.speed.client_mean_s(0, 10), fleet.speed.client_mean_s(0, 70)
    assert 4 <= (high - low) / fleet.links.upload_s(0, 1e6) < 5  # four clusters: CS-GD, Eq. 22


def test_given_fields_override_those_of_the_preset() -> None:
    changed = plan(preset="psfl-uniform", compute={"variation": 0.0}, estimates="exact")
    assert changed.compute.speed == Uniform(0.5, 4.5)
    assert changed.compute.variation == 0.0
    assert plan(preset="csgd-mnist", link={"channels": 4}).link == Fixed(
        download_s=Constant(0.0), upload_s=Constant(1.0), channels=4
    )
    assert plan(preset="fedhusky", compute={"speed": 2.0}).compute.speed == Constant(2.0)


def test_a_table_with_a_kind_replaces_the_whole_part() -> None:
    replaced = plan(
        preset="psfl-uniform",
        link={"kind": "lte", "fluctuation": 0.1},
        compute={"kind": "uniform", "low": 1.0, "high": 2.0, "unit": "s/visit"},
    )
    assert replaced.link == Lte(fluctuation=0.1)
    assert replaced.compute.variation == 0.0
    assert plan(preset="fedhusky", link="none").link == plan(preset="psfl-uniform").link
    away = plan(preset="fedhusky", availability={"kind": "dropout", "probability": 0.5})
    assert away.availability != plan(preset="fedhusky").availability


def test_unknown_presets_and_fields_are_rejected_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"fleet: preset = 'psfl-unifrm' is not a fleet; did you mean 'psfl-uniform'"):
        plan(preset="psfl-unifrm")
    with pytest.raises(ConfigError, match=r"fleet.*channel"):
        plan(preset="csgd-mnist", link={"channel": 4})
    with pytest.raises(ConfigError, match=r"fleet.compute: field required"):
        plan(link="none")

"""Strategies side by side: means, spread, and who reached the target."""

import json

import pytest

from fedtempo.errors import ConfigError
from fedtempo.record import comparison
from fedtempo.record.strict_json import to_json


def summary(seed, time, accuracy=0.8, target=0.8, **other):
    return {
        "strategy": "s",
        "seed": seed,
        "horizon_s": 100.0,
        "ended": "horizon",
        "final_accuracy": accuracy,
        "target_accuracy": target,
        "time_to_target_s": time,
        "first_time_at_target_s": time,
        "busy_ratio": {"mean": 0.5, "min": 0.1, "max": 0.9, "per_client": [0.1, 0.9]},
        "staleness": {"mean": None, "max": None},
        "data": {"source": "digits", "train": 10, "test": 5, "sha256": f"hash {seed}"},
        **other,
    }


def test_a_comparison_equals_one_worked_out_by_hand():
    result = comparison(
        {
            "fast": [summary(1, 10.0, 0.8), summary(2, 14.0, 0.9), summary(3, 12.0, 0.7)],
            "slow": [summary(1, 60.0), summary(2, None), summary(3, 48.0)],
            "never": [summary(1, None), summary(2, None), summary(3, 90.0)],
        }
    )
    assert (result["first"], result["target_accuracy"], result["horizon_s"]) == ("fast", 0.8, 100.0)
    fast, slow, never = result["strategies"].values()
    assert fast["seeds"] == [1, 2, 3]
    assert fast["final_accuracy"] == {
        "mean": pytest.approx(0.8),
        "std": pytest.approx(0.1),
        "values": [0.8, 0.9, 0.7],
    }
    assert fast["time_to_target_s"] == {
        "mean": 12.0,
        "std": 2.0,
        "values": [10.0, 14.0, 12.0],
        "median": 12.0,
        "reached": 3,
        "of": 3,
        "ratio_to_first": 1.0,
    }
    assert slow["time_to_target_s"]["mean"] == 54.0
    # The median of 48 s, 60 s and never is 60 s.
    assert slow["time_to_target_s"]["median"] == 60.0
    assert slow["time_to_target_s"]["ratio_to_first"] == 5.0
    assert slow["time_to_target_s"]["reached"] == 2
    assert never["time_to_target_s"]["mean"] == 90.0
    assert never["time_to_target_s"]["median"] is None
    assert never["time_to_target_s"]["ratio_to_first"] is None
    assert fast["busy_ratio"]["max"] == {"mean": 0.9, "std": pytest.approx(0), "values": [0.9, 0.9, 0.9]}
    assert "per_client" not in fast["busy_ratio"]
    assert fast["staleness"]["mean"] == {"mean": None, "std": None, "values": [None, None, None]}
    assert fast["data"]["sha256"] == {"values": ["hash 1", "hash 2", "hash 3"]}
    assert fast["ended"] == {"values": ["horizon"] * 3}
    assert json.loads(to_json(result)) == result


def test_a_single_seed_has_no_spread_and_an_unreached_target_of_the_first_gives_no_ratio():
    result = comparison({"a": [summary(1, None)], "b": [summary(1, 5.0, horizon_s=50.0)]})
    assert result["horizon_s"] is None
    assert result["strategies"]["b"]["final_accuracy"]["std"] is None
    assert result["strategies"]["b"]["time_to_target_s"]["ratio_to_first"] is None


def test_empty_comparisons_and_different_targets_are_rejected():
    for empty in ({}, {"a": []}):
        with pytest.raises(ConfigError, match="at least one run"):
            comparison(empty)
    with pytest.raises(ConfigError, match="the target differs between runs"):
        comparison({"a": [summary(1, 1.0)], "b": [summary(1, 1.0, target=0.9)]})

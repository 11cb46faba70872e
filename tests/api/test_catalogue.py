"""The catalogue of parts and their descriptions, from Python."""

from __future__ import annotations

import tomllib

import pytest

from fedtempo import ConfigError, catalogue, describe
from fedtempo.runs.config import REGISTRIES
from fedtempo.strategies import STRATEGIES


def test_the_catalogue_has_every_part_with_its_first_sentence() -> None:
    everything = catalogue()
    for kind, parts in REGISTRIES.items():
        assert set(parts) <= set(everything[kind])
        assert all(entry.summary for entry in everything[kind].values())
    strategies = catalogue("strategies")
    assert list(strategies) == ["strategies"]
    assert list(strategies["strategies"]) == sorted(STRATEGIES)
    assert not strategies["strategies"]["fedavg"].origin
    with pytest.raises(ConfigError, match="list strategie: no such kind; did you mean 'strategies'"):
        catalogue("strategie")


def test_a_description_has_fields_tables_or_options() -> None:
    strategy, fleet = describe("fedhusky")
    assert (strategy.kind, strategy.name, fleet.kind) == ("strategies", "fedhusky", "fleets")
    assert "pace" in [field.name for field in strategy.fields]
    assert tomllib.loads(fleet.toml)["fleet"]["link"]["kind"] == "path-loss"
    (training,) = describe("training")
    lr = next(field for field in training.fields if field.name == "lr")
    assert (lr.type, lr.default) == ("number, > 0", "0.01")
    assert lr.meaning == "step size"
    (source,) = describe("table")
    assert (source.name, source.kind) == ("table:<...>", "sources")
    assert "standardize = False" in source.options
    with pytest.raises(ConfigError, match="describe fedhuski: no such part; did you mean 'fedhusky'"):
        describe("fedhuski")

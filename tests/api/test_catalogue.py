"""The catalogue of parts and their descriptions, from Python."""

from __future__ import annotations

import tomllib

import pytest

from fedtempo import ConfigError, catalogue, describe
from fedtempo.api.catalogue import flowing
from fedtempo.runs.config import REGISTRIES
from fedtempo.strategies import STRATEGIES


def test_the_catalogue_lists_every_part_with_its_first_sentence() -> None:
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
    with pytest.raises(ConfigError, match="describe fedhuski: no such part or key; did you mean 'fedhusky'"):
        describe("fedhuski")
    with pytest.raises(ConfigError, match=r"describe availibility: .* did you mean 'availability'"):
        describe("availibility")


def test_a_section_is_known_by_its_last_name() -> None:
    assert describe("faults") == describe("fleet.faults") == describe("[fleet.faults]")
    assert "hang" in [field.name for field in describe("faults")[0].fields]


def test_a_key_is_described_in_each_section_with_the_parts_that_it_can_name() -> None:
    (availability,) = describe("availability")
    assert (availability.kind, availability.name, availability.text) == ("sections", "[fleet]", "")
    assert [field.name for field in availability.fields] == ["availability"]
    assert availability.choices == catalogue("availability")["availability"]
    assert set(describe("link")[0].choices) == set(REGISTRIES["links"])
    assert [key.name for key in describe("clip_norm")] == ["[training]", "[server]", "[server.privacy]"]
    assert not any(key.choices for key in describe("clip_norm"))
    (links,) = describe("links")
    assert (links.kind, links.fields, set(links.choices)) == ("links", (), set(REGISTRIES["links"]))


def test_types_and_defaults_are_those_of_a_configuration() -> None:
    fleet = {field.name: (field.type, field.default) for field in describe("fleet")[0].fields}
    assert fleet["availability"] == ("name | table", "always")
    assert fleet["faults"] == ("table", "{}")
    assert fleet["compute"] == ("table", "required")
    python_only = {"Any", "Distribution", "Link", "Compute", "Faults", "Privacy", "Limits", "EstimatorKind"}
    for section in catalogue("sections")["sections"]:
        for field in describe(section)[0].fields:
            assert not python_only & set(field.type.replace("|", " ").replace(",", " ").split()), field


def test_docstrings_flow() -> None:
    assert (
        flowing("A b\n    c.\n\n    D\n    e.\n    side, more: f\n    g.\n    ") == "A b c.\n\nD e.\nside, more: f g."
    )

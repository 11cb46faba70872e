"""What advice says of the league: which rows are near, what they say, and that they decide nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedtempo import Experiment
from fedtempo.runs.config import Config, parse
from fedtempo.studies.advice import recommendation
from fedtempo.studies.advice.league import league_says
from fedtempo.studies.advice.prior import (
    FILE,
    Entrant,
    Features,
    Prior,
    Row,
    entrant_of,
    features_of,
    nearest,
    read_prior,
)
from fedtempo.studies.fleet import describe_fleet
from fedtempo.studies.papers import league_prior
from fedtempo.studies.papers.league_prior import OWN_RESULTS, prior_text, write_prior
from fedtempo.studies.papers.ranking import Relation

FLEET = Features(clients=40, spread=4.0, transfer=0.1, queued=False, available=1.0, failing=0.0, wrong=0.0)


def entrant(strategy: str, times_s: list[float | None], ranked: bool = True, **fixed: Any) -> Entrant:
    return Entrant(
        strategy, {key.replace("__", "."): value for key, value in fixed.items()}, ("times",), ranked, times_s
    )


def row(name: str, features: Features, **entrants: Entrant) -> Row:
    return Row(
        name, f"the row {name}", features, 0.7, 100.0, 0.1, {k.replace("_", "-"): e for k, e in entrants.items()}
    )


def configured(strategy: str = "fedavg", **changes: Any) -> Config:
    fleet = {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"}
    tables = {"run": {"horizon": 1.0}, "strategy": {"name": strategy}, "fleet": fleet}
    return parse(tables).with_changes({key.replace("__", "."): value for key, value in changes.items()})


def test_the_prior_is_that_of_the_results() -> None:
    assert FILE.read_text(encoding="utf-8") == prior_text(OWN_RESULTS)
    results = json.loads((OWN_RESULTS / "all" / "league" / "league.json").read_text())
    prior = read_prior()
    assert prior is not None
    assert [each.name for each in prior.rows] == [cell["name"] for cell in results["cells"] if cell["target"]]
    for ran, cell in zip(prior.rows, results["cells"], strict=True):
        assert list(ran.entrants) == list(cell["tried"])
        assert ran.features.clients == cell["clients"]
        for label, tried in cell["tried"].items():
            for time, result in zip(ran.entrants[label].times_s, tried["runs"], strict=True):
                assert (time or 0.0) == pytest.approx(result["times_s"][-1] or 0.0, rel=1e-3)


def test_only_the_repositorys_own_results_are_written_into_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(league_prior, "FILE", tmp_path / "prior.json")
    elsewhere = tmp_path / "results"
    (elsewhere / "all" / "league").mkdir(parents=True)
    (elsewhere / "all" / "league" / "league.json").write_bytes((OWN_RESULTS / "all/league/league.json").read_bytes())
    write_prior(elsewhere)
    assert not (tmp_path / "prior.json").exists()
    write_prior(OWN_RESULTS)
    assert (tmp_path / "prior.json").read_text() == prior_text(OWN_RESULTS)


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, []),
        ({"clients": 120}, []),
        ({"clients": 121}, ["number of clients"]),
        ({"clients": 13}, ["number of clients"]),
        ({"spread": 8.1}, ["spread of computing times"]),
        ({"transfer": 0.36}, ["share of a visit that transfers take"]),
        ({"queued": True}, ["uploads that wait for each other"]),
        ({"available": 0.8, "failing": 0.1, "wrong": 0.2}, []),
        (
            {"available": 0.79, "failing": 0.11, "wrong": 0.3},
            ["availability", "visits that fail", "errors of estimates"],
        ),
    ],
)
def test_a_row_is_near_if_it_differs_in_no_feature_by_more_than_the_rule_says(
    changes: dict[str, Any], differs: list[str]
) -> None:
    (found,) = nearest(replace(FLEET, **changes), Prior("medium", [row("a", FLEET)]))
    assert list(found.differs) == differs
    assert found.is_near == (not differs)


def test_three_near_rows_are_shown_at_most_nearest_first_and_without_any_the_one_that_differs_least() -> None:
    rows = [row(str(n), replace(FLEET, clients=n)) for n in (90, 41, 60, 50, 4000)]
    assert [each.row.name for each in nearest(FLEET, Prior("medium", rows))] == ["41", "50", "60"]
    far = [row("two", replace(FLEET, clients=500, failing=0.5)), row("one", replace(FLEET, clients=5000))]
    assert [each.row.name for each in nearest(FLEET, Prior("medium", far))] == ["one"]
    assert nearest(FLEET, Prior("medium", [])) == []


def test_a_strategy_is_the_entrant_whose_settings_it_has() -> None:
    there = row(
        "a",
        FLEET,
        fedavg=entrant("fedavg", [1.0]),
        fedadam=entrant("fedavg", [1.0], server__optimizer={"kind": "adam", "lr": 0.01}),
        async_memory=entrant("async-memory", [1.0]),
        async_uncorrected=entrant("async-memory", [1.0], strategy__correction=False),
        found=entrant("fedhusky", [1.0], strategy__clusters=10),
        told=entrant("fedhusky", [1.0], strategy__clusters="labels"),
    )
    assert entrant_of(configured("fedavg"), there) == "fedavg"
    assert entrant_of(configured("fedavg", server__optimizer={"kind": "adam", "lr": 0.1}), there) == "fedadam"
    assert entrant_of(configured("fedavg", server__optimizer={"kind": "adagrad", "lr": 0.1}), there) is None
    assert entrant_of(configured("async-memory"), there) == "async-memory"
    assert entrant_of(configured("async-memory", strategy__correction=False), there) == "async-uncorrected"
    assert entrant_of(configured("fedhusky", strategy__clusters=4), there) == "found"
    assert entrant_of(configured("fedhusky", strategy__clusters="labels"), there) == "told"
    assert entrant_of(configured("scaffold"), there) is None


SOON: list[float | None] = [10.0, 11.0, 9.0, 10.5, 9.5]
LATE: list[float | None] = [20.0, 23.0, 17.0, 21.0, 19.0]
CONFIGS = {"mine": configured("fedavg"), "scaffold": configured("scaffold"), "fch": configured("fch")}


def test_strategies_are_compared_with_the_first_of_those_that_compete() -> None:
    fast = entrant("fedhusky", [1.0] * 5)  # does not compete here, so it is nobody's measure
    there = row("a", FLEET, fedhusky=fast, fedavg=entrant("fedavg", LATE), scaffold=entrant("scaffold", SOON))
    says = league_says(FLEET, Prior("medium", [there]), CONFIGS)
    said = says.rows[0].said
    assert set(said) == {"mine", "scaffold"}
    assert (said["scaffold"].relation, said["mine"].relation) == (Relation.FIRST, Relation.LATER)
    assert said["mine"].ratio == pytest.approx(2.0)
    (sentence,) = says.sentences("mine")
    assert sentence == (
        "In the league's row near this fleet, the row a, scaffold has the lowest median time of these strategies, and "
        "mine takes 2.0 times as long (shown to be later): compare it with scaffold to the full horizon, on several "
        "seeds. The ranking does not count this."
    )
    assert says.sentences("scaffold") == [
        "In the league's row near this fleet, the row a, scaffold has the lowest median time of these strategies. The "
        "ranking does not count this."
    ]
    assert says.sentences("fch")[0].endswith("; fch did not run there. The ranking does not count this.")
    assert [column.cells for column in says.columns(["mine", "fch"])] == [("mine", "fch"), ("2.0× later", "")]


def test_several_rows_are_counted_and_a_far_one_is_said_to_be_far() -> None:
    one = row("a", FLEET, fedavg=entrant("fedavg", SOON), scaffold=entrant("scaffold", LATE))
    other = row("b", FLEET, fedavg=entrant("fedavg", LATE), scaffold=entrant("scaffold", SOON))
    nobody = row("c", FLEET, fedavg=entrant("fedavg", [None] * 5), scaffold=entrant("scaffold", [None] * 5))
    (sentence,) = league_says(FLEET, Prior("medium", [one, other, nobody]), CONFIGS).sentences("mine")
    assert (
        "rows near this fleet (2), the lowest median time of these strategies is that of mine (1 of 2) and" in sentence
    )
    assert "mine takes 2.0 times as long (shown to be later) in the row b" in sentence
    assert league_says(FLEET, Prior("medium", [nobody]), CONFIGS).sentences("mine") == []
    assert league_says(FLEET, Prior("medium", [row("d", FLEET)]), CONFIGS).rows == []
    far = league_says(replace(FLEET, clients=1000), Prior("medium", [one]), CONFIGS)
    assert not far.is_near
    assert far.sentences("mine")[0].startswith(
        "No row of the league is near this fleet. In the nearest, the row a, which differs in number of clients, mine "
    )


def test_a_run_that_misses_the_target_gives_a_lower_bound() -> None:
    there = row("a", FLEET, fedavg=entrant("fedavg", [None] * 5), scaffold=entrant("scaffold", SOON))
    says = league_says(FLEET, Prior("medium", [there]), CONFIGS)
    assert says.rows[0].said["mine"].words == "> 10.0× later"
    assert "mine takes at least 10.0 times as long (shown to be later)" in says.sentences("mine")[0]


def test_features_come_from_the_fleet_as_drawn() -> None:
    config = configured(
        data__source="digits",
        data__clients=10,
        data__examples_per_client=5,
        model__size_bytes=1_000_000,
        run__horizon=100.0,
        fleet__compute={"unit": "s/visit", "speed": [1.0] * 2 + [2.0] * 6 + [8.0] * 2},
        fleet__link={"kind": "fixed", "download_s": 1.0, "upload_s": 1.0, "channels": 3},
        fleet__availability={"kind": "dropout", "probability": 0.2},
        fleet__faults__nan=0.5,
        fleet__estimates={"kind": "noisy", "error": 0.3},
    )
    assert features_of(config, describe_fleet(config)) == Features(10, 8.0, 0.5, True, 1.0, 0.6, 0.3)
    away = config.with_changes({"fleet.availability": {"kind": "windows", "windows": [[[0, 25]]] * 10}})
    assert features_of(away, describe_fleet(away)).available == 0.25


def test_advice_shows_it_and_is_not_changed_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment.from_toml(
        "configs/fedhusky.toml", "data.clients=8", "model.hidden=[4]", "data.examples_per_client=5"
    )
    shown = experiment.advise(["fedavg", "fedbuff"], budget=2, short_s=5.0)
    assert shown.league is not None
    assert not shown.league.is_near
    assert shown.league.rows[0].nearness.row.name in [each.name for each in (read_prior() or Prior("", [])).rows]
    assert shown.details[-1].startswith("No row of the league is near this fleet.")
    assert shown.facts()["league"]["decides"] is False
    monkeypatch.setattr(recommendation, "read_prior", lambda: None)
    without = experiment.advise(["fedavg", "fedbuff"], budget=2, short_s=5.0)
    assert without.league is None
    assert {**without.facts(), "league": 0, "details": 0} == {**shown.facts(), "league": 0, "details": 0}

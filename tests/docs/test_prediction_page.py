"""The running text of the page on predictions describes the test that made its numbers."""

from __future__ import annotations

import json
from collections.abc import Collection

import pytest

from tests.docs.tables import RESULTS
from tests.docs.words import number_word

TEXT = " ".join((RESULTS / "prediction.md").read_text(encoding="utf-8").split())
MEASURED = json.loads((RESULTS / "prediction.json").read_text(encoding="utf-8"))
(QUIET,) = MEASURED["found"]
NAMES = {"fedhusky": "FedHusky", "hybrid": "Hybrid", "fedavg": "FedAvg", "fedbuff": "FedBuff", "fedcs": "FedCS"}


def pairs(measure: str, among: Collection[str] = tuple(QUIET["strategies"])) -> list[tuple[float, float]]:
    """Return what was predicted and what came of a measure, for each of these strategies."""
    return [
        (each["predicted"], each["real"])
        for strategy in among
        for each in QUIET["strategies"][strategy]["measures"]
        if each["name"] == measure
    ]


def more(compared: list[tuple[float, float]]) -> str:
    """Return by how many percent reality exceeds predictions, from the least to the most."""
    errors = sorted(100 * (real / predicted - 1) for predicted, real in compared)
    return f"{errors[0]:.1f} to {errors[-1]:.1f} %"


def test_it_says_how_many_clients_and_which_strategies_ran() -> None:
    compared = TEXT.split("## What was compared?")[1].split("## What came out?")[0]
    fastest, slowest = MEASURED["epochs_s"]
    assert f"{number_word(MEASURED['clients']).capitalize()} real client processes" in compared
    assert f"from {fastest:g} to {slowest:g} seconds" in compared
    assert f"{number_word(len(QUIET['strategies'])).capitalize()} strategies were simulated" in compared
    assert {label for label, name in NAMES.items() if name in compared} == set(QUIET["strategies"])
    assert QUIET["busy"] == 0


@pytest.mark.parametrize("when", [0, 1])
def test_the_load_is_the_one_that_was_kept(when: int) -> None:
    load = QUIET["measured"]["load"][when]
    assert f"{'after' if when else 'before'} everything ({load:g})" in TEXT


def test_the_deviations_in_the_explanation_are_those_of_the_numbers() -> None:
    visits = pairs("time of a visit, mean, s")
    late_s = sorted(real - predicted for predicted, real in visits)
    assert f"Visits then took {more(visits)} longer" in TEXT
    assert f"{late_s[0]:.2f} to {late_s[-1]:.2f} s, and the least busy client" in TEXT
    least_busy = pairs("busy ratio, least busy client", ["hybrid", "fedavg"])
    assert f"was busy for {more(least_busy)} more of the time" in TEXT

"""Claims of newer methods: each has a setting, what is compared, and the committed page says what was measured."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.record import Records
from fedtempo.strategies import STRATEGIES
from fedtempo.studies.papers import reproduction
from fedtempo.studies.papers.claims import EXHIBITS, NAME, Claim, claim_rows, read_claims
from fedtempo.studies.papers.reproduction import SCALES, Request
from fedtempo.studies.papers.verdicts import Verdict


@pytest.mark.parametrize("scale", SCALES)
def test_every_claim_has_competitors_that_can_run_and_seeds_of_its_own(scale: Any, tmp_path: Path) -> None:
    request = Request(scale, tmp_path)
    base, budget = request.settings(NAME), request.budget(NAME)
    assert len(budget.seeds) >= 5
    assert not set(budget.seeds) & set(budget.tuning_seeds)
    claims = read_claims(request)
    assert set(claims) <= set(STRATEGIES)
    assert {f"{label}/direction" for label in claims} == {exhibit.name for exhibit in EXHIBITS}
    for label, claim in claims.items():
        assert set(claim.compare) == {label, *claim.against}
        config = claim.on(base)
        for competitor in claim.compare:
            assert config.for_comparison(competitor).strategy_name == competitor


def test_a_claim_that_is_wrong_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "claims.toml").write_text('[cells.tifl]\npaper = "faster"\nagainst = []\n')
    monkeypatch.setattr(reproduction, "SETTINGS", tmp_path)
    with pytest.raises(ConfigError, match=r"cells\.tifl.*against"):
        read_claims(Request("small", tmp_path))


def run(time_s: float, end_s: float = 50.0) -> Records:
    """Return a run with a commit every second and one client that is busy half of the time."""
    times = np.arange(0.0, end_s + 1)
    visits = {"download_begin": np.array([0.0]), "end": np.array([end_s / 2]), "client": np.array([0])}
    accuracy = np.where(times >= time_s, 0.9, 0.1)
    facts = {"elapsed_s": end_s, "n_clients": 1}
    return Records(visits, {"time": times}, {"time": times, "accuracy": accuracy}, (), facts)


def study(**runs: list[Records]) -> Any:
    return SimpleNamespace(records=runs, chosen=lambda label: {"training.lr": 0.3})


def test_rows_say_what_each_needs_and_judge_the_claim_against_each_baseline() -> None:
    claim = Claim("faster", ("slow", "equal"))
    early, late = [10.0, 11.0, 12.0], [20.0, 23.0, 24.0]
    rows = claim_rows("new", claim, study(new=[run(t) for t in early], slow=[run(t) for t in late],
                                          equal=[run(t) for t in early]), 0.7, 1.0)  # fmt: skip
    assert [row.quantity for row in rows] == [
        "new: time to 70%, new",
        "new: time to 70%, slow",
        "new: time to 70%, equal",
        "new: time over that of slow",
        "new: time over that of equal",
    ]
    assert rows[0].measured == "11 s (10 s, 11 s, 12 s)"
    assert [row.verdict for row in rows] == [None, None, None, Verdict.REACHED, Verdict.NOT_SHOWN]
    against = claim_rows("slow", Claim("faster", ("new",)), study(slow=[run(t) for t in late],
                                                                new=[run(t) for t in early]), 0.7, 1.0)  # fmt: skip
    assert against[-1].verdict is Verdict.NOT_REACHED
    assert math.isclose(float(against[-1].measured.split()[0]), 2.03, abs_tol=0.02)


def test_a_run_that_misses_the_target_is_never_in_words() -> None:
    rows = claim_rows("new", Claim("faster", ("other",)), study(new=[run(99.0)] * 3, other=[run(5.0)] * 3), 0.7, 1.0)
    assert rows[0].measured.startswith("never (never")
    assert rows[-1].verdict is Verdict.NOT_REACHED

"""Numbers that a strategy gives to its procedure (`Work.numbers`) arrive on every executor and after interruptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from fedtempo.errors import StrategyError
from fedtempo.federation import Federation, Work
from fedtempo.learning.procedures import ClientVisit
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from fedtempo.runtime.executors import Carried
from fedtempo.runtime.executors.recipes import Recipes
from tests.crash import lives
from tests.learning.test_procedures import visited
from tests.runtime.world import play
from tests.strategies.test_every_strategy import BASE

HERE = "tests.runtime.test_numbers"


def shifted(visit: ClientVisit) -> list[Tensor]:
    """Train, and move each parameter by a number of the strategy's."""
    visit.train()
    visit.parameters.add_(visit.numbers["shift"])
    visit.statistics |= {name: float(value) for name, value in visit.numbers.items()}
    return []


@dataclass(frozen=True)
class Shift:
    shift: float = 0.25

    async def run(self, fed: Federation) -> None:
        round_number = 0
        while True:
            round_number += 1
            work = Work(procedure=f"{HERE}:shifted", numbers={"shift": self.shift, "round": round_number})
            updates = await fed.train_all(fed.clients, fed.model, work)
            assert {update.statistics["round"] for update in updates} <= {round_number}
            fed.commit(await fed.average(updates))


def configured(shift: float = 0.25, **changes: Any) -> Config:
    tables = {**BASE, "strategy": {"name": f"{HERE}:Shift", "shift": shift}, "executor": {"kind": "inline"}}
    return parse(tables).with_changes({"run.horizon": 12.0, **changes})


def outcome(config: Config) -> Mapping[str, Any]:
    summary = run(config)[0]
    return {name: summary[name] for name in ("model_sha256", "events_sha256", "final_loss", "commits")}


def test_a_procedure_finds_the_numbers_of_its_visit() -> None:
    statistics, _, _ = visited(f"{HERE}:shifted", numbers={"shift": 0.5})
    assert statistics["shift"] == 0.5
    with pytest.raises(Exception, match="KeyError: 'shift'"):
        visited(f"{HERE}:shifted")


def test_numbers_arrive_on_every_executor() -> None:
    expected = outcome(configured())
    assert expected["commits"] >= 2
    assert outcome(configured(0.5))["model_sha256"] != expected["model_sha256"]
    for changes in (
        {"executor.workers": 1},
        {"executor.workers": 2},
        {"executor.workers": 2, "executor.start_method": "spawn"},
    ):
        assert outcome(configured(**{"executor.kind": "processes", **changes})) == expected


@pytest.mark.ray
def test_numbers_arrive_on_ray() -> None:
    assert outcome(configured(**{"executor.kind": "ray", "executor.workers": 2})) == outcome(configured())


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    config = configured(**{"run.checkpoint_every": 1e-6, "run.verify": True})
    lives.Run(config).complete(tmp_path / "whole")
    lives.interrupted_at(config, tmp_path / "run", 7.0)
    lives.Run(config).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", tmp_path / "whole")


def test_stored_results_are_told_apart_by_their_numbers() -> None:
    recipes = Recipes(b"", lambda client: b"", lambda on: b"", b"", lambda: b"")
    training = configured().training
    keys = {
        recipes.train(b"model", 0, 1, training, Carried(procedure="scaffold", numbers=numbers), [])
        for numbers in (None, {}, {"mu": 1.0}, {"mu": 2.0}, {"nu": 1.0})
    }
    assert len(keys) == 5


def test_numbers_need_a_procedure() -> None:
    async def nothing_to_set(fed: Federation) -> None:
        await fed.train_all(fed.clients, fed.model, Work(numbers={"mu": 1.0}))

    with pytest.raises(StrategyError, match=r"Work\.numbers are for a procedure; set Work\.procedure, too"):
        play(nothing_to_set, clients=1)

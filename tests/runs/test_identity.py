"""Everything that affects a run's bits is hashed before it is resumed or taken from the cache."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fedtempo
from fedtempo.federation import Federation
from fedtempo.runs.config import parse
from fedtempo.runs.identity import code_sha256, deciding_files, identity, strategy_modules

TABLES: dict[str, Any] = {
    "run": {"horizon": 5.0},
    "data": {"source": "digits", "clients": 4},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
}


@dataclass(frozen=True)
class Own:
    """A user's strategy."""

    async def run(self, fed: Federation) -> None:
        """Do nothing."""


ONE_RUN = """
import sys
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
run(parse({
    "run": {"horizon": 5.0},
    "data": {"source": "digits", "clients": 4, "examples_per_client": 10, "test_examples": 20},
    "model": {"network": "mlp", "hidden": [4]},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": {"kind": "lte"}, "estimates": "exact"},
    "strategy": {"name": "STRATEGY"},
    "executor": {"kind": "EXECUTOR"},
}))
print(*(module.__file__ for name, module in sys.modules.items() if name.startswith("fedtempo") and module.__file__))
"""


@pytest.mark.long
def test_every_module_that_affects_results_is_hashed() -> None:
    root = Path(fedtempo.__file__).parent
    for strategy, executor in (("fedhusky", "inline"), ("psfl", "processes")):
        modules = [f"fedtempo.strategies.{strategy}"]
        hashed = {path.relative_to(root).as_posix() for path in deciding_files(modules)}
        script = ONE_RUN.replace("STRATEGY", strategy).replace("EXECUTOR", executor)
        printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        needed = {Path(file).relative_to(root).as_posix() for file in printed.split()} - {"strategies/__init__.py"}
        assert {"runs/world.py", "runs/launch.py", "parts/construct.py", "learning/stack.py"} <= needed
        assert needed <= hashed


def test_modules_that_only_display_or_compare_do_not_prevent_resuming() -> None:
    assert not rooms() & {"api", "cli", "report", "studies"}


def test_the_code_of_deployments_decides_deployments_only() -> None:
    assert rooms(deployed=True) - rooms() == {"deploy"}
    config = parse({**TABLES, "strategy": {"name": "fedavg"}})
    simulated, deployed = (identity(config, "data", deployed=each)["versions"]["code"] for each in (False, True))
    assert simulated != deployed


def rooms(*, deployed: bool = False) -> set[str]:
    root = Path(fedtempo.__file__).parent
    return {path.relative_to(root).parts[0] for path in deciding_files(deployed=deployed)}


def test_other_strategies_do_not_decide_a_run_and_all_may_decide_one_of_a_users_own_strategy() -> None:
    def names(strategies: list[str] | None) -> set[str]:
        root = Path(fedtempo.__file__).parent / "strategies"
        return {path.relative_to(root).as_posix() for path in deciding_files(strategies) if path.is_relative_to(root)}

    assert {"fedavg.py", "rounds.py"} <= names(["fedtempo.strategies.fedavg"])
    assert not names(["fedtempo.strategies.fedavg"]) & {"fedhusky.py", "planning/groups.py", "__init__.py"}
    assert {"hopping_groups.py", "planning/groups.py"} <= names(["fedtempo.strategies.fedhusky"])
    assert {"fedavg.py", "fedhusky.py", "__init__.py"} <= names(None)
    fedavg, fedhusky = (parse({**TABLES, "strategy": {"name": name}}) for name in ("fedavg", "fedhusky"))
    assert strategy_modules([fedhusky, fedavg]) == ("fedtempo.strategies.fedavg", "fedtempo.strategies.fedhusky")
    own = parse({**TABLES, "strategy": {"name": f"{__name__}:Own"}})
    assert strategy_modules([fedavg, own]) is None
    assert len({code_sha256(config) for config in (fedavg, fedhusky, own)}) == 3

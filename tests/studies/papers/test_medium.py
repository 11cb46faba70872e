"""Every entry with training at its medium scale: its first study is one that can be dealt, built and trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fedtempo.runs.config import Config
from fedtempo.runs.run import run
from fedtempo.studies.papers import psfl_structure
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import Request
from fedtempo.studies.tuning import trials

UNTRAINED = ("fedhusky/fig4", "csgd/fig4")  # of how data are dealt
TRAINED = [name for name, each in EXHIBITS.items() if each.data and each.printed and name not in UNTRAINED]


class _Stopped(Exception):
    """Raised in place of a study's runs."""


@pytest.mark.slow
@pytest.mark.fashion_mnist
@pytest.mark.parametrize("name", TRAINED)
def test_the_first_study_of_an_entry_can_run_at_the_medium_scale(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Config] = []

    def stop(function: Any, configs: Sequence[Config], *, workers: int = 2) -> None:
        asked.extend(configs)
        raise _Stopped

    monkeypatch.setattr(trials, "in_processes", stop)
    data = None if name == "csgd/table5" else "fashion-mnist"
    with pytest.raises(_Stopped):
        EXHIBITS[name].reproduce(Request("medium", tmp_path, data))
    assert len({config.run.seed for config in asked}) >= 1
    summary, _, _ = run(asked[0].with_changes({"run.horizon": 20.0, "run.max_commits": 1, "executor.kind": "inline"}))
    assert summary["final_accuracy"] > 0


def test_the_learning_rate_is_tuned_for_every_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Config] = []

    def stop(function: Any, configs: Sequence[Config], *, workers: int = 2) -> None:
        asked.extend(configs)
        raise _Stopped

    monkeypatch.setattr(trials, "in_processes", stop)
    request = Request("medium", tmp_path, "fashion-mnist")
    with pytest.raises(_Stopped):
        psfl_structure.figure_7(request)
    budget = request.budget("psfl")
    tried = Counter((config.strategy.length, config.training.lr) for config in asked)  # type: ignore[attr-defined]
    assert tried == {(s, lr): len(budget.tuning_seeds) for s in (1, 2, 3, 4, 5, 7, 10, 20) for lr in budget.lr}


def test_psfls_table_1_supports_every_number_of_clients_of_the_paper() -> None:
    base = psfl_structure.reduced_settings(Request("medium", Path(), "fashion-mnist"))
    for clients, (_, _, printed, _) in psfl_structure.TABLE_ONE.items():
        assert {1, printed} <= set(psfl_structure.LENGTHS[clients])
        lengths = {length: clients // length for length in psfl_structure.LENGTHS[clients]}
        config = psfl_structure.with_lengths(base, clients, lengths)
        for length, width in lengths.items():
            strategy = config.for_comparison(f"S{length}").strategy
            assert (strategy.width, strategy.length) == (width, length)  # type: ignore[attr-defined]

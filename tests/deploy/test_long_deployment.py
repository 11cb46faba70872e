"""Clients that come and go, and restarted servers: nothing leaks, and every client works in each of its lives."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.long_deployment.page import page
from benchmarks.long_deployment.plan import DRIVER, SUPERLINK, plan
from benchmarks.long_deployment.samples import Sample
from benchmarks.long_deployment.verdicts import growths

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize(("minutes", "clients", "restarts"), [(60, 50, 200), (2, 6, 10), (5, 10, 24)])
def test_a_plan_has_all_restarts_and_repeats(minutes: float, clients: int, restarts: int) -> None:
    planned = plan(60 * minutes, clients, restarts, seed=1)
    assert planned == plan(60 * minutes, clients, restarts, seed=1)
    assert planned != plan(60 * minutes, clients, restarts, seed=2)
    assert len(planned.restarts) == restarts
    assert max(restart.up_s for restart in planned.restarts) <= 0.85 * 60 * minutes + 1e-6
    by_program: dict[str, list[tuple[float, float]]] = {}
    for restart in planned.restarts:
        by_program.setdefault(restart.program, []).append((restart.down_s, restart.up_s))
    assert len(by_program) == clients - planned.steady + 2
    for absences in by_program.values():
        assert all(up < down for (_, up), (down, _) in itertools.pairwise(absences))
    third = [restart.up_s for restart in planned.restarts if restart.program in (DRIVER, SUPERLINK)]
    assert max(third) <= 20 * minutes + 3


def test_growth_is_that_after_the_warm_up() -> None:
    def held(time_s: float, own_kb: float, files: int = 5) -> Sample:
        return Sample(time_s, "client-001", 0, round(own_kb), 0, files, 2, 0, 3, 0)

    flat = [held(second, min(100_000, 50_000 + 1000 * second)) for second in range(0, 401, 5)]
    (growth,) = growths(flat)
    assert growth.growth == 0
    assert growth.seconds == 200
    leak = [held(second, 100_000 + 10 * second, files=5 + second // 100) for second in range(0, 401, 5)]
    (growth,) = growths(leak)
    assert growth.growth == pytest.approx(2000 / 102_000, rel=1e-3)
    assert growth.files == (7.0, 8.0)
    assert asdict(growth)["own_kb"] == 102_000
    assert growths(flat[:8]) == []


@pytest.mark.skipif(not (RESULTS / "long-deployment.json").exists(), reason="it has not been measured")
def test_the_committed_page_agrees_with_the_committed_numbers() -> None:
    committed = json.loads((RESULTS / "long-deployment.json").read_text(encoding="utf-8"))
    assert page(committed) == (RESULTS / "long-deployment.md").read_text(encoding="utf-8")


@pytest.mark.deploy
@pytest.mark.slow
def test_a_short_deployment_with_restarts_leaves_nothing(tmp_path: Path) -> None:
    """Two minutes are no more than the warm-up, but a leak of a quarter would be seen."""
    pytest.importorskip("flwr")
    from benchmarks.long_deployment.__main__ import Settings, long_deployment

    found = long_deployment(
        Settings(minutes=2.0, clients=6, restarts=10, slowest_s=4.0, every_s=1.0), tmp_path / "long"
    )
    failed = [f"{verdict['demanded']}: {verdict['found']}" for verdict in found["verdicts"] if not verdict["holds"]]
    assert [line for line in failed if "after the warm-up" not in line] == []
    assert max(growth["growth"] for growth in found["growth"]) < 0.25
    assert "| no temporary file, shared memory or process is left | none | yes |" in page(found)

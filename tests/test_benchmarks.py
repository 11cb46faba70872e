"""The benchmarks run, on counts too small to say anything, and their figures are what they are named."""

import json
import math

import pytest

from benchmarks import clock, figures, flat, memory, overhead, planner, visits
from fedtempo.fleet import variation
from fedtempo.record import alive


def test_a_figure_knows_its_gate_and_is_written_as_it_is(tmp_path):
    above, below = (figures.figure("speed", [3.0, 1.0, 2.0], "x", 2.5, lower=lower) for lower in (False, True))
    assert (above.value, above.verdict) == (2.0, "at least 2.5: NO")
    assert below.verdict == "at most 2.5: yes"
    missing = figures.Figure("peer", None, "x", missing="flgo is not installed")
    assert "missing: flgo is not installed" in figures.table([above, missing])
    figures.write(tmp_path / "results.json", [above, missing], [0.5, 0.7])
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["load"] == [0.5, 0.7]
    assert [each["name"] for each in written["figures"]] == ["speed", "peer"]
    assert written["figures"][0]["runs"] == [3.0, 1.0, 2.0]


def test_ways_take_turns_and_the_first_turn_is_dropped():
    done = []
    seconds = figures.interleaved({name: lambda name=name: done.append(name) for name in "ab"}, 2)
    assert done == list("ababab")
    assert [len(runs) for runs in seconds.values()] == [2, 2]
    assert figures.ratios([4.0, 9.0], [2.0, 3.0]) == [2.0, 3.0]


@pytest.mark.slow
def test_every_part_measures_on_small_counts():
    found = [
        *visits.figures(repetitions=1, scale=0.05),
        *overhead.figures(repetitions=1),
        *clock.figures(repetitions=1, scale=0.002),
        *planner.figures(repetitions=1, horizon_s=100),
        *memory.figures(clients=20, examples=400, per_round=4, rounds=1),
    ]
    assert [each.name for each in found] == [
        "visit_lenet_1p_vs_plain",
        "visit_lenet_2p_vs_plain",
        "workers_2_vs_1",
        "visit_mlp_1p_vs_plain",
        "visit_cnn6_1p_vs_plain",
        "visit_lstm_1p_vs_plain",
        "run_vs_executor",
        "clock_visits_per_s_50",
        "clock_visits_per_s_100000",
        "planner_feasible_ms",
        "planner_schedule_s",
        "memory_10000_clients_gib",
    ]
    assert all(each.value and math.isfinite(each.value) for each in found)


@pytest.mark.parametrize("strategy", ["fedasync", "sequential"])
def test_a_longer_schedule_takes_no_more_memory(strategy, monkeypatch):
    """Visits without a group and with one; what is held for a while is little."""
    monkeypatch.setattr(alive, "HELD", 100)
    monkeypatch.setattr(variation, "_LARGEST_BLOCK", 16)
    config = clock.configuration(4, 1e9, strategy).with_changes({"run.record": "totals"})
    watch, summary, _ = flat.long_run(config, 5_000, traced=True)
    assert summary["visits"] > 4_900
    grown = max(watch.memory[6:]) - max(watch.memory[:4])
    assert grown / 3_000 < 10, watch.grew  # bytes a visit
    assert watch.folder[-1] < 5_000_000  # SQLite's log, at most

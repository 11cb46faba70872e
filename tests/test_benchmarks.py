"""The benchmarks run on tiny counts, and their figures have the expected names."""

import json
import math
import sys
import textwrap

import numpy as np
import pytest
import torch

from benchmarks import (
    clock,
    figures,
    flat,
    journal,
    memory,
    overhead,
    planner,
    run,
    scale,
    solvers,
    starting,
    tables,
    visits,
)
from benchmarks.peers import environments, protocol
from benchmarks.peers import visits as peers
from benchmarks.peers.work import TURN, Count, counting, images, loss_of, network, serve
from fedtempo.fleet import variation
from fedtempo.record import active_groups
from fedtempo.runs.world import build_world

TURNED = {"seconds": 2.0, "loss_before": 2.3, "loss_after": 2.2}


def driver(turn):
    """Write a driver whose turn runs this code, with `request` available; it prints and fails like a peer."""
    code = f"""
    import sys
    from benchmarks.peers.protocol import answer
    print("loading")
    def turn(request):
        print("working")
        {turn}
    answer(turn)
    """
    return [sys.executable, "-c", textwrap.dedent(code)]


@pytest.fixture
def few_images(monkeypatch):
    """Compute losses on few images, and restore PyTorch's number of threads."""
    threads, (x, y, _, _) = torch.get_num_threads(), images(20, 0)
    monkeypatch.setattr("benchmarks.peers.work.tensors", lambda: (torch.from_numpy(x), torch.from_numpy(y)))
    torch.set_num_threads(1)
    yield len(x)
    torch.set_num_threads(threads)


def test_a_figure_holds_its_gate_and_is_written_unchanged(tmp_path):
    above, below = (figures.figure("speed", [3.0, 1.0, 2.0], "x", 2.5, lower=lower) for lower in (False, True))
    assert (above.value, above.verdict) == (2.0, "at least 2.5: NO")
    assert below.verdict == "at most 2.5: yes"
    missing = figures.Figure("peer", None, "x", missing="flgo is not installed")
    assert "missing: flgo is not installed" in figures.table([above, missing])
    figures.merge(tmp_path / "results.json", [above, missing], [0.5, 0.7])
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["load"] == [0.5, 0.7]
    assert [figure["name"] for figure in written["figures"]] == ["speed", "peer"]
    assert written["figures"][0]["runs"] == [3.0, 1.0, 2.0]


def test_new_results_of_a_part_replace_its_old_ones_and_the_page_shows_all(tmp_path):
    path = tmp_path / "results.json"
    figures.merge(path, [figures.figure("a", [1.0], "s"), figures.figure("b", [2.0], "s")], [0.1, 0.2])
    figures.merge(path, [figures.figure("b", [3.0, 5.0], "s", 3, lower=True, note="at | least")], [4.0, 5.0])
    results = json.loads(path.read_text())
    assert [(figure["name"], figure["value"], figure["load"]) for figure in results["figures"]] == [
        ("a", 1.0, [0.1, 0.2]),
        ("b", 4.0, [4.0, 5.0]),
    ]
    page = figures.markdown(results)
    assert "| `a` | 1 s |  |  | 0.1 to 0.2 |  |" in page
    assert "| `b` | 4 s | 3 to 5 (2) | at most 3: NO | 4.0 to 5.0 | at   least |" in page
    path.write_text(json.dumps(results | {"machine": {"processor": "another"}}))
    figures.merge(path, [figures.figure("c", [1.0], "s")], [0.1, 0.1])
    assert [figure["name"] for figure in json.loads(path.read_text())["figures"]] == ["c"]


def test_parts_are_measured_separately_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "PARTS", {name: lambda n=name: [figures.figure(n, [1.0], "s")] for name in ("a", "b")})
    run.measure(run.chosen("b"), tmp_path / "results.json")
    assert "b: took" in capsys.readouterr().out
    assert "`b`" in (tmp_path / "results.md").read_text()
    with pytest.raises(run.argparse.ArgumentTypeError, match="'c' is no part; there are a, b"):
        run.chosen("a,c")


def test_ways_alternate_and_the_first_turn_is_dropped():
    done = []
    seconds = figures.interleaved({name: lambda name=name: done.append(name) for name in "ab"}, 2)
    assert done == list("ababab")
    assert [len(runs) for runs in seconds.values()] == [2, 2]
    assert figures.ratios([4.0, 9.0], [2.0, 3.0]) == [2.0, 3.0]
    assert figures.interleaved({"own": lambda: 0.25}, 1, warm_up=False) == {"own": [0.25]}


def test_a_peer_answers_in_turns_whatever_else_it_prints():
    with protocol.Peer("fake", command=driver("return 2 * request")) as peer:
        assert [peer.ask(number) for number in (1, 2)] == [2, 4]


def test_a_peer_that_exits_is_reported_with_its_error():
    with (
        protocol.Peer("fake", command=driver("raise MemoryError('too much')")) as peer,
        pytest.raises(protocol.PeerError, match="fake ended with exit code 1: MemoryError: too much"),
    ):
        peer.ask()
    with pytest.raises(protocol.PeerError, match="ended with exit code 3: no such package"):
        protocol.Peer(
            "fake", command=[sys.executable, "-c", "import sys; print('no such package', file=sys.stderr); sys.exit(3)"]
        )


def test_a_silent_peer_is_given_up():
    silent = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(protocol.PeerError, match="fake did not answer within"):
        protocol.Peer("fake", command=silent, answer_s=0.5)


def test_a_missing_peer_gives_a_figure_without_a_value(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "HERE", tmp_path)
    figures = [*peers.flower_short(1), clock.against_simpy("clock_vs_simpy", 5, 2, 1), *solvers.cpsat_figures(1)]
    assert [figure.name for figure in figures] == [
        "visit_lenet_2p_vs_flower_short",
        "clock_vs_simpy",
        "planner_vs_cpsat",
    ]
    assert all(figure.value is None and "is not installed: make bench-peers" in figure.missing for figure in figures)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"steps": 920, "trained": 9200, "evaluated": 0}, "did .*920.*, asked for was .*1000"),
        ({"loss_after": 2.3}, "does not learn: loss 2.3000, then 2.3000"),
        ({"loss_after": math.nan}, "does not learn"),
    ],
)
def test_a_turn_with_a_wrong_result_does_not_count(reply, why):
    assert peers.checked("peer", TURNED) == 2.0
    with pytest.raises(protocol.PeerError, match=why):
        peers.checked("peer", TURNED | reply)


def test_a_failing_peer_leaves_the_figures_of_others(monkeypatch):
    monkeypatch.setattr(peers, "ours", lambda workers: lambda: 1.0)
    good, bad = (protocol.Peer(name, command=driver(turn)) for name, turn in (
        ("pfl", f"return {TURNED}"), ("flgo", "raise OSError('full')")))  # fmt: skip
    with good, bad:
        one, other = peers.against({"pfl": good, "flgo": bad}, 2, (1,))
    assert (one.name, one.value, one.gate) == ("visit_lenet_1p_vs_pfl", 2.0, 1.25)
    assert (other.name, other.value) == ("visit_lenet_1p_vs_flgo", None)
    assert other.missing == "flgo ended with exit code 1: OSError: full"


def test_the_work_of_a_turn_is_counted(few_images):
    module = network()
    with counting() as count:
        for lr in (0.01, 1.0):  # the server's steps have another rate
            optimizer = torch.optim.SGD(module.parameters(), lr=lr)
            module(torch.zeros(10, 1, 28, 28)).sum().backward()
            optimizer.step()
        loss_of(module)
    assert count == Count(steps=1, trained=20, evaluated=few_images)
    assert Count(steps=1000, trained=10_000, evaluated=0) == TURN


def test_only_the_first_turn_is_counted(monkeypatch, few_images):
    module, models = network(), []
    monkeypatch.setattr("benchmarks.peers.work.answer", models.append)
    serve(lambda: None, lambda: module)
    first, second = (models[0](None) for _ in range(2))
    assert first["steps"] == 0
    assert "steps" not in second
    assert second["loss_before"] == second["loss_after"] > 2


def test_fedtempo_does_the_same_work_as_its_peers():
    config = peers.configuration(1)
    world = build_world(config)
    assert [len(rows) for rows in world.owned] == [100] * 10
    assert config.training.steps_per_visit(100) * config.run.max_commits * len(world.owned) == TURN.steps
    parameters = sum(parameter.numel() for parameter in network().parameters())
    assert visits.make_job("lenet").model().n_parameters == parameters == 422_474


def test_the_planner_finds_the_optimum_of_highs_on_the_same_instance():
    figure = solvers.against("planner_vs_highs", solvers.highs, solvers.instances(2, 12, 3, 100))
    assert figure.value > 1
    assert figure.note == "same optimum in 2 of 2"
    wrong = solvers.against("planner_vs_highs", lambda _: (7, 1.0), solvers.instances(1, 12, 3, 100))
    assert wrong.value is None
    assert "the optimum is 7" in wrong.missing


@pytest.mark.long
def test_memory_is_measured():
    ballast = np.ones(2**27)  # 1 GiB: the memory of this process must not count for the child process
    growth, schedule = [*memory.growth_figures(200, 1), *memory.clock_figures(2000)]
    assert -50 < growth.value < 50
    assert 0.05 < schedule.value < 1
    assert schedule.note == "2,000 visits"
    assert ballast.nbytes == 2**30


def test_two_runs_alternate(tmp_path):
    without, journalled = journal.costs(
        tmp_path, [journal.configuration("none", every, 100.0) for every in (0.0, 30.0)], stride=100
    )
    assert without.visits == journalled.visits > 500
    assert len(without.turns_s) == len(journalled.turns_s) == without.visits // 100 + 1
    assert min(*without.turns_s, *journalled.turns_s) > 0
    assert journalled.size_bytes > 1000


def test_a_cost_is_a_share_with_its_error():
    same = journal.Cost([1.0] * 40, 40, 0)
    assert journal.excess(same, journal.Cost([1.5] * 40, 40, 0)) == (0.5, 0.0)
    share, error = journal.excess(same, journal.Cost([1.0, 1.0, 2.0, 2.0] * 10, 40, 0))
    assert share == 0.5
    assert error == pytest.approx(0.5 * math.sqrt(20 / 19) / math.sqrt(20))


@pytest.mark.slow
def test_every_part_measures_with_small_counts():
    figures = [
        *starting.figures(repetitions=1),
        *visits.figures(repetitions=1, scale=0.05),
        *overhead.figures(repetitions=1, rounds=1),
        *clock.figures(repetitions=1, scale=0.002),
        *planner.figures(repetitions=1, horizon_s=100),
        *memory.figures(clients=20, examples=400, per_round=4, rounds=1),
        *memory.local_figures(clients=6, examples=120, per_round=4),
    ]
    assert [figure.name for figure in figures] == [
        "start_help_s",
        "start_help_vs_torch",
        "start_list_s",
        "start_list_vs_torch",
        "start_error_s",
        "start_error_vs_torch",
        "start_first_visit_s",
        "start_first_visit_vs_torch",
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
        "memory_10000_local_gib",
    ]
    assert "6 clients keep 10." in figures[-1].note
    assert all(figure.value and math.isfinite(figure.value) for figure in figures)


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["fedasync", "sequential"])
def test_a_longer_schedule_takes_no_more_memory(strategy, monkeypatch):
    """Visits without and with a group; little is held for a while."""
    monkeypatch.setattr(active_groups, "HELD", 100)
    monkeypatch.setattr(variation, "_LARGEST_BLOCK", 16)
    config = clock.configuration(4, 1e9, strategy).with_changes({"run.record": "totals"})
    watch, summary, _ = flat.long_run(config, 5_000, traced=True)
    assert summary["visits"] > 4_900
    grown = max(watch.memory[6:]) - max(watch.memory[:4])
    assert grown / 3_000 < 10, watch.grew  # bytes per visit
    assert watch.folder[-1] < 5_000_000  # SQLite's log, at most


def test_scale_measures_plans_and_their_growth() -> None:
    row = scale.measured("fedavg", 200, horizon=100.0)
    assert row["visits"] > 0
    assert row.keys() == {"strategy", "clients", "visits", "cpu_s", "peak_gib"}
    assert "error" in scale.measured("hybrid-fl", 200, horizon=100.0)
    rows = [
        {"strategy": "a", "clients": clients, "cpu_s": seconds, "peak_gib": 0.5, "visits": 7}
        for clients, seconds in ((1_000, 0.5), (10_000, 2.0), (100_000, 200.0))
    ]
    assert scale.growth(rows) == pytest.approx(2.0)  # a hundred times the time for ten times the clients
    assert scale.growth(rows[:2]) is None
    assert scale.table(rows).splitlines()[-1] == "| a | 100,000 | 200.0 | 0.50 | 7 | N^2.00 |"


def test_large_tables_are_compared_with_pandas(monkeypatch, capsys):
    def measured(how, path, peaks):
        tables.read(how, str(path))
        seconds, peak, kind = capsys.readouterr().out.split()
        assert kind == {"pandas": "DataFrame", "fedtempo": "Dataset"}[how]
        peaks.append(float(peak))
        return float(seconds)

    monkeypatch.setattr(tables, "_ROWS", 100)
    monkeypatch.setattr(tables, "measured", measured)
    made = tables.figures(repetitions=1, size=20_000)
    assert [each.name for each in made] == [
        *("table_floats_vs_pandas", "table_floats_memory", "table_pixels_vs_pandas", "table_pixels_memory"),
    ]
    assert all(len(each.runs) == 1 for each in made)

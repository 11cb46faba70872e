"""Points logged to trackers, worked out by hand."""

from __future__ import annotations

from fedtempo.record.recorder import VisitRow
from fedtempo.report.trackers.points import Point, Points, flat, numbers


def visit(number: int, started: float | None, finished: float, outcome: str = "done") -> VisitRow:
    return VisitRow(number, 0, None, 0, 0.0, started, None, None, finished, outcome, 1, None)


def test_points_are_plotted_over_time_and_over_visits() -> None:
    received: list[Point] = []
    points = Points(2, horizon_s=5000.0, max_commits=None, evaluates=True, take=received.append)
    points.traffic(100, 0, 0)
    points.visit(visit(1, 0.0, 4.0))
    points.traffic(0, 100, 7)
    points.commit(1, 4.0, 0)
    points.visit(visit(2, 1.0, 5.0, "late"))
    points.commit(2, 8.0, 3)  # less than a five-hundredth of the horizon after the last one
    points.visit(visit(3, None, 14.0, "unavailable"))
    points.commit(3, 14.0, 5)
    points.evaluation(0.0, 0, 0.1, 2.3, None)  # reported late: the times of evaluations count
    points.evaluation(4.0, 1, 0.2, 2.2, None)
    points.evaluation(10.0, 2, 0.3, 2.1, None)
    assert received[0] == Point(
        4.0,
        1,
        {
            "progress/version": 1,
            "progress/time_s": 4.0,
            "progress/visits": 1,
            "staleness/mean": 0.0,
            "lost/unavailable": 0,
            "lost/late": 0,
            "lost/refused": 0,
            "bytes/down": 100,
            "bytes/up": 100,
            "bytes/relay": 7,
            "busy/mean": 4.0 / (2 * 4.0),
        },
    )
    assert (received[1].time_s, received[1].visits) == (14.0, 3)
    assert received[1].values["staleness/mean"] == (3 + 5) / 2
    assert received[1].values["busy/mean"] == 8.0 / (2 * 14.0)
    assert received[1].values["lost/late"] == received[1].values["lost/unavailable"] == 1
    assert received[2:] == [
        Point(0.0, 0, {"evaluation/accuracy": 0.1, "evaluation/loss": 2.3}),
        Point(4.0, 1, {"evaluation/accuracy": 0.2, "evaluation/loss": 2.2}),
        Point(10.0, 2, {"evaluation/accuracy": 0.3, "evaluation/loss": 2.1}),
    ]


def test_measures_are_logged_with_their_name_and_related_measures() -> None:
    received: list[Point] = []
    points = Points(1, horizon_s=10.0, max_commits=None, evaluates=True, take=received.append)
    points.fact("data", {"task": "numbers"})
    points.evaluation(0.0, 0, 0.75, 4.0, 1.5)
    points.fact("data", {"task": "tokens"})
    points.evaluation(1.0, 0, 0.25, 0.0, None)
    assert [point.values for point in received] == [
        {"evaluation/r2": 0.75, "evaluation/loss": 4.0, "evaluation/rmse": 2.0, "evaluation/mae": 1.5},
        {"evaluation/token_accuracy": 0.25, "evaluation/loss": 0.0, "evaluation/perplexity": 1.0},
    ]


def test_a_run_that_ends_by_commits_has_several_hundred_points() -> None:
    received: list[Point] = []
    points = Points(1, horizon_s=None, max_commits=10_000, evaluates=False, take=received.append)
    for version in range(1, 10_001):
        points.visit(visit(version, float(version), version + 1.0))
        points.commit(version, version + 1.0, 0)
    assert len(received) == 500
    assert received[-1].visits == 10_000
    assert len(points._ended) == 0


def test_nested_tables_become_dotted_names() -> None:
    tables = {"run": {"seed": 1, "track": ["x"]}, "data": {"partition": {"kind": "iid"}, "none": None}, "flag": True}
    assert flat(tables) == {"run.seed": 1, "run.track": "['x']", "data.partition.kind": "iid", "flag": True}
    summary = {"visits": 3, "busy_ratio": {"mean": 0.5, "per_client": [0.5]}, "ended": "horizon", "private": True}
    assert numbers(summary) == {"visits": 3, "busy_ratio.mean": 0.5}

"""Data that the page keeps of a long run."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.report.watch.series import Curve, Histogram, Recent, Spans

seconds = st.integers(0, 400).map(lambda eighths: eighths / 8)
visits = st.lists(
    st.tuples(st.integers(-1, 3), seconds, seconds).map(lambda visit: (visit[0], visit[1], visit[1] + visit[2] / 3)),
    max_size=40,
)


def alive(rows: list[tuple[int, float, float]], at: float, going_on: list[tuple[int, float]] = []) -> int:  # noqa: B006
    """Count the spans at an instant one by one."""
    spans: dict[object, list[float]] = {}
    for number, (group, started, finished) in enumerate([*rows, *((g, s, np.inf) for g, s in going_on)]):
        span = spans.setdefault(group if group >= 0 else (number,), [started, finished])
        span[:] = min(span[0], started), max(span[1], finished)
    return sum(begin <= at < end for begin, end in spans.values())


@given(visits, st.integers(1, 5), st.sampled_from([None, 80.0]))
def test_spans_are_counted_exactly_at_each_instant(rows, pieces, end_s) -> None:
    spans = Spans(end_s, instants=20)
    rows = sorted(rows, key=lambda row: row[2])
    for piece in np.array_split(np.array(rows).reshape(-1, 3), pieces):
        spans.add(piece[:, 0].astype(np.int64), piece[:, 1], piece[:, 2])
    counts = spans.counts(70.0)
    assert len(counts) <= 21
    assert counts == [alive(rows, i * spans.every_s) for i in range(len(counts))]


@given(visits, st.integers(0, 8))
def test_visits_in_progress_keep_their_groups_active(rows, n_going_on) -> None:
    rows = sorted(rows, key=lambda row: row[2])
    over = max((row[2] for row in rows), default=0.0)
    going_on = [(number % 4 - 1, over + 0.1 * number) for number in range(n_going_on)]
    spans = Spans(100.0, instants=50)
    columns = np.array(rows).reshape(-1, 3)
    spans.add(columns[:, 0].astype(np.int64), columns[:, 1], columns[:, 2])
    expected = [alive(rows, 2.0 * i, going_on) for i in range(45)]
    assert spans.counts(89.0, going_on) == expected
    assert spans.counts(89.0) == [alive(rows, 2.0 * i) for i in range(45)]


def test_the_number_of_remembered_groups_is_limited() -> None:
    spans = Spans(100.0, known=10)
    numbers = np.arange(1000)
    spans.add(numbers, numbers / 20.0, numbers / 20.0 + 1)
    assert len(spans._groups) == 10
    assert 990 in spans._groups


@given(st.integers(0, 3000))
def test_a_thinned_curve_keeps_its_ends_and_its_maximum_size(n_points) -> None:
    curve = Curve(most=50)
    for x in range(n_points):
        curve.add((float(x), 0.5))
    points = curve.points()
    assert curve.total == n_points
    assert len(points) <= 51
    assert points == sorted(points)
    if n_points:
        assert (points[0][0], points[-1][0]) == (0, n_points - 1)
        assert len(set(np.diff([x for x, _ in points[:-1]]))) <= 1


@given(st.lists(st.lists(st.integers(0, 5000))))
def test_a_histogram_counts_every_value(pieces) -> None:
    histogram = Histogram(bins=8)
    for piece in pieces:
        histogram.add(np.array(piece, dtype=np.int64))
    values = np.array([value for piece in pieces for value in piece], dtype=np.int64)
    expected = np.bincount(values // histogram.width) if values.size else []
    assert histogram.counts() == list(expected)
    assert len(histogram.counts()) <= 8


def test_recent_items_are_returned_once_and_expired_ones_skipped() -> None:
    recent: Recent[int] = Recent(most=5)
    recent.add([0, 1, 2])
    assert recent.after(0, most=2) == (2, [0, 1])
    assert recent.after(2, most=2) == (3, [2])
    recent.add(range(3, 10))
    assert recent.after(3, most=9) == (10, [5, 6, 7, 8, 9])
    assert recent.after(10, most=9) == (10, [])
    assert recent.after(99, most=9) == (10, [])

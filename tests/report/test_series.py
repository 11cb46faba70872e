"""The data behind the figures, compared with cases worked out by hand."""

import numpy as np
import pytest

from fedtempo.record import Recorder
from fedtempo.record.measures import busy_ratios
from fedtempo.record.recorder import VisitRow
from fedtempo.report.series import (
    alive_curve,
    calendar,
    clients_spread_over_speed,
    cluster_positions,
    evaluation_curve,
    ranked_busy_ratios,
    staleness_shares,
    visit_seconds,
)


def records(visits=(), commits=(), evaluations=(), clusters=None, n_clients=4, elapsed_s=10.0):
    """Record visits given as (client, group, started, finished) or (client, group, started, finished, outcome)."""
    recorder = Recorder(None)
    recorder.fact("n_clients", n_clients)
    recorder.fact("elapsed_s", elapsed_s)
    for number, (client, group, started, finished, *outcome) in enumerate(visits):
        phases = (started, started, started + 0.1, finished - 0.1, finished)
        recorder.visit(VisitRow(number, client, group, 0, *phases, *(outcome or ["done"]), 1, None))
    for version, staleness in enumerate(commits):
        recorder.commit(version, float(version), staleness)
    for time, accuracy in evaluations:
        recorder.evaluation(time, 0, accuracy, 1 - accuracy)
    if clusters is not None:
        recorder.note("clusters", clusters)
    result = recorder.records()
    recorder.close()
    return result


def test_evaluations_at_equal_times_are_averaged_directly():
    band = evaluation_curve(
        [records(evaluations=[(0.0, 0.1), (5.0, 0.3)]), records(evaluations=[(0.0, 0.2), (5.0, 0.7)])], "accuracy"
    )
    assert band.x.tolist() == [0.0, 5.0]
    assert band.mean.tolist() == pytest.approx([0.15, 0.5])
    assert band.low.tolist() == [0.1, 0.3]
    assert band.high.tolist() == [0.2, 0.7]


def test_evaluations_at_unequal_times_hold_until_the_next_one_and_end_with_their_run():
    early = records(evaluations=[(0.0, 0.0), (2.0, 1.0)], elapsed_s=5.0)
    late = records(evaluations=[(1.0, 0.5)], elapsed_s=10.0)
    band = evaluation_curve([early, late], "accuracy", points=11)
    assert band.x.tolist() == list(range(11))
    assert band.mean.tolist() == pytest.approx([0.0, 0.25, *[0.75] * 4, *[0.5] * 5])


def test_runs_without_training_have_no_curve():
    assert evaluation_curve([records(evaluations=[(0.0, float("nan"))]), records()], "accuracy") is None


def test_the_curve_of_active_groups_is_the_mean_of_each_interval():
    run = records([(0, 1, 0.0, 2.0), (1, 1, 2.0, 5.0), (2, 2, 4.0, 10.0)])
    band = alive_curve([run], points=5)
    assert band.x.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]
    # Group 1 is active in [0, 5], group 2 in [4, 10].
    assert band.mean.tolist() == pytest.approx([1.0, 1.0, 1.5, 1.0, 1.0])


def test_the_curve_of_active_groups_ends_with_a_short_run():
    short, long = records([(0, 1, 0.0, 4.0)], elapsed_s=4.0), records([(0, 1, 0.0, 8.0)], elapsed_s=8.0)
    assert alive_curve([short, long], points=4).mean.tolist() == pytest.approx([1, 1, 1, 1])
    assert np.isnan(alive_curve([records(elapsed_s=0.0)], points=2).mean).all()


def test_ranked_busy_ratios_are_sorted_and_thinned(runs):
    exact = ranked_busy_ratios([runs[0]])
    assert exact.x.tolist() == list(range(1, 51))
    assert exact.mean.tolist() == sorted(busy_ratios(runs[0]), reverse=True)
    thin = ranked_busy_ratios(runs[:3], points=7)
    assert thin.x.size == 7
    assert (thin.x[0], thin.x[-1]) == (1, 50)
    assert (thin.low <= thin.mean).all()
    assert (thin.mean <= thin.high).all()


def test_staleness_is_counted_in_bins_of_whole_width():
    edges, shares, width = staleness_shares([records(commits=[0, 0, 1, 5])])
    assert (edges.tolist(), shares.tolist(), width) == ([0, 1, 2, 3, 4, 5], [0.5, 0.25, 0, 0, 0, 0.25], 1)
    edges, shares, width = staleness_shares([records(commits=[0, 3, 119])], bins=60)
    assert width == 2
    assert edges[-1] == 118
    assert shares.sum() == pytest.approx(1)
    assert staleness_shares([records()])[0].size == 0


def test_clients_are_selected_evenly_over_speed():
    run = records([(c, None, 0.0, length) for c, length in enumerate([3.0, 1.0, 2.0])] + [(3, None, 0.0, 9.0, "cut")])
    assert visit_seconds(run)[:3].tolist() == [3.0, 1.0, 2.0]
    assert np.isnan(visit_seconds(run)[3])
    assert clients_spread_over_speed(run, 3) == [1, 2, 0]
    assert clients_spread_over_speed(run, 2) == [1, 0]
    assert clients_spread_over_speed(records(), 2) == [0, 3]


def test_a_calendar_holds_the_visits_of_its_clients():
    run = records([(2, 5, 4.0, 7.0), (0, 1, 0.0, 2.0), (1, 2, 1.0, 3.0), (2, None, 8.0, 12.0, "cut")])
    shown = calendar(run, [2, 0])
    assert shown.row.tolist() == [1, 0, 0]
    assert shown.group.tolist() == [1, 5, -1]
    assert shown.started.tolist() == [0.0, 4.0, 8.0]
    assert shown.finished.tolist() == [2.0, 7.0, 10.0]
    assert calendar(run, [2, 0], most=1).row.tolist() == [1]


def test_cluster_positions_are_counted():
    visits = [(0, 1, 0.0, 1.0), (2, 1, 1.0, 2.0), (3, 2, 0.5, 1.0), (1, 2, 3.0, 4.0), (1, 1, 5.0, 6.0, "cancelled")]
    run = records(visits, clusters=[0, 0, 1, 1])
    # Group 1 is client 0 then 2, group 2 is client 3 then 1: each cluster is first once and second once.
    assert cluster_positions(run).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert cluster_positions(records(visits)) is None
    assert cluster_positions(records(visits[:1], clusters=[0, 0, 1, 1])) is None
    assert cluster_positions(records([(0, None, 0.0, 1.0)], clusters=[0, 0, 1, 1])) is None

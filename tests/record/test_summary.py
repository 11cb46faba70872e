"""A run's summary worked out by hand, and properties of its measures."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.errors import RunError
from fedtempo.record import Recorder, summarise, sustained, time_to_target, write_json
from fedtempo.record.measures import busy_ratios, elapsed_s, first_time_at_target, group_spans, groups_alive
from fedtempo.record.recorder import VisitRow
from fedtempo.record.strict_json import plain, to_json

VISITS = [
    # number, client, group, base, queued, started, received, computed, finished, outcome, examples, loss
    (0, 0, 7, 0, 0.0, 0.0, 0.5, 2.0, 2.5, "done", 100, 0.9),
    (1, 1, 7, 0, 2.5, 2.5, 3.0, 5.5, 6.0, "done", 50, 0.8),
    (2, 0, None, 0, 1.0, 2.5, 2.5, None, 4.0, "unavailable", 100, None),
    (3, 1, 8, 1, 3.0, 6.0, 6.5, None, 10.0, "cut", 50, None),
    (4, 2, 8, 1, 3.0, None, None, None, 9.0, "cancelled", 20, None),
]
FACTS = {"strategy": "demo", "seed": 3, "n_clients": 4, "horizon_s": 10.0, "elapsed_s": 10.0, "ended": "horizon"}


def records(visits=VISITS, commits=(), evaluations=(), **facts):
    recorder = Recorder(None)
    for name, value in (FACTS | facts).items():
        recorder.fact(name, value)
    for visit in visits:
        recorder.visit(VisitRow(*visit))
    for commit in commits:
        recorder.commit(*commit)
    for evaluation in evaluations:
        recorder.evaluation(*evaluation)
    result = recorder.records()
    recorder.close()
    return result


def test_a_summary_equals_one_worked_out_by_hand():
    evaluations = [(float(t), 0, a, 1.0) for t, a in enumerate([0.1, 0.85, 0.5, 0.8, 0.8, 0.8, 0.7])]
    summary = summarise(
        records(
            commits=[(1, 6.0, 0), (2, 8.0, 3)],
            evaluations=evaluations,
            target_accuracy=0.8,
            data={"source": "digits", "train": 10, "test": 5, "sha256": "ab"},
            model_sha256="cd",
            wall_s=1.5,
            version="0.1.0",
        )
    )
    assert summary == {
        "strategy": "demo",
        "seed": 3,
        "horizon_s": 10.0,
        "ended": "horizon",
        "end_reason": "horizon",
        "elapsed_s": 10.0,
        "diverged": None,
        "not_finite": {"evaluations": 0, "updates": 0, "first_s": None},
        "still_since_s": None,
        "warnings": [],
        "final_accuracy": 0.7,
        "best_accuracy": 0.85,
        "final_loss": 1.0,
        "final_mae": None,
        "measure": "accuracy",
        "target_accuracy": 0.8,
        "time_to_target_s": 3.0,
        "first_time_at_target_s": 1.0,
        "commits": 2,
        "visits": 2,
        "visits_lost": {"unavailable": 1, "late": 0, "refused": 0},
        "examples_trained": 150,
        # Client 0: 2.5 + 1.5 s of 10; client 1: 3.5 + 4.0 s; clients 2 and 3 were never held.
        "busy_ratio": {"mean": pytest.approx(0.2875), "min": 0.0, "max": 0.75, "per_client": [0.4, 0.75, 0.0, 0.0]},
        # Group 7 is active in [0, 6], visit 2 forms a separate group in [2.5, 4], group 8 is active in [6, 10].
        "active_groups": {"mean": pytest.approx(1.15), "max": 2},
        "staleness": {"mean": 1.5, "max": 3},
        "bytes": {"down": 0, "up": 0, "relay": 0},
        "participation": {"min": 0, "max": 1},
        "privacy": None,
        "data": {"source": "digits", "train": 10, "test": 5, "sha256": "ab"},
        "model_sha256": "cd",
        "events_sha256": None,
        "wall_s": 1.5,
        "version": "0.1.0",
    }


def test_a_run_without_training_or_events_has_nulls_in_strict_json(tmp_path):
    nan = float("nan")
    summary = summarise(records(visits=[], evaluations=[(0.0, 0, nan, nan), (5.0, 0, nan, nan)], target_accuracy=0.5))
    assert summary["final_accuracy"] is summary["best_accuracy"] is summary["time_to_target_s"] is None
    assert summary["first_time_at_target_s"] is None
    assert summary["staleness"] == {"mean": None, "max": None}
    assert summary["active_groups"] == {"mean": 0.0, "max": 0}
    assert summary["busy_ratio"]["per_client"] == [0.0] * 4
    write_json(tmp_path / "summary.json", summary)

    def refuse(name):
        raise AssertionError(name)

    assert json.loads((tmp_path / "summary.json").read_text(), parse_constant=refuse) == summary
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_run_without_an_end_counts_as_interrupted_at_its_last_event():
    unfinished = records(commits=[(1, 11.0, 0)], ended="interrupted", elapsed_s=None)
    assert elapsed_s(unfinished) == 11.0
    assert busy_ratios(unfinished)[0] == pytest.approx(4 / 11)
    assert summarise(unfinished)["ended"] == "interrupted"


def test_time_after_the_end_does_not_count():
    late = records([(0, 0, 1, 0, 0.0, 8.0, 8.0, 11.0, 12.0, "done", 1, None)])
    assert busy_ratios(late).tolist() == pytest.approx([0.2, 0, 0, 0])
    assert [span.tolist() for span in group_spans(late)] == [[8.0], [10.0]]


@pytest.mark.parametrize("missing", ["strategy", "seed", "n_clients"])
def test_a_missing_fact_is_named(missing):
    recorder = Recorder(None)
    for name, value in FACTS.items():
        if name != missing:
            recorder.fact(name, value)
    with pytest.raises(RunError, match=missing):
        summarise(recorder.records())
    recorder.close()


def test_an_unknown_ending_is_rejected():
    with pytest.raises(RunError, match="fact ended = 'bored': must be one of horizon, target"):
        summarise(records(ended="bored"))


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 9), st.floats(0, 5)), max_size=20))
def test_active_groups_integrate_to_their_lifetimes_and_agree_with_a_direct_count(spans):
    visits = [
        (i, 0, None if group == 5 else group, 0, start, start, start, start, start + length, "done", 1, None)
        for i, (group, start, length) in enumerate(spans)
    ]
    recorded = records(visits)
    starts, ends = group_spans(recorded)
    times, counts = groups_alive(recorded)
    assert times[0] == 0
    assert (np.diff(times) > 0).all()
    assert counts[-1] == 0
    assert (counts[:-1] * np.diff(times)).sum() == pytest.approx((ends - starts).sum(), abs=1e-9)
    for time, count in zip(times, counts):
        assert count == ((starts <= time) & (time < ends)).sum()


@given(st.floats(0, 1), st.integers(0, 4), st.integers(3, 6))
def test_three_evaluations_exactly_at_the_target_reach_it(target, before, after):
    accuracies = [0.0] * before + [target] * after
    reached = time_to_target(range(before + after), accuracies, target)
    assert reached is not None
    assert reached <= before


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.01, 1))
def test_time_to_target_is_the_start_of_the_first_three_evaluations_that_reach_it(accuracies, target):
    times = [2.5 * i for i in range(len(accuracies))]
    windows = [accuracies[i : i + 3] for i in range(len(accuracies) - 2)]
    expected = [time for time, window in zip(times, windows) if math.fsum(window) >= 3 * target]
    assert time_to_target(times, accuracies, target) == (expected[0] if expected else None)
    single = [time for time, accuracy in zip(times, accuracies) if accuracy >= target]
    assert first_time_at_target(times, accuracies, target) == (single[0] if single else None)


def test_two_evaluations_or_nan_do_not_reach_the_target():
    assert not sustained([0.9, 0.9], 0.5)
    assert not sustained([0.9, float("nan"), 0.9], 0.5)
    assert sustained([0.4, 0.9, 0.9], 0.7)


def test_values_are_converted_to_plain_json_types():
    value = {"a": np.float32(0.5), 2: (np.int64(3), {"x"}), "b": np.array([1.0, np.inf]), "c": np.bool_(True)}
    assert plain(value) == {"a": 0.5, "2": [3, ["x"]], "b": [1.0, None], "c": True}
    assert to_json(float("-inf")) == "null"
    with pytest.raises(TypeError, match="JSON cannot represent"):
        plain(object())


def test_an_unwritable_file_is_named_and_nothing_is_left(tmp_path):
    with pytest.raises(RunError, match=r"missing.summary\.json could not be written"):
        write_json(tmp_path / "missing" / "summary.json", {})
    (tmp_path / "summary.json").mkdir()
    with pytest.raises(RunError, match=r"summary\.json could not be written"):
        write_json(tmp_path / "summary.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]

"""Problems that do not end a run are counted, logged once, and shown in summaries and comparisons."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedtempo.record import comparison, load_run, summarise
from fedtempo.record.health import LOSS_FACTOR, REFUSED_IN_A_ROW, Health
from fedtempo.record.recorder import Recorder, VisitRow
from fedtempo.report import words
from fedtempo.report.columns import comparison_columns
from fedtempo.report.html import write_report
from fedtempo.report.series import evaluation_curve
from fedtempo.report.table import run_rows

NAN = math.nan
FLAW = "its parameters are not finite"


def health(*losses: float, versions_apart: int = 1) -> tuple[Health, list[str]]:
    """Feed the losses of successive versions, evaluated once a second; return the health and its messages."""
    said: list[str] = []
    watched = Health(said.append)
    for second, loss in enumerate(losses):
        watched.evaluation(float(second), versions_apart * second, 0.5, loss)
    return watched, said


def recorded(
    losses: list[float], *, folder=None, commits: int = 2, visits: int = 2, seed: int = 1, label: str = "demo"
):
    """Record a run with these numbers of visits and commits, evaluated once a second until its end."""
    said: list[str] = []
    recorder = Recorder(folder, say=said.append)
    facts = {"strategy": label, "seed": seed, "n_clients": 2, "horizon_s": 10.0, "target_accuracy": 0.6}
    for name, value in facts.items():
        recorder.fact(name, value)
    for number in range(visits):
        recorder.visit(VisitRow(number, 0, None, 0, 0.0, 0.0, 0.0, 1.0, 1.0, "done", 10, 1.0))
    for version in range(1, commits + 1):
        recorder.commit(version, 1.0, 0)
    for second, loss in enumerate(losses):
        recorder.evaluation(float(second), min(second, commits), 0.7 if math.isfinite(loss) else NAN, loss)
    recorder.finish("horizon", 10.0, np.zeros(3, dtype=np.float32))
    summary, records = recorder.summary(), recorder.records()
    recorder.close()
    assert summary == summarise(records)
    return summary, records, said


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_a_nonfinite_evaluation_is_counted_and_logged_once(bad):
    watched, said = health(2.3, bad, 1.0, bad)
    assert said == watched.warnings == ["training diverged: the loss of version 1 is not finite (t = 1 s)"]
    fact = watched.as_fact()
    assert fact["not_finite"] == {"evaluations": 2, "updates": 0, "first_s": 1.0}
    assert fact["diverged"] == "evaluation"


def test_a_run_that_recovers_did_not_diverge_but_its_evaluation_is_counted():
    watched, said = health(2.3, NAN, 1.0)
    assert watched.diverged is None
    assert watched.as_fact()["not_finite"]["evaluations"] == 1
    assert len(said) == 1


def test_a_loss_far_above_the_initial_one_is_divergence():
    assert health(2.0, 2.0 * LOSS_FACTOR, 1.0)[1] == []
    watched, said = health(2.0, 2.0 * LOSS_FACTOR + 1)
    assert watched.diverged == "loss"
    assert said == [
        "training diverged: the loss of version 1 is 41, more than 20 times that of the initial model, 2 (t = 1 s)"
    ]
    assert health(2.0, 2.0 * LOSS_FACTOR + 1, 2.0)[0].diverged is None
    assert health(0.0, 1.0)[0].diverged is None  # no initial loss to compare with


def test_ten_consecutive_nonfinite_updates_are_divergence_unless_one_is_accepted_or_committed():
    for recovers in (Health.served, Health.committed):
        said: list[str] = []
        watched = Health(said.append)
        watched.served()
        for number in range(REFUSED_IN_A_ROW - 1):
            watched.refused(float(number), 3, FLAW)
        assert watched.diverged is None
        recovers(watched)
        watched.refused(20.0, 3, FLAW)
        assert watched.diverged is None
        for number in range(REFUSED_IN_A_ROW - 1):
            watched.refused(21.0 + number, 3, FLAW)
        assert watched.diverged == "updates"
        assert watched.as_fact()["not_finite"] == {"evaluations": 0, "updates": 19, "first_s": 0.0}
        assert said == [
            f"an update of client 3 was rejected at t = 0 s: {FLAW}; later ones are counted, not reported",
            "10 updates in a row were rejected as not finite (t = 29 s)",
        ]


def test_a_model_is_stuck_if_all_versions_have_exactly_the_same_measures():
    watched, said = health(2.3, 1.5, 1.5, 1.5, versions_apart=5)
    assert watched.as_fact()["still_since_s"] == 1.0
    assert said == ["the model stands still since t = 1 s: versions 5 to 15 have exactly the same loss"]
    assert watched.diverged is None
    # Too few commits, too few evaluated versions, a different last digit, a change at the end.
    assert health(2.3, 1.5, 1.5, 1.5, versions_apart=4)[1] == []
    assert health(2.3, 1.5, 1.5, versions_apart=10)[1] == []
    assert health(1.5, math.nextafter(1.5, 2), 1.5, math.nextafter(1.5, 2), versions_apart=20)[1] == []
    assert health(1.5, 1.5, 1.5, 1.4, versions_apart=20)[0].as_fact()["still_since_s"] is None


def test_repeated_evaluations_of_one_version_do_not_count_as_stuck():
    watched = Health()
    for second in range(100):
        watched.evaluation(float(second), 1, 0.5, 1.5)
    assert watched.warnings == []


def test_final_values_are_those_of_the_last_evaluation_and_null_if_not_finite():
    summary, _, said = recorded([2.3, 1.0, 0.5, 0.4, NAN])
    assert (summary["final_accuracy"], summary["final_loss"]) == (None, None)
    assert (summary["best_accuracy"], summary["diverged"]) == (0.7, "evaluation")
    assert summary["time_to_target_s"] == 0.0
    assert summary["warnings"] == said != []
    assert recorded([2.3, NAN, 0.5, NAN])[0]["time_to_target_s"] is None


def test_a_final_model_that_is_not_finite_is_divergence():
    said: list[str] = []
    watched = Health(said.append)
    watched.finish(10.0, visits=5, commits=5, model=np.array([1.0, np.inf], dtype=np.float32))
    assert watched.diverged == "model"
    assert said == ["training diverged: the final model has parameters that are not finite"]


def test_a_run_without_training_is_reported_once():
    said: list[str] = []
    watched = Health(said.append)
    watched.expect(2.0, 7.0)
    watched.unserved(35.0)
    watched.finish(60.0, visits=0, commits=0, model=None)
    takes = "a visit takes 2 s (fastest client) to 7 s (slowest) on average"
    assert said == [f"nobody trains: no client has finished a visit by t = 35 s; {takes}"]
    _, _, said = recorded([2.3, 2.3], visits=3, commits=0)
    assert said == ["nothing was learned: 3 visits were completed, but none led to a commit"]
    served = Health(said.append)
    served.served()
    served.unserved(35.0)
    assert len(said) == 1


def test_divergence_in_older_folders_is_derived_from_evaluations(tmp_path):
    _, records, _ = recorded([2.3, 1.0, NAN], folder=tmp_path)
    assert load_run(tmp_path).facts["health"]["diverged"] == "evaluation"
    facts = {name: value for name, value in records.facts.items() if name != "health"}
    # Older versions recorded an accuracy even if the outputs were NaN.
    evaluations = {**records.evaluations, "accuracy": np.array([0.1, 0.2, 0.9])}
    old = type(records)(records.visits, records.commits, evaluations, (), facts)
    summary = summarise(old)
    assert (summary["diverged"], summary["final_accuracy"], summary["best_accuracy"]) == ("evaluation", None, 0.2)
    assert summary["not_finite"] == {"evaluations": 1, "updates": 0, "first_s": 2.0}


GOOD, BAD = [2.3, 1.0, 0.5, 0.4], [2.3, 1.0, NAN, NAN]


def compared(**runs: list[list[float]]):
    runs_by_label = {
        label: [recorded(losses, seed=seed, label=label) for seed, losses in enumerate(seeds, start=1)]
        for label, seeds in runs.items()
    }
    return comparison(
        {label: [summary for summary, _, _ in seeds] for label, seeds in runs_by_label.items()}
    ), runs_by_label


def test_a_comparison_counts_diverged_runs_and_qualifies_a_winner_that_has_some():
    table, _ = compared(steady=[GOOD] * 3, wild=[BAD, BAD, GOOD])
    assert table["strategies"]["wild"]["failed"] == {"diverged": 2, "untrained": 0, "stood_still": 0, "of": 3}
    title, _ = words.headline(table)
    assert title == "steady reaches 60% accuracy after 0 s; no other strategy does; wild: 2 of 3 runs diverged"
    columns = {column.title: column for column in comparison_columns(table)}
    assert columns["failed"].cells == ("", "2 of 3 runs diverged")
    assert columns["final accuracy"].cells == ("70.0%", "70.0% (1 of 3)")
    assert "failed" not in [column.title for column in comparison_columns(compared(a=[GOOD], b=[GOOD])[0])]


def test_a_mean_over_surviving_runs_never_wins():
    runs, _ = compared(steady=[GOOD] * 2, wild=[BAD, GOOD])
    for fields, mean in zip(runs["strategies"].values(), (0.6, 0.9)):
        fields["time_to_target_s"]["median"] = None
        fields["final_accuracy"]["mean"] = mean
    title, _ = words.headline(runs)
    assert "steady ends highest, at 60.0%" in title
    assert title.endswith("; wild: 1 of 2 runs diverged")
    columns = {column.title: column for column in comparison_columns(runs)}
    assert columns["final accuracy"].best == {0}


def test_a_page_lists_warnings_and_its_curves_show_diverged_runs(tmp_path):
    folders = []
    for seed, losses in enumerate((GOOD, BAD), start=1):
        folders.append(tmp_path / str(seed))
        folders[-1].mkdir()
        recorded(losses, folder=folders[-1], seed=seed)
    runs = [load_run(folder) for folder in folders]
    write_report(tmp_path / "report.html", runs)
    page = (tmp_path / "report.html").read_text()
    assert "demo: 1 of 2 runs diverged" in page
    assert "demo, seed 2: training diverged: the loss of version 2 is not finite (t = 2 s)" in page
    band = evaluation_curve(runs, "loss")
    assert band.mean.tolist()[:2] == [2.3, 1.0]
    assert np.isnan(band.mean[2:]).all()


def test_the_table_of_a_run_shows_what_went_wrong():
    rows = dict(run_rows(recorded(BAD)[0]))
    assert rows["failed"] == "diverged: the last loss is not finite; not finite: 2 evaluations, first at 2 s"
    assert rows["final accuracy"] == "–"
    assert "failed" not in dict(run_rows(recorded(GOOD)[0]))
    assert dict(run_rows(recorded(GOOD, visits=0, commits=0)[0]))["failed"] == "nobody trained"
    unused = dict(run_rows(recorded(GOOD, visits=3, commits=0)[0]))
    assert unused["failed"] == "nothing was learned: no visit led to a commit"
    assert words.failures({"failed": {"diverged": 0, "untrained": 2, "stood_still": 0, "of": 2}}) == [
        "2 of 2 runs learned nothing"
    ]

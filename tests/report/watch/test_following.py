"""Runs as the page shows them: their state, their measures, and what is new."""

from __future__ import annotations

import base64
import json
import math
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.record import load_run, summarise
from fedtempo.report.watch import following, reading, state
from fedtempo.report.watch.following import Followed, Seen
from tests.report.fake_runs import fake_run
from tests.report.watch.folders import Written


def seen_in(detail: dict[str, Any]) -> Seen:
    return Seen(detail["generation"], *(detail["seen"][name] for name in ("curve", "calendar", "log")))


def row_and_detail(folder: Path, since: Seen = Seen()) -> tuple[dict[str, Any], dict[str, Any] | None]:  # noqa: B008
    answer = Followed([folder]).answer({0: since})
    return answer["runs"][0], answer["details"]["0"]


def test_a_finished_run_shows_its_summary(tmp_path: Path) -> None:
    written = Written(tmp_path / "run")
    written.go(100.0)
    written.end(100.0)
    row, detail = row_and_detail(tmp_path / "run")
    summary = summarise(load_run(tmp_path / "run"))
    assert detail is not None
    assert (row["state"], row["why"], row["busy"]) == ("finished", "ended by horizon", None)
    assert row["accuracy"] == summary["final_accuracy"]
    assert row["best"] == summary["best_accuracy"]
    assert (row["visits"], row["commits"]) == (summary["visits"], summary["commits"])
    assert row["lost"] == sum(summary["visits_lost"].values()) > 0
    assert row["staleness"] == pytest.approx(summary["staleness"]["mean"])
    assert row["busy_ratio"] == pytest.approx(summary["busy_ratio"]["mean"])
    assert row["bytes"] == sum(summary["bytes"].values())
    assert len(detail["visits"]) == len(load_run(tmp_path / "run").visits["number"])
    assert sum(detail["staleness"]["counts"]) == summary["commits"]
    assert detail["clients"][:2] == ["Ward <b>7</b>", "O'Hara & sons"]
    assert detail["log"][-1] == (100.0, "end", "the run ended: horizon")


def test_answers_hold_only_what_is_new(tmp_path: Path) -> None:
    written = Written(tmp_path / "run")
    written.go(20.0)
    followed = Followed([tmp_path / "run"])
    first = followed.answer({0: Seen()})["details"]["0"]
    same = followed.answer({0: seen_in(first)})["details"]["0"]
    assert (same["visits"], same["log"], same["curve"]) == ([], [], None)
    written.go(30.0)
    second = followed.answer({0: seen_in(first)})["details"]["0"]
    assert second["visits"]
    assert all(20.0 < visit[5] <= 30.0 for visit in second["visits"])
    assert {line[0] for line in second["log"] if line[1] == "evaluation"} == {25.0, 30.0}
    assert [point[0] for point in second["curve"]] == [5.0 * i for i in range(7)]
    every = followed.answer({0: Seen()})["details"]["0"]
    assert every["visits"] == first["visits"] + second["visits"]
    written.close()


def test_further_measures_and_their_target_are_shown(tmp_path: Path) -> None:
    written = Written(tmp_path / "run")
    written.recorder.flush()
    assert row_and_detail(tmp_path / "run")[0]["target"] == {"of": "accuracy", "value": 0.8, "text": "80%"}
    written.recorder.fact("target_accuracy", None)
    written.recorder.fact("target", {"name": "f1-macro", "value": 0.4, "better": "higher", "as_share": True})
    written.recorder.fact("metrics", [{"name": "f1-macro", "better": "higher", "as_share": True}])
    written.recorder.measured(0.0, 0, {"f1-macro": 0.1, "by-class": np.array([0.5, 0.7]), "unannounced": 1.0})
    written.go(10.0)
    written.recorder.measured(5.0, 1, {"f1-macro": math.nan})
    written.recorder.flush()
    followed = Followed([tmp_path / "run"])
    answer = followed.answer({0: Seen()})
    row, detail = answer["runs"][0], answer["details"]["0"]
    assert row["target"] == {"of": "f1-macro", "value": 0.4, "text": "f1-macro\u00a040%"}
    assert row["measures"] == [{"name": "f1-macro", "as_share": True}]
    assert detail["measures"] == {"f1-macro": [[0.0, 0.1], [5.0, None]]}
    assert followed.answer({0: seen_in(detail)})["details"]["0"]["measures"] is None
    written.recorder.measured(10.0, 2, {"f1-macro": 0.3})
    written.recorder.flush()
    assert followed.answer({0: seen_in(detail)})["details"]["0"]["measures"]["f1-macro"][-1] == [10.0, 0.3]
    written.close()


def test_busy_clients_are_shown(tmp_path: Path) -> None:
    written = Written(tmp_path / "run", clients=20)
    written.go(30.0)
    written.now(30.4)
    row, detail = row_and_detail(tmp_path / "run")
    assert detail is not None
    going = json.loads((tmp_path / "run/now.json").read_text())["in_progress"]
    assert row["state"] == "running"
    assert row["now_s"] == 30.4
    assert row["busy"] == len(going) > 5
    assert [visit[0] for visit in detail["in_progress"]] == [visit[0] for visit in going]
    bits = base64.b64decode(detail["who"])
    busy = {i for i in range(20) if bits[i // 8] >> (7 - i % 8) & 1}
    assert busy == {visit[0] for visit in going}
    assert detail["busy"]["counts"][-1] <= len(going) + 1
    written.close()


def test_a_visit_that_ended_since_it_was_in_progress_counts_once(tmp_path: Path) -> None:
    """Rows are read after the visits in progress, and a fast run continues in between."""
    written = Written(tmp_path / "run", clients=20)
    written.go(30.0)
    written.now(30.0)
    _, before = row_and_detail(tmp_path / "run")
    written.go(40.0)
    row, after = row_and_detail(tmp_path / "run")
    written.end(100.0)
    _, whole = row_and_detail(tmp_path / "run")
    assert before is not None
    assert after is not None
    assert whole is not None
    assert row["busy_ratio"] < 1.0
    assert before["in_progress"]
    assert not after["in_progress"]
    for curve in ("busy", "alive"):
        instants = int(30.0 / after[curve]["every_s"]) + 1
        assert after[curve]["counts"] == whole[curve]["counts"][:instants]


def test_a_killed_run_is_not_shown_as_running(tmp_path: Path) -> None:
    written = Written(tmp_path / "run")
    written.go(10.0)
    written.now(10.0)
    old = time.time() - 120
    os.utime(tmp_path / "run/now.json", (old, old))
    row, _ = row_and_detail(tmp_path / "run")
    assert row["state"] == "silent"
    assert row["why"].startswith("nothing was written for 120 s")
    assert row["busy"] is None
    written.close()
    assert row_and_detail(tmp_path / "run")[0]["state"] == "silent"
    written = Written(tmp_path / "other")
    written.end(10.0, "interrupted")
    assert row_and_detail(tmp_path / "other")[0]["state"] == "interrupted"


def test_a_folder_shows_its_runs_as_they_begin(tmp_path: Path) -> None:
    followed = Followed([tmp_path])
    assert followed.answer({}) == {"runs": [], "details": {}, "left_out": 0}
    first = Written(tmp_path / "b")
    first.go(5.0)
    (tmp_path / "notes").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "b")
    assert [row["name"] for row in followed.answer({})["runs"]] == ["b"]
    second = Written(tmp_path / "a", strategy="fedavg")
    second.go(5.0)
    answer = followed.answer({1: Seen(), 9: Seen()})
    assert [(row["name"], row["label"]) for row in answer["runs"]] == [("b", "fedhusky"), ("a", "fedavg")]
    assert list(answer["details"]) == ["1"]
    first.close()
    second.close()


def test_a_run_that_has_not_begun_is_starting(tmp_path: Path) -> None:
    (tmp_path / "config.toml").touch()
    (tmp_path / "environment.json").write_text("{}")
    row, detail = row_and_detail(tmp_path)
    assert (row["state"], detail) == ("starting", None)


def test_the_number_of_runs_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MOST_RUNS", 2)
    for i in range(4):
        Written(tmp_path / f"run{i}").close()
    answer = Followed([tmp_path]).answer({})
    assert (len(answer["runs"]), answer["left_out"]) == (2, 2)


@pytest.mark.parametrize("content", ["{", '{"now_s": -1, "visits_begun": 0, "busy": 0, "in_progress": []}', "[]"])
def test_impossible_records_are_shown_as_unreadable(tmp_path: Path, content: str) -> None:
    Written(tmp_path / "run").close()
    (tmp_path / "run/now.json").write_text(content)
    row, _ = row_and_detail(tmp_path / "run")
    assert row["state"] == "unreadable"
    assert "now.json cannot be read" in row["why"]


@pytest.mark.parametrize(
    ("statement", "mended", "why"),
    [
        ("UPDATE evaluations SET accuracy = 7.0 WHERE rowid = 1", "SET accuracy = 0.5", "evaluations.accuracy holds 7"),
        ("UPDATE evaluations SET version = -3 WHERE rowid = 1", "SET version = 0", "evaluations.version holds -3"),
    ],
)
def test_a_damaged_run_stays_unreadable_until_it_is_mended(
    tmp_path: Path, statement: str, mended: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_run(tmp_path / "run", "hybrid", 1, n_clients=20, horizon=200.0)
    change(tmp_path / "run", statement)
    monkeypatch.setattr(following, "_AGAIN_S", 0.0)
    for pieces in (reading.ROWS_AT_ONCE, 5):
        monkeypatch.setattr(reading, "ROWS_AT_ONCE", pieces)
        monkeypatch.setattr(following, "_READING_S", 0.3 if pieces > 5 else 0.0)
        followed = Followed([tmp_path / "run"])
        answers = [followed.answer({0: Seen()})["runs"][0] for _ in range(6)]
        assert {row["state"] for row in answers} == {"unreadable"}
        assert all(why in row["why"] for row in answers)
    change(tmp_path / "run", f"UPDATE evaluations {mended} WHERE rowid = 1")
    rows = [followed.answer({0: Seen()})["runs"][0] for _ in range(400)]
    assert (rows[-1]["state"], rows[-1]["more"]) == ("finished", False)
    states = [row["state"] for row in rows]
    assert states == sorted(states, reverse=True)  # unreadable until all of it has been read


def change(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / "run.sqlite")
    with connection:
        connection.execute(statement)
    connection.close()


def test_answers_stay_small_with_ten_thousand_clients(tmp_path: Path) -> None:
    written = Written(tmp_path / "run", clients=10_000, horizon_s=40.0)
    written.go(8.0)
    written.now(8.0)
    followed = Followed([tmp_path / "run"])
    answer = followed.answer({0: Seen()})
    assert answer["runs"][0]["busy"] > 5_000
    assert len(json.dumps(answer)) < 60_000
    assert len(answer["details"]["0"]["clients"]) == state.MOST_ROWS
    written.close()


def test_a_long_calendar_is_sent_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_VISITS_AT_ONCE", 50)
    written = Written(tmp_path / "run")
    written.go(30.0)
    followed, since, visits = Followed([tmp_path / "run"]), Seen(), []
    while True:
        detail = followed.answer({0: since})["details"]["0"]
        assert len(detail["visits"]) <= 50
        visits += detail["visits"]
        if not detail["more"]:
            break
        since = seen_in(detail)
    written.close()
    assert len(visits) == len(load_run(tmp_path / "run").visits["number"]) > 50


def test_a_run_without_rows_shows_its_totals_at_its_end(tmp_path: Path) -> None:
    from fedtempo.record import Recorder

    written = Written(tmp_path / "run")
    written.recorder.close()
    written.recorder = Recorder(tmp_path / "run", rows=False)
    for name, value in {"strategy": "s", "seed": 1, "n_clients": 24, "horizon_s": 50.0, "resumed": 0}.items():
        written.recorder.fact(name, value)
    written.go(50.0)
    row, _ = row_and_detail(tmp_path / "run")
    assert (row["rows"], row["visits"], row["lost"], row["busy_ratio"]) == (False, None, None, None)
    written.end(50.0)
    row, detail = row_and_detail(tmp_path / "run")
    assert detail is not None
    summary = summarise(load_run(tmp_path / "run"))
    assert (row["visits"], row["commits"]) == (summary["visits"], summary["commits"])
    assert row["busy_ratio"] == pytest.approx(summary["busy_ratio"]["mean"])
    assert detail["visits"] == []

"""Rows are recorded one by one and read back whole, whatever the batches; the hash covers events and nothing else."""

import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.errors import ConfigError, RunError
from fedtempo.record import Recorder, load_run
from fedtempo.record.recorder import VisitRow
from fedtempo.record.schema import OUTCOMES

TIMES = st.floats(0, 1e6)
MAYBE = st.none() | TIMES


@st.composite
def visit_rows(draw):
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 99),
                st.none() | st.integers(0, 9),
                st.integers(0, 9),
                TIMES,
                MAYBE,
                MAYBE,
                MAYBE,
                TIMES,
                st.sampled_from(list(OUTCOMES)),
                st.integers(0, 100),
                MAYBE,
            ),
            max_size=12,
        )
    )
    return [(number, *row) for number, row in enumerate(rows)]


def recorded(rows, commits=(), flush_after=()):
    recorder = Recorder(None)
    for i, row in enumerate(rows):
        recorder.visit(VisitRow(*row))
        if i in flush_after:
            recorder.flush()
    for commit in commits:
        recorder.commit(*commit)
    digest, records = recorder.events_sha256, recorder.records()
    recorder.close()
    return digest, records


@given(visit_rows(), st.sets(st.integers(0, 11)))
def test_batch_sizes_change_neither_hash_nor_rows(rows, flush_after):
    digest, records = recorded(rows)
    again, _ = recorded(rows, flush_after=flush_after)
    assert digest == again
    for position, (name, column) in enumerate(records.visits.items()):
        expected = [row[position] for row in rows]
        if column.dtype.kind == "f":
            np.testing.assert_array_equal(column, np.array(expected, dtype=float), err_msg=name)
        else:
            assert column.tolist() == [-1 if value is None else value for value in expected], name


ROW = VisitRow(0, 3, None, 1, 0.0, 0.0, 0.5, 2.0, 2.5, "done", 100, 0.7)


@pytest.mark.parametrize(
    ("position", "value"),
    [(0, 1), (1, 4), (2, 0), (3, 2), (4, 0.1), (5, 0.1), (6, None), (7, 2.1), (8, 2.6), (9, "cut")],
)
def test_the_hash_depends_on_every_part_of_an_event(position, value):
    assert recorded([ROW])[0] != recorded([(*ROW[:position], value, *ROW[position + 1 :])])[0]


@pytest.mark.parametrize(("position", "value"), [(10, 7), (11, 0.1), (11, None), (4, -0.0)])
def test_the_hash_does_not_depend_on_results_of_training(position, value):
    assert recorded([ROW])[0] == recorded([(*ROW[:position], value, *ROW[position + 1 :])])[0]


def test_the_hash_depends_on_commits_but_not_on_evaluations_notes_or_facts():
    digest, _ = recorded([ROW], [(1, 2.5, 0)])
    assert len({digest, recorded([ROW])[0], recorded([ROW], [(1, 2.5, 1)])[0]}) == 3
    recorder = Recorder(None)
    recorder.evaluation(1.0, 0, 0.5, 1.0)
    recorder.note("clusters", [0, 1])
    recorder.visit(ROW)
    recorder.fact("wall_s", 3.0)
    recorder.commit(1, 2.5, 0)
    assert recorder.events_sha256 == digest
    recorder.close()


def test_a_closed_run_can_be_read(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.fact("n_clients", 4)
    recorder.visit(ROW)
    recorder.commit(1, 2.5, 0)
    recorder.evaluation(2.5, 1, 0.5, float("nan"))
    recorder.note("clusters", np.array([0, 0, 1, 1]))
    recorder.note("clusters", (1, 1, 0, 0))
    recorder.traffic(down=5)
    recorder.traffic(up=1, relay=2)
    recorder.traffic(down=5)
    recorder.fact("n_clients", 5)
    digest = recorder.events_sha256
    recorder.close()

    run = load_run(tmp_path)
    assert run.visits["client"].tolist() == [3]
    assert run.visits["group"].tolist() == [-1]
    assert run.visits["outcome"].tolist() == ["done"]
    assert run.commits["time"].tolist() == [2.5]
    assert run.evaluations["accuracy"].tolist() == [0.5]
    assert np.isnan(run.evaluations["loss"]).all()
    assert run.notes == (("clusters", [0, 0, 1, 1]), ("clusters", [1, 1, 0, 0]))
    assert run.note("clusters") == [1, 1, 0, 0]
    assert run.note("structure") is None
    assert run.facts == {
        "n_clients": 5,
        "bytes": {"down": 10, "up": 1, "relay": 2},
        "left_clients": {"parameters": 3, "statistics": 0, "histograms": 0, "examples": 0},
        "events_sha256": digest,
        "health": {
            "diverged": "evaluation",
            "not_finite": {"evaluations": 1, "updates": 0, "first_s": 2.5},
            "still_since_s": None,
            "warnings": ["training diverged: the loss of version 1 is not finite (t = 2.5 s)"],
        },
    }
    assert (run.summary, run.config, run.environment) == (None, {}, {})


def test_numpy_scalars_are_stored_as_numbers():
    row = (np.int64(0), np.int32(3), np.uint8(2), *ROW[3:5], np.float64(0.25), np.float32(0.5), *ROW[7:])
    digest, records = recorded([row], [(np.int64(1), np.float64(2.5), np.int64(4))])
    plain = (0, 3, 2, *ROW[3:5], 0.25, 0.5, *ROW[7:])
    assert digest == recorded([plain], [(1, 2.5, 4)])[0]
    assert [records.visits[name].tolist() for name in ("client", "group", "received")] == [[3], [2], [0.5]]
    assert records.commits["staleness"].tolist() == [4]


def test_a_run_can_be_read_while_it_is_written(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.visit(ROW)
    recorder.flush()
    recorder.visit(ROW._replace(number=1))
    assert load_run(tmp_path).visits["number"].tolist() == [0]
    recorder.close()
    assert load_run(tmp_path).visits["number"].tolist() == [0, 1]


def test_a_closed_run_is_a_single_file_even_after_it_was_read(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.visit(ROW)
    recorder.close()
    assert load_run(tmp_path).visits["number"].tolist() == [0]
    assert [path.name for path in tmp_path.iterdir()] == ["run.sqlite"]


def test_closing_does_not_wait_for_a_reader(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.visit(ROW)
    recorder.flush()
    with sqlite3.connect(tmp_path / "run.sqlite") as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM visits").fetchone() == (1,)
        recorder.visit(ROW._replace(number=1))
        began = time.monotonic()
        recorder.close()
        assert time.monotonic() - began < 10  # SQLite would wait a minute for the reader
        assert reader.execute("SELECT count(*) FROM visits").fetchone() == (1,)
    reader.close()
    assert load_run(tmp_path).visits["number"].tolist() == [0, 1]


def test_rows_are_written_without_a_flush(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path)
    for number in range(6_000):
        recorder.visit(ROW._replace(number=number))
    assert load_run(tmp_path).visits["number"].size >= 5_000
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 1.5)
    recorder.evaluation(1.0, 0, 0.1, 2.0)
    assert load_run(tmp_path).visits["number"].size == 6_000
    recorder.close()


def test_rare_visits_are_written_soon(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr("fedtempo.record.recorder.time.monotonic", lambda: now)
    recorder = Recorder(tmp_path)
    for number in range(1, 6):
        now += 2.0
        recorder.visit(ROW._replace(number=number))
        assert load_run(tmp_path).visits["number"].tolist() == list(range(1, number + 1))
    recorder.close()


def test_a_resumed_run_starts_a_new_file(tmp_path):
    first = Recorder(tmp_path)
    first.visit(ROW)
    first.fact("seed", 1)
    first.close()
    with sqlite3.connect(tmp_path / "run.sqlite") as other:
        other.execute("CREATE TABLE more(number INTEGER)")
    other.close()
    for left in ("-wal", "-shm", "-journal"):
        (tmp_path / f"run.sqlite{left}").write_text("left by a killed process")
    second = Recorder(tmp_path)
    second.visit(ROW)
    second.close()
    run = load_run(tmp_path)
    assert run.visits["number"].tolist() == [0]
    assert "seed" not in run.facts
    with sqlite3.connect(tmp_path / "run.sqlite") as other:
        assert other.execute("SELECT name FROM sqlite_schema WHERE name = 'more'").fetchall() == []
    other.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.sqlite"]


def test_a_missing_folder_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(RunError, match=r"missing.run\.sqlite could not be opened"):
        Recorder(tmp_path / "missing")


def test_a_file_that_is_not_a_database_is_no_run_and_does_not_stop_a_resumed_run(tmp_path):
    (tmp_path / "run.sqlite").write_text("not a database at all, but long enough to look at" * 20)
    with pytest.raises(ConfigError, match=r"run\.sqlite holds no readable run"):
        load_run(tmp_path)
    Recorder(tmp_path).close()
    assert load_run(tmp_path).visits["number"].tolist() == []


def test_a_database_that_cannot_be_replaced_is_an_error_that_names_it(tmp_path):
    (tmp_path / "run.sqlite-journal").mkdir()
    with pytest.raises(RunError, match=r"run\.sqlite could not be opened for writing: Is a directory"):
        Recorder(tmp_path)


def test_a_full_disk_is_an_error_that_names_the_file_and_the_recorder_still_closes(tmp_path):
    recorder = Recorder(tmp_path)
    pages = recorder._connection.execute("PRAGMA page_count").fetchone()[0]
    recorder._connection.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(200):
        recorder.visit(ROW._replace(number=number))
    recorder.note("large", "x" * 100_000)
    with pytest.raises(RunError, match=r"run\.sqlite could not be written: .*full"):
        recorder.flush()
    recorder.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        recorder._connection.execute("SELECT 1")


def test_recording_a_visit_takes_microseconds(tmp_path):
    recorder = Recorder(tmp_path)
    rows = [ROW._replace(number=number) for number in range(50_000)]
    began = time.process_time()
    for row in rows:
        recorder.visit(VisitRow(*row))
    recorder.flush()
    assert (time.process_time() - began) / len(rows) < 25e-6
    recorder.close()


@pytest.mark.parametrize("make", ["nothing", "folder", "file"])
def test_a_path_that_is_not_a_run_folder_is_rejected(tmp_path: Path, make):
    path = tmp_path / "run"
    if make == "folder":
        path.mkdir()
    elif make == "file":
        path.write_text("")
    with pytest.raises(ConfigError, match="is not a run folder"):
        load_run(path)


def test_a_damaged_file_beside_the_database_is_named(tmp_path):
    Recorder(tmp_path).close()
    (tmp_path / "config.toml").write_text("[run\n")
    with pytest.raises(ConfigError, match=r"config\.toml cannot be read"):
        load_run(tmp_path)


def test_a_finished_run_can_be_read_from_a_read_only_folder(tmp_path, monkeypatch):
    recorder = Recorder(tmp_path)
    recorder.visit(ROW)
    recorder.close()
    monkeypatch.setattr("os.access", lambda *_: False)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert load_run(tmp_path).visits["number"].tolist() == [0]
    assert sorted(path.name for path in tmp_path.iterdir()) == before

"""Records read piece by piece while they are written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtempo.errors import ConfigError
from fedtempo.record import Recorder, load_run
from fedtempo.record.recorder import VisitRow
from fedtempo.report.watch import reading
from fedtempo.report.watch.reading import Reader
from tests.report.watch.folders import Written


def row(number: int, outcome: str = "done") -> VisitRow:
    return VisitRow(number, 0, None, 0, 0.0, 0.0, 0.5, 1.0, float(number), outcome, 1, None)


def numbers(reader: Reader) -> list[int]:
    piece = reader.read()
    return piece.visits["number"].tolist()


def begun(folder: Path, resumed: int = 0) -> Recorder:
    recorder = Recorder(folder)
    for name, value in {"strategy": "s", "seed": 1, "n_clients": 3, "resumed": resumed}.items():
        recorder.fact(name, value)
    recorder.flush()
    return recorder


@settings(max_examples=15)
@given(order=st.permutations(range(1, 13)), cuts=st.sets(st.integers(0, 12)))
def test_every_visit_is_read_once_in_any_order_of_ends(order, cuts, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("run")
    recorder, reader, read = begun(folder), Reader(folder), []
    for position, number in enumerate(order):
        recorder.visit(row(number))
        if position in cuts:
            recorder.flush()
            read += numbers(reader)
    recorder.close()
    read += numbers(reader)
    assert sorted(read) == list(range(1, 13))
    assert numbers(reader) == []


def test_reading_does_not_block_the_writer(tmp_path: Path) -> None:
    written, reader = Written(tmp_path / "run"), Reader(tmp_path / "run")
    numbers_read: list[np.ndarray] = []
    for until in (10.0, 20.0, 30.0):
        written.go(until)
        piece = reader.read()
        assert not piece.more
        assert not piece.again
        numbers_read.append(piece.visits["number"])
        assert piece.evaluations["time"].tolist() == [until - 5.0, until] if until > 10 else [0.0, 5.0, 10.0]
    written.close()
    assert sorted(np.concatenate(numbers_read).tolist()) == load_run(tmp_path / "run").visits["number"].tolist()


def test_a_piece_is_limited_and_says_if_more_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 4)
    recorder, reader = begun(tmp_path), Reader(tmp_path)
    for number in range(1, 7):
        recorder.visit(row(number))
    recorder.close()
    first, second = reader.read(), reader.read()
    assert (first.visits["number"].tolist(), first.more) == ([1, 2, 3, 4], True)
    assert (second.visits["number"].tolist(), second.more) == ([5, 6], False)


def test_numbers_far_apart_take_no_memory(tmp_path: Path) -> None:
    recorder, reader = begun(tmp_path), Reader(tmp_path)
    recorder.visit(row(10**12))
    recorder.close()
    assert numbers(reader) == [10**12]
    assert numbers(reader) == []


def test_a_resumed_run_is_read_from_its_start(tmp_path: Path) -> None:
    recorder, reader = begun(tmp_path), Reader(tmp_path)
    recorder.visit(row(1))
    recorder.close()
    assert numbers(reader) == [1]
    recorder = begun(tmp_path, resumed=1)
    recorder.visit(row(1))
    recorder.close()
    piece = reader.read()
    assert piece.again
    assert piece.visits["number"].tolist() == [1]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE visits SET client = 7", "visits.client holds 7"),
        ("UPDATE visits SET outcome = 'lost'", "outcome holds"),
        ("UPDATE visits SET finished = 'soon'", "holds no readable run"),
        ("UPDATE facts SET value = '-1' WHERE name = 'n_clients'", "n_clients"),
        ("DROP TABLE commits; CREATE VIEW commits AS SELECT 1", "not a plain table"),
    ],
)
def test_impossible_records_are_an_error(tmp_path: Path, statement: str, message: str) -> None:
    recorder = begun(tmp_path)
    recorder.visit(row(1))
    recorder.close()
    connection = sqlite3.connect(tmp_path / "run.sqlite")
    connection.executescript(statement)
    connection.close()
    with pytest.raises(ConfigError, match=message):
        Reader(tmp_path).read()

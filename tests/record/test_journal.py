"""A journal reads back as written up to its last checkpoint, and any flipped bit is detected."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedtempo.errors import RunError
from fedtempo.record.journal import Journal, read_identity

IDENTITY = {"label": "fedavg", "configuration": {"training": {"lr": 0.1}}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a journal of three checkpoints that was resumed once."""
    path = tmp_path / "journal.jsonl"
    journal = Journal.create(path, IDENTITY)
    journal.checkpoint([{"n": 1, "out": 0.1}, {"n": 3, "out": "x\n"}], 4, [2, 4], 1.5)
    journal.add([{"n": 1, "t": 0.5}, {"n": 2, "t": 0.75}])
    journal.checkpoint([{"n": 2, "out": None}], 5, {4}, 2.5)
    journal = Journal.resume(path)
    journal.checkpoint([{"n": 4, "out": [1]}, {"n": 6, "out": {"float": "nan"}}], 6, [], 3.5)
    return path


def test_a_journal_reads_back_as_written(path: Path) -> None:
    journal = Journal.resume(path)
    assert journal.identity == IDENTITY == read_identity(path)
    assert {n: row["out"] for n, row in journal.rows.items()} == {
        1: 0.1,
        3: "x\n",
        2: None,
        4: [1],
        6: {"float": "nan"},
    }
    assert journal.came == [{"n": 1, "t": 0.5}, {"n": 2, "t": 0.75}]
    assert (journal.submitted, journal.unanswered, journal.wall_s) == (6, frozenset(), 3.5)
    assert (journal.resumed, journal.checkpoints) == (2, 3)


def test_a_truncated_journal_keeps_all_whole_checkpoints(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)  # takes longer than all other tests here
    content = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    seals = [end for end in ends if content[:end].splitlines()[-1].startswith(b'{"seal"')]
    rows = dict(zip(seals, (0, 2, 2, 3, 3, 5), strict=True))
    for length in range(len(content)):
        path.write_bytes(content[:length])
        whole = [end for end in seals if end <= length]
        if not whole:
            with pytest.raises(RunError, match="its first line is incomplete"):
                Journal.resume(path)
            assert read_identity(path) == {}
            continue
        assert len(Journal.resume(path).rows) == rows[whole[-1]]
        assert path.read_bytes().startswith(content[: whole[-1]] + b'{"seal": "resumed"')
        Journal.resume(path)


def test_any_flipped_bit_is_reported(path: Path) -> None:
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1 << position % 8]) + content[position + 1 :])
        with pytest.raises(RunError, match=r"journal\.jsonl (is damaged: |is written in format)"):
            Journal.resume(path)


def test_a_failed_write_leaves_the_last_checkpoint(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.resume(path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(RunError, match=r"journal\.jsonl could not be written: No space left on device"):
            journal.checkpoint([{"n": 7, "out": 1}], 7, [], 4.0)
    journal.checkpoint([{"n": 8, "out": 2}], 8, [], 5.0)
    assert path.read_bytes().startswith(before + b'{"n": 8')
    assert 7 not in Journal.resume(path).rows


def test_a_journal_of_another_format_is_rejected(path: Path) -> None:
    Journal.create(path, IDENTITY)
    later = Journal(path)
    path.write_bytes(later._sealed([], {"seal": "begun", "format": 2, "identity": {}}))
    with pytest.raises(RunError, match="is written in format 2; this version of fedtempo reads 1"):
        Journal.resume(path)

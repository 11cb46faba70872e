"""A store of results: bounded, shared by processes, and never trusted."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedtempo.errors import ConfigError
from fedtempo.record import result_store
from fedtempo.record.result_store import ResultStore, Stored
from tests.super_journal import add_super_journal

LARGE = 10 * 2**20


def key(number: int) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()


def content(number: int, size: int = 1000) -> tuple[bytes, bytes]:
    """Return a content and its hash, first."""
    data = np.random.default_rng(number).bytes(size)
    return hashlib.sha256(data).digest(), data


def filled(folder: Path, numbers: range, max_bytes: int = LARGE, now: float = 0.0, size: int = 1000) -> None:
    """Add results, each with a content of its own."""
    store = ResultStore(folder, max_bytes, clock=lambda: now)
    for number in numbers:
        store.add(key(number), b"[%d]" % number, [content(number, size)])
    store.close()


def present(folder: Path, numbers: range) -> tuple[list[int], list[int]]:
    """Return the numbers whose results are in a store, and those whose contents are."""
    store = ResultStore(folder, LARGE)
    results = [number for number in numbers if store.result(key(number)) is not None]
    return results, [number for number in numbers if store.content(content(number)[0]) is not None]


def test_results_and_contents_come_back_before_and_after_they_are_on_disk(tmp_path: Path) -> None:
    store, (sha256, data) = ResultStore(tmp_path / "store", LARGE), content(1)
    store.add(key(1), b"answer", [(sha256, data), (sha256, data)])
    store.add(key(2), b"", [])
    for _ in range(2):
        assert store.result(key(1)) == Stored(b"answer", (sha256, sha256))
        assert store.result(key(2)) == Stored(b"", ())
        assert store.content(sha256) == data
        assert store.result(key(3)) is store.content(key(3)) is None
        store.close()
        store = ResultStore(tmp_path / "store", LARGE)


def test_arrays_are_stored_as_their_bytes(tmp_path: Path) -> None:
    vector = np.arange(5, dtype=np.float32)
    sha256 = hashlib.sha256(vector.tobytes()).digest()
    with_array = ResultStore(tmp_path, LARGE)
    with_array.add(key(1), b"", [(sha256, vector.data)])
    with_array.close()
    assert ResultStore(tmp_path, LARGE).content(sha256) == vector.tobytes()


def test_the_least_recently_used_are_deleted_beyond_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents of 10,000 bytes; of 2 MiB, 1,887,437 bytes are for contents; beyond them, 1,698,693 are left."""
    monkeypatch.setattr(result_store, "_FLUSH_S", 1e9)
    bound, size = 2 * 2**20, 10_000
    filled(tmp_path, range(100), bound, 1000.0, size)
    filled(tmp_path, range(100, 180), bound, 2000.0, size)
    store = ResultStore(tmp_path, bound, clock=lambda: 3000.0)
    for number in range(50):
        assert store.result(key(number)) is not None
    store.close()
    assert len(list((tmp_path / "contents").glob("*/*"))) == 180
    filled(tmp_path, range(180, 200), bound, 4000.0, size)
    store = ResultStore(tmp_path, bound)
    left = {number for number in range(200) if store.content(content(number, size)[0]) is not None}
    assert len(left) == 169
    assert left >= {*range(50), *range(100, 200)}  # 31 of those that were last used at 1,000 s are gone
    assert all(store.result(key(number)) for number in range(200))
    assert len(list((tmp_path / "contents").glob("*/*"))) == 169


def test_results_have_a_tenth_of_the_bound(tmp_path: Path) -> None:
    """A result counts 200 bytes, its text (here 4) and 32 for each content (here none): 514 fit into 104,857 bytes."""
    clock = [0.0]
    store = ResultStore(tmp_path, 2**20, clock=lambda: clock[0])
    for number in range(514):
        clock[0] = 1.0 + number
        store.add(key(number), b"text", [])
        store.flush()
    with sqlite3.connect(tmp_path / "index.sqlite") as index:
        assert index.execute("SELECT count(*) FROM results").fetchone() == (514,)
    index.close()
    clock[0] = 1000.0
    store.add(key(514), b"text", [])
    store.flush()
    assert [number for number in range(515) if store.result(key(number))] == list(range(53, 515))  # 462 take 90 %


def test_a_content_that_is_too_large_is_not_stored(tmp_path: Path) -> None:
    store, (sha256, data) = ResultStore(tmp_path, 2**20), content(1, 2**20)
    store.add(key(1), b"answer", [(sha256, data)])
    store.close()
    store = ResultStore(tmp_path, 2**20)
    assert store.result(key(1)) == Stored(b"answer", (sha256,))
    assert store.content(sha256) is None


@pytest.mark.parametrize("damage", ["flipped", "cut", "longer", "empty", "link", "folder", "pipe"])
def test_a_damaged_content_is_deleted_with_one_line(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path / "store", range(1))
    (path,) = (tmp_path / "store" / "contents").glob("*/*")
    data = path.read_bytes()
    (tmp_path / "elsewhere").write_bytes(data)
    path.unlink()
    match damage:
        case "flipped":
            path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
        case "cut":
            path.write_bytes(data[:-1])
        case "longer":
            path.write_bytes(data + b"0")
        case "empty":
            path.write_bytes(b"")
        case "link":
            path.symlink_to(tmp_path / "elsewhere")
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
    with caplog.at_level(logging.WARNING, "fedtempo"):
        store = ResultStore(tmp_path / "store", LARGE)
        assert [store.content(content(0)[0]) for _ in range(2)] == [None, None]
    assert [record.message.startswith(f"{path}: damaged") for record in caplog.records] == [True]
    assert store.result(key(0)) is not None
    store.add(key(0), b"[0]", [content(0)])
    store.close()
    assert present(tmp_path / "store", range(1)) == ([0], [] if damage == "folder" else [0])


def test_a_damaged_result_is_deleted_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, range(2))
    with sqlite3.connect(tmp_path / "index.sqlite") as index:
        index.execute("UPDATE results SET answer = ? WHERE key = ?", (b"[7]", key(0)))
    index.close()
    with caplog.at_level(logging.WARNING, "fedtempo"):
        assert present(tmp_path, range(2)) == ([1], [0, 1])
        assert present(tmp_path, range(2)) == ([1], [0, 1])
    assert len(caplog.records) == 1


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 40_000), junk=st.binary(min_size=1, max_size=2000))
def test_any_damage_of_the_index_costs_results_only(tmp_path: Path, at: int, junk: bytes) -> None:
    folder = tmp_path / hashlib.sha256(b"%d" % at + junk).hexdigest()[:16]
    filled(folder, range(20))
    path = folder / "index.sqlite"
    data = bytearray(path.read_bytes())
    data[at : at + len(junk)] = junk
    path.write_bytes(data)
    try:
        store = ResultStore(folder, LARGE)
    except ConfigError:  # damage of the mark that tells whose database it is, or of the number of its writing process
        return
    for number in range(25):
        assert store.result(key(number)) in (None, Stored(b"[%d]" % number, (content(number)[0],)))
        assert store.content(content(number)[0]) in (None, content(number)[1])
        store.add(key(number), b"[%d]" % number, [content(number)])
        store.flush()
    store.close()


def test_an_index_that_is_none_is_replaced_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(tmp_path, range(3))
    (tmp_path / "index.sqlite").write_bytes(b"not a database" * 100)
    with caplog.at_level(logging.WARNING, "fedtempo"):
        filled(tmp_path, range(3, 5))
    assert len(caplog.records) == 1
    assert "the store begins anew" in caplog.records[0].message
    assert present(tmp_path, range(5)) == ([3, 4], [3, 4])
    assert len(list((tmp_path / "contents").glob("*/*"))) == 2


def test_an_index_of_another_format_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, range(3))
    monkeypatch.setattr(result_store, "_FORMAT", 2)
    filled(tmp_path, range(3, 5))
    assert present(tmp_path, range(5)) == ([3, 4], [3, 4])


def test_other_files_and_databases_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"a holds other files \(letter.txt\); choose a new or empty folder"):
        ResultStore(tmp_path / "a", LARGE)
    (tmp_path / "b").mkdir()
    with sqlite3.connect(tmp_path / "b" / "index.sqlite") as other:
        other.execute("CREATE TABLE addresses (name TEXT)")
    other.close()
    with pytest.raises(ConfigError, match="is no index of results"):
        ResultStore(tmp_path / "b", LARGE)
    (tmp_path / "c").write_text("a file")
    with pytest.raises(ConfigError, match="cannot hold results: File exists"):
        ResultStore(tmp_path / "c", LARGE)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["letter.txt"]


def test_a_full_disk_ends_reuse_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    filled(tmp_path, range(2))
    store = ResultStore(tmp_path, LARGE)
    monkeypatch.setattr(Path, "write_bytes", full)
    store.add(key(2), b"[2]", [content(2)])
    with caplog.at_level(logging.WARNING, "fedtempo"):
        store.flush()
        assert store.result(key(0)) is store.content(content(0)[0]) is None
        store.add(key(3), b"[3]", [content(3)])
        store.close()
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}: [Errno 28] No space left on device; from now on no results are reused or kept"
    ]
    assert present(tmp_path, range(4)) == ([0, 1, 2], [0, 1])  # a result without its content


def _fill(folder: Path, numbers: range, max_bytes: int) -> None:
    store = ResultStore(folder, max_bytes)
    for number in numbers:
        store.add(key(number), b"[%d]" % number, [content(number)])
        store.flush()
    store.close()


def _fill_for_ever(folder: Path) -> None:
    store = ResultStore(folder, 2**20)
    for number in range(10**9):
        store.add(key(number), b"[%d]" % number, [content(number % 2000)])
        if number % 7 == 0:
            store.flush()


def test_processes_share_a_store(tmp_path: Path) -> None:
    fork: Any = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_fill, args=(tmp_path, range(50 * i, 50 * i + 80), LARGE)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert present(tmp_path, range(200)) == (list(range(180)), list(range(180)))
    assert not list((tmp_path / "new").iterdir())


def test_a_killed_process_leaves_a_store_that_is_whole_and_bounded(tmp_path: Path) -> None:
    fork: Any = multiprocessing.get_context("fork")
    for files in (20, 100):
        process = fork.Process(target=_fill_for_ever, args=(tmp_path,))
        process.start()
        for _ in range(3000):
            if len(list((tmp_path / "contents").glob("*/*"))) >= files:
                break
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    store = ResultStore(tmp_path, 2**20)
    found = [number for number in range(1000) if store.result(key(number)) is not None]
    assert len(found) > 50
    for number in found:
        sha256, data = content(number % 2000)
        assert store.result(key(number)) == Stored(b"[%d]" % number, (sha256,))
        assert store.content(sha256) in (None, data)
    store.close()
    with sqlite3.connect(tmp_path / "index.sqlite") as index:
        ((results, contents),) = index.execute("SELECT results, contents FROM sizes")
        ((counted,),) = index.execute("SELECT sum(200 + length(answer) + length(contents)) FROM results")
        ((summed,),) = index.execute("SELECT sum(bytes) FROM contents")
        named = {row[0].hex() for row in index.execute("SELECT sha256 FROM contents")}
    index.close()
    assert (results, contents) == (counted, summed)
    assert {path.name for path in (tmp_path / "contents").glob("*/*")} <= named  # no file that is not counted


def test_half_written_files_are_deleted_after_an_hour(tmp_path: Path) -> None:
    filled(tmp_path, range(1))
    old, young = tmp_path / "new" / "old", tmp_path / "new" / "young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    ResultStore(tmp_path, LARGE).close()
    assert (old.exists(), young.exists()) == (False, True)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of the user, outside the store, with an old file in it."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "old.txt").write_text("theirs")
    os.utime(folder / "old.txt", (0, 0))
    return folder


@pytest.mark.parametrize("name", ["new", "contents", f"contents/{content(1)[0].hex()[:2]}"])
def test_a_store_does_not_follow_a_link_in_place_of_a_folder(tmp_path: Path, theirs: Path, name: str) -> None:
    filled(tmp_path / "store", range(3))
    link = tmp_path / "store" / name
    link.rename(tmp_path / "away")
    link.symlink_to(theirs)
    with pytest.raises(ConfigError, match=rf"{name} leads out of its folder, to .*; nothing was changed"):
        filled(tmp_path / "store", range(3, 300))
    assert {path.name: path.read_text() for path in theirs.iterdir()} == {"old.txt": "theirs"}


@pytest.mark.parametrize("name", [".lock", "index.sqlite"])
@pytest.mark.parametrize("kind", ["link", "hard link"])
def test_a_store_does_not_write_into_a_file_that_lies_elsewhere(
    tmp_path: Path, theirs: Path, name: str, kind: str
) -> None:
    filled(tmp_path / "store", range(3))
    path, target = tmp_path / "store" / name, theirs / "old.txt"
    path.unlink(missing_ok=True)
    target.write_text("")
    path.symlink_to(target) if kind == "link" else path.hardlink_to(target)
    with pytest.raises(ConfigError, match=f"{name} (leads out of its folder|has 2 names)"):
        filled(tmp_path / "store", range(3))
    assert target.read_bytes() == b""


def test_a_half_written_file_that_is_a_link_is_not_written(tmp_path: Path, theirs: Path) -> None:
    filled(tmp_path / "store", range(1))
    (tmp_path / "store/new" / f"{content(1)[0].hex()}-{os.getpid()}").symlink_to(theirs / "old.txt")
    with pytest.raises(ConfigError, match="leads out of its folder"):
        filled(tmp_path / "store", range(2))
    assert (theirs / "old.txt").read_text() == "theirs"


def test_a_journal_of_the_index_that_names_a_file_elsewhere_is_rejected(tmp_path: Path, theirs: Path) -> None:
    filled(tmp_path / "store", range(3))
    journal = add_super_journal(tmp_path / "store/index.sqlite", theirs / "old.txt")
    with pytest.raises(ConfigError, match=r"index.sqlite-journal names another file, which SQLite would delete"):
        filled(tmp_path / "store", range(3))
    assert (theirs / "old.txt").read_text() == "theirs"
    journal.unlink()
    assert present(tmp_path / "store", range(3)) == ([0, 1, 2], [0, 1, 2])


def test_a_store_is_opened_while_another_process_moves_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "store", range(3))
    walked = os.walk
    monkeypatch.setattr(
        "fedtempo.record.folder.os.walk",
        lambda folder: ((place, folders, [*files, "gone"]) for place, folders, files in walked(folder)),
    )
    assert present(tmp_path / "store", range(3)) == ([0, 1, 2], [0, 1, 2])

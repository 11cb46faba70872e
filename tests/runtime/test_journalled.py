"""Operations answered from the journal, and operations that it does not hold."""

from __future__ import annotations

import math
import threading
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedtempo.errors import RunError
from fedtempo.learning.aggregation import average
from fedtempo.learning.networks import Mlp, UserNetwork
from fedtempo.learning.training import Training
from fedtempo.record.journal import Journal
from fedtempo.record.models import ModelFiles, model_sha256
from fedtempo.runtime.executors import Executor
from fedtempo.runtime.executors.arithmetic import Statistics
from fedtempo.runtime.executors.codec import decode, encode
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.journalled import Journalled

TRAINING = Training(lr=0.1, batch_size=8)


class Counted:
    """An executor that counts the operations it executes."""

    def __init__(self, executor: Executor) -> None:
        self.executor, self.asked = executor, 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.executor, name)
        if name not in ("train", "train_rows", "evaluate"):
            return method

        def counted(*arguments: Any) -> Any:
            self.asked += 1
            return method(*arguments)

        return counted


@pytest.fixture(autouse=True)
def checkpoints_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtempo.runtime.executors.journalled._MAX_SHARE", math.inf)
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make checkpoints complete before the next operation."""
    begin = Journalled._checkpoint

    def complete_checkpoint(self: Journalled) -> None:
        begin(self)
        self.settle()

    monkeypatch.setattr(Journalled, "_checkpoint", complete_checkpoint)


@pytest.fixture(params=[Inline, lambda job: OnDevice(job, "cpu", 2)], ids=["inline", "on device"])
def counted(request: pytest.FixtureRequest) -> Counted:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 6)).astype(np.float32), rng.integers(0, 3, 20)
    return Counted(request.param(Job(Mlp((4,)), 3, x, y, [np.arange(10), np.arange(10, 20)], x, y, seed=1)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Journal.create(tmp_path / "journal.jsonl", {})
    return tmp_path


def life(counted: Counted, path: Path, every_s: float = 0.0) -> Journalled:
    journal = Journal.resume(path / "journal.jsonl")
    return Journalled(counted, journal, ModelFiles(path / "models"), every_s=every_s)  # type: ignore[arg-type]


def a_run(executor: Journalled, rounds: int) -> tuple[Any, list[Any]]:
    """Per round: two visits, an abandoned one, their mean, a function that returns all kinds, an evaluation."""
    model, seen = executor.initial(), []
    for number in range(1, rounds + 1):
        visits = [executor.train(model, client, number, TRAINING) for client in (0, 1)]
        executor.train(model, 0, 100 + number, TRAINING)
        trained = [visit.result() for visit in visits]
        extra = executor.train_rows(trained[0].location, np.arange(3), number, TRAINING).result()
        locations = [trained_visit.location for trained_visit in (*trained, extra)]
        model = executor.apply(lambda *models: average(models, [1.0, 2.0, 3.0]), locations)
        norms, pair = executor.apply(measures, [model, *locations])
        model = pair[0]
        seen.append((norms, [trained_visit.statistics for trained_visit in trained], executor.evaluate(model).result()))
    return model, seen


def measures(vector: np.ndarray, *more: np.ndarray) -> Any:
    norms = np.array([np.linalg.norm(vector - other) for other in more])
    return {"all": norms, "first": norms[0], "none": None, "odd": math.nan}, (vector * 2, len(more))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_journalled_operations_are_not_repeated(counted: Counted, path: Path, rounds: int) -> None:
    model, seen = a_run(life(counted, path), 5)
    reference = model_sha256(counted.vector(model.held))
    Path(path / "journal.jsonl").unlink()
    Journal.create(path / "journal.jsonl", {})

    a_run(life(counted, path), rounds)
    counted.asked = 0
    resumed = life(counted, path)
    again, seen_again = a_run(resumed, 5)
    assert model_sha256(resumed.vector(again)) == reference
    np.testing.assert_equal(seen_again, seen)
    assert not resumed.replays
    # A round's evaluation comes last and is written with the next checkpoint, so it may be repeated.
    assert (5 - rounds) * 5 <= counted.asked <= (5 - rounds) * 5 + 1


@pytest.mark.usefixtures("at_once")
def test_running_statistics_and_frozen_parameters_are_restored(path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 20)
    network = UserNetwork("tests.strategies.nets:both")
    counted = Counted(Inline(Job(network, 10, x, y, [np.arange(10), np.arange(10, 20)], x, y, seed=1)))

    def stepped(executor: Journalled, rounds: int) -> bytes:
        model, _ = a_run(executor, rounds)
        rule = Statistics([model, executor.initial()], lambda statistics: average(statistics, [3.0, 1.0]))
        model = executor.apply(lambda vector: vector * 2, [model], rule)
        model = executor.place(lambda: executor.vector(model))
        return executor.vector(model).tobytes()

    whole = stepped(life(counted, path), 3)
    counted.asked = 0
    assert stepped(life(counted, path), 3) == whole
    assert counted.asked == 0
    Path(path / "journal.jsonl").unlink()
    Journal.create(path / "journal.jsonl", {})
    a_run(life(counted, path), 2)
    assert stepped(life(counted, path), 3) == whole


@pytest.mark.usefixtures("at_once")
def test_unreachable_models_are_deleted(counted: Counted, path: Path) -> None:
    executor = life(counted, path)
    files = []
    model = executor.initial()
    for number in range(20):
        model = executor.train(model, 0, number, TRAINING).result().location
        files.append(len(ModelFiles(path / "models").names()))
    assert 1 <= max(files) <= 3


@pytest.mark.usefixtures("at_once")
def test_an_operation_that_differs_from_the_journal_is_an_error(counted: Counted, path: Path) -> None:
    a_run(life(counted, path), 2)
    resumed = life(counted, path)
    with pytest.raises(RunError, match=r"operation 1 was \('train', \[0, 1\], \[0\]\) .* and is \('train', \[1, 1\]"):
        resumed.train(resumed.initial(), 1, 1, TRAINING)
    resumed = life(counted, path)
    for visit in (1, 1, 101):
        pending = resumed.train(resumed.initial(), int(visit == 1 and resumed._number == 1), visit, TRAINING)
    assert not pending.done()
    with pytest.raises(RunError, match="operation 3: its result is needed now but was not"):
        pending.result()


@pytest.mark.parametrize("counted", [Inline], indirect=True, ids=["inline"])  # the other one completes immediately
def test_operations_in_progress_are_repeated_from_their_model(counted: Counted, path: Path) -> None:
    executor = life(counted, path, every_s=1e6)
    first = executor.train(executor.initial(), 0, 1, TRAINING).result()
    executor.train(first.location, 1, 1, TRAINING)  # abandoned
    second = executor.train(first.location, 0, 2, TRAINING)
    del first
    executor.interrupt()
    expected = executor.vector(second.result().location)

    counted.asked = 0
    resumed = life(counted, path)
    model = resumed.train(resumed.initial(), 0, 1, TRAINING).result().location
    assert counted.asked == 0
    assert not resumed.train(model, 1, 1, TRAINING).done()
    assert counted.asked == 0
    pending = resumed.train(model, 0, 2, TRAINING)
    assert counted.asked == 1
    np.testing.assert_array_equal(resumed.vector(pending.result().location), expected)


def test_nothing_is_written_after_an_interruption(counted: Counted, path: Path) -> None:
    executor = life(counted, path)
    a_run(executor, 1)
    executor.interrupt()
    before = (path / "journal.jsonl").read_bytes()
    a_run(executor, 1)
    assert (path / "journal.jsonl").read_bytes() == before


def test_the_run_continues_while_a_checkpoint_waits_for_the_disk(
    counted: Counted, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, disk = life(counted, path), threading.Event()
    monkeypatch.setattr("os.fsync", lambda _: disk.wait(60))
    model, _ = a_run(executor, 3)
    assert counted.asked == 15
    assert executor._writing is not None
    assert not executor._writing.done()
    disk.set()
    executor.interrupt()
    assert model.sha256 in ModelFiles(path / "models").names()
    assert Journal.resume(path / "journal.jsonl").submitted == executor._number


def test_a_full_disk_fails_only_the_next_operation(
    counted: Counted, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = life(counted, path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match=r"could not be written: No space left on device"):  # noqa: PT012
        executor.train(executor.initial(), 0, 1, TRAINING).result()
        wait([executor._writing])
        executor.evaluate(executor.initial())
    before = (path / "journal.jsonl").read_bytes()
    executor.settle()
    a_run(executor, 1)  # journalling has stopped
    executor.interrupt()
    assert (path / "journal.jsonl").read_bytes() == before


def test_a_function_whose_result_cannot_be_recorded_is_named(counted: Counted, path: Path) -> None:
    executor = life(counted, path)
    with pytest.raises(RunError, match=r"on_server\(.*strange\): a set cannot be recorded: return numbers"):
        executor.apply(strange, [])


def strange() -> set[int]:
    return {1}


numbers = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
values = st.recursive(
    numbers | arrays.arrays(arrays.scalar_dtypes().filter(lambda dtype: dtype.kind in "biufc"), (2, 1)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(values)
def test_values_are_restored_to_the_bit(value: Any) -> None:
    assert repr_of(decode(encode(value, lambda _: None), [])) == repr_of(value)


def repr_of(value: Any) -> str:
    """Return a text that shows types and exact bits."""
    if isinstance(value, np.ndarray | np.generic):
        return f"{type(value)} {value.dtype} {value.shape} {value.tobytes()!r}"
    if isinstance(value, list | tuple):
        return f"{type(value)} {[repr_of(item) for item in value]}"
    if isinstance(value, dict):
        return f"dict {[(name, repr_of(item)) for name, item in value.items()]}"
    return f"{type(value)} {value!r}"


def test_scalars_keep_their_types() -> None:
    for value in (np.float32(0.1), np.float64(0.1), np.int64(3), np.bool_(True), np.str_("a")):
        back = decode(encode(value, lambda _: None), [])
        assert type(back) is type(value)
        assert back == value
    for value in (object(), {1}, np.array([object()]), math.sqrt):
        with pytest.raises(TypeError, match="cannot be recorded"):
            encode(value, lambda _: None)

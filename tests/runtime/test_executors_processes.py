import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedtempo.errors import ConfigError, RunError, WorkerError
from fedtempo.learning.networks import Logistic, Mlp
from fedtempo.learning.training import Training
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.processes import Processes
from fedtempo.runtime.executors.shared import SlotPool, segment_prefix

TRAINING = Training(lr=0.01, batch_size=10)
LONG = Training(lr=0.01, batch_size=10, epochs=100_000)


def job(network=None, tests=30):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 6)).astype(np.float32), rng.integers(0, 3, 60)
    return Job(network or Logistic(), 3, x, y, [np.arange(20), np.arange(20, 60)], x[:tests], y[:tests], 1)


def shared_memory(process=None):
    return sorted(path.name for path in Path("/dev/shm").glob(f"fedtempo-{process or os.getpid()}-*"))


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def lives(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_work_of_a_killed_worker_is_repeated_with_the_same_bits(method):
    with Inline(job()) as inline:
        expected = [inline.train(inline.initial(), 0, visit, TRAINING).result() for visit in range(3)]
        tested = inline.evaluate(expected[2].location).result()
        with Processes(job(), 1, method) as executor:
            executor.train(executor.initial(), 0, 1, TRAINING).result()
            first = executor.process_ids[0]
            os.kill(first, signal.SIGSTOP)
            visits = [executor.train(executor.initial(), 0, visit, TRAINING) for visit in range(3)]
            os.kill(first, signal.SIGKILL)
            for visit, other in zip(visits, expected):
                assert visit.result().statistics == other.statistics
                assert (executor.vector(visit.result().location) == inline.vector(other.location)).all()
            assert executor.evaluate(visits[2].result().location).result() == tested
            assert executor.process_ids != [first]
            assert executor.facts()["workers_replaced"] == 1


def test_an_operation_that_kills_two_workers_fails_and_other_operations_continue():
    with Processes(job(), 1) as executor:
        fatal = executor.train(executor.initial(), 0, 0, LONG)
        behind = executor.train(executor.initial(), 0, 1, TRAINING)
        for _ in range(2):
            os.kill(executor.process_ids[0], signal.SIGKILL)
            killed = executor.process_ids[0]
            assert wait_until(lambda: fatal.done() or executor.process_ids != [killed])  # noqa: B023
        with pytest.raises(WorkerError, match=r"two worker processes died \(signal 9\) over this operation"):
            fatal.result()
        assert behind.result().statistics
        assert executor.facts()["workers"] == 1


def test_workers_ignore_interrupts():
    with Processes(job(), 1) as executor:
        os.kill(executor.process_ids[0], signal.SIGINT)
        assert executor.train(executor.initial(), 0, 1, TRAINING).result().statistics


ORPHANS = """
import os, sys, time
sys.path.insert(0, {folder!r})
from test_executors_processes import LONG, TRAINING, Processes, job
if __name__ == "__main__":
    executor = Processes(job(), 2, {method!r})
    ready = [executor.train(executor.initial(), 0, visit, TRAINING) for visit in range(4)]
    while not all(visit.done() for visit in ready):
        time.sleep(0.01)
    visits = [executor.train(executor.initial(), 0, visit, LONG) for visit in range(2)]
    time.sleep(0.1)
    print(*executor.process_ids, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_end_with_their_parent_even_during_a_visit(method, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(ORPHANS.format(folder=str(Path(__file__).parent), method=method))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        workers = [int(number) for number in parent.stdout.readline().split()]
        assert len(workers) == 2
        assert all(map(lives, workers))
        assert shared_memory(parent.pid)
        parent.kill()
    assert wait_until(lambda: not any(map(lives, workers)))
    assert wait_until(lambda: not shared_memory(parent.pid))


def test_slots_are_reused():
    with Processes(job(Mlp((50,))), 2) as executor:
        location = executor.initial()
        most = 0
        for visit in range(1000):
            location = executor.train(location, visit % 2, visit, Training(steps=1)).result().location
            most = max(most, executor.slots_in_use)
        assert most <= 4
        del location
        assert executor.slots_in_use == 1


def test_operations_without_a_waiting_caller_are_dropped():
    with Processes(job(), 1) as executor:
        running = [executor.train(executor.initial(), 1, visit, Training(steps=300)) for visit in range(2)]
        for visit in range(50):
            executor.train(executor.initial(), 1, visit, LONG)
        assert executor.slots_in_use == 3
        assert running[1].result().statistics


def test_closing_ends_workers_frees_memory_and_fails_pending_operations():
    before = shared_memory()
    executor = Processes(job(), 2)
    workers = executor.process_ids
    assert shared_memory() != before
    visits = [executor.train(executor.initial(), 0, visit, LONG) for visit in range(6)]
    test = executor.evaluate(executor.initial())
    start = time.monotonic()
    executor.close()
    executor.close()
    assert time.monotonic() - start < 10.0  # the visits would take 45 s
    assert shared_memory() == before
    assert not any(map(lives, workers))
    for pending in (*visits, test):
        with pytest.raises(WorkerError, match="closed"):
            pending.result()
    with pytest.raises(WorkerError, match="closed"):
        executor.train(executor.initial(), 0, 1, TRAINING)


def test_a_garbage_collected_executor_cleans_up():
    before = shared_memory()
    executor = Processes(job(), 1)
    worker = executor.process_ids[0]
    del executor
    gc.collect()
    assert shared_memory() == before
    assert not lives(worker)


def test_a_view_that_outlives_the_executor_is_still_readable():
    views = []
    with Processes(job(), 1) as executor:
        executor.apply(views.append, [executor.initial()])
        expected = executor.vector(executor.initial())
    assert np.array_equal(views[0], expected)


def test_evaluations_wait_for_visits():
    with Processes(job(tests=60), 1) as executor:
        visits = [executor.train(executor.initial(), 1, visit, Training(steps=200)) for visit in range(3)]
        test = executor.evaluate(executor.initial())
        later = executor.train(executor.initial(), 1, 9, Training(steps=200))
        later.result()
        assert all(visit.done() for visit in visits)
        assert not test._tasks[0].finished
        assert test.result().loss > 0
        assert test.done()


def test_the_slot_pool_grows_in_chunks_and_finds_slots_by_number():
    pool = SlotPool(segment_prefix(), 3_000_000)
    try:
        slots = [pool.take() for _ in range(3)]
        for slot in slots:
            pool.view(slot.number)[:] = slot.number
        assert [float(pool.view(slot.number)[-1]) for slot in slots] == [0.0, 1.0, 2.0]
        freed = slots.pop(1).number
        assert pool.slots_in_use == 2
        assert pool.take().number == freed
        assert pool.slots_allocated == 3
    finally:
        pool.close()


def test_too_little_shared_memory_is_reported():
    pool = SlotPool(segment_prefix(), 2**44)
    with pytest.raises(RunError, match="shared memory left in /dev/shm"):
        pool.take()
    assert not shared_memory()


@pytest.mark.parametrize(
    ("options", "message"), [({"workers": 0}, "at least 1"), ({"start_method": "x"}, "this system supports fork")]
)
def test_invalid_settings_of_processes_are_rejected(options, message):
    with pytest.raises(ConfigError, match=message):
        Processes(job(), **options)

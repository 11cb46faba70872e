"""The executor on a Ray cluster of three nodes on this machine: one for this process and two that train."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError, WorkerError
from fedtempo.learning.aggregation import average
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.networks import Mlp
from fedtempo.learning.training import Training
from fedtempo.record.journal import Journal
from fedtempo.record.models import ModelFiles
from fedtempo.runtime.executors import Carried, Evaluation, Executor
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.journalled import Journalled
from fedtempo.runtime.executors.on_ray import OnRay
from fedtempo.runtime.executors.ray_session import imported
from tests.runtime.test_executors import image_job
from tests.strategies.test_every_strategy import everyone, trained

pytestmark = pytest.mark.ray

TRAINING = Training(lr=0.05, batch_size=10)
LONG = Training(lr=0.01, batch_size=10, epochs=1_000_000)
STORE_BYTES = 160 * 2**20


def job(hidden: int = 8, tests: int = 30) -> Job:
    """Return a job with 60 inputs of 2,000 numbers and a hidden layer of 500: a model of 4 MB."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 2000)).astype(np.float32), rng.integers(0, 3, 60)
    return Job(Mlp((hidden,)), 3, x, y, [np.arange(20), np.arange(20, 60)], x[:tests], y[:tests], 1)


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


class Nodes:
    """A cluster whose head node, the one of this process, trains nothing."""

    def __init__(self) -> None:
        imported()  # before any other part of Ray, so that it logs nothing
        from ray.cluster_utils import Cluster

        impatient = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": impatient}
        self.cluster = Cluster(initialize_head=True, head_node_args=head | {"object_store_memory": STORE_BYTES})
        self.training: list[Any] = []
        self.complete()

    def complete(self) -> None:
        """Wait until the cluster has two nodes that train, with one actor each."""
        while len(self.training) < 2:
            self.training.append(self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES))
        self.cluster.wait_for_nodes()

    def kill(self, number: int) -> None:
        self.cluster.remove_node(self.training.pop(number), allow_graceful=False)

    def used_bytes(self) -> list[int]:
        """Return the bytes in the object stores of the head and the training nodes, which report once a second."""
        from ray._private.state import available_resources_per_node

        time.sleep(1.5)
        free = available_resources_per_node()
        nodes = [self.cluster.head_node, *self.training]
        return [STORE_BYTES - int(free[node.node_id]["object_store_memory"]) for node in nodes]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Nodes]:
    nodes = Nodes()
    with OnRay(job(), 1, address=nodes.cluster.address):  # disconnects: each test opens its own connection
        pass
    yield nodes
    nodes.cluster.shutdown()


@pytest.fixture
def nodes(cluster: Nodes) -> Nodes:
    cluster.complete()
    return cluster


@contextlib.contextmanager
def on(nodes: Nodes, work: Job, workers: int = 2) -> Iterator[OnRay]:
    with OnRay(work, workers, address=nodes.cluster.address) as executor:
        assert wait_until(lambda: executor.are_done([]) and len(ready(executor)) == workers)
        yield executor


def ready(executor: OnRay) -> list[Any]:
    executor._pump(0)
    return executor._workers


def process_id(actor: Any) -> int:
    from ray._private import state

    return int(state.actors(actor.handle._actor_id.hex())["Pid"])


def chains(executor: Executor, rounds: int, after: Callable[[int], None] = lambda _: None) -> list[Any]:
    """Run two parallel chains of visits with their mean every fourth round; return all results."""
    heads, seen = [executor.initial()] * 2, []
    for number in range(rounds):
        visits = [executor.train(head, client, number, TRAINING) for client, head in enumerate(heads)]
        results = [visit.result() for visit in visits]
        heads = [result.location for result in results]
        seen.append([result.statistics for result in results])
        after(number)
        if number % 4 == 3:
            mean = executor.apply(lambda *models: average(models, [1, 3]), heads)
            seen.append(executor.evaluate(mean).result())
            heads = [mean, heads[0]]
    return [seen, [executor.vector(head).tobytes() for head in heads]]


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    with Inline(job(hidden=500)) as inline:
        return chains(inline, 12)


def test_two_nodes_give_the_bits_of_inline_and_models_stay_on_the_nodes(nodes: Nodes, expected: list[Any]) -> None:
    with on(nodes, job(hidden=500)) as executor:
        assert chains(executor, 12) == expected
        before = nodes.used_bytes()[0]
        held = [executor.initial()]
        for visit in range(12):
            held.append(executor.train(held[-1], visit % 2, visit, TRAINING).result().location)
        here, *there = nodes.used_bytes()
        assert here - before < executor.size_bytes
        assert sum(there) >= 12 * executor.size_bytes


def test_actors_read_the_examples_from_their_nodes_object_store(nodes: Nodes) -> None:
    def mapped_file(actor: Any) -> list[str]:
        """Return the name of the file mapped at the address of the actor's examples."""
        address = actor._trainer._examples._rows.data_ptr()
        with open("/proc/self/maps") as maps:
            for line in maps:
                first, last = (int(end, 16) for end in line.split()[0].split("-"))
                if first <= address < last:
                    return line.split()[5:]
        return []

    with on(nodes, image_job()) as executor:
        for actor in ready(executor):
            (mapped,) = executor._ray.get(actor.handle.__ray_call__.remote(mapped_file))[:1]
            assert "plasma" in mapped


def test_losing_a_node_costs_time_but_changes_no_bit(
    nodes: Nodes, expected: list[Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with on(nodes, job(hidden=500)) as executor:

        def lose(number: int) -> None:
            if number in (5, 6):  # the previous round's models are on the lost node or on the other one
                nodes.kill(0)
                nodes.complete()

        assert chains(executor, 12, lose) == expected
        assert capfd.readouterr() == ("", "")
        facts = executor.facts()
        assert facts["workers_replaced"] == 2
        assert facts["models_made_again"] >= 1


def carried(executor: Executor, rounds: int, after: Callable[[int], None] = lambda _: None) -> list[Any]:
    """Run SCAFFOLD's visits with a local bias, with both clients' control variates sent on; return all results."""
    head, kept, sent, seen = executor.initial(), [None, None], [executor.initial()] * 2, []
    for number in range(rounds):
        visits = [
            executor.train(head, client, number, TRAINING, Carried(kept[client], "scaffold", (sent[client],), 1))
            for client in (0, 1)
        ]
        results = [visit.result() for visit in visits]
        after(number)
        kept = [result.state for result in results]
        sent = [result.sent[0] for result in results[::-1]]
        seen.append([executor.exchanged(location).tobytes() for location in sent])
        seen.append([(result.statistics, executor.state(result.state)) for result in results])
        head = executor.apply(lambda *models: average(models, [1, 3]), [result.location for result in results])
        seen.append([executor.evaluate(head, state).result() for state in (None, *kept)])
    return [seen, executor.vector(head).tobytes()]


def test_what_clients_keep_and_send_along_has_the_bits_of_inline_even_if_a_node_is_lost(nodes: Nodes) -> None:
    work = dataclasses.replace(job(hidden=500), exchange=Exchange(local=("1.bias",)))
    with Inline(work) as inline:
        expected = carried(inline, 6)
    with on(nodes, work) as executor:

        def lose(number: int) -> None:
            if number == 3:
                nodes.kill(0)
                nodes.complete()

        assert carried(executor, 6) == expected
        assert carried(executor, 6, lose) == expected


def test_a_lost_chain_is_rebuilt_from_its_last_local_copy(nodes: Nodes) -> None:
    with Inline(job(hidden=500)) as inline, on(nodes, job(hidden=500)) as executor:
        ends = []
        for executor_ in (inline, executor):
            location = executor_.initial()
            for visit in range(20):
                location = executor_.train(location, visit % 2, visit, TRAINING).result().location  # type: ignore[attr-defined]
            ends.append(location)
        nodes.kill(0)
        nodes.kill(0)
        nodes.complete()
        assert (executor.vector(ends[1]) == inline.vector(ends[0])).all()
        assert executor.facts()["models_made_again"] == 4  # of 20 visits in a row 16 end with a copy


def test_killed_actors_are_replaced_and_their_work_is_repeated(nodes: Nodes) -> None:
    with Inline(job()) as inline, on(nodes, job()) as executor:
        fatal = executor.train(executor.initial(), 0, 0, LONG)
        visits = [executor.train(executor.initial(), 1, visit, TRAINING) for visit in range(4)]
        visits[0].result()
        for _ in range(2):
            (busy,) = [actor for actor in ready(executor) if fatal._task in actor.tasks.values()]  # type: ignore[attr-defined]
            os.kill(process_id(busy), signal.SIGKILL)
            assert wait_until(lambda: fatal.done() or (len(ready(executor)) == 2 and busy not in ready(executor)))  # noqa: B023
        with pytest.raises(WorkerError, match=r"two actors died \(.*\) over this operation"):
            fatal.result()
        for visit, pending in enumerate(visits):
            trained, same = pending.result(), inline.train(inline.initial(), 1, visit, TRAINING).result()
            assert (executor.vector(trained.location) == inline.vector(same.location)).all()
        assert executor.facts()["workers_replaced"] == 2


def test_memory_does_not_grow_with_the_number_of_visits(nodes: Nodes) -> None:
    with on(nodes, job(hidden=500)) as executor:
        before = nodes.used_bytes()
        pending = [executor.train(executor.initial(), 0, visit, Training(steps=1)) for visit in range(40)]
        assert all(len(actor.tasks) <= 2 for actor in ready(executor))
        location = pending[-1].result().location
        del pending
        for visit in range(200):  # 800 MB in stores of 160 MB
            location = executor.train(location, visit % 2, visit, Training(steps=1)).result().location
        grown = [after - old for after, old in zip(nodes.used_bytes(), before)]
        assert max(grown) <= 3 * executor.size_bytes
        assert executor.vector(location).nbytes == executor.size_bytes


def test_evaluations_wait_for_visits_and_operations_without_a_caller_are_dropped(nodes: Nodes) -> None:
    with on(nodes, job(tests=60), 1) as executor:
        visits = [executor.train(executor.initial(), 1, visit, Training(steps=200)) for visit in range(3)]
        for visit in range(50):
            executor.train(executor.initial(), 1, visit, LONG)
        test = executor.evaluate(executor.initial())
        later = executor.train(executor.initial(), 1, 9, Training(steps=200))
        later.result()
        assert all(visit.done() for visit in visits)
        assert not test._tasks[0].finished  # type: ignore[attr-defined]
        with Inline(job(tests=60)) as inline:
            assert test.result() == inline.evaluate(inline.initial()).result()


def test_a_node_with_other_package_versions_is_an_error(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtempo.runtime.executors.on_ray.computing_versions", lambda: {"torch": "1.0"})
    with OnRay(job(), 1, address=nodes.cluster.address) as executor:
        pending = [executor.train(executor.initial(), 0, visit, TRAINING) for visit in range(2)]
        for operation in pending:
            with pytest.raises(WorkerError, match=r"a node of the cluster has .*, this process has torch 1.0: "):
                operation.result()


def test_a_job_that_no_actor_can_unpack_is_an_error(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtempo.runtime.executors.on_ray.pack", lambda *_: (None, {}))
    with OnRay(job(), 1, address=nodes.cluster.address) as executor:
        with pytest.raises(WorkerError, match=r"an actor could not start: .*has no attribute 'opened'"):
            executor.train(executor.initial(), 0, 1, TRAINING).result()
        with pytest.raises(WorkerError, match=r"an actor could not start"):
            executor.evaluate(executor.initial()).result()


def test_a_failing_visit_reports_its_error_and_other_visits_continue(nodes: Nodes) -> None:
    with on(nodes, job(), 1) as executor:
        bad = executor.train(executor.initial(), 0, 1, Training(loss="logit-adjusted", prior=(1.0, 1.0)))
        good = executor.train(executor.initial(), 0, 1, TRAINING)
        with pytest.raises(ConfigError, match=r"^training.prior has 2 entries"):
            bad.result()
        assert good.result().statistics["loss"] > 0


def test_closing_ends_actors_fails_pending_operations_and_leaves_views_readable(nodes: Nodes) -> None:
    views: list[Any] = []
    with on(nodes, job(hidden=500)) as executor:
        executor.apply(views.append, [executor.initial()])
        first = executor.vector(executor.initial())
        pids = [process_id(actor) for actor in ready(executor)]
        visits = [executor.train(executor.initial(), 0, visit, LONG) for visit in range(6)]
        test = executor.evaluate(executor.initial())
        executor.close()
        executor.close()
        assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10)
        for pending in (*visits, test):
            with pytest.raises(WorkerError, match="closed"):
                pending.result()
        with pytest.raises(WorkerError, match="closed"):
            executor.train(executor.initial(), 0, 1, TRAINING)
    del visits, executor
    gc.collect()
    assert (views[0] == first).all()


def test_a_journal_written_on_a_cluster_can_be_resumed_elsewhere(nodes: Nodes, tmp_path: Path) -> None:
    Journal.create(tmp_path / "journal.jsonl", {})

    def life(executor: Executor, rounds: int) -> tuple[bytes, Evaluation]:
        journal = Journal.resume(tmp_path / "journal.jsonl")
        journalled = Journalled(executor, journal, ModelFiles(tmp_path / "models"), every_s=0.0)
        location = journalled.initial()
        for visit in range(rounds):
            location = journalled.train(location, 0, visit, TRAINING).result().location
        result = journalled.evaluate(location).result()
        journalled.interrupt()
        return journalled.vector(location).tobytes(), result

    with on(nodes, job(hidden=500), 1) as executor:
        first = life(executor, 3)
    with Inline(job(hidden=500)) as inline:
        assert life(inline, 3) == first


@everyone
def test_every_strategy_gives_the_bits_of_inline(nodes: Nodes, name: str) -> None:
    assert trained(name, kind="ray", address=nodes.cluster.address) == trained(name, kind="inline")


def test_a_full_or_unreachable_cluster_is_rejected(nodes: Nodes) -> None:
    for workers, options, message in (
        (3, {}, r"executor.workers = 3: the cluster has room for 2 actors with CPU 1.0 each"),
        (None, {"num_gpus": 1.0}, r"has room for 0 actors with CPU 1.0, GPU 1.0 each"),
        (None, {"resources": {"tpu": 2.0}}, r"has room for 0 actors with CPU 1.0, tpu 2.0 each"),
    ):
        with pytest.raises(ConfigError, match=message):
            OnRay(job(), workers, address=nodes.cluster.address, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"executor.address: no cluster at '127.0.0.1:1': "):
        OnRay(job(), address="127.0.0.1:1")


def rays_processes() -> set[str]:
    """Return Ray's processes on this machine, except zombies."""
    processes = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (path / "cmdline").read_text()
            if "fedtempo-ray-" in command:
                processes.add(path.name)
    return processes


def visits_in(database: Path) -> int:
    if not database.exists():
        return 0
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as records:
        try:
            count: int = records.execute("SELECT count(*) FROM visits").fetchone()[0]
        except sqlite3.OperationalError:
            return 0
        return count


def test_a_local_cluster_is_quiet_and_stops_when_the_run_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("""
run = { horizon = 1e9 }
data = { clients = 10 }
executor = { kind = "ray", workers = 1 }
strategy = { name = "sequential" }
fleet.compute = { unit = "s/visit", kind = "uniform", low = 1.0, high = 3.0 }
fleet.link = { kind = "fixed", download_s = 0.25, upload_s = 0.25 }
fleet.estimates = "exact"
""")
    files = Path(tempfile.mkdtemp(prefix="rays", dir="/tmp"))
    environment = {**os.environ, "RAY_TMPDIR": str(files), "HOME": str(tmp_path)}
    environment.pop("RAY_AUTH_TOKEN", None)
    before = rays_processes()
    with subprocess.Popen(
        [sys.executable, "-m", "fedtempo", "run", "run.toml", "--out", "out"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert wait_until(lambda: visits_in(tmp_path / "out" / "run.sqlite") > 50 or process.poll() is not None, 60)
        begun = rays_processes() - before
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert begun
    assert process.returncode == 130, out + err
    assert [line.partition(":")[0] for line in err.splitlines()] == ["sequential, seed 1"]  # it takes very long
    assert "interrupted" in out
    assert "ray" not in out.lower().replace("run.toml", "")
    assert wait_until(lambda: rays_processes() <= before, 10)
    assert not (tmp_path / ".ray").exists()
    files.rmdir()  # it is empty

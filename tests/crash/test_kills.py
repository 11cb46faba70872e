"""A run that is killed repeatedly at random points gives the same bits as an undisturbed one."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedtempo.record import load_run
from fedtempo.runs.run import Run
from fedtempo.strategies import STRATEGIES
from tests.crash import lives
from tests.strategies.everyone import with_every_strategy

everyone = pytest.mark.parametrize("name", sorted(STRATEGIES))


def some_seed() -> int:
    """Return a new seed each time, or FEDTEMPO_CRASH_SEED."""
    seed = int(os.environ.get("FEDTEMPO_CRASH_SEED", secrets.randbits(32)))
    print(f"FEDTEMPO_CRASH_SEED={seed}")
    return seed


def kill_and_compare(config: lives.Config, folder: Path, kills: int, seed: int) -> None:
    """Run repeatedly, killing each run several times, until enough kills have hit; all runs must equal the first."""
    rng = np.random.default_rng(seed)
    whole_s = lives.lived_to_its_end(config, folder / "whole")
    hits = number = 0
    while hits < kills:
        number += 1
        run, before = folder / str(number), hits
        while hits < kills and lives.killed_after(config, run, rng.uniform(0, 0.9 * whole_s)):
            hits += 1
        Run(config).complete(run)
        lives.assert_the_same(run, folder / "whole")
        assert load_run(run).facts["resumed"] <= hits - before  # the run may be killed before it began


@with_every_strategy(selected=("async-memory", "ditto", "fedavg", "fedhusky", "hybrid-fl"))
def test_a_run_interrupted_twice_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    config = lives.config(name, {"run.checkpoint_every": 1e6, "run.horizon": 25.0})
    Run(config).complete(tmp_path / "whole")
    lives.interrupted_at(config, tmp_path / "run", 9.0)
    assert load_run(tmp_path / "run").facts["elapsed_s"] == 9.0
    lives.interrupted_at(config, tmp_path / "run", 17.0)
    Run(config).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", tmp_path / "whole")
    assert load_run(tmp_path / "run").facts["resumed"] == 2


@pytest.mark.parametrize(
    "name", ["hybrid-fl", *(pytest.param(name, marks=pytest.mark.long) for name in ("csgd", "psfl"))]
)
def test_a_run_killed_twice_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    kill_and_compare(lives.config(name), tmp_path, kills=2, seed=some_seed())


CHANGING = {
    "run.horizon": 25.0,
    "run.evaluate_every": 1.0,
    "data.client_test_share": 0.2,
    "data.partition": {
        "kind": "iid",
        "label_noise": {"rate": 0.2, "clients": 0.5},
        "feature_noise": {"std": 0.1, "clients": 0.5},
        "drift": [
            {"at": 8.0, "swap": [[3, 5]], "noise": 0.1},
            {"at": 14.0, "clients": 0.5, "rotate": 1, "scale": -1.0, "offset": 1.0, "test": True},
        ],
    },
}
"""Changes to a run: clients with wrong labels and noisy inputs, whose examples change twice."""


@pytest.mark.parametrize("name", [pytest.param("fedavg", marks=pytest.mark.long), "fedasync"])
def test_a_run_whose_data_change_is_resumed_in_every_phase(name: str, tmp_path: Path) -> None:
    """It is interrupted before the first change, at the second and after it."""
    config = lives.config(name, {**CHANGING, "run.checkpoint_every": 1e6})
    Run(config).complete(tmp_path / "whole")
    for instant in (7.0, 14.0, 17.0):
        lives.interrupted_at(config, tmp_path / "run", instant)
    Run(config).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", tmp_path / "whole")
    still = config.with_changes({"data.partition.drift": []})
    Run(still).complete(tmp_path / "still")
    accuracies = [load_run(tmp_path / run).evaluations["accuracy"] for run in ("whole", "still")]
    assert not np.array_equal(*accuracies)


@pytest.mark.long
def test_a_run_whose_data_change_is_killed_twice_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    kill_and_compare(lives.config("fedasync", CHANGING), tmp_path, kills=2, seed=some_seed())


@pytest.mark.crash
@everyone
def test_a_run_killed_repeatedly_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    kill_and_compare(lives.config(name), tmp_path, kills=13, seed=some_seed())


@pytest.mark.crash
@pytest.mark.parametrize("name", ["fedhusky", "fedavg", "hybrid-fl"])
def test_a_run_killed_with_workers_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    config = lives.config(name, {"executor.kind": "processes", "executor.workers": 2})
    kill_and_compare(config, tmp_path, kills=5, seed=some_seed())


@pytest.mark.crash
def test_a_run_killed_without_rows_ends_with_the_same_totals(tmp_path: Path) -> None:
    kill_and_compare(lives.config("sequential", {"run.record": "totals"}), tmp_path, kills=5, seed=some_seed())


@pytest.mark.crash
@pytest.mark.parametrize("name", ["fch", "hybrid-fl"])
def test_a_run_killed_without_a_journal_restarts_from_the_beginning(name: str, tmp_path: Path) -> None:
    kill_and_compare(lives.config(name, {"run.checkpoint_every": 0.0}), tmp_path, kills=3, seed=some_seed())


def die_and_compare(tmp_path: Path, deaths: list[str], *, power: bool = True) -> list[int]:
    """End lives within a checkpoint, each before a different file operation; return whether each was resumed.

    power: False to lose everything that was not synced, too.
    """
    config = lives.config("csgd")
    Run(config).complete(tmp_path / "whole")
    resumed = []
    for death in deaths:
        folder, after = tmp_path / death, tmp_path / f"{death} without power"
        life = lives.live(lives.run, config, folder, None, death, None if power else after)
        life.join()
        assert life.exitcode == -signal.SIGKILL, death
        left = folder if power else after
        Run(config).complete(left)
        lives.assert_the_same(left, tmp_path / "whole")
        resumed.append(load_run(left).facts["resumed"])
    return resumed


@pytest.mark.long
def test_a_run_killed_during_a_checkpoint_ends_with_the_same_bits(tmp_path: Path) -> None:
    die_and_compare(tmp_path, ["fsync:40", "replace:31", "unlink:20"])


@pytest.mark.long
def test_after_a_power_failure_a_run_falls_back_on_synced_files(tmp_path: Path) -> None:
    assert die_and_compare(tmp_path, ["fsync:12", "fsync:40", "unlink:20"], power=False) == [1, 1, 1]


@pytest.mark.crash
def test_a_run_killed_at_any_step_of_a_checkpoint_ends_with_the_same_bits(tmp_path: Path) -> None:
    numbers = np.random.default_rng(some_seed()).permutation(np.arange(1, 40))
    die_and_compare(tmp_path, [f"{name}:{number}" for name in ("fsync", "replace", "unlink") for number in numbers[:8]])


@pytest.mark.crash
def test_after_a_power_failure_at_any_step_a_run_falls_back_on_synced_files(tmp_path: Path) -> None:
    numbers = np.random.default_rng(some_seed()).permutation(np.arange(4, 40))
    deaths = [
        f"{name}:{number}"
        for name, count in (("fsync", 12), ("replace", 6), ("unlink", 6))
        for number in numbers[:count]
    ]
    die_and_compare(tmp_path, deaths, power=False)


LONG = lives.config("fedavg", {"run.checkpoint_every": 1e6, "run.horizon": 30.0, "training.epochs": 40})


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a longer undisturbed run in a folder beside its configuration."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "run.toml").write_text(LONG.dump())
    Run(LONG).complete(folder / "whole")
    return folder / "whole"


def with_workers(long: Path, folder: Path, output: Path) -> tuple[lives.BaseProcess, Callable[[], list[int]]]:
    """Start the same run with two workers; return its life and a function that returns their process numbers."""
    workers = ["--set", "executor.kind=processes", "--set", "executor.workers=2"]
    life = lives.live(lives.command, ["run", str(long.parent / "run.toml"), "--out", str(folder), *workers], output)
    children = Path(f"/proc/{life.pid}/task/{life.pid}/children")

    def numbers() -> list[int]:
        return [int(number) for number in children.read_text().split()] if children.exists() else []

    while len(numbers()) < 2:
        time.sleep(0.01)
    time.sleep(0.2)
    return life, numbers


@pytest.mark.long
def test_a_killed_worker_is_replaced_without_loss(long: Path, tmp_path: Path) -> None:
    """Kill a worker, as the kernel does if memory runs out."""
    folder, output = tmp_path / "run", tmp_path / "output"
    life, workers = with_workers(long, folder, output)
    os.kill(workers()[-1], signal.SIGKILL)
    life.join()
    assert life.exitcode == 0, output.read_text()
    assert load_run(folder).facts["executor"]["workers_replaced"] == 1
    lives.assert_the_same(folder, long)


@pytest.mark.crash
def test_a_run_whose_workers_are_killed_repeatedly_ends_and_can_be_resumed(long: Path, tmp_path: Path) -> None:
    folder, output = tmp_path / "run", tmp_path / "output"
    life, workers = with_workers(long, folder, output)
    while life.is_alive():
        for number in workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        life.join(0.02)
    printed = " ".join(output.read_text().split())
    assert life.exitcode == 3, printed
    assert "two worker processes died (signal 9) over this operation" in printed
    assert "Traceback" not in printed
    assert '"seal": "checkpoint"' in (folder / "journal.jsonl").read_text()
    Run(LONG).complete(folder)
    lives.assert_the_same(folder, long)

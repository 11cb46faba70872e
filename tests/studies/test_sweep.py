"""Sweeps: grids from text, one folder for all runs, continued and extended, in parallel, by Slurm's tasks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fedtempo.api.experiment import Experiment, resume
from fedtempo.api.results import open_comparison
from fedtempo.api.sweeps import Sweep, collect_sweep, run_sweep_task
from fedtempo.errors import ConfigError, RunError
from fedtempo.runs.run import Run
from fedtempo.studies.compare import read_plan
from fedtempo.studies.grids import checked_grid, competitors_of, parse_grid, short_keys
from fedtempo.studies.slurm import SCRIPT

GRID = {"strategy.clients_per_round": [2, 3], "fleet.compute.speed": [1.0, 2.0]}


@pytest.fixture
def experiment() -> Experiment:
    """A schedule without training, which takes milliseconds."""
    return Experiment(
        strategy={"name": "fedavg", "clients_per_round": 2},
        fleet={"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
        data={"source": "digits", "clients": 4, "examples_per_client": 10},
        model={"network": "logistic", "size_bytes": 1000},
        run={"horizon": 10.0},
        executor="none",
    )


def hashes(sweep: Sweep) -> dict[tuple[str, int], str]:
    return {(run.label, run.seed): run.summary["events_sha256"] for run in sweep.runs}


def test_grids_are_read_as_toml_or_else_as_strings() -> None:
    texts = ["training.lr=0.1, 3e-1", "training.optimizer=sgd,adam", "data.partition={kind='iid'},by-label,'a,b'"]
    assert parse_grid(texts) == {
        "training.lr": [0.1, 0.3],
        "training.optimizer": ["sgd", "adam"],
        "data.partition": [{"kind": "iid"}, "by-label", "a,b"],
    }
    assert parse_grid(["model.hidden=[10, 20],[5]"]) == {"model.hidden": [[10, 20], [5]]}
    for text, message in [
        ("training.lr", "--grid training.lr: write it as section.key=value,value"),
        ("training.lr=", "write it as section.key=value,value"),
        ("training.lr=0.1,,0.3", "a value is missing between two commas"),
    ]:
        with pytest.raises(ConfigError, match=message):
            parse_grid([text])
    with pytest.raises(ConfigError, match=r"training\.lr is given twice"):
        parse_grid(["training.lr=0.1", "training.lr=0.3"])


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"run.seed": [1, 2]}, "grid run.seed: give the seeds with seeds"),
        ({"strategy.name": ["fedavg"]}, "grid strategy.name: give the strategies with strategies"),
        ({"run.target_accuracy": [0.5, 0.6]}, "grid run.target_accuracy: all runs of a sweep aim at the same target"),
        ({"executor.workers": [1, 2]}, "grid executor.workers: not a setting that results depend on"),
        ({"training.lr": 0.1}, "grid training.lr = 0.1: give a list of values"),
        ({"training.lr": []}, "grid training.lr: give at least one value"),
        ({"training.lr": [0.1, 0.10]}, "grid training.lr = 0.1, 0.1: duplicate value 0.1"),
        ({f"a.b{i}": list(range(10)) for i in range(6)}, "grid: 1,000,000 combinations; at most 100,000"),
        ({"training.lr": [0.1, None]}, "grid training.lr: None is no value"),
    ],
)
def test_keys_and_values_that_no_sweep_can_vary(grid: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        checked_grid(grid)
    assert message in str(raised.value)


def test_labels_are_short_and_folder_names_unique() -> None:
    assert short_keys(["training.lr", "server.lr", "a.b"]) == {
        "training.lr": "training.lr",
        "server.lr": "server.lr",
        "a.b": "b",
    }
    each = competitors_of(["x", "y"], {"training.lr": [0.1, 0.3]})
    assert [one.label for one in each] == ["x lr=0.1", "x lr=0.3", "y lr=0.1", "y lr=0.3"]
    assert [one.folder_name for one in each] == ["x_lr=0.1", "x_lr=0.3", "y_lr=0.1", "y_lr=0.3"]
    odd = competitors_of(["m:S"], {"fleet.preset": ["a/b.toml", "a:b.toml", "a b.toml", "x" * 300, "x" * 301]})
    names = [one.folder_name for one in odd]
    assert len(set(names)) == 5
    assert all(len(name) < 140 and "/" not in name and ":" not in name for name in names)


def test_a_sweep_runs_every_combination_once_and_can_be_continued_and_extended(
    experiment: Experiment, tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    sweep = experiment.sweep(GRID, folder, seeds=[1, 2])
    assert len(sweep) == 8
    assert not sweep.missing
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == sorted(
        f"fedavg_clients_per_round={n}_speed={s}-seed{seed}" for n in (2, 3) for s in (1.0, 2.0) for seed in (1, 2)
    )
    # A round takes a visit of `speed` seconds: ten rounds of 1 s or five of 2 s, with 2 or 3 clients each.
    table = sweep.table()
    assert list(table["strategy.clients_per_round"]) == [2, 2, 3, 3]
    assert list(table["fleet.compute.speed"]) == [1.0, 2.0, 1.0, 2.0]
    assert list(table["commits"]) == [10, 5, 10, 5]
    assert list(table["visits"]) == [20, 10, 30, 15]
    assert (folder / "table.md").read_text().startswith("| clients per round | speed | busy ratio (%) | moved (kB) |")
    assert (folder / "table.csv").exists()
    assert (folder / "report.html").exists()
    assert json.loads((folder / "comparison.json").read_text())["first"] == "fedavg clients_per_round=2 speed=1.0"

    written = {path: path.stat().st_mtime_ns for path in folder.glob("*/summary.json")}
    assert hashes(experiment.sweep(GRID, folder, seeds=[1, 2])) == hashes(sweep)
    larger = experiment.sweep({**GRID, "fleet.compute.speed": [1.0, 2.0, 5.0]}, folder, seeds=[1, 2, 3])
    assert len(larger) == 18
    assert {path: path.stat().st_mtime_ns for path in written} == written  # nothing ran again

    assert len(open_comparison(folder)) == 18
    with pytest.raises(ConfigError, match=r"sweep has seeds = 1, 2, 3; 3 is missing in 1, 2"):
        experiment.sweep(GRID, folder, seeds=[1, 2])
    with pytest.raises(
        ConfigError, match=r"holds a sweep over strategy\.clients_per_round, fleet\.compute\.speed, not"
    ):
        experiment.sweep({"training.lr": [0.1]}, folder)
    with pytest.raises(ConfigError, match=r"run\.horizon was 10\.0 and is 20\.0"):
        experiment.with_(run={"horizon": 20.0}).sweep(GRID, folder, seeds=[1, 2, 3])


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"training.lrr": [0.1]}, r"training\.lrr: unknown key; did you mean 'lr'"),
        ({"training.lr": [0.1, -1]}, r"training\.lr = -1: "),
        ({"strategy.clients_per_round": [2, "many"]}, r"strategy\.clients_per_round = 'many'"),
        ({}, "grid: give at least one key"),
        ({"run.seed": [1]}, "give the seeds"),
    ],
)
def test_wrong_keys_and_values_are_reported_before_anything_runs(
    experiment: Experiment, tmp_path: Path, grid: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        experiment.sweep(grid, tmp_path / "sweep")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "sweep").exists()


def test_a_key_that_one_strategy_lacks_names_the_strategy(experiment: Experiment, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"fedavg: strategy\.buffer_size: unknown key"):
        experiment.sweep({"strategy.buffer_size": [2]}, tmp_path / "sweep", strategies="fedavg,fedbuff")


def test_a_folder_with_anything_else_is_left_alone(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty; choose another folder"):
        experiment.sweep(GRID, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_parallel_runs_give_the_same_bits(experiment: Experiment, tmp_path: Path) -> None:
    one = experiment.sweep(GRID, tmp_path / "one")
    two = experiment.sweep(GRID, tmp_path / "two", jobs=2)
    assert hashes(one) == hashes(two)
    with pytest.raises(ConfigError, match="jobs = 0: must be at least 1"):
        experiment.sweep(GRID, tmp_path / "three", jobs=0)
    compared = experiment.compare("fedavg,sequential", [1], tmp_path / "both", jobs=2)
    alone = experiment.compare("fedavg,sequential", [1], tmp_path / "alone")
    for label in ("fedavg", "sequential"):
        assert compared[label][0].summary["events_sha256"] == alone[label][0].summary["events_sha256"]
    with pytest.raises(ConfigError, match="jobs = 2: parallel runs need a folder"):
        experiment.compare("fedavg", jobs=2)


def test_a_failed_run_does_not_stop_the_others_and_is_repeated(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = Run.complete

    def fail_once(self: Run, path: Path, *, force: bool = False) -> dict[str, Any]:
        if "clients_per_round=2_speed=1.0" in path.name:
            raise RunError("no luck")
        return complete(self, path, force=force)

    with monkeypatch.context() as patched:
        patched.setattr(Run, "complete", fail_once)
        with pytest.raises(RunError, match=r"1 of 4 runs failed, first .*speed=1\.0-seed1: no luck; `fedtempo resume "):
            experiment.sweep(GRID, tmp_path / "sweep")
    collected = collect_sweep(tmp_path / "sweep")
    assert len(collected) == 3
    assert collected.missing == ["fedavg_clients_per_round=2_speed=1.0-seed1"]
    assert json.loads((tmp_path / "sweep" / "comparison.json").read_text())["strategies"].keys() == {
        run.label for run in collected.runs
    }
    resumed = resume(tmp_path / "sweep")
    assert isinstance(resumed, Sweep)
    assert len(resumed) == 4


def test_slurms_tasks_do_one_run_each_and_are_collected(experiment: Experiment, tmp_path: Path) -> None:
    folder = tmp_path / "a sweep"
    script = experiment.with_(executor={"workers": 3}).slurm_sweep(GRID, folder, seeds=[1, 2], jobs=5)
    assert script == folder / SCRIPT
    text = script.read_text()
    lines = text.splitlines()
    assert "#SBATCH --array=0-7%5" in lines
    assert "#SBATCH --cpus-per-task=3" in lines
    assert not list(folder.glob("*/config.toml"))
    with pytest.raises(ConfigError, match="none of the 8 runs has finished"):
        collect_sweep(folder)

    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "5", "SLURM_CPUS_PER_TASK": "2", "FIRST": "1"}
    subprocess.run(["bash", str(script)], check=True, env=environment, capture_output=True, timeout=300)  # noqa: S607
    names = read_plan(folder).names()
    assert [path.parent.name for path in folder.glob("*/summary.json")] == [names[6]]
    assert json.loads((folder / names[6] / "environment.json").read_text())["cpu_count"] <= 2

    for number in (0, 1, 2):
        assert run_sweep_task(folder, number)["ended"] == "horizon"
    again = experiment.slurm_sweep(GRID, folder, seeds=[1, 2])
    assert "#SBATCH --array=3-5,7\n" in again.read_text()  # what has not finished
    assert len(collect_sweep(folder).missing) == 4
    for number in (3, 4, 5, 7):
        run_sweep_task(folder, number)
    collected = collect_sweep(folder)
    assert not collected.missing
    assert hashes(collected) == hashes(experiment.sweep(GRID, tmp_path / "here", seeds=[1, 2]))
    with pytest.raises(ConfigError, match="all runs have finished"):
        experiment.slurm_sweep(GRID, folder, seeds=[1, 2])
    with pytest.raises(ConfigError, match="run 8: the sweep has runs 0 to 7"):
        run_sweep_task(folder, 8)
    with pytest.raises(ConfigError, match="holds no comparison or sweep"):
        run_sweep_task(tmp_path, 0)


def test_tables_of_a_sweep_know_its_keys(experiment: Experiment, tmp_path: Path) -> None:
    sweep = experiment.sweep({"fleet.compute.speed": [1.0, 2.0]}, tmp_path / "sweep", strategies="fedavg,sequential")
    text = sweep.format_table("markdown", "strategy", "fleet.compute.speed,visits", where={"strategy": ["fedavg"]})
    assert text.splitlines()[:3] == [
        "| strategy | speed = 1.0 | speed = 2.0 |",
        "| --- | ---: | ---: |",
        "| fedavg | 20 | 10 |",
    ]
    opened = open_comparison(tmp_path / "sweep")
    assert opened.format_table("csv", columns="visits") == sweep.format_table("csv", columns="visits")
    assert str(sweep) == sweep.format_table()

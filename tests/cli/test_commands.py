"""The commands from end to end, in this process: folders, tables, exit codes, one line for each mistake."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fedtempo.cli import app
from fedtempo.cli import runs as commands
from fedtempo.errors import ConfigError, Interrupted
from fedtempo.record import load_run
from fedtempo.runs import world
from fedtempo.runs.models import read_model

ROOT = Path(__file__).parents[2]
SMALL = """
[run]
horizon = 30.0
target_accuracy = 0.3
[data]
source = "digits"
clients = 10
examples_per_client = 20
test_examples = 100
tell_labels = true
partition = "one-label"
[model]
network = "logistic"
[training]
lr = 0.1
[fleet]
compute = { unit = "s/visit", kind = "uniform", low = 1.0, high = 3.0 }
link = { kind = "fixed", download_s = 0.1, upload_s = 0.2 }
estimates = "exact"
[strategy]
name = "fedavg"
[executor]
kind = "inline"
[compare.fedhusky]
strategy.clusters = "labels"
[compare.hybrid]
strategy.clusters = "labels"
[compare.momentum]
strategy.name = "fedavg"
server.optimizer = { kind = "sgd", momentum = 0.5 }
"""


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are not folded, so that tests can look for words."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def fedtempo(*arguments: object) -> int:
    """Run the command line in this process; returns the exit code."""
    before = sys.argv
    sys.argv = ["fedtempo", *map(str, arguments)]
    try:
        app.main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = before
    return 0


def test_a_run_leaves_a_folder_that_explains_itself(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert fedtempo("run", config, "--out", out, "--seed", 3) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["strategy"], summary["seed"], summary["ended"]) == ("fedavg", 3, "horizon")
    assert summary["data"]["train"] == 200
    assert [path.name for path in (out / "models").iterdir()] == ["last.safetensors"]
    assert read_model(out, "last", summary["model_sha256"]).vector.size == 650
    names = {path.name for path in out.iterdir()}
    assert {"config.toml", "run.sqlite", "models", "summary.json", "report.html", "environment.json"} <= names
    again = tmp_path / "again"
    assert fedtempo("run", out / "config.toml", "--out", again) == 0
    second = json.loads((again / "summary.json").read_text())
    assert (second["model_sha256"], second["events_sha256"]) == (summary["model_sha256"], summary["events_sha256"])


@pytest.mark.parametrize(
    ("sets", "failed"),
    [
        (["training.lr=1e6"], "diverged: the last "),
        (["training.lr=1e6", "model.network=mlp"], "diverged: the last "),
        (['server.optimizer={kind="sgd",lr=1e30}'], "diverged: the last "),
        (["training.lr=1e-30", "strategy.clients_per_round=1"], "the model stands still since 0 s"),
    ],
    ids=str,
)
def test_a_run_that_fails_without_an_error_says_so_at_its_end(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], sets: list[str], failed: str
) -> None:
    """A step size of a million on digits leaves an accuracy of 10 %, or no finite model at all."""
    changes = [word for change in sets for word in ("--set", change)]
    assert fedtempo("run", config, *changes, "--out", tmp_path / "run") == 0
    assert f"failed {failed}" in " ".join(capsys.readouterr().out.split())
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert len(summary["warnings"]) >= 1
    assert (summary["diverged"] is None) == (summary["still_since_s"] == 0.0) == ("stands still" in failed)


def test_a_finished_run_is_never_overwritten(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert fedtempo("run", config, "--out", out) == 0
    before = (out / "summary.json").read_bytes()
    assert fedtempo("run", config, "--out", out) == 2
    assert "holds a finished run, which is never overwritten" in capsys.readouterr().err
    assert (out / "summary.json").read_bytes() == before


def test_bad_updates_are_counted_and_too_many_fail_the_run(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = ["--set", "fleet.faults.nan=0.5"]
    assert fedtempo("run", config, "--out", tmp_path / "some", *faults) == 0
    assert re.search(r"visits lost +\d+ rejected", capsys.readouterr().out)
    assert json.loads((tmp_path / "some/summary.json").read_text())["visits_lost"]["refused"] > 20
    assert fedtempo("run", config, "--out", tmp_path / "many", *faults, "--set", "server.max_bad_updates=20") == 3
    assert "error: 21 updates were rejected by t = " in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_an_unwritable_output_folder_is_rejected(config: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert fedtempo("run", config, "--out", locked / "run") == 2


def test_an_output_path_that_is_a_file_is_rejected(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    assert fedtempo("run", config, "--out", tmp_path / "file") == 2
    assert "is a file; choose a folder" in capsys.readouterr().err
    assert fedtempo("run", config, "--out", tmp_path / "file" / "below") == 2
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["data.examples_per_client=500"], "data: digits: examples_per_client = 500"),
        (["data.source=idx:/nowhere"], "data.source = 'idx:/nowhere': not a readable folder"),
        (["data.test_examples=5000"], "data.test_examples = 5000: digits has"),
        (
            ["strategy.name=hybrid", "strategy.clusters=11"],
            "strategy.clusters = 11: more clusters than clients",
        ),
        (["strategy.name=hybrid", "strategy.clusters=labels", "data.tell_labels=false"], "set data.tell_labels = true"),
        (["strategy.name=hybrid", "executor.kind=none"], "needs trained models, but this run trains none"),
    ],
)
def test_late_errors_leave_no_partial_output(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], sets: list[str], message: str
) -> None:
    out = tmp_path / "out"
    arguments = [part for item in sets for part in ("--set", item)]
    assert fedtempo("run", config, "--out", out, *arguments) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert not out.exists()


def test_missing_data_are_reported_with_the_searched_folders_and_a_remedy(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDTEMPO_DATA", str(tmp_path))
    world._loaded.cache_clear()  # an earlier test of this process may have loaded them
    assert fedtempo("run", config, "--set", "data.source=fashion-mnist", "--out", tmp_path / "out") == 2
    printed = capsys.readouterr().err
    assert str(tmp_path / "fashion-mnist") in printed
    assert "unset FEDTEMPO_DATA and run `apt-get install dataset-fashion-mnist`" in printed


def test_compare_shares_the_world_and_writes_the_table_as_json(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    names = "fedhusky,hybrid,sequential,fedavg,momentum"
    assert fedtempo("compare", config, "--strategies", names, "--seeds", "1-2", "--out", out) == 0
    comparison = json.loads((out / "comparison.json").read_text())
    assert list(comparison["strategies"]) == names.split(",")
    assert comparison["strategies"]["hybrid"]["seeds"] == [1, 2]
    runs = [load_run(out / f"{name}-seed{seed}") for name in names.split(",") for seed in (1, 2)]
    for seed in (1, 2):
        same_seed = [run for run in runs if run.facts["seed"] == seed]
        assert len({json.dumps(run.facts["label_histograms"]) for run in same_seed}) == 1
        first = {run.evaluations["accuracy"][0] for run in same_seed}
        assert len(first) == 1, "all competitors start from the same model"
    assert (out / "report.html").stat().st_size > 1_000_000
    printed = capsys.readouterr().out
    assert all(name in printed for name in names.split(","))
    assert fedtempo("compare", config, "--strategies", "fedavg", "--out", out) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--strategies", "fedavg,fedavg"], "duplicate name 'fedavg'"),
        (["--strategies", ","], "name at least one"),
        (["--strategies", "fedavgg"], "did you mean 'fedavg'"),
        (["--strategies", "fedavg", "--seeds", "3-1"], "is a descending range"),
        (["--strategies", "fedavg", "--seeds", "a"], "write whole numbers such as 1-5"),
        (["--strategies", "fedavg", "--seeds", "1,1"], "duplicate seed 1"),
    ],
)
def test_compare_rejects_incomparable_runs(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert fedtempo("compare", config, *arguments, "--out", tmp_path / "out") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_assignment_can_define_a_whole_competitor(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "compare.other={strategy={name='fedavg'},training={lr=0.2}}"
    assert fedtempo("plan", config, "--strategies", "fedavg,other", "--set", table) == 0
    assert "other" in capsys.readouterr().out


def test_plan_predicts_without_training(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fedtempo("plan", config, "--strategies", "fedhusky,hybrid,fedavg") == 0
    printed = capsys.readouterr().out
    assert "Predicted, without training" in printed
    assert [name for name in ("fedhusky", "hybrid", "fedavg") if name in printed] == ["fedhusky", "hybrid", "fedavg"]


def test_report_and_export_read_run_folders(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert fedtempo("compare", config, "--strategies", "fedavg,momentum", "--out", out) == 0
    assert fedtempo("report", out, "--out", tmp_path / "page.html") == 0
    assert "momentum" in (tmp_path / "page.html").read_text()
    assert fedtempo("export", out / "fedavg-seed1", "--to", "csv", "--out", tmp_path / "tables") == 0
    header = (tmp_path / "tables" / "visits.csv").read_text().splitlines()[0]
    assert "client" in header
    assert fedtempo("export", out / "fedavg-seed1", "--to", "xls") == 2
    assert fedtempo("report", tmp_path / "nothing") == 2
    assert "is not a run folder" in capsys.readouterr().err


def test_check_reports_that_every_bit_agrees(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fedtempo("check", config, "--set", "run.horizon=10.0") == 0
    assert "every bit agrees" in capsys.readouterr().out


def test_list_and_describe_explain_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert fedtempo("list") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("fedhusky", "path-loss", "lenet", "dirichlet", "fashion-mnist"))
    for name in ("fedhusky", "path-loss", "[run]", "training", "uniform", "digits"):
        assert fedtempo("describe", name) == 0
    printed = capsys.readouterr().out
    assert "zeta in Eq. 18" in " ".join(printed.split())
    assert fedtempo("list", "strategie") == 2
    assert fedtempo("describe", "fedhuski") == 2
    assert "did you mean 'fedhusky'" in capsys.readouterr().err


def test_reproduce_draws_figures_and_prints_the_papers_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fedtempo("reproduce", "--list") == 0
    printed = capsys.readouterr().out
    assert "the papers' 31 figures and tables" in printed
    assert "…" not in printed, "no word is cut"
    assert fedtempo("reproduce", "--list", "--ids") == 0
    assert len(capsys.readouterr().out.split()) == 31
    out = tmp_path / "out"
    assert fedtempo("reproduce", "csgd/example1", "--out", out) == 0
    left = {path.name for path in out.iterdir()}
    assert left == {"fig3.png", "fig3.svg", "fig3.json", "result.json", "result.md"}
    results = tmp_path / "results"
    for _ in range(2):  # the second takes the place of the first
        assert fedtempo("reproduce", "csgd/example1", "--results", results) == 0
        assert {path.name for path in (results / "csgd" / "example1").iterdir()} == left
    assert fedtempo("reproduce", "--index", results) == 0
    assert (results / "index.md").exists()
    assert fedtempo("reproduce", "csgd/example1", "--results", results, "--out", tmp_path / "other") == 2
    assert fedtempo("reproduce", "all", "--check", "--results", results, "--scale", "small") == 2
    assert "--check: results keep their scale and data" in capsys.readouterr().err
    assert fedtempo("reproduce", "fedhusky/fig9") == 2
    assert fedtempo("reproduce", "fedhusky/fig8", "--scale", "huge") == 2


def test_ctrl_c_ends_a_run_immediately_and_keeps_the_records(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [shutil.which("fedtempo", path=str(Path(sys.executable).parent)) or "fedtempo", "run", str(config)]
    overrides = ["--set", "run.horizon=1e9", "--set", "executor.kind=processes", "--set", "executor.workers=2"]
    process = subprocess.Popen(
        [*command, *overrides, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whoever runs the tests in the background of a shell has them ignore SIGINT; a user's terminal does not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(ConfigError):  # the file may be there before its tables
                if load_run(out).visits["number"].size > 0:
                    break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, errors = process.communicate(timeout=120)
        assert time.monotonic() - began < 10.0  # two seconds on a quiet machine
    finally:
        process.kill()
    assert process.returncode == 130, errors.decode()
    run = load_run(out)
    assert run.summary is not None
    assert run.summary["ended"] == "interrupted"
    assert run.visits["number"].size > 0


def test_help_does_not_load_heavy_libraries() -> None:
    heavy = "{'torch', 'numpy', 'scipy', 'sklearn', 'pydantic', 'matplotlib', 'plotly'}"
    code = f"import sys, fedtempo.cli.app; print(sorted({heavy} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(("quick", "seeds", "horizon"), [(False, [1, 2, 3], 1000.0), (True, [1], 500.0)])
def test_the_demo_runs_the_comparison_that_it_names(
    quick: bool, seeds: list[int], horizon: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[Any] = []

    def begin(*given: Any) -> None:
        begun.append(given[:4])
        raise Interrupted("stop here")

    monkeypatch.setattr("fedtempo.studies.compare.begin", begin)
    with pytest.raises(Interrupted):
        commands.demo(quick, Path("somewhere"))
    ((folder, base, labels, numbers),) = begun
    assert (folder, base.run.horizon, numbers) == (Path("somewhere"), horizon, seeds)
    named = capsys.readouterr().out
    assert f"--strategies {','.join(labels)} --seeds {'1' if quick else '1-3'}" in named
    assert ("--set run.horizon=500" in named) == quick

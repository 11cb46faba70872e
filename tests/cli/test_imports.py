"""Nothing slow is imported before an error, nor by commands that neither train nor draw."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

DRAWING = ("matplotlib", "plotly", "pyarrow")
HEAVY = ("torch", "scipy.stats", "scipy.optimize", "scipy.special", "scipy.integrate", "sklearn", "pandas", *DRAWING)

PROGRAM = """
import contextlib, io, json, sys
from fedtempo.cli import app as cli

cases, heavy = json.load(sys.stdin)
answers = []
for arguments in cases:
    sys.argv = ["fedtempo", *arguments]
    code = 0
    said = io.StringIO()
    cli.errors.file = cli.console.file = said
    with contextlib.redirect_stdout(said):
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code or 0
    answers.append([code, said.getvalue(), [name for name in heavy if name in sys.modules]])
print(json.dumps(answers))
"""
"""Runs commands one after the other in one process; what one has imported stays imported for the next."""

CONFIG = """
[run]
horizon = 20.0
[data]
source = "digits"
clients = 5
[fleet]
compute = { unit = "s/visit", speed = 2.0 }
link = "none"
estimates = "exact"
[strategy]
name = "fedavg"
clients_per_round = 3
"""


class Case(NamedTuple):
    """A command, its exit code, a part of what it says, and which of HEAVY it may import."""

    command: str
    code: int
    says: str = ""
    may_import: tuple[str, ...] = ()


CASES = [
    Case("--help", 0, "Usage"),
    Case("run nothing.toml", 2, "nothing.toml"),
    Case("run broken.toml", 2, "not valid TOML"),
    Case("run ok.toml --set run.horizn=3", 2, "run.horizn: unknown key"),
    Case("run ok.toml --set training.lr=-1", 2, "training.lr = -1"),
    Case("run ok.toml --set model.network=lenett", 2, "model.network = 'lenett'"),
    Case("run ok.toml --set training.optimizer=adamm", 2, "training.optimizer = 'adamm'"),
    Case("run ok.toml --set training.loss=squarred", 2, "training.loss = 'squarred'"),
    Case("run ok.toml --set strategy.name=nobody:Class", 2, "strategy.name"),
    Case("list", 0, "fedhusky"),
    Case("list networks", 0, "lenet"),
    Case("describe fedhusky", 0),
    Case("describe lenet", 0),
    Case("describe training", 0),
    Case("describe nobody", 2, "describe nobody"),
    Case("doctor", 0, "PyTorch"),
    Case("new planet x", 2, "new planet"),
    Case("new strategy my-idea --folder made", 0, "my_idea"),
    Case("report empty", 2, "empty"),
    Case("export empty", 2, "empty"),
    Case("compare ok.toml --strategies nobody", 2, "nobody"),
    Case("compare ok.toml --strategies fedavg --seeds 1,1", 2, "1,1"),
    Case("compare ok.toml --strategies fedavg --track nowhere", 2, "nowhere"),
    Case("compare ok.toml --strategies fedavg,fedavg", 2, "fedavg,fedavg"),
    Case("compare ok.toml --strategies fedavg --out full", 2, "full"),
    Case("tune ok.toml --strategies fedavg --lr high", 2, "--lr high"),
    Case("tune ok.toml --strategies fedavg --seeds x", 2, "--seeds x"),
    Case("sweep ok.toml --grid training.lr=-1", 2, "training.lr = -1"),
    Case("sweep ok.toml --grid run.seed=1,2", 2, "grid run.seed"),
    Case("table empty", 2, "empty"),
    Case("figure accuracy empty", 2, "empty"),
    Case("tune nothing.toml --strategies fedavg", 2, "nothing.toml"),
    Case("advise ok.toml --budget much", 2, "budget = much"),
    Case("advise nothing.toml", 2, "nothing.toml"),
    Case("check nothing.toml", 2, "nothing.toml"),
    Case("plan nothing.toml", 2, "nothing.toml"),
    Case("resume empty", 2, "empty"),
    Case("watch nothing", 2, "nothing"),
    Case("deploy nothing.toml", 2),
    Case("client nothing.toml", 2),
    Case("fleet plot nothing.toml --out fleet.png", 2, "nothing.toml"),
    Case("fleet export nothing.toml --out fleet.json", 2, "nothing.toml"),
    Case("fleet events nothing.json --out trace.csv", 2, "nothing.json"),
    Case("fetch digits", 2, "digits: nothing to fetch"),
    Case("fleet fit nothing.csv --column x", 2, "nothing.csv"),
    Case("reproduce --list", 0, "fedhusky/fig5"),
    Case("reproduce --ids", 0, "fedhusky/fig5"),
    Case("reproduce nobody/fig1", 2, "nobody/fig1"),
    Case("run ok.toml --set executor.kind=none --set model.size_bytes=1000 --out done", 0, "", HEAVY[1:]),
    Case("plan ok.toml --set model.size_bytes=1000", 0, "Predicted", HEAVY[1:]),
    Case("report done", 0, "report.html", HEAVY[1:]),
    Case("export done --to csv", 0, "visits.csv", HEAVY[1:]),
    Case("table done", 0, "moved", HEAVY[1:]),
    Case("table done --to papyrus", 2, "papyrus", HEAVY[1:]),
    Case("figure busy done --out busy.pdf", 0, "busy.pdf", HEAVY[1:]),
    Case("export done --to papyrus", 2, "papyrus", HEAVY[1:]),
    Case("resume done", 0, "report.html", HEAVY[1:]),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, list[str]]]:
    """Of each command its exit code, what it said, and what of HEAVY had been imported by its end."""
    folder = tmp_path_factory.mktemp("imports")
    (folder / "ok.toml").write_text(CONFIG)
    (folder / "broken.toml").write_text("[run\n")
    (folder / "empty").mkdir()
    (folder / "made").mkdir()
    (folder / "full").mkdir()
    (folder / "full" / "file").write_text("here")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([[case.command.split() for case in CASES], HEAVY]),
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    told: list[Any] = json.loads(ended.stdout.splitlines()[-1])
    return {case.command: tuple(answer) for case, answer in zip(CASES, told, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.command)
def test_no_slow_module_is_imported(case: Case, answers: dict[str, tuple[int, str, list[str]]]) -> None:
    code, said, imported = answers[case.command]
    assert code == case.code, said
    assert case.says in said
    assert set(imported) <= set(case.may_import)


def test_an_unknown_key_is_reported_before_numpy_or_a_strategy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "ok.toml").write_text(CONFIG)
    unneeded = ["numpy", "asyncio", "filelock", "fedtempo.strategies.fedavg", "fedtempo.fleet.fleet", "fedtempo.api"]
    for key in ("run.horizn", "data.clientz", "training.rate", "executor.worker"):
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps([[["run", "ok.toml", "--set", f"{key}=3"]], unneeded]),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=100,
        )
        [[code, said, imported]] = json.loads(ended.stdout.splitlines()[-1])
        assert (code, imported) == (2, [])
        assert f"{key}: unknown key" in said


@pytest.mark.parametrize("module", sorted(path.stem for path in (ROOT / "fedtempo/cli").glob("[!_]*.py")))
def test_modules_of_commands_import_nothing_slow(module: str) -> None:
    slow = {*HEAVY, "numpy", "scipy", "pydantic", "jinja2"}
    code = f"import sys, fedtempo.cli.{module}; print(*({slow} & sys.modules.keys()))"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert imported.stdout.split() == []


def test_the_options_use_the_right_name_of_a_runs_database() -> None:
    from fedtempo.cli.options import DATABASE
    from fedtempo.record import schema

    assert DATABASE == schema.DATABASE


def test_the_program_ends_with_the_error_and_its_code(tmp_path: Path) -> None:
    (tmp_path / "ok.toml").write_text(CONFIG)
    command = [sys.executable, "-m", "fedtempo", "run", "ok.toml", "--set", "strategy.clients=3"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: strategy.clients: unknown key")
    assert ended.stderr.endswith("\n")

"""`fedtempo sweep`, `table` and `figure` from end to end, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_commands import fedtempo

SCHEDULE = """
[run]
horizon = 10.0
[data]
source = "digits"
clients = 4
examples_per_client = 10
[model]
network = "logistic"
size_bytes = 1000
[fleet]
compute = { unit = "s/visit", speed = 1.0 }
link = "none"
estimates = "exact"
[strategy]
name = "fedavg"
clients_per_round = 2
[executor]
kind = "none"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a configuration and its sweep."""
    folder = tmp_path_factory.mktemp("papers")
    (folder / "small.toml").write_text(SCHEDULE)
    code = fedtempo(
        *("sweep", folder / "small.toml", "--grid", "fleet.compute.speed=1.0,2.0", "--seeds", "1-2"),
        *("--strategies", "fedavg,sequential", "--jobs", "1", "--out", folder / "sweep"),
    )
    assert code == 0
    return folder


def test_the_same_command_finds_its_sweep_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["sweep", folder / "small.toml", "--grid", "strategy.clients_per_round=1,2", "--jobs", "1"]
    assert fedtempo(*command) == 0
    (made,) = (tmp_path / "runs").iterdir()
    assert fedtempo(*command) == 0
    assert [made] == list((tmp_path / "runs").iterdir())
    assert fedtempo(*command, "--set", "run.horizon=5") == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2
    capsys.readouterr()
    assert fedtempo("resume", made) == 0
    assert "clients_per_round=2" in capsys.readouterr().out


def test_the_commands_for_slurm_can_be_pasted(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "my sweep"
    command = ["sweep", folder / "small.toml", "--grid", "strategy.clients_per_round=1,2", "--slurm", "--out", out]
    assert fedtempo(*command) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"sbatch '{out}/sweep.sbatch'", f"then: fedtempo sweep --collect '{out}'"]


def test_tables_are_printed_or_written(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--rows", "strategy", "--columns", "fleet.compute.speed,visits", "--name", "fedavg=FedAvg"]
    assert fedtempo("table", folder / "sweep", *options) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "| strategy | speed = 1.0 | speed = 2.0 |",
        "| --- | ---: | ---: |",
        "| FedAvg | 20 ± 0 | 10 ± 0 |",
    ]
    assert fedtempo("table", folder / "sweep", *options, "--out", tmp_path / "table.tex") == 0
    assert r"FedAvg & 20 $\pm$ 0 & 10 $\pm$ 0 \\" in (tmp_path / "table.tex").read_text()
    capsys.readouterr()
    assert fedtempo("table", folder / "sweep", "--where", "fleet.compute.speed=2.0", "--to", "csv") == 0
    assert capsys.readouterr().out.startswith("strategy,busy_ratio,")


def test_figures_are_drawn_at_a_columns_width(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert fedtempo("figure", "busy", folder / "sweep", "--width", "84mm", "--style", "grayscale") == 0
    assert Path("busy.pdf").read_bytes().startswith(b"%PDF")
    assert fedtempo("figure", "all", folder / "sweep") == 0
    drawn = {path.stem for path in Path("figures").iterdir()}
    assert {"busy", "alive", "calendars", "participation", "labels"} <= drawn
    assert not drawn & {"accuracy", "loss", "places"}  # nothing was trained
    capsys.readouterr()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sweep small.toml", "grid: give at least one key"),
        ("sweep", "sweep: name a configuration file, or a folder with --collect"),
        ("sweep small.toml --grid training.lr", "--grid training.lr: write it as"),
        ("sweep small.toml --grid training.lrr=1 --out new", "training.lrr: unknown key; did you mean 'lr'"),
        ("sweep small.toml --collect sweep", "take no configuration"),
        ("sweep --task 1", "--task: name the sweep's folder with --out"),
        ("sweep --collect .", "holds no comparison or sweep"),
        ("table sweep --columns bites", "bites: nothing that a table can show; did you mean 'bytes'?"),
        ("table sweep --rows strategy --columns visits", "in one cell but differ in fleet.compute.speed"),
        ("table sweep --to word", "to = 'word': no such format (choose from csv, latex, markdown)"),
        ("table sweep --out table.doc", ".doc: choose a format from latex, markdown, csv"),
        ("table sweep --name fedavg", "--name fedavg: write it as OLD=NEW"),
        (
            "figure acuracy sweep",
            "figure 'acuracy': no such figure; did you mean 'accuracy'? (choose from accuracy, alive",
        ),
        ("figure busy sweep --width 84", "width or height 84: write column, page"),
        ("figure busy sweep --style nostyle", "style 'nostyle': neither a file"),
        ("figure accuracy sweep", "nothing to draw here"),
        ("figure busy sweep sweep", "are the same run twice"),
        ("tune small.toml --strategies fedavg --over training.lr=1:0.1", "1 must be below 0.1"),
    ],
)
def test_mistakes_get_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    before = set(folder.iterdir())
    capsys.readouterr()
    assert fedtempo(*command.split()) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert set(folder.iterdir()) == before

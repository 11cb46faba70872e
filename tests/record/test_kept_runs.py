"""Run folders of earlier versions: every version opens, reports and exports those of all versions before it.

tests/kept/VERSION/NAME is a folder as that version wrote it, without its report. A release adds one (CONTRIBUTING.md).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from packaging.version import Version

from fedtempo import open_run
from fedtempo.record import load_run
from fedtempo.version import __version__

KEPT = Path(__file__).parents[1] / "kept"
FOLDERS = sorted(path.parent for path in KEPT.glob("*/*/run.sqlite"))


@pytest.fixture(params=FOLDERS, ids=lambda path: path.relative_to(KEPT).as_posix())
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / "run"))


def test_this_version_keeps_a_run() -> None:
    released = Version(__version__).base_version
    assert released in {path.parent.name for path in FOLDERS}, f"put a run of {released} into tests/kept/{released}"


def test_a_kept_run_opens_with_the_numbers_that_it_was_written_with(folder: Path) -> None:
    written = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    run = load_run(folder)
    assert len(run.visits["client"]) >= written["visits"] > 0
    assert run.evaluations["accuracy"][-1] == written["final_accuracy"]
    assert max(run.evaluations["accuracy"]) == written["best_accuracy"]
    result = open_run(folder)
    for name in ("strategy", "ended", "visits", "commits", "final_accuracy"):
        assert result.summary[name] == written[name], name


def test_a_kept_run_can_be_reported_and_exported(folder: Path) -> None:
    result = open_run(folder)
    page = result.report(folder / "report.html")
    assert "<html" in page.read_text(encoding="utf-8")[:1000]
    tables = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in result.export("csv")}
    assert len(tables["visits"]) == 1 + len(load_run(folder).visits["client"])
    state = torch.load(result.export_model("pt"), weights_only=True)
    assert sum(values.numel() for values in state.values()) > 0

"""What the pages about Python, fleets and advice show can be run as it stands."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fedtempo import cli
from fedtempo.config import parse

DOCS = Path(__file__).parents[1] / "docs"
CONFIG = """
run.horizon = 20.0
data = { source = "digits", clients = 5, examples_per_client = 20 }
model.network = "logistic"
strategy.name = "fedavg"
[fleet]
compute = { unit = "s/visit", kind = "uniform", low = 1.0, high = 3.0 }
link = { kind = "path-loss" }
estimates = "exact"
"""


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page; language: what stands after the fence."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in found if name == language]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with what the pages speak of."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    (tmp_path / "config.toml").write_text(CONFIG, encoding="utf-8")
    phones = [
        f"{i},{rng.uniform(20, 90):.1f},{rng.uniform(2e3, 9e3):.0f},{rng.uniform(2e2, 9e2):.0f}" for i in range(9)
    ]
    (tmp_path / "phones.csv").write_text("\n".join(["phone,ms,down,up", *phones]), encoding="utf-8")
    times = [f"{i % 50},{rng.exponential(4.0) + 0.01:.4f}" for i in range(150)]
    (tmp_path / "times.csv").write_text("\n".join(["device,seconds", *times]), encoding="utf-8")
    capacity = {str(i): {"computation": 20.0 + i, "communication": 1000.0} for i in range(120)}
    (tmp_path / "capacity.json").write_text(json.dumps(capacity), encoding="utf-8")
    behave = {str(i): {"active": [0], "inactive": [50 + i], "finish_time": 400} for i in range(120)}
    (tmp_path / "behave.json").write_text(json.dumps(behave), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("page", "leaves"), [("python.md", {"accuracy.svg", "report.html"}), ("advise.md", set())])
def test_python_of_a_page_runs_from_top_to_bottom(
    page: str, leaves: set[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(compile(block, page, "exec"), module.__dict__)  # noqa: S102  a page of ours
    assert leaves <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("page", ["fleets.md", "advise.md"])
def test_commands_of_a_page_run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # no processes
    lines = [line for block in blocks(page, "") for line in block.splitlines() if line.startswith("fedtempo ")]
    assert lines
    for line in lines:
        cli.app(shlex.split(line)[1:], standalone_mode=False)


def test_tables_of_the_page_about_fleets_are_fleets(folder: Path) -> None:
    import tomllib

    cli.app(shlex.split(blocks("fleets.md", "")[0].strip())[1:], standalone_mode=False)
    made: list[Any] = [tomllib.loads(block) for block in blocks("fleets.md", "toml")]
    fleets = [table["fleet"] for table in made if "fleet" in table]
    assert len(fleets) == 2
    for fleet in fleets:
        config = parse({"run": {"horizon": 9.0}, "strategy": {"name": "fedavg"}, "fleet": fleet})
        assert config.fleet.compute.unit == "s/example"

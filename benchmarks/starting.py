"""Start-up times: help, a list, an error, and from `fedtempo run` to the first training step.

Seconds depend on the machine and are only shown. The gates are on ratios to `python -c "import torch"`, timed in
the same run (`against_torch_import`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor, nn

from benchmarks.figures import Figure, figure, interleaved, ratios
from benchmarks.peers.protocol import ROOT

GATES = {"start_help": 0.2, "start_list": 0.5, "start_error": 0.5, "start_first_visit": 2.0}
"""Largest ratio to importing PyTorch."""

MARK = "FEDTEMPO_BENCHMARK_MARK"
"""Names the file in which a training that begins says when."""

CONFIG = """
[run]
horizon = 30.0

[data]
source = "digits"
clients = 10

[model]
network = "benchmarks.starting:Marking"

[fleet]
link = "none"
estimates = "exact"
compute = {unit = "s/visit", speed = 1.0}

[strategy]
name = "fedavg"
"""


class Marking(nn.Module):
    """A small network that says when it is first trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            mark = Path(os.environ[MARK])
            if not mark.exists():
                mark.write_text(repr(time.time()))
        logits: Tensor = self.layers(x)
        return logits


def fedtempo(*arguments: str, code: int = 0, environment: Mapping[str, str] | None = None) -> None:
    """The command, to its end, from the repository's root. Raises CalledProcessError if its exit code is not `code`.

    Python may keep bytecode, as an installed program's is.
    """
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "fedtempo", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if code else None,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "", **(environment or {})},
    )
    if ended.returncode != code:
        raise subprocess.CalledProcessError(ended.returncode, ended.args)


def print_help() -> None:
    fedtempo("--help")


def print_list() -> None:
    fedtempo("list")


def report_error() -> None:
    """Run a configuration that has an unknown key."""
    fedtempo("run", "configs/fedhusky.toml", "--set", "run.horizn=30", code=2)


def first_visit_s() -> float:
    """From the start of the process to the first training step of any worker."""
    with tempfile.TemporaryDirectory() as folder:
        config, mark = Path(folder, "run.toml"), Path(folder, "mark")
        config.write_text(CONFIG)
        began = time.time()
        fedtempo("run", str(config), "--out", str(Path(folder, "run")), environment={MARK: str(mark)})
        return float(mark.read_text()) - began


def import_torch() -> None:
    """Import PyTorch in a new process."""
    subprocess.run([sys.executable, "-c", "import torch"], check=True)


def against_torch_import(
    ways: Mapping[str, Callable[[], float | None]], gates: Mapping[str, float], repetitions: int
) -> list[Figure]:
    """Return two figures per way: NAME_s, its seconds, and NAME_vs_torch, their ratio to importing PyTorch.

    All ways and the import take turns; the first turn of each reads from the disk and is dropped.

    ways: functions to time, by name (see `interleaved`). gates: largest ratio allowed; no gate for names without one.
    """
    seconds = interleaved({"torch": import_torch, **ways}, repetitions)
    figures = []
    for name in ways:
        figures.append(figure(f"{name}_s", seconds[name], "s"))
        to_torch = ratios(seconds[name], seconds["torch"])
        figures.append(figure(f"{name}_vs_torch", to_torch, "x", gates.get(name), lower=True))
    return figures


def figures(repetitions: int = 7) -> list[Figure]:
    """Return seconds of each command, and their ratios to importing PyTorch."""
    ways = {
        "start_help": print_help,
        "start_list": print_list,
        "start_error": report_error,
        "start_first_visit": first_visit_s,
    }
    return against_torch_import(ways, GATES, repetitions)

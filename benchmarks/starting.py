"""How long until something happens: `fedtempo --help`, and from `fedtempo run` to the first visit's training."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from torch import Tensor, nn

from benchmarks.figures import Figure, figure
from benchmarks.peers.protocol import ROOT

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


def fedtempo(*arguments: str, **environment: str) -> None:
    """The command, to its end, from the repository's root. Raises CalledProcessError where it fails."""
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "fedtempo", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def help_s() -> float:
    began = time.perf_counter()
    fedtempo("--help")
    return time.perf_counter() - began


def first_visit_s() -> float:
    """From the start of the process to the first training step of any worker."""
    with tempfile.TemporaryDirectory() as folder:
        config, mark = Path(folder, "run.toml"), Path(folder, "mark")
        config.write_text(CONFIG)
        began = time.time()
        fedtempo("run", str(config), "--out", str(Path(folder, "run")), **{MARK: str(mark)})
        return float(mark.read_text()) - began


def figures(repetitions: int = 7) -> list[Figure]:
    """start_help_s and start_first_visit_s; the first of each, which reads from the disk, is dropped."""
    return [
        figure("start_help_s", [help_s() for _ in range(1 + repetitions)][1:], "s", 0.3, lower=True),
        figure("start_first_visit_s", [first_visit_s() for _ in range(1 + repetitions)][1:], "s", 3.0, lower=True),
    ]

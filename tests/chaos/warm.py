"""What the server of forked lives has in memory: everything imported, and a run behind it."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import fedtempo.deploy.run
import tests.chaos.driver
import tests.chaos.simulations
from fedtempo.runs.run import Run
from tests.crash import lives

__all__ = ["fedtempo", "tests"]

with tempfile.TemporaryDirectory() as folder:  # a run imports some hundred modules of PyTorch's and Plotly's
    Run(lives.config("fedavg", {"run.horizon": 5.0, "data.clients": 4})).complete(Path(folder) / "run")
if threading.active_count() != 1:
    raise RuntimeError(f"a process with threads cannot be forked: {threading.enumerate()}")

"""Everything that affects a run's bits is hashed before it is resumed or taken from the cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fedtempo
from fedtempo.runs.identity import deciding_files

ONE_RUN = """
import sys
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
run(parse({
    "run": {"horizon": 5.0},
    "data": {"source": "digits", "clients": 4, "examples_per_client": 10, "test_examples": 20},
    "model": {"network": "mlp", "hidden": [4]},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": {"kind": "lte"}, "estimates": "exact"},
    "strategy": {"name": "STRATEGY"},
    "executor": {"kind": "EXECUTOR"},
}))
print(*(module.__file__ for name, module in sys.modules.items() if name.startswith("fedtempo") and module.__file__))
"""


def test_every_module_that_affects_results_is_hashed() -> None:
    root = Path(fedtempo.__file__).parent
    hashed = {path.relative_to(root).as_posix() for path in deciding_files()}
    needed: set[str] = set()
    for strategy, executor in (("fedhusky", "inline"), ("psfl", "processes")):
        script = ONE_RUN.replace("STRATEGY", strategy).replace("EXECUTOR", executor)
        printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        needed |= {Path(file).relative_to(root).as_posix() for file in printed.split()}
    assert {"runs/world.py", "runs/launch.py", "parts/construct.py", "learning/stack.py"} <= needed
    assert needed <= hashed


def test_modules_that_only_display_or_compare_do_not_prevent_resuming() -> None:
    root = Path(fedtempo.__file__).parent
    rooms = {path.relative_to(root).parts[0] for path in deciding_files()}
    assert not rooms & {"api", "cli", "report", "studies"}

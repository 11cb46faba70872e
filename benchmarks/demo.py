"""Keep what the README says about the demo: the comparison of `fedtempo demo`, and one with server momentum.

    python -m benchmarks.demo [--out runs/demo] [--json docs/results/demo.json]

Comparisons that are finished below the folder are not run again; `fedtempo resume` continues an interrupted one. All
take about two minutes on two processors. A test compares the README with the file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fedtempo.api.experiment import Experiment
from fedtempo.record import write_json

COMPARISONS = {"demo": "fedhusky,hybrid,sequential,fedavg", "momentum": "fedhusky,fedavg-momentum"}
"""Strategies by the name of the comparison; "demo" is what `fedtempo demo` compares."""

SEEDS = (1, 2, 3)


def comparison(name: str, folder: Path) -> dict[str, Any]:
    """Return the facts of a comparison (`fedtempo.record.compare`), after running it if it is not in the folder yet."""
    if not (folder / "comparison.json").exists():
        Experiment.shipped("fedhusky").compare(COMPARISONS[name], SEEDS, folder)
    return read(folder / "comparison.json")


def read(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--json", type=Path, default=Path("docs/results/demo.json"))
    arguments = parser.parse_args()
    compared = {name: comparison(name, arguments.out / name) for name in COMPARISONS}
    environment = read(arguments.out / "demo" / "fedhusky-seed1" / "environment.json")
    command = "python -m benchmarks.demo"
    write_json(arguments.json, {"command": command, "environment": environment, "comparisons": compared})

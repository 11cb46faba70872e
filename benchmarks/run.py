"""`make bench`: every benchmark in turn, each with what it is held to. Ratios come from the same run."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent


def load(name: str) -> ModuleType:
    """A benchmark beside this file."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Run them all."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name, gate in (
        ("clock", "gate: at least 30,000 visits/s"),
        ("planner", "gate: median feasible call at most 5 ms, whole schedule at most 6 s"),
        ("overhead", ""),
        ("journal", ""),
    ):
        print(f"\n{name}  {gate}")
        load(name).main()


if __name__ == "__main__":
    main()

"""Reads files that would fill memory, each in a process that may map 1 GB, and says what came of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.report.fake_runs import fake_run

ROOT = Path(__file__).parents[1]
MOST_BYTES = 6_000_000
TAKES = r"takes? [\d,]+ bytes of memory, more than [\d,]+"
RUN_FILES = {"config.toml", "summary.json", "run.sqlite"}


class Bomb(NamedTuple):
    """A small file of large content. kind: how it is read (`tests.read_bombs`); error: a pattern in the answer."""

    kind: str
    file: str
    make: Callable[[Path], None]
    error: str


def outcomes_of(bombs: Mapping[str, Bomb], root: Path) -> dict[str, str]:
    """Return what reading each file said."""
    for number, (name, bomb) in enumerate(bombs.items()):
        path = root / str(number) / bomb.file
        if bomb.file in RUN_FILES:
            fake_run(path.parent, "hybrid", 1, n_clients=20, horizon=50.0)
        else:
            path.parent.mkdir()
        bomb.make(path)
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        assert sum(each.stat().st_size for each in files) < MOST_BYTES, name
    program = [sys.executable, "-m", "tests.read_bombs", str(root), json.dumps([row[:2] for row in bombs.values()])]
    environment = {**os.environ, "XDG_CACHE_HOME": str(root / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, capture_output=True, text=True, timeout=550, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(bombs, json.loads(done.stdout.splitlines()[-1]), strict=True))


def must_be_refused(said: str, error: str) -> None:
    assert "\n" not in said
    assert re.search(f"^(ConfigError|RunError): .*({error})", said), said[:500]

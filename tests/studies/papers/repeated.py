"""An exhibit run twice, the second time with the runs and choices of the first in the cache."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedtempo.studies.papers.output import run_exhibit
from fedtempo.studies.papers.registry import EXHIBITS
from fedtempo.studies.papers.reproduction import Request


def results_of_two_runs(name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Run an exhibit twice at small scale with a cache of its own; return what each wrote to `file`.

    Times of the processor are left out: two processes may make the same run at once, and the cache keeps the last.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    results = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        run_exhibit(EXHIBITS[name], Request("small", folder))
        results.append(json.loads((folder / file).read_text(), object_hook=_without_cpu_s))
    return results


def _without_cpu_s(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "cpu_s"}

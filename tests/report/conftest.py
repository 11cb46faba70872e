"""Runs for the tests of this folder, created once."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def fakes():
    """Return the module fake_runs."""
    spec = importlib.util.spec_from_file_location("fake_runs", Path(__file__).parent / "fake_runs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def runs(fakes, tmp_path_factory):
    """Return runs of three seeds for each strategy."""
    return fakes.fake_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def by_strategy(runs):
    groups = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    return groups

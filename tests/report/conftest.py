"""Runs for the tests of this folder, made once."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def fakes():
    """The module fake_runs."""
    spec = importlib.util.spec_from_file_location("fake_runs", Path(__file__).parent / "fake_runs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def runs(fakes, tmp_path_factory):
    """Three seeds of each strategy."""
    return fakes.fake_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def by_strategy(runs):
    groups = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    return groups

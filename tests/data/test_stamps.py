"""Files of data sets that change while a process goes on, as in a notebook."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedtempo.data.stamps import stamp
from fedtempo.runs.config import parse
from fedtempo.runs.world import load_data
from tests.strategies.test_every_strategy import BASE


def test_a_stamp_changes_with_each_file_that_a_source_reads(tmp_path: Path) -> None:
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    files = {
        "table": ("rows.csv", ["rows.csv", "new.csv", "held.csv"]),
        "folder": ("photos", ["photos/cat/1.png"]),
        "tff": ("a_train.h5", ["a_train.h5", "a_test.h5"]),
    }
    options = {"test": "new.csv", "validation": "held.csv", "thousands": "."}
    for kind, (name, names) in files.items():
        seen = {stamp(f"{kind}:{tmp_path / name}", options)}
        for number, file in enumerate(names):
            (tmp_path / file).write_text("x" * number)
            seen.add(stamp(f"{kind}:{tmp_path / name}", options))
        assert len(seen) == 1 + len(names), kind
        assert stamp(f"{kind}:{tmp_path / name}", options) in seen


@pytest.mark.parametrize(
    "source", ["digits", "my_data:my_data", "npz:/no/such/file.npz", "npz:~nobody-at-all/x", "npz:", "npz:\0"]
)
def test_what_is_no_file_has_the_same_stamp(source: str) -> None:
    assert stamp(source, {}) == stamp("digits", {})


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    config = parse({**BASE, "data": {"source": f"npz:{path}", "clients": 2}, "strategy": {"name": "fedavg"}})
    hashes = []
    for value in (0.0, 1.0):
        x = np.full((20, 3), value, np.float32)
        np.savez(path, train_x=x, train_y=np.arange(20) % 2, test_x=x, test_y=np.arange(20) % 2)
        data = load_data(config)
        assert load_data(config) is data
        assert data.train_x[0, 0] == value
        hashes.append(data.sha256)
    assert hashes[0] != hashes[1]

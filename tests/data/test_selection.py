"""Some of a data set's examples: in order, sampled, and hashed."""

from __future__ import annotations

import hashlib

import numpy as np

from fedtempo.data.dataset import from_arrays
from fedtempo.data.selection import Selection
from fedtempo.data.validation import Split


def test_examples_come_from_all_splits_in_order() -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])
    data = from_arrays("mine", x, y, x + 100, y, validation=Split(x[:3] + 200, y[:3]))
    chosen = Selection(np.array([1, 4]), np.array([0]), np.array([2, 1]))
    assert chosen.inputs(data)[:, 0].tolist() == [2.0, 8.0, 100.0, 204.0, 202.0]
    assert chosen.labels(data).tolist() == [1, 1, 0, 2, 1]
    assert len(chosen) == 5
    fewer = chosen.sample(np.array([1, 2, 4]))
    assert fewer.inputs(data)[:, 0].tolist() == [8.0, 100.0, 202.0]
    assert Selection().labels(data).tolist() == []
    assert Selection(test=np.array([5])).inputs(data).tolist() == [[110.0, 111.0]]

    def hashed(selection: Selection) -> str:
        digest = hashlib.sha256()
        selection.hash_into(digest.update)
        return digest.hexdigest()

    rows = np.array([1])
    assert len({hashed(each) for each in (Selection(rows), Selection(test=rows), Selection(validation=rows))}) == 3

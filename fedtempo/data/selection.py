"""Some of a data set's examples, such as those that a run is tested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, IntArray


def _none() -> IntArray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Selection:
    """Rows of a data set's training, test and validation examples, in this order, int64 (n,) each."""

    train: IntArray = field(default_factory=_none)
    test: IntArray = field(default_factory=_none)
    validation: IntArray = field(default_factory=_none)

    def __len__(self) -> int:
        return len(self.train) + len(self.test) + len(self.validation)

    def inputs(self, dataset: Dataset) -> npt.NDArray[Any]:
        """Return the inputs of these examples, (n, ...)."""
        return self._of(dataset.train_x, dataset.test_x, dataset.validation_x)

    def labels(self, dataset: Dataset) -> npt.NDArray[Any]:
        """Return the labels of these examples, (n, ...)."""
        return self._of(dataset.train_y, dataset.test_y, dataset.validation_y)

    def sample(self, chosen: IntArray) -> Selection:
        """Return some of these examples. chosen: their numbers among these, ascending."""
        first, second = len(self.train), len(self.train) + len(self.test)
        return Selection(
            self.train[chosen[chosen < first]],
            self.test[chosen[(chosen >= first) & (chosen < second)] - first],
            self.validation[chosen[chosen >= second] - second],
        )

    def hash_into(self, update: Callable[[bytes], None]) -> None:
        """Pass the rows to a hash."""
        for rows in (self.train, self.test, self.validation):
            update(b"%d\n" % len(rows))
            update(rows.astype("<i8").tobytes())

    def _of(
        self, train: npt.NDArray[Any], test: npt.NDArray[Any], validation: npt.NDArray[Any] | None
    ) -> npt.NDArray[Any]:
        parts = [train[self.train]] if len(self.train) else []
        parts += [test[self.test]] if len(self.test) else []
        parts += [validation[self.validation]] if validation is not None and len(self.validation) else []
        if not parts:
            return train[:0]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

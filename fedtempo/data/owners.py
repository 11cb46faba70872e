"""Numbers of owners, who are known by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from fedtempo.parts.natural_order import natural


def ordered_names(owners: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct names of owners in natural order."""
    return tuple(sorted(set(owners), key=natural))


def numbered_by_name(owners: Iterable[str], names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the number of each example's owner, (n,); -1 for one that is not among the names."""
    number = {name: i for i, name in enumerate(names)}
    return np.array([number.get(owner, -1) for owner in owners], dtype=np.int64)

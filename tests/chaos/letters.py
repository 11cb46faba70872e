"""Calls and replies as bytes, which can be cut anywhere."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Letter:
    """A message: its content as JSON, and its arrays as NumPy's files."""

    text: str
    arrays: tuple[bytes, ...] = ()

    def cut(self, share: float) -> Letter:
        """Return the letter without the end of its last array, or of its text if it has none."""
        if not self.arrays:
            return replace(self, text=self.text[: int(share * len(self.text))])
        *others, last = self.arrays
        return replace(self, arrays=(*others, last[: int(share * len(last))]))


def written(content: Mapping[str, Any], arrays: Sequence[Any]) -> Letter:
    """Return content and arrays as a letter."""
    files = []
    for array in arrays:
        file = io.BytesIO()
        np.save(file, np.asarray(array), allow_pickle=False)
        files.append(file.getvalue())
    return Letter(json.dumps(content), tuple(files))

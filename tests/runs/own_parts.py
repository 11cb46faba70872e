"""Parts outside fedtempo, for tests."""

from __future__ import annotations

from typing import Any


def shifted(x: Any, generator: Any) -> Any:
    return x + 0.25


def doubled(x: Any) -> Any:
    return 2 * x

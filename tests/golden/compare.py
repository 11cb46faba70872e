"""Comparing nested results with golden values; each difference is an AssertionError that says where."""

from __future__ import annotations

import math
from typing import Any


def _number(value: Any) -> float | None:
    """`value` as a float; "inf" is infinity; None where it is no number."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
        return None
    return float(value)


def close(actual: Any, expected: Any, rel: float = 1e-10, abs: float = 0.0, where: str = "") -> None:
    """Lists and dicts element by element (a dict may hold more than expected), floats within tolerance."""
    if hasattr(actual, "tolist"):
        actual = actual.tolist()
    if isinstance(expected, dict):
        assert isinstance(actual, dict), f"{where}: {actual!r} is no mapping"
        for key, value in expected.items():
            assert key in actual, f"{where}: {key!r} is missing"
            close(actual[key], value, rel, abs, f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        assert isinstance(actual, list | tuple), f"{where}: {actual!r} is no sequence"
        assert len(actual) == len(expected), f"{where}: {len(actual)} elements, expected {len(expected)}"
        for position, (a, e) in enumerate(zip(actual, expected, strict=True)):
            close(a, e, rel, abs, f"{where}[{position}]")
    elif (number := _number(expected)) is not None:
        got = _number(actual)
        assert got is not None, f"{where}: {actual!r} is no number, expected {expected!r}"
        tolerance = 0.0 if isinstance(expected, int) and isinstance(actual, int) else abs
        ok = got == number or math.isclose(got, number, rel_tol=rel, abs_tol=tolerance)
        assert ok, f"{where}: {got!r}, expected {number!r}"
    else:
        same(actual, expected, where)


def same(actual: Any, expected: Any, where: str = "") -> None:
    """Exactly equal, arrays and tuples compared as lists."""

    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return [plain(item) for item in value] if isinstance(value, list | tuple) else value

    assert plain(actual) == plain(expected), f"{where}: {plain(actual)!r}, expected {plain(expected)!r}"

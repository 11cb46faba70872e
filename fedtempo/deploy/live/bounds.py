"""Bounds on what clients say: numbers, text and JSON that the rest of the server can compute with and record."""

from __future__ import annotations

import json
import math
from typing import Any

from fedtempo.errors import FedtempoError
from fedtempo.parts.foreign_text import one_line
from fedtempo.runtime.executors.screening import NOT_FINITE

MAX_EXAMPLES = 10**9
"""Most examples of one client, in all or of one class: sums over many clients are exact."""

MAX_JSON_CHARS = 2**20
"""Longest JSON text of a reply."""

MAX_NUMBER = 1e30
"""Largest magnitude of a statistic: its fourth power is finite, and so are sums of many. What is below
1 / MAX_NUMBER counts as 0, so that reciprocals of other numbers are finite."""

MAX_REASON_CHARS = 500
"""Longest text of a client that is kept: a reason or an error."""


class BadUpdate(FedtempoError):
    """A client sent no usable reply: wrong shape, wrong count, values that are not finite or out of bounds."""


def number(value: Any, name: str, least: float = -MAX_NUMBER) -> float:
    """Return a number of a reply as a float. Raises BadUpdate unless it is one, from `least` to MAX_NUMBER."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadUpdate(f"its {name} is {shown(value)}, not a finite number")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadUpdate(f"its {name} is {value!r}, {NOT_FINITE}")
    if not least <= value <= MAX_NUMBER:
        raise BadUpdate(f"its {name} is {shown(value)}; it must be from {least:g} to {MAX_NUMBER:g}")
    return float(value) if abs(value) >= 1 / MAX_NUMBER else 0.0


def object_of(text: Any) -> dict[str, Any]:
    """Return the object that JSON text holds. Raises ValueError for any other text."""
    if not isinstance(text, str):
        raise ValueError("it has no JSON text")
    if len(text) > MAX_JSON_CHARS:
        raise ValueError(f"its JSON has {len(text)} characters; at most {MAX_JSON_CHARS} are accepted")
    try:
        values = json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError(f"its JSON is a {type(values).__name__}, not an object")
    return values


def shown(value: Any) -> str:
    """Return a value of a client for an error, on one line and not too long."""
    return one_line(repr(value), 60)

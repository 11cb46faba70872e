"""Exact encoding of results as JSON values: numbers, text, arrays, models; lists, tuples and dicts of them."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any

import numpy as np


def encode(value: Any, model: Callable[[Any], int | None]) -> Any:
    """Return `value` as JSON values. model: returns the number that stands for a model, None for any other value.

    Raises TypeError if decoding would not restore the value exactly.
    """
    if (number := model(value)) is not None:
        return {"model": number}
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is list:
        return [encode(item, model) for item in value]
    if kind is tuple:
        return {"tuple": [encode(item, model) for item in value]}
    if kind is dict:
        return {"dict": [[encode(name, model), encode(item, model)] for name, item in value.items()]}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufcSU":
        array = np.asarray(value)
        form = "array" if isinstance(value, np.ndarray) else "scalar"
        return {form: [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]}
    raise TypeError(f"a {kind.__name__} cannot be recorded")


def decode(value: Any, models: list[Any]) -> Any:
    """Return the value that `encode` was given. models: by the numbers that stand for them."""
    if isinstance(value, list):
        return [decode(item, models) for item in value]
    if not isinstance(value, dict):
        return value
    ((form, content),) = value.items()
    match form:
        case "model":
            return models[content]
        case "float":
            return float(content)
        case "tuple":
            return tuple(decode(item, models) for item in content)
        case "dict":
            return {decode(name, models): decode(item, models) for name, item in content}
    dtype, shape, data = content
    array = np.frombuffer(base64.b64decode(data), dtype=dtype).reshape(shape).copy()
    return array if form == "array" else array[()]

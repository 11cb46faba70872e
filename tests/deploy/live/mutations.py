"""Replies that no honest client sends: any field replaced, left out or added, arrays of other kinds, mutated bytes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedtempo.deploy.live.messages import Failure, Reply

NESTED: Any = []
for _ in range(900):
    NESTED = [NESTED]

VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, 2**64, 10**15, 10**30, 10**400, -(10**400)),
    *(float("inf"), float("-inf"), float("nan"), 1e-320, 1e30, 1.1e30, 1e308, 0.5),
    *("", "x", "good", "0", "nan", "9" * 5000, "[/bold]\x1b[2J\nerror: forged", "\ud800", "\u202e", "x" * 10**5),
    *([], [[]], [5, 5], [1] * 11, [10**30], [float("inf")], ["a"], NESTED, {}, {"a": 1}, {"loss": 10**400}),
    *({"": {}}, {"\n": 1.0}, {"loss": 1.0, "\ud800": 1.0}, {str(i): 1.0 for i in range(101)}),
]
ARRAYS: list[Any] = [
    np.zeros((), np.float32),
    np.zeros(0, np.float32),
    np.zeros(3, np.float64),
    np.zeros((2, 2), np.int8),
    np.full(4, np.nan, np.float32),
    np.zeros(4, bool),
    np.zeros(2, np.uint8),
    np.arange(70, dtype=np.int64),
]


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of fields in JSON values, of the first items of lists, and no deeper than three steps."""
    if len(path) == 3:
        return [path]
    if isinstance(value, Mapping):
        return [path, *(inner for key in value for inner in paths_in(value[key], (*path, key)))]
    if isinstance(value, list):
        return [path, *(inner for i in range(min(2, len(value))) for inner in paths_in(value[i], (*path, i)))]
    return [path]


def mutated_content(content: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return JSON values with one or two fields replaced, left out or added."""
    changed: Any = copy.deepcopy(dict(content))
    for _ in range(int(rng.integers(1, 3))):
        path = paths_in(changed)[int(rng.integers(len(paths_in(changed))))]
        value = VALUES[int(rng.integers(len(VALUES)))]
        if not path:
            changed[str(rng.choice(["refused", "extra", "name", "statistics"]))] = value
            continue
        holder = changed
        for step in path[:-1]:
            holder = holder[step]
        if rng.integers(5):
            holder[path[-1]] = value
        else:
            del holder[path[-1]]
    return changed  # type: ignore[no-any-return]


def mutated_array(array: Any, rng: np.random.Generator) -> Any:
    """Return an array with other numbers, another shape or type, or a foreign one."""
    match int(rng.integers(6)):
        case 0:
            return ARRAYS[int(rng.integers(len(ARRAYS)))]
        case 1:
            return array[: int(rng.integers(array.size + 1))]
        case 2:
            return array.astype([np.float64, np.int64, np.uint8, np.float16][int(rng.integers(4))])
        case 3:
            return np.stack([array, array])
        case _:
            data = bytearray(array.tobytes())
            for _ in range(int(rng.integers(1, 20))):
                if data:
                    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
            return np.frombuffer(bytes(data), array.dtype).reshape(array.shape)


def mutated_reply(reply: Reply, rng: np.random.Generator) -> Reply:
    """Return a reply in which something is not as an honest client would send it."""
    arrays = list(reply.arrays)
    match int(rng.integers(8)):
        case 0:
            kind = ("gone", "failed", "crashed")[int(rng.integers(3))]
            return Reply(failure=Failure(kind, str(VALUES[int(rng.integers(14, len(VALUES)))])))  # type: ignore[arg-type]
        case 1 | 2 if arrays:
            at = int(rng.integers(len(arrays)))
            with np.errstate(all="ignore"):
                arrays[at] = mutated_array(arrays[at], rng)
        case 3 if arrays:
            arrays = arrays[:-1] if rng.integers(2) else [*arrays, ARRAYS[int(rng.integers(len(ARRAYS)))]]
        case _:
            return Reply(mutated_content(reply.content, rng), reply.arrays)
    return Reply(reply.content, tuple(arrays))

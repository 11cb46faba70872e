"""Keys of operations: hashes of everything that decides their results.

A key is computed from the bits that go in (hashes of models, not how they came to be), so equal models share results
however they were made, and a result never depends on how faithfully its inputs' history was described.
"""

from __future__ import annotations

import array
import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import numpy as np

from fedtempo.federation import Model
from fedtempo.learning.privacy import private_mean
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Carried, On, Rows
from fedtempo.runtime.executors.arithmetic import Statistics
from fedtempo.runtime.handles import ServerCall

Key = bytes
"""SHA-256, 32 bytes."""

_PURE = ("fedtempo.learning.", "fedtempo.strategies.", "fedtempo.runtime.")
"""Modules whose functions depend on nothing but their arguments, and whose code is part of `Recipes.common`."""


class Unkeyable(Exception):
    """A value cannot be described exactly: a generator, a function of a user."""


@dataclass(frozen=True)
class Recipes:
    """Makes the keys of one run's operations.

    common: hash of everything besides an operation's arguments that decides bits: network, seed, code, versions,
    processor. clients(client): hash of its examples. tests(on): hash of the test examples that a model is evaluated on,
    of how they are batched, and of what is computed from them. data: hash of all training examples. users_code(): hash
    of the code of users, which settings of a visit may name. personalise: the training that tunes a model to a client
    before it is evaluated on the client's own test set.
    """

    common: bytes
    clients: Callable[[int], bytes]
    tests: Callable[[On], bytes]
    data: bytes
    users_code: Callable[[], bytes]
    personalise: Training | None = None

    def train(
        self, model: Key, client: int, visit: int, training: Training, carried: Carried | None, others: Sequence[Key]
    ) -> Key:
        """others: of the payload, then of the client's state if it has one."""
        what: list[bytes] = [self.clients(client), b"%d %d" % (client, visit), self._settings(training)]
        if carried is not None:
            procedure, state = carried.procedure, carried.state is not None
            what.append(encoded((procedure, len(carried.payload), carried.returns, state, carried.numbers)))
            if procedure is not None and ":" in procedure:
                what.append(self.users_code())
        return self._key(b"train", what, [model, *others])

    def train_rows(self, model: Key, rows: Rows, visit: int, training: Training) -> Key:
        """Return the key of a training at the server."""
        chosen = hashlib.sha256(np.ascontiguousarray(rows, dtype="<i8").data).digest()
        return self._key(b"train_rows", [self.data, chosen, b"%d" % visit, self._settings(training)], [model])

    def evaluate(self, model: Key, state: Key | None, on: On = "test") -> Key:
        what = [encoded(on), self.tests(on)]
        if isinstance(on, int) and self.personalise is not None:
            what += [self.clients(on), self._settings(self.personalise)]
        return self._key(b"evaluate", what, [model] if state is None else [model, state])

    def apply(
        self, function: Callable[..., Any], models: Sequence[Key], statistics: Statistics | None, sources: Sequence[Key]
    ) -> Key | None:
        """Return the key of a call at the server; None if its function or an argument cannot be described exactly.

        statistics: see `Executor.apply`. sources: keys of its models.
        """
        try:
            if isinstance(function, ServerCall):
                positional, named = function.arguments
                if function.function is private_mean:  # its generator is made for this call alone
                    named = {**named, "rng": named["rng"].bit_generator.state}
                what = encoded((function.function, positional, named))
            else:
                what = encoded(function)
            combine = b"" if statistics is None else encoded(statistics.combine)
        except Unkeyable:
            return None
        return self._key(b"apply", [what, combine, b"%d" % len(models)], [*models, *sources])

    def _settings(self, training: Training) -> bytes:
        settings, names_code = _settings_of(training)
        return settings + self.users_code() if names_code else settings

    def _key(self, kind: bytes, what: Sequence[bytes], models: Sequence[Key]) -> Key:
        parts = [b"%d %b" % (len(part), part) for part in (kind, *what)]
        return hashlib.sha256(b"".join([self.common, *parts, *models])).digest()


@lru_cache(maxsize=4096)
def _settings_of(training: Training) -> tuple[bytes, bool]:
    """Return a hash of training settings, and whether they name code of users."""
    content = encoded(vars(training))
    names = [value for value in vars(training).values() if isinstance(value, str)]
    return hashlib.sha256(content).digest(), any(":" in name for name in names)


def encoded(value: Any) -> bytes:
    """Return bytes that differ for values that differ, types included; models have their place only.

    Raises Unkeyable unless the value consists of numbers, text, arrays, functions without state from fedtempo, and
    containers of these.
    """
    parts: list[bytes] = []
    _encode(value, parts.append)
    return b"".join(parts)


def _encode(value: Any, put: Callable[[bytes], None]) -> None:
    kind = type(value)
    if value is None or kind is bool:
        put(b"%d" % (2 if value is None else value))
    elif kind is int:
        put(b"i%d;" % value)
    elif kind is float:
        put(b"f" + np.float64(value).tobytes())
    elif kind is str:
        _put_bytes(b"s", value.encode("utf-8", "surrogatepass"), put)
    elif kind is bytes:
        _put_bytes(b"b", value, put)
    elif kind is Model:
        put(b"m")
    elif kind is list or kind is tuple:
        if len(value) > 8 and set(map(type, value)) == {float}:  # weights, of which there may be many
            _put_bytes(b"F" if kind is list else b"T", array.array("d", value).tobytes(), put)
            return
        put(b"%c%d;" % (b"l" if kind is list else b"t", len(value)))
        for item in value:
            _encode(item, put)
    elif isinstance(value, Mapping):
        put(b"d%d;" % len(value))
        for name, item in value.items():
            _encode(name, put)
            _encode(item, put)
    elif isinstance(value, frozenset | set):
        put(b"e%d;" % len(value))
        for item in sorted(map(encoded, value)):
            put(item)
    elif isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
        put(b"a" if isinstance(value, np.ndarray) else b"g")
        _encode((value.dtype.str, value.shape), put)
        put(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, FunctionType) and _is_pure(value):
        _put_bytes(b"x", f"{value.__module__}:{value.__qualname__}".encode(), put)
    elif kind is partial:
        put(b"p")
        _encode((value.func, value.args, value.keywords), put)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type) and _is_ours(kind.__module__):
        _put_bytes(b"c", f"{kind.__module__}:{kind.__qualname__}".encode(), put)
        _encode({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, put)
    else:
        raise Unkeyable(kind.__qualname__)


def _put_bytes(tag: bytes, content: bytes, put: Callable[[bytes], None]) -> None:
    put(b"%c%d;" % (tag, len(content)))
    put(content)


def _is_pure(function: FunctionType) -> bool:
    """Return whether a function is one of fedtempo's own that captures nothing."""
    return _is_ours(function.__module__) and function.__closure__ is None and "<" not in function.__qualname__


def _is_ours(module: str | None) -> bool:
    return module is not None and module.startswith(_PURE)

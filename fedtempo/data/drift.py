"""Drift: labels or inputs of clients that change at instants of the run's clock.

The examples of each phase between two instants are rows of the same arrays: those that change are appended. So a visit
trains on the rows that its client has when it begins to compute, and nothing else about training differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import Dataset, IntArray
from fedtempo.data.members import Members, drawn_members, in_words
from fedtempo.data.phases import Phases
from fedtempo.data.quality import Drift
from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.inputs import is_several

Array = npt.NDArray[Any]
Rng = Callable[..., np.random.Generator]


@dataclass(frozen=True, eq=False)
class _Change:
    """A drift for given data. number: its place in the configuration. members: the clients that it concerns.

    whose: these clients in words. classes: the new class of each, (classes,); None if labels stay. tests: whether the
    test set changes.
    """

    drift: Drift
    number: int
    members: Members
    whose: str
    classes: IntArray | None
    tests: bool

    def applied(self, x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return changed copies of these examples. rng: draws the noise."""
        drift = self.drift
        if drift.changes_inputs:
            x = np.rot90(x, drift.rotate, axes=(-2, -1)) if drift.rotate else x
            x = x * np.float32(drift.scale) + np.float32(drift.offset)
            if drift.noise:
                x = x + (drift.noise * rng.standard_normal(x.shape)).astype(np.float32)
        return np.ascontiguousarray(x), y if self.classes is None else self.classes[y]


@dataclass(frozen=True, eq=False)
class Drifting:
    """All changes of a run. Each phase has those of one instant, in the order of the configuration."""

    phases: Phases
    changes: tuple[tuple[_Change, ...], ...]
    rng: Rng

    @property
    def about(self) -> list[str]:
        """What changes when, for people: a line for each change."""
        return [_told(change) for changes in self.changes for change in changes]

    def training(self, x: Array, y: Array, owned: Sequence[IntArray]) -> tuple[Array, Array, list[IntArray]]:
        """Return inputs and labels with those of later phases appended, and the rows of each client in each phase.

        owned: rows of each client in phase 0. The rows are those of phase 0 in order of the clients, then those of
        phase 1, and so on.
        """
        xs, ys, size = [x], [y], len(y)
        current = list(owned)
        rows = list(current)
        for changes in self.changes:
            for change in changes:
                all_x, all_y = (np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in (xs, ys))
                xs, ys = [all_x], [all_y]
                for client in change.members:
                    old = current[client]
                    new_x, new_y = change.applied(all_x[old], all_y[old], self.rng("drift", change.number, client))
                    xs.append(new_x)
                    ys.append(new_y)
                    current[client] = np.arange(size, size + len(old))
                    size += len(old)
            rows += current
        return np.concatenate(xs), np.concatenate(ys), rows

    def tests(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return test examples with those of later phases appended, once for each phase in which they change."""
        xs, ys = [x], [y]
        for changes in self.changes:
            for change in (change for change in changes if change.tests):
                x, y = change.applied(x, y, self.rng("drift of the test set", change.number))
            if any(change.tests for change in changes):
                xs.append(x)
                ys.append(y)
        return np.concatenate(xs), np.concatenate(ys)

    def client_tests(self, x: Array, y: Array, ends: IntArray) -> tuple[Array, Array, IntArray]:
        """Return the clients' own test sets, in order, in all phases: inputs, labels and where each one ends."""
        parts = [(x[start:end], y[start:end]) for start, end in zip([0, *ends[:-1].tolist()], ends.tolist())]
        everything = list(parts)
        for changes in self.changes:
            for change in changes:
                for client in change.members:
                    rng = self.rng("drift of own test sets", change.number, client)
                    parts[client] = change.applied(*parts[client], rng)
            everything += parts
        counts = [len(labels) for _, labels in everything]
        xs, ys = ([part[i] for part in everything] for i in (0, 1))
        return np.concatenate(xs), np.concatenate(ys), np.cumsum(counts, dtype=np.int64)


def drifting(drifts: Sequence[Drift], dataset: Dataset, names: Sequence[str], rng: Rng) -> Drifting | None:
    """Return the changes that a configuration asks for; None without any.

    names: of the clients. rng: returns the generator for a purpose and keys. Raises ConfigError for data that cannot
    change in this way.
    """
    if not drifts:
        return None
    changes = [_change(drift, i, dataset, names, rng) for i, drift in enumerate(drifts)]
    instants = sorted({drift.at for drift in drifts})
    by_instant = tuple(tuple(change for change in changes if change.drift.at == instant) for instant in instants)
    tests = [0]
    for phase, there in enumerate(by_instant, start=1):
        tests.append(phase if any(change.tests for change in there) else tests[-1])
    return Drifting(Phases(tuple(instants), tuple(tests), len(names)), by_instant, rng)


def _change(drift: Drift, number: int, dataset: Dataset, names: Sequence[str], rng: Rng) -> _Change:
    where = "data.partition.drift"
    members = drawn_members(drift.clients, names, rng("drift: clients", number), where)
    if drift.changes_inputs:
        must_be_numbers(dataset.train_x, dataset.name, where)
    if drift.rotate:
        shape = dataset.train_x.shape[1:]
        if len(shape) != 3 or (drift.rotate % 2 and shape[1] != shape[2]):
            need = "images" if len(shape) != 3 else "square images for an odd number of quarter turns"
            raise ConfigError(f"{where}.rotate = {drift.rotate}: needs {need}; examples have the shape {shape}")
        if dataset.task == "segmentation":
            raise ConfigError(f"{where}.rotate = {drift.rotate}: the masks would not turn with the images; remove it")
    classes = None
    if drift.changes_labels:
        if dataset.task != "classes":
            raise ConfigError(f"{where}: swap and shift need classes, and {dataset.name} has {dataset.task}")
        classes = _new_classes(drift, dataset, where)
    tests = len(members) == len(names) if drift.test is None else drift.test
    return _Change(drift, number, members, in_words(members, names), classes, tests)


def _new_classes(drift: Drift, dataset: Dataset, where: str) -> IntArray:
    """Return the new class of each class, (classes,)."""
    new = np.arange(dataset.n_classes, dtype=np.int64)
    known = [*dataset.class_names] or [str(number) for number in range(dataset.n_classes)]
    for exchanged in drift.swap:
        one, other = (_number(kind, known, f"{where}.swap") for kind in exchanged)
        new[[one, other]] = new[[other, one]]
    return (new + drift.shift) % dataset.n_classes


def must_be_numbers(x: Array, name: str, where: str) -> None:
    """Raise ConfigError unless inputs are one array of numbers. name: of the data. where: the option, for errors."""
    if is_several(x) or x.dtype != np.float32:
        kind = "several inputs" if is_several(x) else "symbols"
        raise ConfigError(f"{where}: needs inputs that are numbers, and {name} has {kind}")


def _number(kind: str | int, known: Sequence[str], where: str) -> int:
    if str(kind) not in known:
        raise ConfigError(f"{where}: no class {kind!r}{nearest(str(kind), known)}")
    return known.index(str(kind))


def _told(change: _Change) -> str:
    drift = change.drift
    told: dict[str, object] = {
        "swap": ", ".join(f"{one}-{other}" for one, other in drift.swap),
        "shift": drift.shift,
        "rotate": drift.rotate,
        "scale": drift.scale if drift.scale != 1 else 0,
        "offset": drift.offset,
        "noise": drift.noise,
    }
    what = ", ".join(f"{name} = {value}" for name, value in told.items() if value)
    return f"from {drift.at:g} s: {what} at {change.whose} and {'' if change.tests else 'not '}in the test set"

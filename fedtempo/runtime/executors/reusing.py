"""An executor that takes results from a store of earlier runs, and computes only what is not there.

A model is a hash of its bits. A result found in the store names the hashes of the models that it made, so a run whose
results are all there touches no parameters and needs no workers: the executor that computes is made for the first
operation that needs it. A model's parameters are read when an operation, a checkpoint or the run's end needs them. If
the store has dropped them, or they are damaged, they are computed again from the models that they were made from; for
this, such a model keeps its origin.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from fedtempo.errors import RunError
from fedtempo.parts.text_files import parse_json
from fedtempo.record.result_store import Content, ResultStore, Stored
from fedtempo.runtime.executors import Carried, Evaluation, Executor, On, Pending, Rows, Trained, Vector
from fedtempo.runtime.executors.arithmetic import Statistics, read_only, whole
from fedtempo.runtime.executors.codec import decode, encode
from fedtempo.runtime.executors.none import Done
from fedtempo.runtime.executors.recipes import Key, Recipes

if TYPE_CHECKING:
    from fedtempo.learning.state import FlatModel
    from fedtempo.learning.training import Training

T = TypeVar("T")

_DEEPEST = 200
"""Number of results in a row after which a model is read from the store, so that origins do not grow with the run."""


class Known:
    """Location of a model, or of what a client keeps (is_state), by the hash of its bits.

    held: the executor's location of it, if it has one. data: its bits, if they are in memory. origin: the result in
    the store that it comes from, while it has neither. depth: number of results that its origin goes back.
    """

    __slots__ = ("data", "depth", "held", "is_state", "origin", "sha256")

    def __init__(self, sha256: Key, held: Any = None, *, data: Content | None = None, is_state: bool = False) -> None:
        self.sha256, self.held, self.data, self.is_state = sha256, held, data, is_state
        self.origin: _Origin | None = None
        self.depth = 0

    @property
    def bits(self) -> Content:
        """Its bits, which are in memory."""
        assert self.data is not None
        return self.data

    def settled(self, held: Any = None, data: Content | None = None) -> None:
        """Note where it is from now on, so that it needs no origin."""
        self.held, self.data, self.origin, self.depth = held, data, None, 0


class _Origin:
    """A result from the store, and how to compute it again.

    start: begins the operation on the executor's locations of `inputs`; returns a function that waits for it and
    returns the locations that it made, in the order of `stored.contents`.
    """

    __slots__ = ("inputs", "key", "locations", "start", "stored")

    def __init__(
        self, key: Key, stored: Stored, inputs: Sequence[Known], start: Callable[..., Callable[[], Sequence[Any]]]
    ) -> None:
        self.key, self.stored, self.inputs, self.start = key, stored, inputs, start
        self.locations: Sequence[Any] | None = None


class _Operation(Generic[T]):
    """An operation for the executor. finish: turns its result into that of this operation.

    begin: begins it, which may have to wait until the executor exists (`Reusing._submit`).
    """

    __slots__ = ("__weakref__", "_begin", "_finish", "_pending", "_result")

    def __init__(self, begin: Callable[[], Pending[Any]], finish: Callable[[Any], T]) -> None:
        self._begin: Callable[[], Pending[Any]] | None = begin
        self._pending: Pending[Any] | None = None
        self._finish = finish
        self._result: Any = None

    def begin(self) -> None:
        begin, self._begin = self._begin, None
        if begin is not None:
            self._pending = begin()

    def result(self) -> T:
        self.begin()
        if self._pending is not None:
            self._result = self._finish(self._pending.result())
            self._pending = None
        return self._result  # type: ignore[no-any-return]

    def done(self) -> bool:
        return self._begin is None and (self._pending is None or self._pending.done())


class Reusing:
    """Answers operations from `store` or by the executor that `make` returns, and stores new results.

    recipes: of the run. model: its initial model. It closes both executor and store. Raises RunError if a result that
    must be computed again has other bits than the store says.
    """

    trains = True

    def __init__(self, make: Callable[[], Executor], store: ResultStore, recipes: Recipes, model: FlatModel) -> None:
        self._make, self._store, self._recipes = make, store, recipes
        self._executor: Executor | None = None
        self.size_bytes, self.base_bytes, self.vector_bytes = model.size_bytes, model.base_bytes, model.vector_bytes
        self.sections, self.naming = model.sections, model.naming
        initial: Vector = model.sent.numpy().copy()
        self._dtype = initial.dtype
        self._fixed: Vector = model.vector[model.sections.moving :].numpy().copy()
        self._initial = Known(_sha256(initial), data=initial.data)
        self._waiting: list[weakref.ref[_Operation[Any]]] = []
        self._counts: Counter[str] = Counter()

    def initial(self) -> Known:
        return self._initial

    # Operations -----------------------------------------------------------------------------------------------------

    def train(
        self, location: Known, client: int, visit: int, training: Training, carried: Carried | None = None
    ) -> Pending[Trained]:
        if carried is None:
            inputs: list[Known] = [location]
        else:
            inputs = [location, *carried.payload, *([] if carried.state is None else [carried.state])]
        key = self._recipes.train(
            location.sha256, client, visit, training, carried, [known.sha256 for known in inputs[1:]]
        )

        def begin(executor: Executor, held: Any, *others: Any) -> Pending[Trained]:
            if carried is None:
                return executor.train(held, client, visit, training)
            payload, state = others[: len(carried.payload)], others[-1] if carried.state is not None else None
            return executor.train(held, client, visit, training, replace(carried, payload=payload, state=state))

        return self._trained("visits", key, inputs, begin)

    def train_rows(self, location: Known, rows: Rows, visit: int, training: Training) -> Pending[Trained]:
        key = self._recipes.train_rows(location.sha256, rows, visit, training)
        return self._trained(
            "server_trainings",
            key,
            [location],
            lambda executor, held: executor.train_rows(held, rows, visit, training),
        )

    def _trained(
        self, what: str, key: Key, inputs: Sequence[Known], begin: Callable[..., Pending[Trained]]
    ) -> Pending[Trained]:
        """Return a training's result from the store, or begin it by `begin(executor, *locations of inputs)`."""

        def start(*locations: Any) -> Callable[[], Sequence[Any]]:
            pending = begin(self._computing(), *locations)
            return lambda: _made_by(pending.result())

        if (stored := self._found(what, key)) is not None:
            statistics, flaw, keeps = parse_json(stored.answer)
            made = self._from_store(key, stored, inputs, start)
            if keeps:
                made[1].is_state = True
            state = made[1] if keeps else None
            return Done(Trained(made[0], statistics, flaw, state, tuple(made[2 if keeps else 1 :])))

        def finish(trained: Trained) -> Trained:
            keeps = trained.state is not None
            known = [self._known(made, keeps and i == 1) for i, made in enumerate(_made_by(trained))]
            self._add(key, [trained.statistics, trained.flaw, keeps], known)
            state = known[1] if keeps else None
            return Trained(known[0], trained.statistics, trained.flaw, state, tuple(known[2 if keeps else 1 :]))

        return self._submit(what, inputs, begin, finish)

    def evaluate(self, location: Known, state: Known | None = None, on: On = "test") -> Pending[Evaluation]:
        key = self._recipes.evaluate(location.sha256, None if state is None else state.sha256, on)
        if (stored := self._found("evaluations", key)) is not None:
            return Done(Evaluation(*decode(parse_json(stored.answer), [])))

        def finish(evaluation: Evaluation) -> Evaluation:
            self._add(key, encode(evaluation.as_values(), _no_model), [])
            return evaluation

        def begin(executor: Executor, held: Any, kept: Any = None) -> Pending[Evaluation]:
            return executor.evaluate(held, kept, on)

        inputs = [location] if state is None else [location, state]
        return self._submit("evaluations", inputs, begin, finish)

    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[Known],
        statistics: Statistics | None = None,
    ) -> Any:
        sources: Sequence[Known] = () if statistics is None else statistics.locations
        key = self._recipes.apply(
            function,
            [known.sha256 for known in locations],
            statistics,
            [known.sha256 for known in sources],
        )
        inputs = [*locations, *sources]

        def compute(*held: Any) -> Any:
            models, others = held[: len(locations)], held[len(locations) :]
            return self._computing().apply(
                function, models, None if statistics is None else replace(statistics, locations=others)
            )

        def start(*held: Any) -> Callable[[], Sequence[Any]]:
            made: list[Any] = []
            self._with_known(compute(*held), made)
            return lambda: [known.held for known in made]

        if key is not None and (stored := self._found("server", key)) is not None:
            return decode(parse_json(stored.answer), self._from_store(key, stored, inputs, start))
        self._counts["server_computed"] += 1
        known: list[Known] = []
        result = self._with_known(compute(*self._all_held(inputs)), known)
        if key is not None:
            numbers = {id(made): i for i, made in enumerate(known)}
            with contextlib.suppress(TypeError):  # it cannot be restored exactly
                self._add(key, encode(result, lambda value: numbers.get(id(value))), known)
        for made in known:
            made.data = None
        return result

    def _found(self, what: str, key: Key) -> Stored | None:
        """Return the result in the store, and count it. what: the operations' name in `facts`."""
        stored = self._store.result(key)
        if stored is not None:
            self._counts[f"{what}_reused"] += 1
        return stored

    def _submit(
        self, what: str, inputs: Sequence[Known], begin: Callable[..., Pending[Any]], finish: Callable[[Any], T]
    ) -> _Operation[T]:
        """Begin an operation by `begin(executor, *locations of inputs)`.

        While there is no executor it waits, together with those after it, until a result is asked for: a run often
        ends with visits that are never complete and thus in no store, and need no workers.
        """

        def begun() -> Pending[Any]:
            self._counts[f"{what}_computed"] += 1
            return begin(self._computing(), *self._all_held(inputs))

        operation = _Operation(begun, finish)
        if self._executor is None:
            self._waiting.append(weakref.ref(operation))
        else:
            operation.begin()
        return operation

    def _add(self, key: Key, answer: Any, made: Sequence[Known]) -> None:
        """Store a result and the models that it made, which the executor holds."""
        self._store.add(key, json.dumps(answer).encode(), [(known.sha256, known.bits) for known in made])
        for known in made:
            known.data = None

    def _from_store(
        self, key: Key, stored: Stored, inputs: Sequence[Known], start: Callable[..., Callable[[], Sequence[Any]]]
    ) -> list[Known]:
        """Return the models of a result in the store."""
        made, origin = [Known(sha256) for sha256 in stored.contents], _Origin(key, stored, inputs, start)
        depth = 1 + max((known.depth for known in inputs), default=0)
        for known in made:
            known.origin, known.depth = origin, depth
            if depth % _DEEPEST == 0 and (content := self._store.content(known.sha256)) is not None:
                known.settled(data=content)
        return made

    def _computing(self) -> Executor:
        if self._executor is None:
            self._executor = self._make()
            self._initial.held = self._executor.initial()
            waiting, self._waiting = self._waiting, []
            for reference in waiting:
                if (operation := reference()) is not None:
                    operation.begin()
        return self._executor

    # Models ---------------------------------------------------------------------------------------------------------

    def place(self, read: Callable[[], Vector]) -> Known:
        vector = np.array(read()[: self.sections.moving], dtype=self._dtype)
        return Known(_sha256(vector), data=vector.data)

    def place_state(self, read: Callable[[], bytes]) -> Known:
        content = read()
        return Known(hashlib.sha256(content).digest(), data=content, is_state=True)

    def exchanged(self, location: Known) -> Vector:
        content = self._content(location)
        if content is None:
            return self._computing().exchanged(self._all_held([location])[0])
        return read_only(np.frombuffer(content, dtype=self._dtype))

    def vector(self, location: Known) -> Vector:
        return whole(self.exchanged(location), self._fixed)

    def state(self, location: Known) -> bytes:
        content = self._content(location)
        return self._computing().state(self._all_held([location])[0]) if content is None else bytes(content)

    def is_location(self, value: object) -> bool:
        return isinstance(value, Known)

    def _content(self, known: Known) -> Content | None:
        """Return the bits of a model that the executor does not hold; None if it does, or if they must be computed."""
        if known.held is not None:
            return None
        return self._store.content(known.sha256) if known.data is None else known.data

    def _known(self, held: Any, is_state: bool = False) -> Known:
        """Return the location of what the executor has just made at `held`, with its bits still in memory."""
        executor = self._computing()
        content: Content = executor.state(held) if is_state else np.ascontiguousarray(executor.exchanged(held)).data
        return Known(hashlib.sha256(content).digest(), held, data=content, is_state=is_state)

    def _with_known(self, value: Any, made: list[Known]) -> Any:
        """Return the executor's result with its locations replaced by Knowns, which are appended to `made`."""
        if self._computing().is_location(value):
            made.append(self._known(value))
            return made[-1]
        if isinstance(value, tuple):
            return tuple(self._with_known(item, made) for item in value)
        return value

    def _all_held(self, wanted: Sequence[Known]) -> list[Any]:
        """Return the executor's locations of models, which are loaded or computed again if necessary."""
        executor, missing = self._computing(), self._load(wanted)
        for depth in sorted({known.depth for known in missing}):
            origins = {id(known.origin): known.origin for known in missing if known.depth == depth}
            started = [
                (origin, origin.start(*(known.held for known in origin.inputs)))
                for origin in origins.values()
                if origin is not None and origin.locations is None
            ]
            for origin, finish in started:
                origin.locations = finish()
                self._check_bits(origin, executor)
            for known in missing:
                if known.depth == depth and known.origin is not None:
                    self._take(known, known.origin)
        return [known.held for known in wanted]

    def _load(self, wanted: Iterable[Known]) -> list[Known]:
        """Put models into the executor; return those that must be computed, together with what they are made from."""
        missing: dict[int, Known] = {}
        to_load = list(wanted)
        while to_load:
            known = to_load.pop()
            if known.held is not None or id(known) in missing:
                continue
            if (content := self._content(known)) is not None:
                self._hold(known, content)
            elif known.origin is not None and known.origin.locations is not None:
                self._take(known, known.origin)
            else:
                assert known.origin is not None
                missing[id(known)] = known
                to_load.extend(known.origin.inputs)
        return list(missing.values())

    def _hold(self, known: Known, content: Content) -> None:
        executor = self._computing()
        if known.is_state:
            known.settled(executor.place_state(lambda: bytes(content)))
        else:
            known.settled(executor.place(lambda: np.frombuffer(content, dtype=self._dtype)))

    def _take(self, known: Known, origin: _Origin) -> None:
        """Take over a model that was computed again."""
        assert origin.locations is not None
        known.settled(origin.locations[origin.stored.contents.index(known.sha256)])

    def _check_bits(self, origin: _Origin, executor: Executor) -> None:
        """Raise RunError unless what was computed again is what the store says; store it again."""
        assert origin.locations is not None
        self._counts["recomputed"] += 1
        made = [self._known(held, is_state=not executor.is_location(held)) for held in origin.locations]
        if tuple(known.sha256 for known in made) != origin.stored.contents:
            raise RunError(
                f"{self._store.folder}: a result in this store of results could not be reproduced: it was computed "
                "with other code, packages or processors; delete the folder and run again"
            )
        self._store.add(origin.key, origin.stored.answer, [(known.sha256, known.bits) for known in made])

    def facts(self) -> Mapping[str, Any]:
        """Return the executor's facts, and under "reuse" the numbers of operations reused and computed, by kind."""
        computing = {} if self._executor is None else self._executor.facts()
        return {**computing, "reuse": dict(sorted(self._counts.items()))}

    def close(self) -> None:
        try:
            self._store.close()
        finally:
            if self._executor is not None:
                self._executor.close()

    def __enter__(self) -> Reusing:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _made_by(trained: Trained) -> list[Any]:
    """Return the locations that a training made: model, state if there is one, vectors sent."""
    return [trained.location, *([] if trained.state is None else [trained.state]), *trained.sent]


def _no_model(value: Any) -> None:
    """Say that a value is no model (`codec.encode`)."""


def _sha256(vector: Vector) -> Key:
    return hashlib.sha256(np.ascontiguousarray(vector).data).digest()

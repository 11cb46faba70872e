"""The executor that answers from a store of results, operation by operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import RunError
from fedtempo.federation import Model
from fedtempo.learning.aggregation import average, mix
from fedtempo.learning.networks import Mlp
from fedtempo.learning.privacy import private_mean
from fedtempo.learning.training import Training
from fedtempo.record.result_store import ResultStore
from fedtempo.runtime.executors import On, reusing
from fedtempo.runtime.executors.arithmetic import Statistics
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.recipes import Recipes, Unkeyable, encoded
from fedtempo.runtime.executors.reusing import Known, Reusing
from fedtempo.runtime.handles import ServerCall

TRAINING = Training(lr=0.1, batch_size=8)


def job() -> Job:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 6)).astype(np.float32), rng.integers(0, 3, 20)
    return Job(Mlp((4,)), 3, x, y, [np.arange(10), np.arange(10, 20)], x, y, seed=1)


def recipes(common: bytes = b"c") -> Recipes:
    return Recipes(common, lambda client: b"client %d" % client, _tests, b"data", lambda: b"code")


def _tests(on: On) -> bytes:
    return f"examples of {on}".encode()


def opened(folder: Path, make: Callable[..., Any] = Inline, common: bytes = b"c") -> Reusing:
    return Reusing(lambda: make(job()), ResultStore(folder, 2**24), recipes(common), job().model())


def a_run(executor: Any, rounds: int) -> Any:
    """Per round: two visits, their mean, a mixture with the model before, an evaluation. Return all results."""
    model, seen = executor.initial(), []
    for number in range(1, rounds + 1):
        visits = [executor.train(model, client, number, TRAINING) for client in (0, 1)]
        trained = [visit.result() for visit in visits]
        extra = executor.train_rows(trained[0].location, np.arange(3), number, TRAINING).result()
        made = [each.location for each in (*trained, extra)]
        mean = executor.apply(ServerCall(average, [], {"models": [Model(0, each) for each in made]}), made)
        model = executor.apply(partial(mix, beta=0.5), [model, mean])
        seen.append(([each.statistics for each in trained], executor.evaluate(model).result()))
    return executor.vector(model).tobytes(), seen


@pytest.mark.parametrize("make", [Inline, lambda job: OnDevice(job, "cpu", 2)], ids=["inline", "on device"])
def test_operations_are_answered_from_the_store(tmp_path: Path, make: Callable[..., Any]) -> None:
    expected = a_run(make(job()), 3)
    for counts in (
        {"evaluations_computed": 3, "server_computed": 6, "server_trainings_computed": 3, "visits_computed": 6},
        {"evaluations_reused": 3, "server_reused": 6, "server_trainings_reused": 3, "visits_reused": 6},
    ):
        with opened(tmp_path, make) as executor:
            assert a_run(executor, 3) == expected
            assert executor.facts()["reuse"] == counts


def test_a_warm_run_makes_no_executor_and_reads_the_last_model_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as executor:
        expected = a_run(executor, 5)
    read, content = [], ResultStore.content

    def counted(store: ResultStore, sha256: bytes) -> Any:
        read.append(sha256)
        return content(store, sha256)

    monkeypatch.setattr(ResultStore, "content", counted)

    def must_not(_: Job) -> Any:
        raise AssertionError("a warm run needs no executor")

    with opened(tmp_path, must_not) as executor:
        executor.train(executor.initial(), 0, 99, TRAINING)  # it is abandoned, as visits at a run's end are
        assert a_run(executor, 5) == expected
    assert len(read) == 1


def test_a_long_chain_reads_models_now_and_then_so_that_origins_do_not_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reusing, "_DEEPEST", 6)

    def chain(executor: Reusing) -> list[int]:
        model, depths = executor.initial(), []
        for number in range(1, 15):
            model = executor.train(model, number % 2, number, TRAINING).result().location
            depths.append(model.depth)
        return depths

    with opened(tmp_path) as executor:
        assert set(chain(executor)) == {0}
    with opened(tmp_path) as executor:
        assert chain(executor) == [1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2]
    for path in (tmp_path / "contents").glob("*/*"):
        path.unlink()
    with opened(tmp_path) as executor:  # without their files, origins must reach back further
        assert chain(executor) == list(range(1, 15))


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_what_the_store_has_lost_is_computed_again_and_stored_again(tmp_path: Path, lost: int) -> None:
    """lost: which part of the files, of three, is deleted."""
    with opened(tmp_path) as executor:
        a_run(executor, 3)
    expected = a_run(Inline(job()), 4)
    for number, path in enumerate(sorted((tmp_path / "contents").glob("*/*"))):
        if number % 3 != lost:
            path.unlink()
    with opened(tmp_path) as executor:
        assert a_run(executor, 4) == expected
        assert executor.facts()["reuse"]["visits_reused"] == 6
    with opened(tmp_path) as executor:
        assert a_run(executor, 4) == expected
        assert executor.facts()["reuse"].keys() <= {
            *("evaluations_reused", "server_reused", "server_trainings_reused", "visits_reused")
        }


def test_results_of_another_kind_of_computation_end_the_run_when_they_cannot_be_reproduced(tmp_path: Path) -> None:
    """The same keys, but another seed: as if two processors were taken for the same."""
    other = job()
    object.__setattr__(other, "seed", 2)
    with Reusing(lambda: Inline(other), ResultStore(tmp_path, 2**24), recipes(), job().model()) as executor:
        executor._computing()
        executor._initial.settled(executor._computing().place(lambda: job().model().sent.numpy()))
        executor.train(executor.initial(), 0, 1, TRAINING).result()
    for path in (tmp_path / "contents").glob("*/*"):
        path.unlink()
    with opened(tmp_path) as executor:
        trained = executor.train(executor.initial(), 0, 1, TRAINING).result()
        with pytest.raises(RunError, match=r"could not be reproduced: .* delete the folder and run again"):
            executor.vector(trained.location)


def test_equal_models_share_results_however_they_were_made(tmp_path: Path) -> None:
    with opened(tmp_path) as executor:
        model = executor.train(executor.initial(), 0, 1, TRAINING).result().location
        executor.train(model, 1, 1, TRAINING).result()
        vector = executor.exchanged(model)
    with opened(tmp_path) as executor:
        executor.train(executor.place(lambda: vector), 1, 1, TRAINING).result()
        assert executor.facts()["reuse"] == {"visits_reused": 1}


def test_functions_that_cannot_be_described_are_called_each_time(tmp_path: Path) -> None:
    calls = []

    def halved(vector: np.ndarray) -> np.ndarray:
        calls.append(1)
        return vector / 2

    for _ in range(2):
        with opened(tmp_path) as executor:
            half = executor.apply(halved, [executor.initial()])
            executor.train(half, 0, 1, TRAINING).result()
    assert len(calls) == 2
    with opened(tmp_path) as executor:
        half = executor.apply(halved, [executor.initial()])
        executor.train(half, 0, 1, TRAINING).result()
        assert executor.facts()["reuse"] == {"server_computed": 1, "visits_reused": 1}


def test_everything_that_decides_a_visit_is_in_its_key() -> None:
    base = recipes()

    def key(made_by: Recipes = base, model: bytes = b"m", client: int = 0, visit: int = 1, **training: Any) -> bytes:
        return made_by.train(model, client, visit, Training(**training), None, [])

    keys = [
        key(),
        key(recipes(b"d")),
        key(model=b"n"),
        key(client=1),
        key(visit=2),
        key(lr=0.2),
        key(proximal=0.1),
        key(statistics=frozenset({"gradient_norm"})),
        key(loss="module:loss"),
        key(loss="module:other"),
        base.train_rows(b"m", np.arange(3), 1, Training()),
        base.train_rows(b"m", np.arange(4), 1, Training()),
        base.train_rows(b"m", np.arange(3), 2, Training()),
        base.evaluate(b"m", None),
        base.evaluate(b"m", b"s"),
        base.evaluate(b"m", None, "clients"),
        base.evaluate(b"m", None, 0),
        base.evaluate(b"m", None, 1),
        *(replace(base, personalise=Training(lr=lr)).evaluate(b"m", None, 1) for lr in (0.1, 0.2)),
        replace(base, tests=lambda on: b"others").evaluate(b"m", None),
    ]
    assert len(set(keys)) == len(keys)
    assert key() == key()
    changed = replace(base, users_code=lambda: b"other code")
    assert key(changed) == key()  # no setting names code of users
    assert key(changed, loss="module:loss") != key(loss="module:loss")
    tuned = replace(base, personalise=Training())
    assert tuned.evaluate(b"m", None) == base.evaluate(b"m", None)
    assert tuned.evaluate(b"m", None, "clients") == base.evaluate(b"m", None, "clients")
    others = replace(tuned, clients=lambda client: b"other examples")
    assert others.evaluate(b"m", None, 1) != tuned.evaluate(b"m", None, 1)


def test_everything_that_decides_a_call_at_the_server_is_in_its_key() -> None:
    one, two = Model(0, None), Model(0, None)

    def key(function: Any, *models: Model, keys: tuple[bytes, ...] = (b"1", b"2"), **named: Any) -> bytes | None:
        return recipes().apply(ServerCall(function, models, named), keys, None, ())

    keys = [
        key(average, one, two),
        key(average, one, two, keys=(b"2", b"1")),
        key(average, one, weights=[1.0]),
        key(average, one, weights=[2.0]),
        key(average, one, weights=[1]),
        key(mix, one, two, beta=0.5),
        key(mix, one, two, beta=0.25),
        key(mix, one, b=two, beta=0.5),
        recipes().apply(average, (b"1", b"2"), Statistics([one]), (b"3",)),
        recipes().apply(average, (b"1", b"2"), Statistics([one], partial(average, weights=[1.0])), (b"3",)),
        recipes().apply(average, (b"1", b"2"), None, ()),
        *(key(private_mean, one, rng=np.random.default_rng(seed)) for seed in (1, 2)),
    ]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert key(average, one, rng=np.random.default_rng(1)) is None  # it may be used again elsewhere
    assert key(lambda vector: vector, one) is None
    assert key(np.mean, one) is None
    assert key(average, one, weights=object()) is None


def test_values_that_differ_are_encoded_differently() -> None:
    values = [
        *(None, True, False, 0, 1, -1, 0.0, -0.0, 1.0, "", "1", b"1", "1;"),
        *([], (), {}, frozenset(), [1], (1,), [[1]], [1, 1], [[1], 1], ["ab"], ["a", "b"]),
        *([1.0] * 9, (1.0,) * 9, [1.0] * 10, [1] * 9),
        *({"a": 1}, {"b": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        *(frozenset({1}), frozenset({1, 2}), np.float32(1), np.float64(1)),
        *(np.zeros(2), np.zeros(2, np.float32), np.zeros((1, 2)), np.zeros((2, 1)), np.zeros(3), np.int64(1)),
        *(average, mix, partial(mix, beta=0.5), partial(mix, beta=0.25), TRAINING, Training()),
    ]
    assert len({encoded(value) for value in values}) == len(values)
    assert encoded({"a": np.ones(3), "b": [1.0, None]}) == encoded({"a": np.ones(3), "b": [1.0, None]})
    for value in (object(), np.array([object()]), np.random.default_rng(1), str.upper, print, {1: object()}):
        with pytest.raises(Unkeyable):
            encoded(value)


def test_a_location_is_known_by_its_bits() -> None:
    known = Known(b"s", data=b"bits")
    assert known.bits == b"bits"
    known.settled("held")
    assert (known.held, known.data, known.origin, known.depth) == ("held", None, None, 0)

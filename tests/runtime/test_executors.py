import hashlib
import math
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from fedtempo.errors import ConfigError
from fedtempo.learning.aggregation import average, mix
from fedtempo.learning.networks import CnnPsfl, Mlp
from fedtempo.learning.training import Training
from fedtempo.runs.config import parse
from fedtempo.runs.launch import make_job
from fedtempo.runs.world import build_world
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.none import NoTraining
from fedtempo.runtime.executors.processes import Processes
from tests.strategies.test_every_strategy import BASE

TRAINING = Training(lr=0.1, batch_size=8)


def image_job(network=None, seed=4):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((90, 3, 32, 32)).astype(np.float32), rng.integers(0, 10, 90)
    clients = [np.arange(0, 40), np.arange(30, 41), np.arange(41, 90)]
    return Job(network or CnnPsfl(), 10, x, y, clients, x[:50], y[:50], seed)


def digest(executor, location):
    return hashlib.sha256(executor.vector(location).tobytes()).hexdigest()


def small_run(executor):
    """Run a chain of visits beside parallel ones, an average and a mixture; return all results."""
    model = executor.initial()
    chain = executor.train(model, 0, 1, TRAINING)
    parallel = [executor.train(model, client, 1, TRAINING) for client in (1, 2)]
    tested = executor.evaluate(model)
    first = chain.result()
    second = executor.train(first.location, 1, 2, TRAINING).result()
    ends = [second, *(pending.result() for pending in parallel)]
    mean = executor.apply(lambda *models: average(models, [40, 11, 49]), [end.location for end in ends])
    mixed = executor.apply(partial(mix, beta=0.3), [model, mean])
    last = executor.evaluate(mixed)
    return (
        [digest(executor, location) for location in (model, first.location, second.location, mean, mixed)],
        [end.statistics for end in ends],
        [tested.result(), last.result()],
    )


@pytest.fixture(scope="module")
def inline_results():
    with Inline(image_job()) as executor:
        return small_run(executor)


@pytest.mark.parametrize(("workers", "method"), [(1, "fork"), (2, "fork"), (2, "spawn"), (1, "forkserver")])
def test_every_executor_gives_the_same_bits(workers, method, inline_results):
    with Processes(image_job(), workers, method) as executor:
        assert small_run(executor) == inline_results


def test_visits_depend_on_seed_client_and_visit_number(inline_results):
    with Inline(image_job()) as executor, Inline(image_job(seed=5)) as other:
        model = executor.initial()
        results = [
            digest(executor, executor.train(model, client, visit, TRAINING).result().location)
            for client, visit in ((0, 1), (0, 2), (1, 1), (0, 1))
        ]
        assert results[0] == results[3] == inline_results[0][1]
        assert len(set(results)) == 3
        assert digest(other, other.initial()) != digest(executor, model)


@pytest.fixture(params=["inline", "processes"])
def executor(request):
    job = image_job(Mlp((4,)))
    with Inline(job) if request.param == "inline" else Processes(job, 1) as executor:
        yield executor


def test_apply_replaces_locations_with_vectors_and_stores_returned_vectors(executor):
    model = executor.initial()

    def look(first, second):
        assert isinstance(first, np.ndarray)
        assert first.dtype == np.float32
        assert not first.flags.writeable
        assert np.array_equal(second, first)
        return first + 1, first.astype(np.float64) * 2, "text", np.arange(3.0), float(first.sum())

    up, doubled, text, short, total = executor.apply(look, [model, model])
    vector = executor.vector(model)
    assert executor.is_location(up)
    assert executor.is_location(doubled)
    assert np.array_equal(executor.vector(up), vector + 1)
    assert np.array_equal(executor.vector(doubled), vector * 2)
    assert executor.vector(doubled).dtype == np.float32
    assert (text, short.tolist(), total) == ("text", [0.0, 1.0, 2.0], float(vector.sum()))


def test_a_location_does_not_alias_the_returned_array(executor):
    arrays = []

    def keep(vector):
        arrays.append(vector + 1)
        return arrays[0]

    location = executor.apply(keep, [executor.initial()])
    before = executor.vector(location).copy()
    arrays[0][:] = 0
    assert np.array_equal(executor.vector(location), before)


def test_vectors_are_read_only_and_have_the_declared_size(executor):
    vector = executor.vector(executor.initial())
    assert vector.nbytes == executor.size_bytes == 4 * (3072 * 4 + 4 + 4 * 10 + 10)
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1


def test_a_failing_visit_reports_its_error_and_other_visits_continue(executor):
    model = executor.initial()
    bad = executor.train(model, 0, 1, Training(loss="logit-adjusted", prior=(1.0, 1.0)))
    good = executor.train(model, 0, 1, TRAINING)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^training.prior has 2 entries"):
            bad.result()
    assert good.result().statistics["loss"] > 0
    assert good.done()


def test_evaluations_count_correct_answers(executor):
    job = image_job(Mlp((4,)))
    model = job.model()
    logits = model.module(torch.from_numpy(job.test_x))
    expected = float((logits.argmax(1).numpy() == job.test_y).mean())
    assert executor.evaluate(executor.initial()).result().accuracy == pytest.approx(expected, abs=1e-12)


def test_evaluations_take_as_many_examples_at_once_as_configured():
    sizes = []

    class Watched(Mlp):
        def build(self, input_shape, n_classes):
            module = super().build(input_shape, n_classes)
            module.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
            return module

    results = []
    for batch in (500, 20, 1):
        job = replace(image_job(Watched((4,))), evaluation_batch=batch)
        with Inline(job) as inline, OnDevice(job, "cpu", streams=1) as device, Processes(job, 2) as processes:
            executors = (inline, device, processes)
            found = [executor.evaluate(executor.initial()).result() for executor in executors]
        assert found[0] == found[1] == found[2]
        assert sizes == {500: [50], 20: [20, 20, 10], 1: [1] * 50}[batch] * 2
        sizes.clear()
        results.append(found[0])
    assert len({result.accuracy for result in results}) == 1
    assert results[1].loss == pytest.approx(results[0].loss, rel=1e-5)


def test_a_configuration_says_how_many_examples_are_evaluated_at_once():
    tables = {**BASE, "strategy": {"name": "fedavg"}, "executor": {"kind": "inline"}}
    config = parse(tables).with_changes({"run.horizon": 3.0, "run.evaluation_batch": 7})
    assert make_job(config, build_world(config)).test_parts[-1] == (35, 40)
    assert make_job(parse(tables), build_world(config)).evaluation_batch == 500


def test_inline_restores_pytorchs_settings():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with Inline(image_job(Mlp((4,)))) as executor:
            executor.train(executor.initial(), 0, 1, TRAINING).result()
        assert torch.get_num_threads() == 2
        assert float(torch.tensor(1e-40) * 1) > 0
    finally:
        torch.set_num_threads(threads)


def test_the_none_executor_returns_empty_results_immediately():
    with NoTraining(1_689_896) as executor:
        model = executor.initial()
        pending = executor.train(model, 3, 1, TRAINING)
        assert pending.done()
        assert executor.is_location(pending.result().location)
        assert pending.result().statistics == {}
        assert math.isnan(executor.evaluate(model).result().accuracy)
        assert executor.is_location(executor.apply(lambda *models: average(models, [1, 2]), [model, model]))
        assert executor.apply(lambda vector: len(vector), [model]) == 0
        assert executor.vector(model).shape == (0,)
        assert executor.size_bytes == 1_689_896


def test_the_none_executor_takes_no_time():
    with NoTraining(0) as executor:
        model, calls = executor.initial(), 100_000
        start = time.process_time()
        for visit in range(calls):
            executor.train(model, 3, visit, TRAINING).result()
        assert (time.process_time() - start) / calls < 5e-6

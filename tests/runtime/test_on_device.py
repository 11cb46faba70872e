"""The executor for one device, run on the CPU: everything but the recording itself is as on a GPU."""

import gc
import logging
import sys
import types
import weakref
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from fedtempo.errors import ConfigError, RunError, WorkerError
from fedtempo.federation import EVALUATE
from fedtempo.fleet.faults import Faults
from fedtempo.learning.aggregation import average
from fedtempo.learning.networks import CharLstm, Cnn, LeNet, Mlp, UserNetwork
from fedtempo.learning.training import Training
from fedtempo.runs.config import parse
from fedtempo.runs.identity import identity
from fedtempo.runs.launch import make_executor
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from fedtempo.runtime.executors import Carried
from fedtempo.runtime.executors import device as device_module
from fedtempo.runtime.executors.arithmetic import Statistics
from fedtempo.runtime.executors.cards import find_device
from fedtempo.runtime.executors.device import AHEAD, OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.processes import Processes
from fedtempo.runtime.executors.streams import HostStream
from tests.precision import DOUBLE, double_precision

TRAINING = Training(lr=2**-4, batch_size=8)
"""With a step size that is a power of two a static step has the bits of a plain one, where autograd differentiates."""

MEASURING = Training(lr=2**-4, batch_size=8, statistics=frozenset({"squared_loss", "gradient_variance"}))


def job(network=None, shape=(3, 20, 20), faults=None, classes=10):
    rng = np.random.default_rng(0)
    x = (
        rng.standard_normal((90, *shape)).astype(np.float32)
        if len(shape) > 1
        else rng.integers(0, classes, (90, *shape))
    )
    clients = [np.arange(0, 40), np.arange(30, 41), np.arange(41, 90)]
    network = network or Cnn((4, 6), batch_norm=True, hidden=(12,))
    y = rng.integers(0, classes, 90)
    return Job(network, classes, x, y, clients, x[:50], y[:50], 4, *([] if faults is None else [faults]))


def visits_of(executor, training, rounds=3):
    """Make several rounds of parallel visits, each round from the average of the last."""
    model, results_so_far = executor.initial(), []
    for visit in range(rounds):
        pending = [executor.train(model, client, visit, training) for client in (0, 1, 2, 1)]
        results = [result.result() for result in pending]
        results_so_far += results
        locations = [result.location for result in results if result.flaw is None]
        if locations:
            model = executor.apply(lambda *models: average(models, [1.0] * len(models)), locations)
    return model, results_so_far, executor.evaluate(model).result()


@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("graphs", [True, False])
def test_bits_equal_those_of_inline(streams, graphs):
    with Inline(job()) as inline, OnDevice(job(), "cpu", streams, graphs) as executor:
        expected, expected_visits, tested = visits_of(inline, MEASURING)
        model, visits, test = visits_of(executor, MEASURING)
        assert np.array_equal(executor.vector(model), inline.vector(expected))
        assert [visit.statistics for visit in visits] == [visit.statistics for visit in expected_visits]
        assert test == tested
        facts = executor.facts()
        assert (facts["pieces_by_graph"] > 0) == (facts["graphs"] > 0) == graphs


@pytest.mark.parametrize("training", [TRAINING, Training(lr=2**-4, batch_size=8, steps=2)])
def test_visits_that_evaluate_have_the_measurements_of_inline(training):
    carried = Carried(procedure=EVALUATE)
    with Inline(job()) as inline, OnDevice(job(), "cpu") as executor:
        for visit in range(2):
            expected, found = (
                [on.train(on.initial(), client, visit, training, carried).result() for client in (0, 1, 2)]
                for on in (inline, executor)
            )
            assert [each.statistics for each in found] == [each.statistics for each in expected]
            assert all(each.statistics.keys() == {"loss", "accuracy"} for each in found)
            assert all(each.flaw is None and each.state is None for each in found)
            for each in found:
                assert np.array_equal(executor.vector(each.location), executor.vector(executor.initial()))
        with pytest.raises(ConfigError, match=r"clients cannot keep anything there, and the strategy uses 'scaffold'"):
            executor.train(executor.initial(), 0, 1, training, Carried(procedure="scaffold"))


def test_frozen_parameters_and_running_statistics_equal_those_of_inline():
    def stepped(executor):
        model, visits, _ = visits_of(executor, TRAINING)
        ends = [item.location for item in visits[-4:]]
        rule = Statistics([model, *ends], lambda vectors: average(vectors, [2.0, 1.0, 1.0, 1.0, 1.0]))
        model = executor.apply(lambda w, end, *_: w + 3 * (end - w), [model, *ends], rule)
        return [executor.vector(item) for item in [executor.initial(), *ends, model]]

    network = UserNetwork("tests.strategies.nets:both")
    with (
        Inline(job(network, (1, 8, 8))) as inline,
        OnDevice(job(network, (1, 8, 8)), "cpu", 2) as device,
        Processes(job(network, (1, 8, 8)), 2) as processes,
    ):
        expected = stepped(inline)
        for executor in (device, processes):
            assert executor.sections == inline.sections
            assert executor.size_bytes == inline.size_bytes
            for vector, other in zip(stepped(executor), expected, strict=True):
                assert vector.tobytes() == other.tobytes()
        frozen = slice(inline.sections.moving, None)
        assert {vector[frozen].tobytes() for vector in expected} == {expected[0][frozen].tobytes()}
        assert executor.vector(executor.place(lambda: expected[2])).tobytes() == expected[2].tobytes()


@pytest.mark.parametrize(
    ("network", "shape"), [(LeNet(), (1, 28, 28)), (Mlp((8,)), (3, 4)), (CharLstm(hidden=8), (7,))]
)
def test_every_kind_of_training_agrees_with_inline(network, shape, double):
    """Compare single visits from the same model, so that differences cannot grow from round to round."""
    settings = [
        Training(lr=0.03, momentum=0.9, nesterov=True, weight_decay=0.01, clip_norm=0.5, proximal=0.1, epochs=2),
        Training(optimizer="adam", lr=0.001, steps=13, statistics=frozenset({"gradient_norm"})),
        Training(full_batch=True, lr=0.03, loss="logit-adjusted", prior=(0.1,) * 10),
    ]
    with Inline(job(network, shape)) as inline, OnDevice(job(network, shape), "cpu", 2) as executor:
        for training in settings:
            model = inline.vector(inline.initial())
            for visit in range(2):
                start, same_start = (operation.apply(partial(np.copy, model), []) for operation in (inline, executor))
                assert np.array_equal(executor.vector(same_start), inline.vector(start))
                pending = [executor.train(same_start, client, visit, training) for client in (0, 1, 2, 1)]
                expected = [inline.train(start, client, visit, training).result() for client in (0, 1, 2, 1)]
                for one, other in zip((operation.result() for operation in pending), expected, strict=True):
                    vector = inline.vector(other.location)
                    np.testing.assert_allclose(executor.vector(one.location), vector, **double_precision(training))
                    assert one.statistics == pytest.approx(other.statistics, rel=1e-10)
                    assert np.abs(vector - model).max() > 1e-4  # training has happened
                model = average([inline.vector(operation.location) for operation in expected])


def test_training_at_the_server_agrees_with_inline():
    rows = np.array([5, 3, 3, 80, 41, 7, 8, 9, 10, 11], dtype=np.int32)
    with Inline(job()) as inline, OnDevice(job(), "cpu", 2) as executor:
        for visit in range(3):
            expected = inline.train_rows(inline.initial(), rows, visit, TRAINING).result()
            result = executor.train_rows(executor.initial(), rows, visit, TRAINING).result()
            assert np.array_equal(executor.vector(result.location), inline.vector(expected.location))
            assert (result.statistics, result.flaw) == (expected.statistics, None)


def test_faults_and_their_detection_agree_with_inline():
    faults = Faults(nan=0.2, infinite=0.2, shape=0.2, count=0.2, scaled=0.1)
    with Inline(job(faults=faults)) as inline, OnDevice(job(faults=faults), "cpu", 2) as executor:
        _, expected_visits, _ = visits_of(inline, TRAINING, 6)
        _, visits, _ = visits_of(executor, TRAINING, 6)
        assert [visit.flaw for visit in visits] == [visit.flaw for visit in expected_visits]
        assert len({visit.flaw for visit in visits}) >= 4
        for one, other in zip(visits, expected_visits, strict=True):
            assert np.array_equal(executor.vector(one.location), inline.vector(other.location), equal_nan=True)


def test_diverging_training_is_detected():
    with OnDevice(job(Mlp((8,)), (3, 4)), "cpu", 1) as executor:
        wild = Training(lr=2.0**120, epochs=5, proximal=2.0**60)
        assert "not finite" in executor.train(executor.initial(), 0, 0, wild).result().flaw


def test_step_sizes_share_recordings():
    with OnDevice(job(), "cpu", 1) as executor:
        for visit in range(6):
            executor.train(executor.initial(), 0, visit, Training(lr=0.1 * 0.9**visit, batch_size=8)).result()
        assert (executor.facts()["graphs"], executor.facts()["pieces_by_graph"]) == (2, 10)  # 40 in eights: 4 and 1


class Counts(nn.Module):
    """A network whose control flow depends on a value."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(12, 10)

    def forward(self, x):
        x = x.flatten(1)
        return self.inner(x if x.sum() > 0 else -x)


@pytest.mark.parametrize(
    ("network", "shape", "reason"),
    [
        (Cnn((4, 6), hidden=(12,), dropout=0.5), (3, 20, 20), "bernoulli_ draws random numbers"),
        (UserNetwork("counting_net:Counts"), (3, 4), "_local_scalar_dense: the next step depends on a value"),
    ],
)
def test_a_network_that_cannot_be_recorded_trains_step_by_step_and_is_logged_once(
    network, shape, reason, monkeypatch, caplog
):
    monkeypatch.setitem(sys.modules, "counting_net", types.SimpleNamespace(Counts=Counts))  # type: ignore[arg-type]
    with (
        caplog.at_level(logging.WARNING),
        Inline(job(network, shape)) as inline,
        OnDevice(job(network, shape), "cpu", 2) as executor,
    ):
        expected, expected_visits, _ = visits_of(inline, MEASURING)
        model, visits, _ = visits_of(executor, MEASURING)
        visits_of(executor, TRAINING)
        assert np.array_equal(executor.vector(model), inline.vector(expected))
        assert [visit.statistics for visit in visits] == [visit.statistics for visit in expected_visits]
        assert executor.facts()["pieces_by_graph"] == 0
        assert reason in executor.facts()["not_recorded"][0]
    assert [reason in record.message for record in caplog.records] == [True]


class Refusing(HostStream):
    """A stream that cannot record."""

    def recorded(self, function):
        raise RuntimeError("operation not permitted when stream is capturing\nmore lines")


def test_after_a_failed_recording_training_continues_step_by_step(caplog):
    with Inline(job()) as inline, OnDevice(job(), "cpu", 2, make_stream=lambda urgent: Refusing()) as executor:
        expected, _, _ = visits_of(inline, TRAINING)
        model, _, _ = visits_of(executor, TRAINING)
        assert np.array_equal(executor.vector(model), inline.vector(expected))
        assert executor.facts()["graphs"] == 0
        assert len(executor.facts()["not_recorded"]) == 1
    assert [
        record.message.endswith("operation not permitted when stream is capturing") for record in caplog.records
    ] == [True]


class SlowMark:
    def __init__(self, stream):
        self.stream, self.passed = stream, False

    def query(self):
        return self.passed

    def synchronize(self):
        for mark in self.stream.marks[: self.stream.marks.index(self) + 1]:
            mark.passed = True


class SlowStream(HostStream):
    """A stream whose operations end only when someone waits for them."""

    def __init__(self, urgent=True):
        self.urgent, self.marks = urgent, []

    def mark(self):
        self.marks.append(SlowMark(self))
        return self.marks[-1]


def slow(count):
    streams = []

    def make_stream(urgent):
        streams.append(SlowStream(urgent))
        return streams[-1]

    return OnDevice(job(Mlp((8,)), (3, 4)), "cpu", count, make_stream=make_stream), streams


def test_streams_queue_work_ahead_and_drop_operations_without_a_caller():
    executor, streams = slow(2)
    with executor:
        model = executor.initial()
        queued = [executor.train(model, 0, visit, TRAINING) for visit in range(2 * AHEAD)]
        dropped = [executor.train(model, 1, visit, TRAINING) for visit in range(5)]
        last = executor.train(model, 2, 0, TRAINING)
        assert [len(stream.marks) for stream in streams] == [0, AHEAD, AHEAD]
        assert not queued[0].done()
        del dropped
        assert last.result().statistics["loss"] > 0
        assert queued[0].done()
        assert sum(len(stream.marks) for stream in streams) == 2 * AHEAD + 1


def test_a_chain_stays_in_one_stream():
    executor, streams = slow(4)
    with executor:
        model = executor.initial()
        for visit in range(5):
            model = executor.train(model, 0, visit, TRAINING).result().location
        assert [len(stream.marks) for stream in streams] == [0, 5]


def test_evaluations_wait_for_visits_in_a_low_priority_stream():
    executor, streams = slow(1)
    with executor:
        model = executor.initial()
        visits = [executor.train(model, 0, visit, TRAINING) for visit in range(AHEAD + 2)]
        test = executor.evaluate(model)
        assert [stream.urgent for stream in streams] == [False, True]
        assert not streams[0].marks
        assert test.result().loss > 0
        assert len(streams[1].marks) == len(visits)
        with Inline(job(Mlp((8,)), (3, 4))) as inline:
            assert inline.evaluate(inline.initial()).result() == test.result()


def test_a_model_is_kept_exactly_while_it_is_read():
    executor, _ = slow(1)
    with executor:
        location = executor.apply(lambda vector: vector * 2, [executor.initial()])
        seen = weakref.ref(location.vector)
        pending = executor.train(location, 0, 0, TRAINING)
        del location
        gc.collect()
        assert seen() is not None
        pending.result()
        executor.train(executor.initial(), 0, 1, TRAINING)
        gc.collect()
        assert seen() is None


def test_closing_fails_pending_operations():
    executor, _ = slow(1)
    with executor:
        done = executor.train(executor.initial(), 0, 0, TRAINING)
        done.result()
        open_ones = [executor.train(executor.initial(), 0, visit, TRAINING) for visit in range(AHEAD + 2)]
        test = executor.evaluate(executor.initial())
    executor.close()
    assert done.result().statistics
    for pending in (*open_ones, test):
        with pytest.raises(WorkerError, match="closed"):
            pending.result()
    with pytest.raises(WorkerError, match="closed"):
        executor.train(executor.initial(), 0, 1, TRAINING)


def test_a_failing_visit_reports_its_error_and_other_visits_continue():
    with OnDevice(job(), "cpu", 2) as executor:
        bad = executor.train(executor.initial(), 0, 1, Training(loss="logit-adjusted", prior=(1.0, 1.0)))
        good = executor.train(executor.initial(), 0, 1, TRAINING)
        for _ in range(2):
            with pytest.raises(ConfigError, match=r"^training.prior has 2 entries"):
                bad.result()
        assert good.result().statistics["loss"] > 0


def test_running_out_of_memory_is_reported_with_a_remedy(monkeypatch):
    def no_memory(*arguments, **settings):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore lines")

    message = r"out of GPU memory \(CUDA out of memory. Tried to allocate 2.00 GiB\): lower executor.streams$"
    with OnDevice(job(), "cpu", 2) as executor:
        assert executor.train(executor.initial(), 0, 1, TRAINING).result().statistics
        with monkeypatch.context() as patched:
            patched.setattr("fedtempo.runtime.executors.resident.Course.begin", no_memory)
            with pytest.raises(RunError, match=message):
                executor.train(executor.initial(), 0, 2, TRAINING).result()
        monkeypatch.setattr(Job, "model", no_memory)
        with pytest.raises(RunError, match=message):
            OnDevice(job(), "cpu", 2)
        assert executor.train(executor.initial(), 0, 2, TRAINING).result().statistics


class Broken(SlowStream):
    def mark(self):
        mark = super().mark()
        mark.query = mark.synchronize = self.fail
        return mark

    def fail(self):
        raise RuntimeError("CUDA error: device-side assert")


def test_a_failing_device_is_reported_as_a_run_error():
    with OnDevice(job(), "cpu", 1, make_stream=lambda urgent: Broken()) as executor:
        pending = [executor.train(executor.initial(), 0, visit, TRAINING) for visit in range(5)]
        for operation in pending:
            with pytest.raises(WorkerError, match="the device failed: CUDA error: device-side assert"):
                operation.result()


TABLES = {
    "run": {"horizon": 30.0, "seed": 1},
    "data": {"source": "digits", "clients": 6, "examples_per_client": 20, "test_examples": 40},
    "model": {"network": "mlp", "hidden": [8]},
    "fleet": {"preset": "fedhusky"},
    "strategy": {"name": "fedavg", "clients_per_round": 3},
}


def test_the_configuration_chooses_the_executor(monkeypatch):
    config = parse({**TABLES, "executor": {"device": "cuda:1", "streams": 3, "graphs": False}})
    names = []
    monkeypatch.setattr(device_module, "find_device", lambda name: names.append(name) or torch.device("cpu"))
    with make_executor(config, build_world(config)) as executor:
        assert isinstance(executor, OnDevice)
        assert executor._streams == 3
    assert names == ["cuda:1"]
    assert not isinstance(
        make_executor(parse({**TABLES, "executor": {"kind": "inline"}}), build_world(config)), OnDevice
    )


def test_a_run_on_the_device_agrees_with_one_on_the_cpu(monkeypatch, double):
    monkeypatch.setattr(device_module, "find_device", lambda name: torch.device("cpu"))
    summaries, models = [], []
    for settings in ({"kind": "inline"}, {"device": "cuda"}):
        summary, _, model = run(parse({**TABLES, "executor": settings}))
        summaries.append(summary)
        models.append(model)
    assert summaries[0]["events_sha256"] == summaries[1]["events_sha256"]
    np.testing.assert_allclose(models[1], models[0], **DOUBLE)


def test_a_run_cannot_be_resumed_on_another_kind_of_device():
    processor = parse({**TABLES, "executor": {"kind": "inline"}})
    cards = [parse({**TABLES, "executor": {"device": name}}) for name in ("cuda", "cuda:3")]
    world = build_world(processor)
    first, second, third = (identity(config, world)["configuration"] for config in (processor, *cards))
    assert first != second == third


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is present")
def test_a_missing_device_is_reported_with_the_field_and_pytorchs_message():
    with pytest.raises(ConfigError, match=r"executor.device = 'cuda:1': PyTorch .* says: .+; use 'cpu'$") as caught:
        find_device("cuda:1")
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"executor.device"):
        run(parse({**TABLES, "executor": {"device": "cuda"}}))


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda1", "CUDA"])
def test_an_invalid_device_name_is_rejected(name):
    with pytest.raises(ConfigError, match=r"executor.device"):
        parse({**TABLES, "executor": {"device": name}})

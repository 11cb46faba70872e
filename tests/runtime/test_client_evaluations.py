"""Evaluations on the clients' own test sets, by hand, and with the same bits on every executor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from torch import nn

from fedtempo.deploy.live.event_log import EventLog, OperationEnded
from fedtempo.errors import ConfigError
from fedtempo.federation import Model
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.networks import Logistic
from fedtempo.learning.training import Training
from fedtempo.record import Recorder
from fedtempo.runtime.client_evaluations import ClientEvaluations, ClientTesting, measures_of
from fedtempo.runtime.evaluations import Evaluations, MeanEvaluation
from fedtempo.runtime.executors import Carried, Evaluation, On
from fedtempo.runtime.executors.codec import decode, encode
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import ClientTests, Job
from fedtempo.runtime.executors.none import Done
from fedtempo.runtime.executors.processes import Processes
from fedtempo.runtime.run_settings import Goal
from tests.runtime.learning import Built

TRAINING = Training(lr=0.25, loss="squared", full_batch=True)


def line() -> nn.Linear:
    """Return y = w x + b with w = 1 and b = 0."""
    layer = nn.Linear(1, 1)
    nn.init.constant_(layer.weight, 1.0)
    nn.init.constant_(layer.bias, 0.0)
    return layer


def lines(**options: Any) -> Job:
    """Two clients with one training example each; the first has test examples (2, 4) and (0, 1), the second (1, 1)."""
    x, y = np.array([[1.0], [2.0]], np.float32), np.array([3.0, 1.0], np.float32)
    test_x, test_y = np.array([[2.0], [0.0], [1.0]], np.float32), np.array([4.0, 1.0, 1.0], np.float32)
    tests = ClientTests(test_x, test_y, np.array([2, 3]))
    return Job(Built(line), 1, x, y, [np.array([0]), np.array([1])], x, y, seed=1, client_tests=tests, **options)


def digits(**options: Any) -> Job:
    """Four clients with 3, 0, 5 and 4 test examples, in batches of 5 that cut through clients."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 6)).astype(np.float32), rng.integers(0, 3, 60)
    tests = ClientTests(x[:12], y[:12], np.array([3, 3, 8, 12]))
    clients = np.split(np.arange(12, 60), 4)
    more = {"evaluation_batch": 5, "client_tests": tests, "metrics": ("auc", "confusion")} | options
    return Job(Logistic(), 3, x, y, clients, x[40:], y[40:], 1, **more)


def test_the_global_model_at_each_client_by_hand() -> None:
    """Errors -2, -1 | 0. The labels 4, 1, 1 of all clients have the variance 2."""
    with Inline(lines()) as executor:
        found = executor.evaluate(executor.initial(), on="clients").result()
    assert found.clients is not None
    np.testing.assert_allclose(found.clients, [[1 - 2.5 / 2, 2.5, 1.5], [1.0, 0.0, 0.0]], atol=1e-7)
    assert (found.accuracy, found.loss, found.mae) == pytest.approx((1 - 5 / 3 / 2, 5 / 3, 1.0))


def test_a_model_tuned_to_a_client_by_hand() -> None:
    """Squared loss: client 0's error is 1 - 3 = -2, w = 1 + 0.25 * 4 = 2 and b = 1: errors 5 - 4 and 1 - 1.

    The global model stays as it was, and so do evaluations of it.
    """
    with Inline(lines(personalise=TRAINING)) as executor:
        tuned = executor.evaluate(executor.initial(), on=0).result()
        assert (tuned.loss, tuned.mae, tuned.accuracy) == pytest.approx((0.5, 0.5, 1 - 0.5 / 2))
        whole = executor.evaluate(executor.initial(), on="clients").result()
        assert executor.vector(executor.initial()).tolist() == [1.0, 0.0]
    assert whole.clients is not None
    np.testing.assert_allclose(whole.clients[1], [1.0, 0.0, 0.0], atol=1e-7)


def test_a_clients_own_parts_are_used_and_tuned() -> None:
    """b is local. A visit makes w = 2 and b = 1 (above); with the global w = 1 client 0 predicts 3 and 1."""
    local = Exchange(local=("bias",))
    for personalise, loss in ((None, ((3 - 4) ** 2 + 0) / 2), (TRAINING, None)):
        with Inline(lines(exchange=local, personalise=personalise)) as executor:
            trained = executor.train(executor.initial(), 0, 1, TRAINING, Carried()).result()
            found = executor.evaluate(executor.initial(), trained.state, 0).result()
            if loss is not None:
                assert found.loss == pytest.approx(loss)
            else:  # x = 1: error 2 - 3 = -1, w = 1.5, b = 1.5: errors 0.5 and 0.5
                assert found.loss == pytest.approx(0.25)


def outcomes(executor: Any) -> list[Evaluation]:
    trained = executor.train(executor.initial(), 1, 1, Training(lr=0.1)).result()
    return [executor.evaluate(trained.location, None, on).result() for on in ("test", "clients")]


def test_every_executor_measures_the_same() -> None:
    with Inline(digits()) as inline, Processes(digits(), 2) as processes:
        one, two = outcomes(inline), outcomes(processes)
        assert (
            inline.evaluate(inline.initial(), on=2).result() == processes.evaluate(processes.initial(), on=2).result()
        )
    with OnDevice(digits(), "cpu", 1) as device:
        three = outcomes(device)
    assert one == two
    for test, clients in (two, three):
        np.testing.assert_allclose(clients.clients, one[1].clients, rtol=0 if clients is two[1] else 1e-5)
        assert np.array_equal(test.metrics["confusion"], one[0].metrics["confusion"])
        assert test.metrics["auc"] == pytest.approx(one[0].metrics["auc"], rel=1e-6)
    assert one[1].clients is not None
    assert np.isnan(one[1].clients).all(axis=1).tolist() == [False, True, False, False]
    with pytest.raises(ConfigError, match=r"run\.personalise works on a CPU only"):
        OnDevice(digits(personalise=TRAINING), "cpu", 1)


def test_each_client_alone_measures_what_the_single_pass_does() -> None:
    with Inline(digits()) as executor:
        whole = executor.evaluate(executor.initial(), on="clients").result().clients
        assert whole is not None
        for client in (0, 2, 3):
            alone = executor.evaluate(executor.initial(), on=client).result()
            np.testing.assert_allclose(whole[client], [alone.accuracy, alone.loss], rtol=1e-5)


def test_a_client_whose_loss_is_not_finite_has_no_accuracy() -> None:
    job = lines()
    with Inline(job) as executor:
        broken = executor.place(lambda: np.array([math.inf, 0.0], np.float32))
        found = executor.evaluate(broken, on="clients").result().clients
    assert found is not None
    assert np.isnan(found[:, 0]).all()


def test_journals_keep_every_bit() -> None:
    clients = np.array([[0.1, math.nan], [1 / 3, 2.0]])
    whole = Evaluation(0.5, 1.0, None, {"auc": math.nan, "by-class": np.array([1 / 3, math.nan])}, clients)
    again = Evaluation(*decode(encode(whole.as_values(), lambda _: None), []))
    assert again == whole
    assert np.array_equal(again.clients, clients, equal_nan=True)  # type: ignore[arg-type]
    log = EventLog(None, None)
    event = log._read_event(log._event(OperationEnded(3, whole)))
    assert np.array_equal(event.result.metrics["by-class"], whole.metrics["by-class"], equal_nan=True)
    assert Evaluation(0.5, 1.0).as_values() == (0.5, 1.0, None)


class Scripted:
    """An executor whose model of version v has the accuracy v / 10, and v / 10 and 0.5 at two clients."""

    trains = True

    def __init__(self) -> None:
        self.asked: list[tuple[int, On]] = []

    def evaluate(self, location: int, state: Any = None, on: On = "test") -> Done[Evaluation]:
        self.asked.append((location, on))
        clients = np.array([[location / 10, 1.0], [0.5, 1.0]]) if on == "clients" else None
        return Done(Evaluation(location / 10, 1.0, clients=clients))


def made(executor: Any, every: int, **options: Any) -> tuple[Recorder, Evaluations]:
    recorder = Recorder(None)
    evaluations = Evaluations(executor, recorder, every=None, **options)
    testing = ClientTesting(np.array([4, 2]), ("clients",), every)
    evaluations.use_tests_of(ClientEvaluations(executor, testing, ()))
    return recorder, evaluations


@pytest.mark.parametrize(("every", "versions"), [(1, [0, 1, 2, 3, 4]), (3, [0, 3, 4]), (0, [4])])
def test_every_so_many_evaluations_and_the_last_include_clients(every: int, versions: list[int]) -> None:
    executor = Scripted()
    recorder, evaluations = made(executor, every)
    evaluations.begin(Model(0, 0))
    for version in range(1, 5):
        evaluations.committed(float(version), Model(version - 1, version - 1), Model(version, version))
    evaluations.finish(6.0, Model(4, 4))
    assert [version for version, on in executor.asked if on == "clients"] == versions
    assert [version for version, on in executor.asked if on == "test"] == [0, 1, 2, 3, 4]
    rows = recorder.records().further["client_evaluations"]
    assert rows["version"].tolist() == [version for version in versions for _ in range(2)]
    assert rows["client"].tolist() == [0, 1] * len(versions)
    assert rows["examples"].tolist() == [4, 2] * len(versions)
    assert rows["accuracy"].tolist() == [value for version in versions for value in (version / 10, 0.5)]
    metrics = recorder.records().further["metrics"]
    worst = metrics["value"][metrics["name"] == "clients-worst-tenth"].tolist()
    assert worst == [min(version / 10, 0.5) for version in versions]


def test_a_target_may_be_a_statistic_over_clients() -> None:
    """The mean over clients is 0.25 + v / 20: the mean of versions 2, 3 and 4 is 0.4."""
    reached: list[float] = []
    executor = Scripted()
    goal = Goal("clients-mean", 0.399, "higher")
    _, evaluations = made(executor, 1, target=goal, stop=True, reached=lambda: reached.append(executor.asked[-1][0]))
    evaluations.begin(Model(0, 0))
    for version in range(1, 5):
        evaluations.committed(float(version), Model(version - 1, version - 1), Model(version, version))
    assert reached == [4]


def test_a_lower_loss_may_be_the_target() -> None:
    reached: list[bool] = []
    _, evaluations = made(
        Scripted(), 0, target=Goal("loss", 1.0, "lower"), stop=True, reached=lambda: reached.append(True)
    )
    for version in range(3):
        assert not reached
        evaluations.committed(float(version), Model(version, version), Model(version + 1, version + 1))
    assert reached


def test_means_over_clients_parts_include_further_metrics() -> None:
    """Weights 1 and 3: (0.2 + 3 * 0.6) / 4. Confusion matrices are added up."""
    parts = [
        Done(
            Evaluation(
                0.0, 1.0, None, {"auc": auc, "by-class": np.array([auc, 1.0]), "confusion": np.eye(2, dtype=int)}
            )
        )
        for auc in (0.2, 0.6)
    ]
    mean = MeanEvaluation(parts, [1, 3]).result().metrics
    assert mean["auc"] == pytest.approx(0.5)
    assert mean["by-class"].tolist() == pytest.approx([0.5, 1.0])
    assert mean["confusion"].tolist() == [[2, 0], [0, 2]]


def test_statistics_have_the_names_of_measures() -> None:
    executor = Scripted()
    testing = ClientTesting(np.array([4, 0]), ("clients",))
    scores = ClientEvaluations(executor, testing, ()).start(3).result()
    assert [(each.kind, each.clients.tolist()) for each in scores] == [("clients", [0])]
    assert measures_of(scores)["clients-mean"] == 0.3

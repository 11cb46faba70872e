"""Faulty visits: bad updates are rejected, late visits are given up."""

from __future__ import annotations

import numpy as np
import pytest

from fedtempo.errors import ConfigError, DeadlockError, RunError
from fedtempo.federation import ClientUnavailable, Federation, Work
from fedtempo.fleet.faults import Faults
from fedtempo.learning.sections import Sections
from fedtempo.record import summarise
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.runtime.executors.screening import flaw_in, is_finite
from tests.runtime.world import play

LINK = {"kind": "fixed", "download_s": 0.5, "upload_s": 0.5}


def outcomes(fed_script, **settings):
    outcome, records = play(fed_script, **settings)
    return outcome, records.visits["outcome"].tolist(), records


async def ask_everyone(fed: Federation) -> None:
    await fed.train_all(fed.clients, fed.model)


@pytest.mark.parametrize("fault", ["nan", "infinite", "shape", "count"])
def test_an_invalid_update_is_rejected_on_arrival_and_the_strategy_is_told(fault: str) -> None:
    caught: list[tuple[int, float, str]] = []

    async def script(fed: Federation) -> None:
        for client in fed.clients[:2]:
            try:
                await fed.train(client, fed.model)
            except ClientUnavailable as lost:
                caught.append((lost.client.id, fed.now, lost.reason[:23]))

    _, ended, records = outcomes(script, link=LINK, faults={fault: 1.0, "clients": [1]})
    assert caught == [(1, 4.0, "its update was rejected")]
    assert ended == ["done", "refused"]
    assert records.facts["bytes"] == {"down": 2_000_000, "up": 2_000_000, "relay": 0}
    assert np.isnan(records.visits["loss"]).all()


def test_without_a_deadline_late_visits_are_waited_for() -> None:
    faults = {"late": 1.0, "late_factor": 3.0, "clients": [2]}
    _, ended, records = outcomes(ask_everyone, compute=2.0, link=LINK, faults=faults)
    assert ended == ["done"] * 4
    assert sorted(records.visits["finished"].tolist()) == [3.0, 3.0, 3.0, 7.0]


def test_a_deadline_ends_late_and_silent_visits_and_frees_their_clients() -> None:
    for faults in ({"late": 1.0, "late_factor": 10.0}, {"hang": 1.0}):
        freed: list[float] = []

        async def script(fed: Federation, freed: list[float] = freed) -> None:
            await fed.train_all(fed.clients, fed.model)
            freed.append(fed.now)
            await fed.train_all(fed.clients[:1], fed.model)

        _, ended, records = outcomes(
            script, compute=2.0, link=LINK, faults={**faults, "clients": [0]}, server={"deadline": 1.5}
        )
        assert freed == [pytest.approx(4.5)]  # 1.5 times three seconds
        assert ended == ["late", "done", "done", "done", "late"]
        assert np.isnan(records.visits["computed"][0])


@pytest.mark.parametrize("deadline", [1.0, 3.0])
def test_a_visit_that_ends_exactly_at_the_deadline_passes(deadline: float) -> None:
    link = {"kind": "fixed", "download_s": 0.1, "upload_s": 0.7}
    _, ended, _ = outcomes(ask_everyone, compute=[0.3, 0.9, 1.1, 7.7], link=link, server={"deadline": deadline})
    assert ended == ["done"] * 4


def test_waiting_for_others_and_additional_epochs_do_not_count_against_a_client() -> None:
    async def script(fed: Federation) -> None:
        await fed.train_all(fed.clients, fed.model, Work(epochs=5))
        visits = await fed.multicast(fed.clients, fed.model)
        await fed.sleep_until(fed.now + 100.0)
        for visit in visits:
            await fed.compute(visit)
            await fed.upload(visit)

    link = {"kind": "fixed", "download_s": [0.5, 0.5, 0.5, 9.0], "upload_s": 2.0, "channels": 1}
    _, ended, _ = outcomes(script, link=link, server={"deadline": 1.0})
    assert ended == ["done"] * 8


def test_silent_clients_without_a_deadline_are_rejected_or_reported_as_a_deadlock() -> None:
    with pytest.raises(ConfigError, match=r"fleet.faults.hang = 0.5: .* set server.deadline"):
        parse(tables("fedavg", {"hang": 0.5}))
    with pytest.raises(DeadlockError, match="nothing can happen any more"):
        play(ask_everyone, faults={"hang": 1.0}, horizon=None, max_commits=1)


def test_a_silent_client_does_not_block_the_preparation() -> None:
    async def script(fed: Federation) -> None:
        with fed.preparation():
            assert len(await fed.train_all(fed.clients, fed.model)) == 3
        assert fed.now == 0.0

    _, ended, _ = outcomes(script, faults={"hang": 1.0, "clients": [3]}, server={"deadline": 2.0})
    assert sorted(ended) == ["done", "done", "done", "late"]


def test_too_many_bad_updates_end_the_run() -> None:
    async def script(fed: Federation) -> None:
        while True:
            await fed.train_all(fed.clients, fed.model)

    with pytest.raises(
        RunError, match=r"3 updates were rejected by t = 2 s, server.max_bad_updates = 2; the last was from client 1: "
    ):
        play(script, faults={"nan": 1.0, "clients": [1, 3]}, server={"max_bad_updates": 2})
    for allowed in ({"max_bad_updates": 1000}, {}):
        outcome, ended, _ = outcomes(script, horizon=5.0, faults={"nan": 1.0, "clients": [1]}, server=allowed)
        assert (outcome.ended, ended.count("refused")) == ("horizon", 5)


def tables(strategy: str, faults: dict, **server):
    return {
        "run": {"horizon": 40.0, "evaluate_every": 10.0},
        "data": {"clients": 6, "examples_per_client": 20, "test_examples": 50},
        "model": {"network": "logistic"},
        "training": {"lr": 0.1},
        "fleet": {
            "compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 2.0},
            "link": LINK,
            "estimates": "exact",
            "faults": faults,
        },
        "strategy": {"name": strategy},
        "executor": {"kind": "inline"},
        "server": server,
    }


FAULTS = {"nan": 0.15, "infinite": 0.1, "shape": 0.1, "count": 0.1, "late": 0.1, "hang": 0.1}


def test_updates_are_checked_where_they_are_trained_with_the_same_bits_on_every_executor() -> None:
    results = set()
    for kind in ("inline", "processes"):
        config = parse(tables("fedasync", FAULTS, deadline=3.0))
        summary, records, model = run(config.with_changes({"executor.kind": kind, "executor.workers": 2}))
        results.add((summary["model_sha256"], summary["events_sha256"]))
        assert model is not None
        assert np.isfinite(model).all()
        assert summary["visits_lost"] == summarise(records)["visits_lost"]
        assert all(summary["visits_lost"][name] > 2 for name in ("refused", "late"))
        assert summary["best_accuracy"] > 0.2
    assert len(results) == 1
    # Without training the same visits are faulty.
    planned, _, _ = run(config.with_changes({"executor.kind": "none"}))
    assert planned["events_sha256"] == results.pop()[1]


def test_a_diverged_model_is_rejected() -> None:
    config = parse(tables("fedavg", {})).with_changes({"training.lr": 3e38})
    summary, _, model = run(config)
    assert summary["visits"] == 0
    assert summary["visits_lost"]["refused"] > 6
    assert np.isfinite(model).all()


def test_faults_are_drawn_with_their_probabilities_for_the_configured_clients() -> None:
    faults = Faults(nan=0.2, late=0.3, clients=(1,))
    rng = np.random.default_rng(1)
    drawn = [faults.drawn(1, rng) for _ in range(20_000)]
    for kind, share in (("nan", 0.2), ("late", 0.3), (None, 0.5)):
        spread = (share * (1 - share) / 20_000) ** 0.5
        assert abs(drawn.count(kind) / 20_000 - share) < 5 * spread
    assert {faults.drawn(0, rng) for _ in range(100)} == {None}
    with pytest.raises(ConfigError, match=r"add up to 1\.2, more than 1"):
        parse(tables("fedavg", {"nan": 0.6, "infinite": 0.6}))
    with pytest.raises(ConfigError, match=r"fleet.faults: clients: 6 is not in the fleet, 0 to 5"):
        run(parse(tables("fedavg", {"nan": 0.6, "clients": [6]})))


def test_invalid_updates_are_recognised_with_the_reason() -> None:
    good = np.linspace(-1, 1, 5, dtype=np.float32)

    def flaw(parameters=good, count=3, statistics=None):
        measured = statistics or {"loss": 1.0}
        return flaw_in(parameters, count, measured, sections=Sections(5), expected=3, finite=is_finite(parameters))

    assert flaw() is None
    assert flaw(good[:4]) == "its parameters have the shape (4,), not (5,)"
    assert flaw(good.reshape(5, 1)) == "its parameters have the shape (5, 1), not (5,)"
    assert flaw(count=-3) == "it reports training on -3 examples but holds 3"
    assert flaw(statistics={"loss": np.nan}) == "its loss is nan, not finite"
    for bad in (np.nan, np.inf, -np.inf):
        spoiled = good.copy()
        spoiled[3] = bad
        assert flaw(spoiled) == "its parameters are not finite"
    largest = np.finfo(np.float32).max
    assert is_finite(np.full(1000, largest, dtype=np.float32))  # although their sum is not
    assert not is_finite(np.array([np.inf, -np.inf], dtype=np.float32))
    assert is_finite(np.empty(0, dtype=np.float32))


def test_a_scaled_update_is_valid() -> None:
    vector = np.ones(4, dtype=np.float32)
    sent, count = Faults(scaled=1.0).sent("scaled", vector, 7, np.random.default_rng(0))
    assert (sent.tolist(), count) == ([1e6] * 4, 7)

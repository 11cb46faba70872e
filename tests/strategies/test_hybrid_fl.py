"""Hybrid-FL and centralized training: collection of examples, its end, and averages."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.federation import Examples, Federation, Model, Update
from fedtempo.record import Records
from fedtempo.runtime.raw_examples import RawExamples
from fedtempo.runtime.simulation import Simulation
from fedtempo.strategies.centralized import Centralized
from fedtempo.strategies.fedcs import FedCS
from fedtempo.strategies.hybrid_fl import HybridFL
from tests.runtime.world import play

N_CLASSES, N_CLIENTS = 4, 12
CONSENT = [client % 3 == 0 for client in range(N_CLIENTS)]
LABELS = [np.random.default_rng(client).integers(0, N_CLASSES, 20 + client) for client in range(N_CLIENTS)]
HISTOGRAMS: list[tuple[int, ...]] = [tuple(np.bincount(own, minlength=N_CLASSES).tolist()) for own in LABELS]

# Sending a model takes 8 s to all and 2 s from a client; an example of 100 bytes takes 0.1 s to 0.32 s.
UPLOAD_BPS = [8000.0 - 500.0 * client for client in range(N_CLIENTS)]
WORLD: dict[str, Any] = {
    "clients": N_CLIENTS,
    "labels": LABELS,
    "histograms": HISTOGRAMS,
    "examples": [len(own) for own in LABELS],
    "consent": CONSENT,
    "compute": {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 6.0}},
    "link": {"kind": "rates", "download_bps": 2000.0, "upload_bps": UPLOAD_BPS},
    "size_bytes": 2000,
}

VARIANTS = list(itertools.product(("min-cv", "max-clients"), ("iid", "max-throughput")))


class Watched:
    """A record of the raw examples and averages of a run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Examples] = []
        self.trained: list[tuple[float, int]] = []
        self.averages: list[tuple[int, bool, list[float]]] = []
        send, train_on_server, average = RawExamples.send, Simulation.train_on_server, Simulation.average

        def watched_send(store: RawExamples, *given: Any, **options: Any) -> Examples:
            self.sent.append(send(store, *given, **options))
            return self.sent[-1]

        async def watched_training(sim: Simulation, model: Model, examples: Any, work: Any = None) -> Model:
            self.trained.append((sim.now, sum(sum(each.counts) for each in examples)))
            return await train_on_server(sim, model, examples, work)

        async def watched_average(sim: Simulation, models: Any, weights: Any = None) -> Model:
            updates = [each for each in models if isinstance(each, Update)]
            self.averages.append((len(updates), len(updates) < len(models), list(weights)))
            return await average(sim, models, weights)

        monkeypatch.setattr(RawExamples, "send", watched_send)
        monkeypatch.setattr(Simulation, "train_on_server", watched_training)
        monkeypatch.setattr(Simulation, "average", watched_average)

    @property
    def examples(self) -> list[tuple[int, int]]:
        """Return (client, its example) for everything that was sent."""
        return [(each.client.id, example) for each in self.sent for example in each.location.tolist()]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def rounds(records: Records) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return masks for each complete round: rows of visits that trained, and rows of uploads of examples."""
    visits, n_rounds = records.visits, len(records.commits["time"])
    raw = visits["examples"] == 0
    return [((visits["group"] == number) & ~raw, (visits["group"] == number) & raw) for number in range(n_rounds)]


@pytest.mark.parametrize(("selection", "upload"), VARIANTS)
def test_only_consenting_clients_send_examples_and_each_one_once(selection: Any, upload: Any, watched: Watched) -> None:
    strategy = HybridFL(uploaders="all", selection=selection, upload=upload, candidates=0.5, deadline_s=60.0)
    _, records = play(strategy, horizon=900.0, **WORLD)
    assert len(watched.examples) == len(set(watched.examples))
    everything = {(client, i) for client in range(N_CLIENTS) if CONSENT[client] for i in range(len(LABELS[client]))}
    assert set(watched.examples) == everything
    senders = records.visits["client"][records.visits["examples"] == 0]
    assert set(senders.tolist()) == {client for client in range(N_CLIENTS) if CONSENT[client]}
    assert sum(each.size_bytes for each in watched.sent) == 100 * len(everything)


@pytest.mark.parametrize(("selection", "upload"), VARIANTS)
def test_examples_arrive_while_clients_train_and_before_the_first_model(selection: Any, upload: Any) -> None:
    strategy = HybridFL(uploaders="all", selection=selection, upload=upload, candidates=0.5, deadline_s=60.0)
    _, records = play(strategy, horizon=900.0, **WORLD)
    visits, with_uploads = records.visits, 0
    for trains, sends in rounds(records):
        received, computed, finished = (visits[name][trains] for name in ("received", "computed", "finished"))
        first = np.argmin(finished)
        assert len(set(received.tolist())) == 1
        assert (np.sort(finished)[1:] >= np.sort(finished)[:-1] + 2000 * 8 / max(UPLOAD_BPS) - 1e-9).all()
        if sends.any():
            with_uploads += 1
            begun, ended = visits["started"][sends], visits["finished"][sends]
            assert begun.min() == received[0]
            assert ended.max() <= computed[first] + 1e-9
            assert (np.sort(begun)[1:] >= np.sort(ended)[:-1] - 1e-9).all()
            assert not set(visits["client"][sends].tolist()) & set(visits["client"][trains].tolist())
    assert with_uploads >= 3


def test_the_server_keeps_its_examples_and_is_weighted_by_their_number(watched: Watched) -> None:
    _, records = play(HybridFL(uploaders="all", candidates=0.5, deadline_s=60.0), horizon=900.0, **WORLD)
    held = [count for _, count in watched.trained]
    assert held == sorted(held)
    assert held[-1] == len(watched.examples)
    assert len(held) > 10
    assert [time for time, _ in watched.trained] == records.commits["time"].tolist()[-len(held) :]
    sizes = [len(own) for own in LABELS]
    for number, (trains, _) in enumerate(rounds(records)):
        n_updates, with_server, weights = watched.averages[number]
        assert n_updates == trains.sum()
        trained = [sizes[client] for client in records.visits["client"][trains].tolist()]
        assert sorted(weights[:n_updates]) == sorted(trained)
        assert weights[n_updates:] == ([held[number - len(watched.averages)]] if with_server else [])


def test_without_consent_a_round_equals_one_of_fedcs() -> None:
    world = {**WORLD, "consent": False}
    ours = play(
        HybridFL(uploaders="all", selection="max-clients", candidates=0.5, deadline_s=60.0), horizon=600.0, **world
    )[1]
    fedcs = play(FedCS(candidates=0.5, deadline_s=60.0), horizon=600.0, **world)[1]
    assert ours.facts["events_sha256"] == fedcs.facts["events_sha256"]


def test_least_imbalance_trains_on_more_balanced_classes() -> None:
    """One label per client; three classes are common and one is rare."""
    labels = [np.full(20, 3 if client >= 30 else client % 3) for client in range(40)]
    world = {
        **WORLD,
        "clients": 40,
        "labels": labels,
        "histograms": [tuple(np.bincount(own, minlength=4).tolist()) for own in labels],
        "examples": 20,
        "consent": False,
        "link": {"kind": "fixed", "download_s": 1.0, "upload_s": 3.0},
    }
    share = {}
    for selection in ("max-clients", "min-cv"):
        strategy = HybridFL(uploaders="all", selection=selection, candidates=0.5, deadline_s=30.0)  # type: ignore[arg-type]
        _, records = play(strategy, horizon=1500.0, **world)
        classes = np.array([own[0] for own in labels])[records.visits["client"]]
        share[selection] = np.bincount(classes, minlength=4) / len(classes)
    assert share["max-clients"].std() > 5 * share["min-cv"].std()
    assert share["min-cv"] == pytest.approx(0.25, abs=0.01)


def test_class_by_class_keeps_the_servers_classes_balanced_but_fastest_first_does_not(watched: Watched) -> None:
    """Uploaders hold one class each, the fastest class 0."""
    labels = [np.full(40, client) for client in range(4)]
    world = {
        **WORLD,
        "clients": 4,
        "labels": labels,
        "histograms": [tuple(np.bincount(own, minlength=4).tolist()) for own in labels],
        "examples": 40,
        "consent": True,
        "link": {"kind": "rates", "download_bps": 2000.0, "upload_bps": UPLOAD_BPS[:4]},
    }
    totals = {}
    for upload in ("iid", "max-throughput"):
        watched.sent.clear()
        play(Centralized(upload=upload, round_s=5.0, uploaders="all", window="round"), max_commits=1, **world)  # type: ignore[arg-type]
        totals[upload] = np.sum([each.counts for each in watched.sent], axis=0).tolist()
    assert 40 < sum(totals["iid"]) <= 50
    assert np.ptp(totals["iid"]) <= 1
    assert totals["max-throughput"][0] == 40
    assert totals["max-throughput"][2:] == [0, 0]


def test_uploaders_can_be_limited_to_this_rounds_candidates(watched: Watched) -> None:
    play(HybridFL(candidates=0.01, deadline_s=60.0), horizon=300.0, **WORLD)
    assert watched.sent == []  # one candidate, which trains


def test_in_a_round_without_suitable_clients_only_the_server_trains(watched: Watched) -> None:
    _, records = play(HybridFL(uploaders="all", deadline_s=9.0), horizon=40.0, **WORLD)
    assert records.commits["time"].tolist() == [9.0, 18.0, 27.0, 36.0]
    assert {with_server for _, with_server, _ in watched.averages} == {True}
    assert {n_updates for n_updates, _, _ in watched.averages} == {0}


def test_clients_that_leave_while_sending_examples_are_asked_again(watched: Watched) -> None:
    windows: list[list[tuple[float, float]]] = [[(0.0, 9999.0)]] * N_CLIENTS
    windows[0] = [(0.0, 8.5), (100.0, 9999.0)]
    world = {**WORLD, "availability": {"kind": "windows", "windows": windows}}
    _, records = play(HybridFL(uploaders="all", candidates=0.25, deadline_s=60.0), horizon=900.0, **world)
    assert len(watched.examples) == len(set(watched.examples))
    assert {(0, i) for i in range(len(LABELS[0]))} <= set(watched.examples)
    lost = records.visits["outcome"] == "unavailable"
    assert records.visits["client"][lost].tolist().count(0) >= 1


def test_fluctuations_never_make_examples_late(watched: Watched) -> None:
    world = {
        **WORLD,
        "compute": {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 6.0}, "fluctuation": 0.5},
        "link": {**WORLD["link"], "fluctuation": 0.5},
    }
    cut = 0
    for seed in range(1, 7):
        watched.sent.clear()
        _, records = play(HybridFL(uploaders="all", candidates=0.5, deadline_s=60.0), horizon=300.0, seed=seed, **world)
        visits = records.visits
        for trains, sends in rounds(records):
            if sends.any() and trains.any():
                model_s = visits["finished"][trains].min() - visits["finished"][sends].max()
                assert model_s >= 2000 * 8 / max(UPLOAD_BPS) / 1.5 - 1e-9
        assert len(watched.examples) == len(set(watched.examples))
        cut += sum(each.cut for each in watched.sent)
    assert cut > 0


def test_a_client_that_overstates_its_examples_is_not_asked_forever(watched: Watched) -> None:
    told = [tuple(2 * count for count in own) for own in HISTOGRAMS]
    _, records = play(
        Centralized(round_s=5.0, uploaders="all", window="round"), horizon=400.0, **{**WORLD, "histograms": told}
    )
    assert {client for client, _ in watched.examples} == {client for client in range(N_CLIENTS) if CONSENT[client]}
    assert len(watched.examples) == sum(len(own) for own, agrees in zip(LABELS, CONSENT) if agrees)
    assert records.visits["queued"].max() < 100.0


def test_centralized_training_runs_at_the_server_in_rounds_of_equal_length(watched: Watched) -> None:
    _, records = play(Centralized(round_s=5.0, uploaders="all", window="round"), horizon=60.0, **WORLD)
    assert records.commits["time"].tolist() == [5.0 * number for number in range(1, 13)]
    assert (records.visits["examples"] == 0).all()
    assert records.facts["bytes"]["down"] == 0
    assert [time for time, _ in watched.trained] == records.commits["time"].tolist()
    held = [count for _, count in watched.trained]
    assert held == sorted(held)
    assert held[0] < held[3] <= held[-1] == len(watched.examples)
    for number in range(12):
        ended = records.visits["finished"][records.visits["group"] == number]
        assert (ended <= 5.0 * (number + 1) + 1e-9).all()


def test_centralized_training_collects_for_as_long_as_hybrid_fl_does(watched: Watched) -> None:
    """Uploads last until the first model of a round is expected: after the shortest training."""
    strategy = Centralized(round_s=30.0, candidates=1.0)
    _, records = play(strategy, horizon=30.0, **WORLD)
    hybrid = play(HybridFL(selection="max-clients", candidates=1.0, deadline_s=30.0), horizon=30.0, **WORLD)[1]
    trains = hybrid.visits["examples"] > 0
    sender = hybrid.visits["finished"][trains].argmin()
    first = hybrid.visits["computed"][trains][sender] - hybrid.visits["received"][trains][sender]
    assert 0 < records.visits["finished"].max() <= first + 1e-9
    assert records.commits["time"].tolist() == [30.0]


def test_only_candidates_send_to_centralized_training(watched: Watched) -> None:
    play(Centralized(round_s=30.0, candidates=0.01), horizon=29.0, **WORLD)
    assert len({client for client, _ in watched.examples}) <= 1


def test_missing_label_counts_or_consent_are_reported() -> None:
    for strategy in (HybridFL(), Centralized()):
        with pytest.raises(ConfigError, match=r"data\.tell_labels = false"):
            play(strategy, **{**WORLD, "histograms": None})
    with pytest.raises(ConfigError, match=r"data\.share_examples: no client agreed"):
        play(Centralized(), **{**WORLD, "consent": False})


def test_strategies_are_typed_against_the_federation_interface() -> None:
    for strategy in (HybridFL(), Centralized()):
        assert strategy.run.__annotations__["fed"] in ("Federation", Federation)

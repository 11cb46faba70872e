"""Clients that disappear while a sequence needs them: it skips them, or it is aborted."""

from __future__ import annotations

from typing import Any

import pytest

from fedtempo.federation import ClientUnavailable, Federation
from fedtempo.strategies import Hybrid, Sequential
from fedtempo.strategies.sequential_training import train_in_sequence
from tests.runtime.world import play

LOST = {"kind": "windows", "windows": [[[0.0, 1000.0]], [[0.0, 4.5]], [[0.0, 1000.0]], [[0.0, 1000.0]]]}
"""Of four clients the second leaves for good at 4.5 s."""

ONE_LABEL = [(10, 0), (0, 10), (10, 0), (0, 10)]


@pytest.mark.parametrize("on_loss", ["skip", "abort"])
def test_a_sequence_continues_or_ends_and_the_lost_visit_costs_its_expected_time(on_loss: Any) -> None:
    seen: list[float] = []

    async def script(fed: Federation) -> None:
        await fed.sleep_until(3.0)
        chain = train_in_sequence(fed, fed.clients[:3], fed.model, group=0, on_loss=on_loss)
        if on_loss == "skip":
            await chain
        else:
            with pytest.raises(ClientUnavailable, match="client 1"):
                await chain
        seen.append(fed.now)

    _, records = play(script, compute=2.0, availability=LOST)
    # 3..5 the first; the second left at 4.5 and was expected until 7; 7..9 the third.
    assert seen == [9.0 if on_loss == "skip" else 7.0]
    assert records.visits["outcome"].tolist() == ["done", "unavailable", "done"][: 3 if on_loss == "skip" else 2]


def test_hybrid_averages_the_remaining_groups() -> None:
    def run(on_loss: Any) -> list[str]:
        strategy = Hybrid(clusters="labels", on_loss=on_loss)
        _, records = play(strategy, compute=1.0, availability=LOST, histograms=ONE_LABEL, horizon=40.0)
        # Two groups of two clients, one of which loses a client at that time: a round takes two seconds.
        assert records.commits["time"].tolist() == [2.0 * (number + 1) for number in range(20)]
        return records.visits["outcome"].tolist()

    assert run("skip").count("done") == 80 - 18
    assert run("abort").count("done") < 80 - 18  # clients whose predecessor was lost are not asked


@pytest.mark.parametrize(("commit", "on_loss"), [("visit", "abort"), ("round", "abort"), ("round", "skip")])
def test_sequential_continues_with_the_next_round(commit: Any, on_loss: Any) -> None:
    _, records = play(Sequential(commit=commit, on_loss=on_loss), compute=1.0, availability=LOST, horizon=200.0)
    visits = records.visits
    lost = visits["outcome"] == "unavailable"
    assert lost.sum() > 20
    for number in set(visits["group"][lost].tolist()):
        own = visits["outcome"][visits["group"] == number].tolist()
        assert ("unavailable" in own[:-1]) == (on_loss == "skip" and own[-1] != "unavailable")
    whole = sum(
        (visits["outcome"][visits["group"] == number] == "done").sum() == 4 for number in set(visits["group"].tolist())
    )
    if commit == "round":
        rounds = len(set(visits["group"].tolist()))
        assert records.commits["version"].size in ((whole, whole - 1) if on_loss == "abort" else (rounds, rounds - 1))
    else:
        assert records.commits["version"].size == (~lost).sum()


def test_time_advances_without_available_clients_and_with_all_sequences_aborted() -> None:
    nobody = {"kind": "windows", "windows": [[[50.0, 1000.0]]] * 4}
    for strategy in (Hybrid(clusters="labels", on_loss="abort"), Sequential(on_loss="abort")):
        outcome, records = play(strategy, compute=1.0, availability=nobody, histograms=ONE_LABEL, horizon=100.0)
        assert outcome.end_s == 100.0
        assert 0 < records.commits["version"].size <= 50
        assert records.commits["time"].min() > 50.0

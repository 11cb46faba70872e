"""HierFAVG: averages of edges and of the cloud, and their times, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.training import Training
from fedtempo.strategies import HierFAVG
from tests.runtime.learning import Built, learn
from tests.runtime.world import play

CLIENTS = [
    (np.array([[1.0]]), np.array([[3.0]])),
    (np.array([[2.0]]), np.array([[1.0]])),
    (np.array([[1.0]]), np.array([[3.0]])),
]
"""Losses (w - 3)^2 and (2 w - 1)^2. A step with rate 1/8 moves w to f(w) = w + (3 - w) / 4, or to 1/2 from anywhere."""
EDGES = (("0", "1"), ("2",))


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


def final(strategy: HierFAVG, commits: int, clients: Any = CLIENTS) -> float:
    training = Training(lr=0.125, loss="squared")
    found = learn(strategy, Built(line), clients, n_outputs=1, training=training, commits=commits)
    return float(found.final[0])


def notes(records: Any) -> dict[str, Any]:
    return dict(records.notes)


@pytest.mark.usefixtures("double")
def test_edges_average_twice_before_the_cloud_averages() -> None:
    """kappa_1 = 1, kappa_2 = 2. Clients 0 and 1 are at the first edge, client 2 at the second; w = 1.

    First edge: f(1) = 1.5 and 0.5, mean 1; the same again: 1. Second edge: f(1) = 1.5, f(1.5) = 1.875. Cloud: (2 * 1 +
    1 * 1.875) / 3 = 31/24. Then f(31/24) = 55/32 and 1/2, mean 71/64; f(71/64) = 405/256 and 1/2, mean 533/512. Second
    edge: 55/32, f(55/32) = 261/128. Cloud: (2 * 533/512 + 261/128) / 3 = 1055/768.
    """
    strategy = HierFAVG(edges=EDGES, local_steps=1, edge_rounds=2)
    assert [final(strategy, commits) for commits in (1, 2)] == pytest.approx([31 / 24, 1055 / 768], abs=1e-12)


@pytest.mark.usefixtures("double")
def test_means_are_weighted_by_examples() -> None:
    """Client 0 holds its example three times, one full step each: edge 1: (3 * 1.5 + 0.5) / 4 = 1.25, edge 2: 1.5.

    The cloud weighs the edges by 4 and 1 examples: (4 * 1.25 + 1.5) / 5 = 1.3.
    """
    clients = [(np.ones((3, 1)), np.full((3, 1), 3.0)), *CLIENTS[1:]]
    strategy = HierFAVG(edges=EDGES, local_steps=1, edge_rounds=1)
    assert final(strategy, 1, clients) == pytest.approx(1.3, abs=1e-12)


def test_the_cloud_waits_for_the_edges_and_edges_for_their_clients() -> None:
    """Edge 1: 5 s from the cloud, two rounds of 2 s, 5 s to it; edge 2: two rounds of 3 s and twice 5 s."""
    _, records = play(HierFAVG(edges=EDGES, cloud_s=5.0), compute=[1.0, 2.0, 3.0], clients=3, horizon=32.0)
    assert records.commits["time"].tolist() == [16.0, 32.0]
    visits = records.visits
    first = visits["started"] < 16.0
    starts = {client: visits["started"][first & (visits["client"] == client)].tolist() for client in range(3)}
    assert starts == {0: [5.0, 7.0], 1: [5.0, 7.0], 2: [5.0, 8.0]}
    assert notes(records) == {"edges": [[0, 1], [2]], "cloud_s": [5.0, 5.0]}


def test_edges_may_have_different_links_to_the_cloud() -> None:
    strategy = HierFAVG(edges=EDGES, cloud_s=(10.0, 1.0), edge_rounds=1)
    _, records = play(strategy, compute=[1.0, 2.0, 3.0], clients=3, horizon=25.0)
    assert records.commits["time"].tolist() == [22.0]


def test_by_default_the_cloud_is_ten_times_as_far_as_the_clients() -> None:
    link = {"kind": "fixed", "download_s": 0.1, "upload_s": [0.25, 0.5, 0.75]}
    _, records = play(HierFAVG(edges=1, edge_rounds=1), compute=1.0, clients=3, link=link, horizon=12.0)
    assert notes(records)["cloud_s"] == [5.0]
    assert records.commits["time"].tolist() == [5 + 0.1 + 1 + 0.75 + 5]


def test_clients_are_spread_over_edges_at_random() -> None:
    found = []
    for seed in (1, 2):
        _, records = play(HierFAVG(edges=3), clients=8, horizon=1.0, seed=seed)
        edges = notes(records)["edges"]
        assert sorted(client for edge in edges for client in edge) == list(range(8))
        assert sorted(map(len, edges)) == [2, 3, 3]
        found.append(edges)
    assert found[0] != found[1]
    _, records = play(HierFAVG(edges=5), clients=2, horizon=1.0)
    assert sorted(notes(records)["edges"]) == [[0], [1]]


def test_some_clients_of_each_edge_train() -> None:
    strategy = HierFAVG(edges=(("0", "1", "2"), ("3", "4", "5")), clients_per_round=1, edge_rounds=1, cloud_s=0.0)
    _, records = play(strategy, clients=6, horizon=30.0)
    visits = records.visits
    for instant in range(29):
        assert sorted(client // 3 for client in visits["client"][visits["started"] == instant].tolist()) == [0, 1]
    assert set(visits["client"].tolist()) == set(range(6))


def test_an_edge_without_clients_keeps_its_model() -> None:
    """Client 2 is never there: its edge waits the expected time, and the cloud averages all the same."""
    windows = {"kind": "windows", "windows": [[[0.0, 100.0]], [[0.0, 100.0]], []]}
    strategy = HierFAVG(edges=EDGES, cloud_s=1.0, edge_rounds=1)
    _, records = play(strategy, compute=[1.0, 2.0, 3.0], clients=3, availability=windows, horizon=10.0)
    assert records.commits["time"].tolist() == [5.0, 10.0]
    _, records = play(
        HierFAVG(edges=1, cloud_s=1.0), clients=1, availability={"kind": "windows", "windows": [[]]}, horizon=20.0
    )
    assert records.commits["version"].size == 0


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ((("0", "1"), ("3",)), "no client is called '3'"),
        ((("0", "1"), ("1", "2")), "client '1' is named 2 times; it belongs to one edge"),
        ((("0",), ("2",)), "client '1' belongs to no edge; name it in one"),
        ((("0", "1", "2"), ()), "an edge has no client; remove it"),
    ],
)
def test_edges_that_do_not_fit_the_clients_are_refused(edges: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"strategy\.edges: {message}$"):
        play(HierFAVG(edges=edges), clients=3, horizon=1.0)


def test_unusable_values_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"strategy\.cloud_s: 3 numbers for 2 edges; give one for each$"):
        play(HierFAVG(edges=2, cloud_s=(1.0, 2.0, 3.0)), clients=4, horizon=1.0)
    for fields in ({"edges": 0}, {"local_steps": 0}, {"edge_rounds": 0}, {"cloud_s": -1.0}, {"cloud_s": (-1.0,)}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            HierFAVG(**fields)  # type: ignore[arg-type]

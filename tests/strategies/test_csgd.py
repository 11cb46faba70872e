"""CS-GD on the clock: frames at the thresholds, rounds of equal length, the conventional round as one cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.strategies.csgd import CsGd
from fedtempo.strategies.planning.pipeline import utilisation
from tests.runtime.world import play

LINK = {"kind": "fixed", "download_s": 0.5, "upload_s": 1.0}
TIMES = [1.0, 2.0, 3.0, 3.0, 4.0, 4.0]


def frames(records: Any) -> list[tuple[int, float, float, float]]:
    """Return (client, end of training, start and end of sending) of each visit, by time of sending and client."""
    visits = records.visits
    rows = zip(*(visits[name].tolist() for name in ("client", "computed", "finished")))
    return sorted(((c, computed, end - 1.0, end) for c, computed, end in rows), key=lambda row: (row[2], row[0]))


def test_clusters_send_one_after_another() -> None:
    link = {**LINK, "channels": 2}
    _, records = play(CsGd(n_clusters=3, channels=2), compute=TIMES, clients=6, link=link, server_s=0.25, horizon=20.0)
    assert records.note("clusters") == [0, 0, 1, 1, 2, 2]
    assert records.note("pipeline") == {"opens_s": [2.0, 3.0, 4.0], "done": [2, 4, 6], "sizes": [2, 2, 2]}
    opens = [2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
    for number in range(3):
        began = number * 5.75 + 0.5  # the model arrives after half a second
        visits = frames(records)[6 * number : 6 * number + 6]
        expected = [(i, began + TIMES[i], began + opens[i], began + opens[i] + 1.0) for i in range(6)]
        assert visits == expected
    assert records.commits["time"].tolist() == [5.75, 11.5, 17.25]
    assert records.note("spectral_utilisation") == pytest.approx(utilisation(3, 1.0, 4.0, 0.75))


def test_the_sub_channels_limit_parallel_uploads() -> None:
    compute = {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 5.0}}
    link = {"kind": "fixed", "download_s": 0.0, "upload_s": 0.8}
    _, records = play(
        CsGd(slowest="all", n_clusters=4, channels=3),
        compute=compute,
        clients=40,
        link=link,
        server_s=0.5,
        horizon=60.0,
    )
    visits = records.visits
    done = visits["outcome"] == "done"
    starts, ends = visits["finished"][done] - 0.8, visits["finished"][done]
    assert max(int(((starts <= t + 1e-9) & (t + 1e-9 < ends - 2e-9)).sum()) for t in starts) == 3
    assert (visits["computed"][done] <= starts + 1e-9).all()
    slowest = records.note("pipeline")["opens_s"][-1]
    assert np.diff(records.commits["time"]) == pytest.approx(slowest + 0.8 + 0.5)
    assert records.note("spectral_utilisation") == pytest.approx(utilisation(4, 0.8, slowest, 0.5))


def test_more_clusters_serve_more_clients_in_the_same_time() -> None:
    compute = {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 7.0}}
    visits, ends = [], []
    for clusters in (1, 2, 4):
        _, records = play(
            CsGd(slowest="all", n_clusters=clusters, channels=2),
            compute=compute,
            clients=60,
            link=LINK,
            horizon=100.0,
            seed=3,
        )
        ends.append(records.commits["time"].tolist())
        visits.append(len(records.visits["client"]) // len(ends[-1]))
        assert records.note("spectral_utilisation") == pytest.approx(clusters / ends[-1][0])
    assert visits == [2, 4, 8]
    assert ends[1:] == [pytest.approx(ends[0])] * 2


def test_every_client_of_a_cluster_is_equally_likely() -> None:
    rounds = 2000
    _, records = play(
        CsGd(slowest="all", n_clusters=2, channels=2),
        compute=TIMES,
        clients=6,
        link=LINK,
        horizon=None,
        max_commits=rounds,
    )
    counts = np.bincount(records.visits["client"][: 4 * rounds], minlength=6)
    assert counts.sum() == 4 * rounds
    assert (np.abs(counts - rounds * 2 / 3) < 5 * (rounds * 2 / 9) ** 0.5).all()


@pytest.mark.parametrize(("slowest", "expected"), [("all", {5.5}), ("sampled", {2.5, 3.5, 4.5, 5.5})])
def test_one_cluster_is_a_conventional_round(slowest: str, expected: set[float]) -> None:
    strategy = CsGd(n_clusters=1, channels=1, slowest=slowest)  # type: ignore[arg-type]
    _, records = play(strategy, compute=TIMES, clients=6, link=LINK, horizon=300.0)
    assert set(np.diff(records.commits["time"], prepend=0.0).tolist()) == expected


def test_frames_for_sampled_clients_close_sooner_and_wait_for_all() -> None:
    compute = {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 9.0}}
    world = {"compute": compute, "clients": 40, "link": LINK, "horizon": 400.0}
    _, fixed = play(CsGd(slowest="all", n_clusters=3, channels=2), **world)
    _, sampled = play(CsGd(n_clusters=3, channels=2), **world)
    assert len(sampled.commits["time"]) > len(fixed.commits["time"])
    for records in (fixed, sampled):
        visits = records.visits
        done = visits["outcome"] == "done"
        starts = visits["finished"][done] - 1.0
        assert (visits["computed"][done] <= starts + 1e-9).all()
        assert (np.diff(np.unique(np.round(starts, 6))) >= 1.0 - 1e-5).all()  # frames do not overlap
        rounds = visits["group"][done] + 1
        assert np.bincount(rounds[starts + 1.0 <= records.commits["time"][-1]])[1:].tolist() == [6] * max(rounds[:-5])


def test_an_infeasible_number_of_clusters_names_the_largest_feasible_one() -> None:
    with pytest.raises(ConfigError, match=r"n_clusters = 5: .* the largest number is 4$"):
        play(CsGd(n_clusters=5), compute=TIMES, clients=6, link=LINK)
    _, records = play(CsGd(n_clusters=5, extra_s=1.0), compute=TIMES, clients=6, link=LINK, horizon=20.0)
    assert records.commits["time"][0] == 0.5 + 4.0 + 1.0 + 1.0


def test_empty_clusters_give_a_warning_and_keep_their_frames() -> None:
    _, records = play(CsGd(n_clusters=4), compute=[1.0, 2.5, 4.0, 4.0], link=LINK, horizon=20.0)
    sizes = records.note("pipeline")["sizes"]
    empty = [k for k, size in enumerate(sizes) if not size]
    assert empty
    assert f"clusters {empty} are empty" in records.note("warning")
    assert records.commits["time"][0] == 5.5


def test_with_unequal_uploads_the_longest_sets_the_frames() -> None:
    link = {"kind": "fixed", "download_s": 0.0, "upload_s": [0.25, 0.5, 1.0, 0.5]}
    _, records = play(CsGd(n_clusters=2, channels=2), compute=[1.0, 1.0, 3.0, 3.0], link=link, horizon=20.0)
    assert records.note("pipeline")["opens_s"] == [2.0, 3.0]
    assert records.commits["time"][:2].tolist() == [4.0, 8.0]


def test_a_late_client_sends_late_and_the_round_waits() -> None:
    estimates = {"kind": "observed", "prior_s": [0.0, 2.0, 1.0]}
    _, records = play(CsGd(n_clusters=1, channels=4), compute=[1.0, 1.0, 1.0, 5.0], link=LINK, estimates=estimates)
    assert records.commits["time"][0] == 0.5 + 5.0 + 1.0
    assert sorted(records.visits["finished"][:4].tolist()) == [3.0, 3.0, 3.0, 6.5]


def test_a_round_without_available_clients_takes_its_time() -> None:
    windows = {"kind": "windows", "windows": [[(6.0, 1000.0)]] * 6}
    _, records = play(
        CsGd(n_clusters=3, channels=2), compute=TIMES, clients=6, link=LINK, availability=windows, horizon=23.0
    )
    assert records.commits["time"].tolist() == [16.5, 22.0]
    _, away = play(
        CsGd(n_clusters=3, channels=2),
        compute=TIMES,
        clients=6,
        link=LINK,
        availability={"kind": "on-off", "mean_on_s": 20.0, "mean_off_s": 10.0},
    )
    assert 100 < len(away.commits["time"]) <= 1000 / 5.5


@pytest.mark.parametrize("mode", ["gradient", "local-sgd"])
def test_one_cluster_with_everyone_is_federated_averaging_bit_for_bit(mode: str) -> None:
    tables = {
        "run": {"max_commits": 3, "evaluate": "commit"},
        "data": {"clients": 6, "examples_per_client": [20, 60], "test_examples": 50},
        "model": {"network": "logistic"},
        "training": {"lr": 0.5, "batch_size": 16, "full_batch": mode == "gradient"},
        "fleet": {"compute": {"unit": "s/example", "speed": 0.1}, "link": LINK, "estimates": "exact"},
        "executor": {"kind": "inline"},
    }
    plain, _, _ = run(parse({**tables, "strategy": {"name": "fedavg"}}))
    tables["training"] = {"lr": 0.5, "batch_size": 16}
    csgd, _, _ = run(parse({**tables, "strategy": {"name": "csgd", "n_clusters": 1, "channels": 6, "mode": mode}}))
    assert csgd["model_sha256"] == plain["model_sha256"]

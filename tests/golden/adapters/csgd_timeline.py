"""CS-GD's pipelined round, run on the clock: who computes, waits and sends when, and how well sub-channels are used.

A case says which clients are in which cluster, and which are sampled; everything else is the strategy's own work.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from fedtempo.strategies import CsGd
from fedtempo.strategies.planning.pipeline import Clusters, cluster_by_time, utilisation
from tests.golden.compare import close, same
from tests.runtime.world import play


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    tau, tau_com, extra, server_s = (given[name] for name in ("tau", "tau_com", "delta_global", "tau_server"))
    k, n_channels = len(given["members"]), given["n_channels"]
    members = tuple(map(tuple, given["members"]))
    sampled = dict(zip(members, given["sampled"]))

    def sample(clients: Any, count: int, rng: Any) -> Any:
        chosen = sampled[tuple(client.id for client in clients)]
        assert len(chosen) == min(count, len(clients))
        return [client for client in clients if client.id in chosen]

    def cluster(*arguments: Any) -> Clusters:
        return replace(cluster_by_time(*arguments), members=members)

    module = "fedtempo.strategies.csgd"
    with patch(f"{module}.uniform_sample", sample), patch(f"{module}.cluster_by_time", cluster):
        _, records = play(
            CsGd(n_clusters=k, channels=n_channels, extra_s=float(extra), slowest="all"),
            compute=[float(seconds) for seconds in tau],
            clients=len(tau),
            link={"kind": "fixed", "download_s": 0.0, "upload_s": tau_com},
            server_s=server_s,
            horizon=None,
            max_commits=1,
        )
    opens = records.note("pipeline")["opens_s"]
    close(opens, expected["theta"], rel=1e-9, abs=1e-9, where="theta")
    cluster_of = records.note("clusters")
    visits = records.visits
    rows = zip(*(visits[name].tolist() for name in ("client", "started", "computed", "finished", "group")))
    first_round = {client: row for client, *row, group in rows if group == 0}
    events = []
    for number, clients in enumerate(given["sampled"]):
        for channel, client in enumerate(clients):
            started, computed, finished = first_round[client]
            events.append(
                {
                    "client": client,
                    "cluster": cluster_of[client],
                    "channel": channel,
                    "compute": [started, computed],
                    "wait": finished - tau_com - computed,
                    "upload": [finished - tau_com, finished],
                }
            )
            same(cluster_of[client], number, "cluster")
    same(len(first_round), len(events), "clients that train")
    close(events, expected["events"], rel=1e-9, abs=1e-9, where="events")
    sent_s, round_s = opens[-1] + tau_com, float(records.commits["time"][0])
    close(sent_s, expected["last_upload_end"], rel=1e-9, where="last_upload_end")
    close([sent_s, round_s], expected["server"], rel=1e-9, where="server")
    close(round_s, expected["round_time"], rel=1e-9, where="round_time")
    close(records.note("spectral_utilisation"), expected["channel_use"], rel=1e-9, where="channel_use")
    close(utilisation(k, tau_com, max(tau), server_s, extra), expected["eq19"], rel=1e-9, where="eq19")
    slowest = max(computed for _, computed, _ in first_round.values())
    close(slowest, expected["slowest_sampled"], rel=1e-9, where="slowest_sampled")
    slowest_of_all = max(tau[client] for client in first_round) == max(tau)
    same(slowest_of_all, expected["slowest_of_all_is_sampled"], "slowest_of_all_is_sampled")

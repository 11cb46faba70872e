"""Profiling of clients, and their tiers by response latency."""

from __future__ import annotations

from typing import Annotated, Literal

from fedtempo.federation import Client, Federation
from fedtempo.parts.fields import Count, Doc, Ge, Positive
from fedtempo.strategies.planning.tiers import tiers_of_equal_size, tiers_of_equal_width
from fedtempo.strategies.rounds import train_round

TierCount = Annotated[Count, Doc("number of tiers")]
ProfilingRounds = Annotated[
    int,
    Ge(0),
    Doc(
        "rounds of profiling at the start, in which all clients train and nothing is averaged; 0: tiers by the "
        "server's estimates instead; sync_rounds in TiFL"
    ),
]
ProfilingLimit = Annotated[
    Positive | None,
    Doc("longest wait in a round of profiling, seconds; Tmax in TiFL (default: until all have answered or failed)"),
]
Tiers = Annotated[
    Literal["equal-size", "equal-width"],
    Doc("equally many clients per tier, or the bins of equal width of a histogram of latencies"),
]


async def latencies(fed: Federation, rounds: int, limit_s: float | None) -> dict[int, float]:
    """Return the mean response latency of each client that answers in the profiling, by client id, seconds.

    An answer that does not come counts as `limit_s` or, without a limit, as the longest latency of the round. If nobody
    answers, the profiling is repeated.
    """
    if not rounds:
        return {client.id: fed.estimate(client).visit_s for client in fed.clients}
    answered: set[int] = set()
    while not answered:
        total_s = dict.fromkeys((client.id for client in fed.clients), 0.0)
        for _ in range(rounds):
            updates = await train_round(fed, fed.clients, limit_s=limit_s)
            took_s = {update.client.id: update.finished - update.started for update in updates}
            missing_s = limit_s or max(took_s.values(), default=0.0)
            for client in total_s:
                total_s[client] += took_s.get(client, missing_s)
            answered |= took_s.keys()
    return {client: total_s[client] / rounds for client in sorted(answered)}


async def form_tiers(
    fed: Federation, count: int, kind: Tiers, rounds: int, limit_s: float | None
) -> list[list[Client]]:
    """Profile the clients and return their tiers, fastest first. Clients that never answered are in none."""
    profiled = await latencies(fed, rounds, limit_s)
    ids, seconds = list(profiled), list(profiled.values())
    split = tiers_of_equal_size if kind == "equal-size" else tiers_of_equal_width
    tiers = [sorted(ids[position] for position in tier) for tier in split(seconds, count)]
    fed.note("tiers", tiers)
    return [[fed.clients[client] for client in tier] for tier in tiers]

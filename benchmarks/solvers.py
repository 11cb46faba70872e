"""The planner against general solvers: the same groups to the same optimum, by HiGHS and by OR-Tools CP-SAT.

Instances are moments of FedHusky's schedule, 50 clients in 10 clusters, at which a group can be formed. Ours starts
from nothing but the calendars, where a run has its tables from the group before. A solver that reaches the time limit
counts as if it had ended there: its figure says so, and is a lower bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter

from benchmarks.figures import Figure, figure
from benchmarks.milp import Unsolved, solve_paper
from benchmarks.peers.protocol import Peer, PeerError
from benchmarks.planner import TICK_S, federation
from fedtempo.strategies.planning.calendars import Calendars
from fedtempo.strategies.planning.groups import GroupPlanner

TIME_LIMIT_S = 60.0
GATES = {"planner_vs_highs": 1000.0, "planner_vs_cpsat": 100.0}


@dataclass(frozen=True)
class Instance:
    """OPT-k at tick t0. gaps: the free intervals of each client from t0 on; busy: its booked ticks; clusters: members.

    booked: the intervals of each client's calendar that end after t0.
    """

    durations: Sequence[int]
    clusters: Sequence[Sequence[int]]
    horizon: int
    t0: int
    gaps: Sequence[Sequence[tuple[int, int]]]
    booked: Sequence[Sequence[tuple[int, int]]]
    busy: Sequence[int]

    @property
    def cluster(self) -> list[int]:
        """Of each client."""
        return [c for client in range(len(self.durations)) for c, own in enumerate(self.clusters) if client in own]

    def planner(self) -> GroupPlanner:
        """Ours, which knows the calendars and nothing else."""
        calendars = Calendars(len(self.durations))
        for client, intervals in enumerate(self.booked):
            for begin, end in intervals:
                calendars.book(client, begin, end)
        past = [busy - calendars.busy_ticks(client) for client, busy in enumerate(self.busy)]
        planner = GroupPlanner(
            self.durations, self.cluster, len(self.clusters), self.horizon, calendars=calendars, past_busy=past
        )
        planner.forget_before(self.t0)
        return planner


def moment(planner: GroupPlanner, clusters: Sequence[Sequence[int]], t0: int) -> Instance:
    """What a planner knows at t0."""
    clients = range(len(planner.durations))
    return Instance(
        planner.durations,
        clusters,
        planner.horizon,
        t0,
        gaps=[list(planner.calendars.gaps(client, t0, planner.horizon)) for client in clients],
        booked=[planner.calendars.intervals(client) for client in clients],
        busy=[planner.busy_ticks(client) for client in clients],
    )


def instances(count: int, n_clients: int = 50, n_clusters: int = 10, horizon_s: float = 1000) -> list[Instance]:
    """Moments at which groups are formed, spread evenly over those of one schedule."""
    durations, cluster = federation(1, n_clients, n_clusters)
    clusters = [[client for client in range(n_clients) if cluster[client] == c] for c in range(n_clusters)]
    planner = GroupPlanner(durations, cluster, n_clusters, round(horizon_s / TICK_S))
    attempts = [(0, head) for head in range(n_clients)]
    formed = []
    while attempts:
        t0, first = heapq.heappop(attempts)
        planner.forget_before(t0)
        plan = planner.plan(t0, first if first < n_clients else None)
        if plan and first == n_clients:
            formed.append(moment(planner, clusters, t0))
        planner.book(plan)
        for (_, begin), duration in zip(plan.stops, plan.durations):
            heapq.heappush(attempts, (begin + duration, n_clients))
    return [formed[(2 * number + 1) * len(formed) // (2 * count)] for number in range(count)]


def ours(instance: Instance, repetitions: int = 5) -> tuple[int | None, float]:
    """z and the median seconds."""
    seconds = []
    for _ in range(repetitions):
        planner = instance.planner()
        began = perf_counter()
        plan = planner.plan(instance.t0)
        seconds.append(perf_counter() - began)
    assert plan.status == "optimal"
    return plan.z, median(seconds)


def highs(instance: Instance) -> tuple[int | None, float] | None:
    """z and seconds of the paper's programme in HiGHS; None at the time limit."""
    planner = instance.planner()
    began = perf_counter()
    try:
        z = solve_paper(planner, instance.cluster, instance.t0, None, TIME_LIMIT_S)
    except Unsolved:
        return None
    return z, perf_counter() - began


def cpsat(peer: Peer, instance: Instance) -> tuple[int | None, float] | None:
    """Likewise of CP-SAT."""
    reply = peer.ask({**asdict(instance), "time_limit_s": TIME_LIMIT_S})
    return (reply["z"], reply["seconds"]) if reply["solved"] else None


def against(
    name: str, solve: Callable[[Instance], tuple[int | None, float] | None], cases: Sequence[Instance]
) -> Figure:
    """The solver's seconds over ours, instance by instance. No value where the two disagree."""
    found, ended = [], 0
    for case in cases:
        z, ours_s = ours(case)
        theirs = solve(case)
        if theirs is None:
            ended += 1
            found.append(TIME_LIMIT_S / ours_s)
            continue
        if theirs[0] != z:
            return Figure(
                name, None, "x", GATES[name], missing=f"the optimum is {theirs[0]} at t0 = {case.t0}, ours is {z}"
            )
        found.append(theirs[1] / ours_s)
    note = f"same optimum in {len(cases) - ended} of {len(cases)}"
    if ended:
        note += f"; {ended} without one after {TIME_LIMIT_S:g} s, which counts as if it had ended there"
    return figure(name, found, "x", GATES[name], note=note)


def highs_figures(count: int = 5) -> list[Figure]:
    """planner_vs_highs."""
    return [against("planner_vs_highs", highs, instances(count))]


def cpsat_figures(count: int = 5) -> list[Figure]:
    """planner_vs_cpsat."""
    try:
        with Peer("ortools") as peer:
            return [against("planner_vs_cpsat", lambda case: cpsat(peer, case), instances(count))]
    except PeerError as error:
        return [Figure("planner_vs_cpsat", None, "x", GATES["planner_vs_cpsat"], missing=str(error))]

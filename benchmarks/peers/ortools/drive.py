"""OR-Tools CP-SAT: one group of FedHusky as its users would write it: one interval a cluster, none overlapping.

A request is an instance (see `benchmarks.solvers`) with "time_limit_s"; the answer is z, null where there is no group,
"solved", and seconds, the building of the model included. CP-SAT has as many threads as it likes.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from ortools.sat.python import cp_model

from benchmarks.peers.protocol import answer


def windows(gaps: list[list[int]], duration: int) -> list[list[int]]:
    """Ticks at which a visit may start."""
    return [[begin, end - duration] for begin, end in gaps if end - begin >= duration]


def turn(request: dict[str, Any]) -> dict[str, Any]:
    began = perf_counter()
    durations, clusters = request["durations"], request["clusters"]
    t0, horizon = request["t0"], request["horizon"]
    model = cp_model.CpModel()
    chosen = [model.new_bool_var(f"x{client}") for client in range(len(durations))]
    total = sum(duration * chosen[client] for client, duration in enumerate(durations))
    visits = []
    for members in clusters:
        model.add_exactly_one(chosen[client] for client in members)
        lengths = [durations[client] for client in members]
        start = model.new_int_var(t0, horizon, "s")
        length = model.new_int_var(min(lengths), max(lengths), "d")
        end = model.new_int_var(t0, horizon, "e")
        model.add(length == sum(durations[client] * chosen[client] for client in members))
        model.add(end <= t0 + total)  # no waits: all visits end when the sum of their durations is over
        visits.append(model.new_interval_var(start, length, end, "visit"))
        for client in members:
            allowed = cp_model.Domain.from_intervals(windows(request["gaps"][client], durations[client]))
            model.add_linear_expression_in_domain(start, allowed).only_enforce_if(chosen[client])
    model.add_no_overlap(visits)
    z = model.new_int_var(0, max(request["busy"]) + max(durations), "z")
    for client, duration in enumerate(durations):
        model.add(z <= request["busy"][client] + duration * chosen[client])
    model.maximize(z)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = request["time_limit_s"]
    status = solver.solve(model)
    seconds = perf_counter() - began
    solved = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return {
        "z": round(solver.objective_value) if status == cp_model.OPTIMAL else None,
        "solved": solved,
        "seconds": seconds,
    }


if __name__ == "__main__":
    answer(turn)

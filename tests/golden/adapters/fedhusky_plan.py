from __future__ import annotations

from typing import Any

from fedtempo.strategies.planning.calendars import Calendars
from fedtempo.strategies.planning.groups import GroupPlanner
from tests.golden.compare import same


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    calendars = Calendars(len(given["durations"]))
    for client, intervals in enumerate(given["calendars"]):
        for begin, end in intervals:
            calendars.book(client, begin, end)
    planner = GroupPlanner(
        given["durations"],
        given["cluster"],
        given["n_clusters"],
        given["horizon"],
        calendars=calendars,
        past_busy=given["past_busy"],
    )
    plan = planner.plan(given["t0"], given["head"])
    same(plan.status, "optimal" if expected["feasible"] else "infeasible", "status")
    same(plan.z, expected["z"], "z")
    same(plan.end, expected["end"], "end")
    same(plan.stops or None, expected["schedule"], "schedule")
    if expected["optimal_selections"] is not None and expected["feasible"]:
        assert sorted(client for client, _ in plan.stops) in expected["optimal_selections"], "optimal_selections"

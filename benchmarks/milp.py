"""FedHusky's own mixed-integer programme for one group, constraints (2)-(14), which HiGHS solves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from fedtempo.strategies.planning.groups import GroupPlanner

TIME_LIMIT_S = 300.0


class Unsolved(Exception):
    """The solver's time ended first."""


def solve_paper(
    planner: GroupPlanner, cluster: Sequence[int], t0: int, head: int | None, time_limit_s: float = TIME_LIMIT_S
) -> int | None:
    """z of OPT-j (head given) or OPT-k in ticks; None if infeasible. Symbols as in the paper, times from t0 on.

    Raises Unsolved where the time limit came first.
    """
    delta, horizon = planner.durations, planner.horizon
    n, c = len(delta), max(cluster) + 1
    gaps = [list(planner.calendars.gaps(i, t0, horizon)) for i in range(n)]
    big = horizon - t0 + max(delta)
    names: list[tuple[Any, ...]] = [("x", i) for i in range(n)] + [("y", i, p) for i in range(n) for p in range(c)]
    names += [("z", i, k) for i in range(n) for k in range(len(gaps[i]))]
    n_binary = len(names)
    names += [("s", i) for i in range(n)] + [("h", p) for p in range(c)] + [("objective",)]
    column = {name: position for position, name in enumerate(names)}
    rows: list[tuple[Mapping[Any, float], float, float]] = [
        *[({("x", i): 1 for i in range(n) if cluster[i] == each}, 1, 1) for each in range(c)],  # (3)
        *[({("y", i, p): 1 for i in range(n)}, 1, 1) for p in range(c)],  # (5)
        *[({("y", i, p): 1 for p in range(c)} | {("x", i): -1}, 0, 0) for i in range(n)],  # (6)
        ({("h", 0): 1}, 0, 0),  # (7)
        *[  # (8)
            ({("h", p): 1, ("h", p - 1): -1} | {("y", i, p - 1): -delta[i] for i in range(n)}, 0, 0)
            for p in range(1, c)
        ],
    ]
    for i in range(n):
        for p in range(c):
            rows.append(({("s", i): 1, ("h", p): -1, ("y", i, p): -big}, -big, np.inf))  # (9)
            rows.append(({("s", i): 1, ("h", p): -1, ("y", i, p): big}, -np.inf, big))  # (10)
        rows.append(({("z", i, k): 1 for k in range(len(gaps[i]))} | {("x", i): -1}, 0, 0))  # (11)
        for k, (begin, end) in enumerate(gaps[i]):
            rows.append(({("s", i): 1, ("z", i, k): -big}, begin - t0 - big, np.inf))  # (12)
            rows.append(({("s", i): 1, ("z", i, k): big}, -np.inf, end - t0 + big - delta[i]))  # (13)
        rows.append(({("objective",): 1, ("x", i): -delta[i]}, -np.inf, planner.busy_ticks(i)))  # (14)
    if head is not None:
        rows.append(({("x", head): 1}, 1, 1))  # (2)
        rows.append(({("y", head, 0): 1}, 1, 1))  # (4)
    entries = [(r, column[name], value) for r, (terms, _, _) in enumerate(rows) for name, value in terms.items()]
    row, col, value = zip(*entries)
    matrix = csr_array((value, (row, col)), shape=(len(rows), len(names)))
    lower, upper = [low for _, low, _ in rows], [high for _, _, high in rows]
    maximal = np.full(len(names), float(horizon - t0))
    maximal[:n_binary] = 1
    maximal[-1] = np.inf
    cost = np.zeros(len(names))
    cost[-1] = -1
    kinds = np.zeros(len(names))
    kinds[:n_binary] = 1
    solved = milp(
        cost,
        integrality=kinds,
        bounds=Bounds(0, maximal),
        constraints=LinearConstraint(matrix, lower, upper),
        options={"mip_rel_gap": 0.0, "time_limit": time_limit_s},
    )
    if solved.status not in (0, 2):
        raise Unsolved(solved.message)
    return None if solved.status == 2 else round(-solved.fun)

from __future__ import annotations

from typing import Any

import numpy as np

from fedtempo.strategies.planning.clusters import rebalance
from tests.golden.compare import same


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    labels, moves = rebalance(given["points"], given["labels"], given["centroids"], given["n_clusters"])
    same(labels, expected["labels"], "labels")
    same([[move.client, move.source, move.target] for move in moves], expected["moves"], "moves")
    same([move.rule for move in moves], expected["move_rule"], "move_rule")
    same(all(move.rule == 1 for move in moves), expected["paper_rule_is_enough"], "paper_rule_is_enough")
    for name, of in (("sizes_before", given["labels"]), ("sizes", labels)):
        same(np.bincount(of, minlength=given["n_clusters"]), expected[name], name)

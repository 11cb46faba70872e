"""FedCS's greedy choice under a deadline, by T_inc alone or times the imbalance of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtempo.strategies.planning.deadline import select_within_deadline
from tests.golden.compare import close, same


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    n_clients = len(given["throughput"])
    ids = sorted(range(n_clients) if given["candidates"] is None else given["candidates"])
    transfer_s = given["model_bits"] / np.array(given["throughput"])[ids]
    by_class = {}
    if given["rule"] == "minCV":
        by_class = {
            "class_counts": np.array(given["class_counts"])[ids],
            "class_counts_before": given["class_counts_before"],
            "imbalance": given["cv"],
        }
    compute_s = np.array(given["compute_time"])[ids]
    selection = select_within_deadline(transfer_s, compute_s, transfer_s, given["t_round"], **by_class)

    same([ids[candidate] for candidate in selection.chosen], expected["selected"], "selected")
    same([ids[step.candidate] for step in selection.steps], [step["client"] for step in expected["steps"]], "order")
    elapsed = 0.0
    for step, wanted in zip(selection.steps, expected["steps"], strict=True):
        actual = {
            "t_inc": step.increase_s,
            "f": step.score,
            "theta": step.busy_s,
            "t_distribution": step.distribution_s,
            "elapsed": step.distribution_s + step.busy_s,
            "would_be": elapsed + step.increase_s,
        }
        where = f"client {wanted['client']}"
        same(step.accepted, wanted["accepted"], where)
        close(actual, {name: wanted[name] for name in actual}, rel=1e-9, abs=1e-9, where=where)
        same(all(wanted["client"] < other for other in wanted["tie"]), True, f"{where}: smallest of equals")
        elapsed = actual["elapsed"]
    uploads = [(ids[candidate], begin, end) for candidate, begin, end in selection.uploads]
    refused = [not step.accepted for step in selection.steps]
    actual = {
        "t_distribution": selection.distribution_s,
        "theta": selection.busy_s,
        "round_time": selection.round_s,
        "uploads": uploads,
        "first_upload_begin": uploads[0][1] if uploads else None,
        "data_window_after_distribution": selection.window_s,
        "rejected_then_accepted": refused != sorted(refused),
    }
    close(actual, {name: expected[name] for name in actual}, rel=1e-9, abs=1e-9)
    if expected["class_counts_after"] is not None:
        trained = np.array(given["class_counts"])[expected["selected"]].sum(axis=0)
        same(np.add(given["class_counts_before"], trained), expected["class_counts_after"], "class_counts_after")

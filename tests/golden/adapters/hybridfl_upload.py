"""Hybrid-FL's choice of the raw examples that clients upload within a window of time."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtempo.strategies.planning.uploading import choose_uploads
from tests.golden.compare import close, same


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    stock = np.array(given["stock"]).reshape(-1, given["n_classes"])
    agreed = np.flatnonzero(given["consent"])
    example_s = 8 * given["bytes_per_example"] / np.array(given["throughput"])[agreed]
    rule = {"IID": "iid", "maxThroughput": "max-throughput"}[given["method"]]
    uploads = choose_uploads(example_s, stock[agreed], given["window"], rule)

    sent = np.zeros_like(stock)
    sequence = []
    for client, label in zip(agreed[uploads.clients], uploads.labels, strict=True):
        sequence.append([client, label, sent[client, label]])
        sent[client, label] += 1
    if expected["uploaded"] is not None:
        same(sequence, expected["uploaded"], "uploaded")
    same(sequence[:50], expected["uploaded_first"], "uploaded_first")
    same(sequence[-50:], expected["uploaded_last"], "uploaded_last")
    same(len(sequence), expected["n_uploaded"], "n_uploaded")
    close(uploads.seconds, expected["time_used"], rel=1e-9, abs=1e-9, where="time_used")
    same(uploads.counts(len(agreed), given["n_classes"]), sent[agreed], "counts")
    same(stock - sent, expected["left"], "left")
    same(sent.sum(axis=0), expected["per_class"], "per_class")
    same(sent.sum(axis=1), expected["per_client"], "per_client")
    same("all uploaded" if uploads.complete else "window", expected["ended_by"], "ended_by")

"""What must hold after any faults."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedtempo.record import Records, load_run
from fedtempo.runs.models import read_model

_MAY_DIFFER = {"wall_s", "resumed", "executor"}

_TRAINED = re.compile(r"(?:train|compute) (\d+) answered in")
"""What a client logs after a training."""


def differences(folder: Path, other: Path) -> list[str]:
    """Return in which bits two simulations differ, in words."""
    try:
        one, two = load_run(folder), load_run(other)
    except Exception as error:  # noqa: BLE001  whatever it is, the folder cannot be read
        return [f"the run cannot be read: {error!r}"]
    wrong = []
    for table in ("visits", "commits", "evaluations"):
        for column, values in getattr(one, table).items():
            if not np.array_equal(values, getattr(two, table)[column], equal_nan=values.dtype.kind == "f"):
                wrong.append(f"{table}.{column} differs")
    if one.notes != two.notes:
        wrong.append("notes differ")
    for what, mine, others in (("fact", one.facts, two.facts), ("summary", one.summary or {}, two.summary or {})):
        names = (mine.keys() | others.keys()) - _MAY_DIFFER
        wrong += [f"{what} {name} differs" for name in sorted(names) if mine.get(name) != others.get(name)]
    models = [sorted(path.name for path in (run / "models").glob("*")) for run in (folder, other)]
    if models[0] != models[1]:
        wrong.append(f"models are {models[0]}, not {models[1]}")
    elif "last.safetensors" in models[0]:
        wrong += _other_weights(folder, one, other, two)
    if (folder / "journal.jsonl").exists() and (folder / "journal.jsonl").read_text().count("\n") != 1:
        wrong.append("the journal holds more than the identity of the finished run")
    return wrong


def _other_weights(folder: Path, one: Records, other: Path, two: Records) -> list[str]:
    vectors: list[Any] = []
    for path, records in ((folder, one), (other, two)):
        try:
            vectors.append(read_model(path, "last", records.facts["model_sha256"]).vector)
        except Exception as error:  # noqa: BLE001  whatever it is, the model cannot be read
            return [f"the last model cannot be read: {error!r}"]
    return [] if vectors[0].tobytes() == vectors[1].tobytes() else ["the last model has other bits"]


# Deployments ----------------------------------------------------------------------------------------------------------


class SentCall(NamedTuple):
    """A call that a server sent. life: number of the server's process. name: of the call, with the run's name."""

    life: int
    name: str
    kind: str
    stay: int | None
    client: int | None


class SentReply(NamedTuple):
    """What a client answered to a call. life: of the client. again: whether it is an answer from memory."""

    client: int
    life: int
    name: str
    kind: str
    stay: int | None
    loss: float | None
    vector: Any
    again: bool


@dataclass
class Evidence:
    """What a deployment's server and its clients said to each other, and what the server had said on disk.

    models: sent to clients, by the number of the visit. rows: visits as they ended (number, client, outcome, started,
    finished, loss). acknowledged: names of the calls whose answers were in the journal when a server was killed, with
    the number of the first life after that. doubled: names of calls of which a fault made two. calm_s: when the roll
    was called.
    """

    calls: list[SentCall] = field(default_factory=list)
    replies: list[SentReply] = field(default_factory=list)
    models: dict[int, Any] = field(default_factory=dict)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    acknowledged: dict[str, int] = field(default_factory=dict)
    doubled: set[str] = field(default_factory=set)
    calm_s: float | None = None


def violations(folder: Path, evidence: Evidence, n_clients: int, mean: bool) -> list[str]:
    """Return what does not hold of a finished deployment. mean: whether each model is the mean of the updates."""
    try:
        records = load_run(folder)
    except Exception as error:  # noqa: BLE001  whatever it is, the folder cannot be read
        return [f"the run cannot be read: {error!r}"]
    wrong = counted_twice(records, evidence)
    wrong += lost(records, evidence)
    wrong += asked_again(evidence)
    wrong += trained_again(evidence)
    wrong += not_free(records, evidence, n_clients)
    wrong += in_two_visits(records)
    if mean:
        wrong += other_means(records, evidence)
    return wrong + untidy(folder)


def violations_by_logs(folder: Path, logs: Sequence[Sequence[Path]], calm_s: float | None) -> list[str]:
    """Return what does not hold of a finished deployment of real processes.

    logs: files of each client, one for each process that it was. calm_s: when the roll was called.
    """
    try:
        records = load_run(folder)
    except Exception as error:  # noqa: BLE001  whatever it is, the folder cannot be read
        return [f"the run cannot be read: {error!r}"]
    wrong = []
    trained: list[set[int]] = []
    for client, files in enumerate(logs):
        by_file = [list(map(int, _TRAINED.findall(file.read_text()))) for file in files]
        trained.append({stay for stays in by_file for stay in stays})
        for stays in by_file:
            again = [stay for stay, count in Counter(stays).items() if count > 1]
            wrong += [f"client {client} trained more than once for visit {stay}" for stay in again]
    for visit in done(records):
        if not math.isnan(visit["loss"]) and visit["number"] not in trained[visit["client"]]:
            wrong.append(f"visit {visit['number']} counts, and client {visit['client']} did not train for it")
    wrong += not_free(records, Evidence(calm_s=calm_s), len(logs))
    return wrong + in_two_visits(records) + untidy(folder)


def done(records: Records) -> Iterator[dict[str, Any]]:
    """Yield the completed visits of a run."""
    visits = {name: values.tolist() for name, values in records.visits.items()}
    for row in zip(*visits.values()):
        visit = dict(zip(visits, row))
        if visit["outcome"] == "done":
            yield visit


def counted_twice(records: Records, evidence: Evidence) -> list[str]:
    """An update counts once, and it is one that its client sent for this visit."""
    wrong = []
    numbers = Counter(records.visits["number"].tolist())
    wrong += [f"visit {number} is recorded {count} times" for number, count in numbers.items() if count > 1]
    sent: dict[int, list[SentReply]] = {}
    for reply in evidence.replies:
        if reply.kind in ("train", "compute") and reply.stay is not None:
            sent.setdefault(reply.stay, []).append(reply)
    for visit in done(records):
        replies = sent.get(visit["number"], [])
        if math.isnan(visit["loss"]):
            continue  # it did not train
        if not any(reply.loss is not None and np.float64(reply.loss) == visit["loss"] for reply in replies):
            wrong.append(f"visit {visit['number']} counts with a loss of {visit['loss']} that its client did not send")
    counted, answered = sum(1 for visit in done(records) if not math.isnan(visit["loss"])), len(sent)
    if counted > answered:
        wrong.append(f"{counted} updates count, but clients trained in {answered} visits only")
    return wrong


def lost(records: Records, evidence: Evidence) -> list[str]:
    """What a server recorded as done, before it was killed, counts in the end."""
    kept = {
        (visit["number"], visit["client"], visit["started"], visit["finished"], _exact(visit["loss"]))
        for visit in done(records)
    }
    rows = [row for row in evidence.rows if row[2] == "done"]
    return [
        f"visit {number} of client {client} was done at {finished} s, and is not in the records"
        for number, client, _, started, finished, loss in sorted(set(rows))
        if (number, client, started, finished, _exact(loss)) not in kept
    ]


def _exact(loss: float | None) -> float | None:
    return None if loss is None or math.isnan(loss) else loss


def asked_again(evidence: Evidence) -> list[str]:
    """A client is not asked again for what the journal had when a server was killed."""
    return [
        f"{call.kind} of visit {call.stay} was answered and is asked again"
        for call in evidence.calls
        if call.kind not in ("describe", "notice") and call.life >= evidence.acknowledged.get(call.name, 10**9)
    ]


def trained_again(evidence: Evidence) -> list[str]:
    """A client that lives on trains once for a call, however often the call reaches it."""
    trained = Counter(
        (reply.client, reply.life, reply.name)
        for reply in evidence.replies
        if reply.kind in ("train", "compute") and not reply.again and reply.name not in evidence.doubled
    )
    return [
        f"client {client} trained {count} times for the call {name}"
        for (client, _, name), count in trained.items()
        if count > 1
    ]


def not_free(records: Records, evidence: Evidence, n_clients: int) -> list[str]:
    """After the last fault, every client can be visited again."""
    if evidence.calm_s is None:
        return ["the roll was not called"]
    free = {visit["client"] for visit in done(records) if visit["started"] >= evidence.calm_s}
    return [f"client {client} was never free again" for client in range(n_clients) if client not in free]


def in_two_visits(records: Records) -> list[str]:
    """A client is in one visit at a time."""
    wrong, ended = [], {}
    for visit in sorted(done(records), key=lambda visit: (visit["client"], visit["started"])):
        before = ended.get(visit["client"])
        if before is not None and visit["started"] < before["finished"]:
            wrong.append(f"client {visit['client']} was in visits {before['number']} and {visit['number']} at once")
        ended[visit["client"]] = visit
        times = [visit[name] for name in ("queued", "started", "received", "computed", "finished")]
        if times != sorted(times):
            wrong.append(f"visit {visit['number']} has times in no order: {times}")
    return wrong


def other_means(records: Records, evidence: Evidence) -> list[str]:
    """Each model is the mean of the updates of the completed visits that are based on the last one, each once."""
    trained = {reply.stay: reply.vector for reply in evidence.replies if reply.kind == "train" and reply.stay}
    sent = evidence.models
    by_version: dict[int, list[int]] = {}
    for visit in done(records):
        if evidence.calm_s is None or visit["finished"] < evidence.calm_s:
            by_version.setdefault(visit["base_version"], []).append(visit["number"])
    all_visits = {name: records.visits[name].tolist() for name in ("number", "base_version")}
    first_of = {version: number for number, version in zip(*all_visits.values()) if number in sent}
    wrong = []
    for version, numbers in by_version.items():
        after = first_of.get(version + 1)
        updates = [trained[number] for number in numbers if trained.get(number) is not None]
        if after is None or not updates:
            continue
        mean = np.mean(np.asarray(updates, dtype=np.float64), axis=0)
        if not np.allclose(mean, sent[after], rtol=1e-4, atol=1e-6):
            wrong.append(f"version {version + 1} is not the mean of the updates of visits {numbers}")
    return wrong


def untidy(folder: Path) -> list[str]:
    """A finished deployment leaves its results, and nothing else."""
    left = [name for name in ("journal.jsonl", "deployment.json") if (folder / name).exists()]
    wrong = [f"{name} is left" for name in left]
    models = sorted(path.name for path in (folder / "models").glob("*"))
    if models != ["last.safetensors"]:
        wrong.append(f"models are {models}, not the last one alone")
    if not (folder / "report.html").exists():
        wrong.append("there is no report.html")
    return wrong

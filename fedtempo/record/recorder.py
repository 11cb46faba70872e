"""Record the events of a run in `run.sqlite`, in batches, so that a visit costs very little."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import operator
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from fedtempo.errors import RunError
from fedtempo.record.fairness import ClientScores
from fedtempo.record.health import Health
from fedtempo.record.metric import Measure, further_of, measure_of
from fedtempo.record.run import Records, read_facts, read_further, read_records, read_rows
from fedtempo.record.running_totals import Tally
from fedtempo.record.schema import COLUMNS, DATABASE, FURTHER_TABLES, OUTCOMES, TABLES
from fedtempo.record.sqlite_files import delete_database
from fedtempo.record.strict_json import to_json
from fedtempo.record.summary import SUMMARY_FACTS, summary_of


class VisitRow(NamedTuple):
    """A visit that has ended, in the order of the columns of `schema.TABLES`. Times are seconds of the run's clock."""

    number: int
    """Order in which visits were requested."""
    client: int
    group: int | None
    base_version: int
    queued: float
    started: float | None
    received: float | None
    computed: float | None
    finished: float
    outcome: str
    """A key of `schema.OUTCOMES`."""
    examples: int
    loss: float | None


class CommitRow(NamedTuple):
    """A commit, in the order of the columns."""

    version: int
    time: float
    staleness: int


class EvaluationRow(NamedTuple):
    """An evaluation, in the order of the columns."""

    time: float
    version: int
    accuracy: float
    loss: float
    mae: float | None


class MetricRow(NamedTuple):
    """A further measure of an evaluation, in the order of the columns. label: a class, by number."""

    time: float
    version: int
    name: str
    label: int | None
    value: float


_log = logging.getLogger("fedtempo.run")


class Observer(Protocol):
    """Notified of each event when it is recorded. A resumed run repeats all events from its start."""

    def visit(self, row: VisitRow) -> None: ...
    def commit(self, version: int, time: float, staleness: int) -> None: ...
    def evaluation(self, time: float, version: int, accuracy: float, loss: float, mae: float | None) -> None: ...
    def measured(self, time: float, version: int, values: Mapping[str, float]) -> None:
        """Further measures of a version of the global model, those with one value, by name."""

    def traffic(self, down: int, up: int, relay: int) -> None: ...
    def fact(self, name: str, value: Any) -> None: ...


# Without an adapter SQLite silently stores a NumPy number as bytes.
for _kind in "bhilqBHILQef":
    sqlite3.register_adapter(np.dtype(_kind).type, operator.methodcaller("item"))

_NUMBER_BYTES = 8
_BATCH_ROWS = 5_000
_BATCH_S = 1.0
_ROWS_BETWEEN_LOOKS = 256
_ROWS_A_STATEMENT = 50
"""Takes half the time of single rows; larger statements gain hardly more."""


class Recorder:
    """Collects a run's rows and writes them to `folder`/run.sqlite, or keeps them in memory if `folder` is None.

    rows: False to count visits and commits without storing them, so that the file does not grow with them. observers:
    notified of all visits, commits, evaluations, bytes and facts; an exception in one of them ends the run. say: called
    with each warning about the run (`record.health`); logs it by default.

    Rows hold numbers and strings, at the lowest cost if these are Python's own types. A recorder replaces the database
    of an earlier one by a new file, because a resumed run repeats all events from its start, and because the old file
    may come from anybody (`sqlite_files`).

    Facts in use. From the start: strategy, label (if it differs), seed, n_clients, horizon_s (None without one),
    target_accuracy, target (of another measure: name, value, better, as_share), metrics (a list: name, better,
    as_share), client_measures (those over clients, likewise), data (an object: source, train, test, sha256, task,
    about; validation, the number of validation examples, if there are any; evaluated_on, "validation" if these take the
    place of the test examples; changes, the times at which examples change, if they do), network (input_shape of one
    example, or of each of its inputs; inputs: "numbers", "symbols" or "several"; outputs), version, size_bytes (of the
    model), label_histograms (for each client, examples of each class), label_noise_epsilon (of reported counts; None
    without noise), label_prior (of the logit-adjusted loss; None if unknown), class_names, client_names, positions ([x,
    y] of each client, metres), watts (of each client while it computes, "compute", and while it receives or sends,
    "link"; either may be missing). At the end: ended, end_reason (the same in words), elapsed_s (the time then),
    reads_horizon (whether the strategy asked for the horizon), model_sha256, best_model (if run.keep has "best":
    version, time_s, accuracy, loss, sha256, and validation_accuracy if it was chosen by that), client_layers (if it has
    "clients": clients, the number of those that have trained; sha256), wall_s, executor (of worker processes: workers,
    workers_replaced, peak_models, model_memory_bytes; with executor.reuse: reuse, the numbers of operations reused and
    computed). Of a run with [server.privacy]: privacy (clip_norm, noise_multiplier, delta; averages and epsilon of the
    client that took part in most). Written by the recorder: bytes (totals of `traffic`), left_clients (bytes of
    parameters, statistics, histograms and examples that left clients), events_sha256, health (`Health.as_fact`);
    without rows also record ("totals") and, at the end, totals (`running_totals.Totals`).

    Every method that writes raises RunError naming the file if it cannot be written.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        rows: bool = True,
        observers: Iterable[Observer] = (),
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._observers = tuple(observers)
        self.say = self._warn if say is None else say
        self.health = Health(self.say)
        self._path: Path | str = ":memory:" if folder is None else folder / DATABASE
        self._rows = rows
        self._visits: list[VisitRow] = []
        self._commits: list[CommitRow] = []
        self._evaluations: list[EvaluationRow] = []
        self._further: dict[str, list[tuple[Any, ...]]] = {}
        self._notes: list[tuple[str, str]] = []
        self._facts: dict[str, str] = {}
        self._about: dict[str, Any] = {}
        self.measure = measure_of(None)
        """The metric of evaluations, once the fact "data" is known."""
        self._down = self._up = self._relay = self._examples = 0
        self._statistics = self._histograms = 0
        self._tally = Tally()
        self._visits_hash = hashlib.sha256()
        self._commits_hash = hashlib.sha256()
        self._look_at = self._between_looks = 1
        self._flushed_at = time.monotonic()
        self._failed = False
        self._connection = self._open()
        if not rows:
            self.fact("record", "totals")

    def _open(self) -> sqlite3.Connection:
        connection = None
        try:
            if isinstance(self._path, Path):
                delete_database(self._path)
            connection = sqlite3.connect(self._path, timeout=60)
            connection.execute("PRAGMA page_size=16384")  # 10 % less time per row than by default
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.executescript(TABLES)
        except (sqlite3.DatabaseError, OSError) as error:
            if connection is not None:
                connection.close()
            reason = getattr(error, "strerror", None) or error
            raise RunError(f"{self._path} could not be opened for writing: {reason}") from error
        return connection

    def begun(self, group: int, time: float) -> None:
        """Take note that a visit of a group has started; `visit` records it when it has ended."""
        self._tally.begun(group, time)

    def visit(self, row: VisitRow) -> None:
        """Record a visit that has ended, with any outcome."""
        visits = self._visits
        visits.append(row)
        if self.health.alert and row.outcome == "done":
            self.health.served()
        if len(visits) >= self._look_at:
            self._look()
        for observer in self._observers:
            observer.visit(row)

    def commit(self, version: int, time: float, staleness: int) -> None:
        """Record that the global model became `version`. staleness: commits since the base of the committed update."""
        self._commits.append(CommitRow(version, time, staleness))
        self.health.committed()
        if len(self._commits) % _ROWS_BETWEEN_LOOKS == 0:
            self._look()
        for observer in self._observers:
            observer.commit(version, time, staleness)

    def evaluation(self, time: float, version: int, accuracy: float, loss: float, mae: float | None = None) -> None:
        """Record an evaluation of the global model. mae: mean absolute error of numbers; None for other tasks."""
        self._evaluations.append(EvaluationRow(time, version, accuracy, loss, mae))
        self.health.evaluation(time, version, accuracy, loss)
        self._look()
        for observer in self._observers:
            observer.evaluation(time, version, accuracy, loss, mae)

    def measured(self, time: float, version: int, values: Mapping[str, Any]) -> None:
        """Record further measures of an evaluation by name (`learning.metrics.Metrics.of`).

        A number has one row, an array (classes,) one for each class, and "confusion" one for each pair that occurs.
        """
        numbers: dict[str, float] = {}
        for name, value in values.items():
            if name == "confusion":
                classes, predicted = np.nonzero(value)
                pairs = zip(classes.tolist(), predicted.tolist(), value[classes, predicted].tolist())
                self._add("confusion", ((time, version, *pair) for pair in pairs))
            elif isinstance(value, np.ndarray):
                rows = (MetricRow(time, version, name, label, each) for label, each in enumerate(value.tolist()))
                self._add("metrics", rows)
            else:
                numbers[name] = value
                self._add("metrics", [MetricRow(time, version, name, None, value)])
        for observer in self._observers:
            observer.measured(time, version, numbers)

    def client_evaluations(self, time: float, version: int, results: Iterable[ClientScores]) -> None:
        """Record evaluations on the clients' own test sets, a row per client; none if rows are not recorded."""
        if not self._rows:
            return
        for each in results:
            columns = [each.clients.tolist(), each.examples.tolist(), *each.scores.T.tolist()]
            if len(columns) < 5:  # without absolute errors
                columns.append([None] * len(each.clients))
            self._add("client_evaluations", ((time, version, each.kind, *row) for row in zip(*columns, strict=True)))

    def _add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._further.setdefault(table, []).extend(rows)

    def traffic(self, down: int = 0, up: int = 0, relay: int = 0, examples: int = 0, along: int = 0) -> None:
        """Count bytes sent: from the server (down), to the server (up), and from client to client (relay).

        examples: those bytes to the server that were raw examples; the others were models. along: bytes of vectors
        that a client sent to the server along with its model.
        """
        up += along
        self._down += down
        self._up += up
        self._relay += relay
        self._examples += examples
        for observer in self._observers:
            observer.traffic(down, up, relay)

    @property
    def moved_bytes(self) -> int:
        """Bytes sent so far, in all directions."""
        return self._down + self._up + self._relay

    def told(self, statistics: int = 0, histograms: int = 0) -> None:
        """Count numbers that clients sent besides their models: measurements of a visit, counts of examples."""
        self._statistics += statistics
        self._histograms += histograms

    def note(self, name: str, value: Any) -> None:
        """Record a note of a strategy (JSON value or array); notes keep their order, and names may repeat."""
        self._notes.append((name, to_json(value)))

    def fact(self, name: str, value: Any) -> None:
        """Record a fact about the whole run (JSON value or array); a later value replaces an earlier one."""
        self._facts[name] = to_json(value)
        if name in ("strategy", "label", "seed", "metrics", "client_measures"):
            self._about[name] = value
        if name == "data":
            self.measure = measure_of(value)
        for observer in self._observers:
            observer.fact(name, value)

    def finish(self, ended: str, end_s: float, model: np.ndarray[Any, Any] | None, reason: str = "") -> None:
        """Record the end of the run: how it ended, at what time, and the final model (None without training).

        ended: one of `summary.ENDINGS`. reason: the same in words.
        """
        self.fact("ended", ended)
        self.fact("end_reason", reason or ended)
        self.fact("elapsed_s", end_s)
        if ended != "interrupted":
            self.flush()
            totals = self._tally.totals(end_s)
            self.health.finish(end_s, visits=int(totals.visits_done.sum()), commits=totals.commits, model=model)

    @property
    def further(self) -> dict[str, Measure]:
        """The other measures of evaluations by name, once the facts about them are known."""
        return further_of(self._about)

    def _warn(self, line: str) -> None:
        """Log a warning with the label of its run."""
        label = self._about.get("label") or self._about.get("strategy")
        _log.warning("%s%s", "" if label is None else f"{label}, seed {self._about.get('seed')}: ", line)

    @property
    def events_sha256(self) -> str:
        """Hash of all visits and commits so far: numbers, clients, groups, versions, times, outcomes and staleness.

        Two runs have the same hash if and only if these are equal; losses, examples and wall time do not matter.
        """
        self.flush()
        return hashlib.sha256(self._visits_hash.digest() + self._commits_hash.digest()).hexdigest()

    def records(self) -> Records:
        """Return everything recorded so far."""
        self.flush()
        return read_records(self._connection)

    def summary(self) -> dict[str, Any]:
        """Return the summary of everything recorded so far, without reading visits back."""
        self.flush()
        evaluations = read_rows(self._connection, "evaluations", "rowid")
        facts = read_facts(self._connection, SUMMARY_FACTS)
        totals = self._tally.totals(facts.get("elapsed_s", math.inf))
        return summary_of(facts, totals, evaluations, read_further(self._connection)["metrics"])

    def flush(self) -> None:
        """Write all collected rows in one transaction."""
        visits, self._visits = self._visits, []
        commits, self._commits = self._commits, []
        evaluations, self._evaluations = self._evaluations, []
        notes, self._notes = self._notes, []
        facts, self._facts = self._facts, {}
        further, self._further = self._further, {}
        if visits:
            self._count(_numbers(visits))
        if commits:
            values = np.array(commits, dtype="<f8")
            self._commits_hash.update(_bytes(values))
            self._tally.add_commits(values[:, 2].astype(np.int64))
        if self._rows:
            visits.sort(
                key=operator.attrgetter("number")
            )  # in the order of the table, so that each page is written once
        else:
            visits, commits = [], []
        facts["bytes"] = to_json({"down": self._down, "up": self._up, "relay": self._relay})
        facts["health"] = to_json(self.health.as_fact())
        facts["left_clients"] = to_json(
            {
                "parameters": self._up + self._relay - self._examples,
                "statistics": _NUMBER_BYTES * self._statistics,
                "histograms": _NUMBER_BYTES * self._histograms,
                "examples": self._examples,
            }
        )
        try:
            with self._connection as connection:
                single = len(visits) % _ROWS_A_STATEMENT
                connection.executemany(_insert(_ROWS_A_STATEMENT), _joined(visits[single:], _ROWS_A_STATEMENT))
                connection.executemany(_insert(1), visits[:single])
                connection.executemany("INSERT INTO commits VALUES(?,?,?)", commits)
                connection.executemany("INSERT INTO evaluations VALUES(?,?,?,?,?)", evaluations)
                for table, rows in further.items():
                    connection.execute(f"CREATE TABLE IF NOT EXISTS {FURTHER_TABLES[table]}")
                    marks = ",".join("?" * len(COLUMNS[table]))
                    connection.executemany(f"INSERT INTO {table} VALUES({marks})", rows)
                connection.executemany("INSERT INTO notes VALUES(?,?)", notes)
                connection.executemany("INSERT OR REPLACE INTO facts VALUES(?,?)", facts.items())
        except sqlite3.OperationalError as error:
            self._failed = True
            raise RunError(f"{self._path} could not be written: {error}") from error
        self._look_at = self._between_looks
        self._flushed_at = time.monotonic()

    def _count(self, visits: np.ndarray[Any, Any]) -> None:
        """Hash and tally visits, given as numbers by `_numbers`."""
        self._visits_hash.update(_bytes(visits[:, :10]))
        whole = np.nan_to_num(visits[:, [1, 2, 10]], nan=-1).astype(np.int64)
        client, group, examples = whole.T
        self._tally.add_visits(client, group, visits[:, 5], visits[:, 8], visits[:, 9].astype(np.int64), examples)

    def close(self) -> None:
        """Write remaining rows and close the database, leaving one file. After a failed write, only close it."""
        try:
            if not self._failed:
                self.fact("events_sha256", self.events_sha256)
                elapsed_s = read_facts(self._connection, ["elapsed_s"]).get("elapsed_s")
                if not self._rows and elapsed_s is not None:
                    self.fact("totals", self._tally.totals(elapsed_s).as_fact())
                self.flush()
                self._leave_one_file()
        finally:
            self._connection.close()
            self._tally.close()

    def _leave_one_file(self) -> None:
        """Remove the write-ahead log, which readers without write access could not; keep it if a reader is active."""
        self._connection.execute("PRAGMA busy_timeout=0")
        with contextlib.suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA journal_mode=DELETE")

    def _look(self) -> None:
        """Flush if the last flush was a second ago or many rows wait.

        The clock is read after one visit, after two more, after four more, ... until the next write, so that the few
        visits of a slow run are written soon.
        """
        rows = len(self._visits) + len(self._commits) + len(self._evaluations)
        if time.monotonic() - self._flushed_at >= _BATCH_S:
            self._between_looks = 1
            self.flush()
        elif rows >= _BATCH_ROWS:
            self.flush()
        else:
            self._between_looks = min(_ROWS_BETWEEN_LOOKS, 2 * self._between_looks)
        self._look_at = len(self._visits) + self._between_looks


def _insert(rows: int) -> str:
    """Return the statement that inserts this number of visits."""
    return "INSERT INTO visits VALUES" + ",".join(["(?,?,?,?,?,?,?,?,?,?,?,?)"] * rows)


def _joined(visits: list[VisitRow], rows: int) -> Iterator[list[Any]]:
    """Yield the values of visits as flat lists, one for each statement of `rows` rows."""
    for start in range(0, len(visits), rows):
        yield list(chain.from_iterable(visits[start : start + rows]))


def _numbers(visits: list[VisitRow]) -> np.ndarray[Any, Any]:
    """Return rows up to the examples as doubles, None as NaN and outcomes as codes, shape (visits, 11).

    Working column by column takes half the time of row by row.
    """
    columns = list(zip(*visits, strict=True))
    columns[9] = tuple(OUTCOMES[outcome] for outcome in columns[9])
    numbers = np.empty((len(visits), 11), dtype="<f8")
    for i in range(11):
        numbers[:, i] = columns[i]
    return numbers


def _bytes(rows: np.ndarray[Any, Any]) -> bytes:
    """Return rows as little-endian doubles, one row after the other, so that batching does not matter.

    All NaNs become the same quiet NaN, and -0.0 becomes 0.0.
    """
    values = rows + 0.0
    values[np.isnan(values)] = np.nan
    return values.tobytes()

"""What the page shows of one run, built up from pieces of its records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedtempo.record.metric import Measure, further_of, measure_of, target_of
from fedtempo.record.schema import OUTCOMES
from fedtempo.report import words
from fedtempo.report.figure import evenly
from fedtempo.report.watch.now import Now, OpenVisit
from fedtempo.report.watch.reading import Piece
from fedtempo.report.watch.series import Curve, Floats, Histogram, Ints, Recent, Spans

MOST_ROWS = 40
"""Maximum number of clients in a calendar."""

MOST_CELLS = 20_000
"""Maximum number of clients in the picture of busy clients."""

_VISITS_KEPT, _LINES_KEPT = 10_000, 300
_VISITS_AT_ONCE = 3_000
_LOST = ("unavailable", "late", "refused")

Line = tuple[float | None, str, str]
"""A line of a run's log: time (None: not on the run's clock), kind, text."""


class RunState:
    """One run, as far as it was read. facts: those of its latest piece."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.n_clients: int = facts.get("n_clients") or 1
        names = facts.get("client_names") or ()
        self._names = [str(name) for name in names]
        self.rows: Ints = evenly(np.arange(self.n_clients), MOST_ROWS)
        """Clients of the calendar, in the order of its rows."""
        self.curve = Curve()
        self.measures: dict[str, Curve] = {}
        """Further measures over time, by name."""
        self._groups, self._busy = Spans(facts.get("horizon_s")), Spans(facts.get("horizon_s"))
        self._staleness = Histogram()
        self._staleness_sum = self._commits = self._version = 0
        self._busy_s: Floats = np.zeros(self.n_clients)
        self._latest_start: Floats = np.full(self.n_clients, -math.inf)  # of the visits that have ended, by client
        self._outcomes: Ints = np.zeros(len(OUTCOMES), np.int64)
        self._calendar: Recent[tuple[Any, ...]] = Recent(_VISITS_KEPT)
        self._log: Recent[Line] = Recent(_LINES_KEPT)
        self._recorded_s = 0.0
        self.best: float | None = None
        self._end_logged = False
        self._warnings = 0
        self._log.add([(None, "begin", self._beginning())])

    def absorb(self, piece: Piece) -> None:
        """Take in a new piece of the records."""
        self.facts = piece.facts
        self._absorb_visits(piece)
        self._absorb_commits(piece)
        lines: list[Line] = [(None, "note", f"{name}: {words.short(value, 120)}") for name, value in piece.notes]
        lines += self._warning_lines()
        lines += self._lost_lines(piece)
        lines += self._evaluation_lines(piece)
        self._absorb_metrics(piece)
        lines.sort(key=lambda line: -1.0 if line[0] is None else line[0])
        if (ended := piece.facts.get("ended")) and not piece.more and not self._end_logged:
            self._end_logged = True
            reason = piece.facts.get("end_reason") or ended
            lines.append((piece.facts.get("elapsed_s"), "end", f"the run ended: {reason}"))
        self._log.add(lines)

    @property
    def _measure(self) -> Measure:
        return measure_of(self.facts.get("data"))

    @property
    def _target(self) -> dict[str, Any] | None:
        """The target: of which chart ("accuracy", "loss", or a further measure), its value, and its text."""
        target = target_of(self.facts)
        if target is None:
            return None
        text = words.level(target.value, target.measure)
        return {"of": target.column or target.measure.key, "value": target.value, "text": text}

    def client(self, number: int) -> str:
        """Return the client's name on the page."""
        return (self._names[number] if number < len(self._names) else "") or f"client {number}"

    def now_s(self, now: Now | None) -> float:
        """Return the run's clock (s): its latest known time, or the time at which the run ended."""
        elapsed_s = self.facts.get("elapsed_s")
        if elapsed_s is not None:
            return float(elapsed_s)
        return max(self._recorded_s, now.now_s if now else 0.0)

    def row(self, now: Now | None) -> dict[str, Any]:
        """Return the run's row in the table of runs; None for unknown values."""
        now_s, totals = self.now_s(now), self.facts.get("totals") or {}
        outcomes = totals.get("outcomes") or self._outcomes.tolist()
        commits = totals.get("commits", self._commits)
        stale = totals.get("staleness_sum", self._staleness_sum)
        latest = self.curve.points()[-1] if self.curve.total else (0.0, math.nan, math.nan)
        busy_s = sum(totals["busy_s"]) if totals else float(self._busy_s.sum())
        if now is not None:
            busy_s += sum(max(0.0, now_s - started) for _, _, started, _, _ in self._in_progress(now))
        counted = self.facts.get("record") != "totals" or bool(totals)
        return {
            "label": str(self.facts.get("label") or self.facts.get("strategy") or "unnamed"),
            "seed": self.facts.get("seed"),
            "source": (self.facts.get("data") or {}).get("source"),
            "deployment": bool(self.facts.get("deployment")),
            "rows": self.facts.get("record") != "totals",
            "clients": self.n_clients,
            "now_s": now_s,
            "horizon_s": self.facts.get("horizon_s"),
            "target": self._target,
            "measures": [{"name": name, "as_share": each.as_share} for name, each in further_of(self.facts).items()],
            "measure": {"name": self._measure.name, "as_share": self._measure.as_share},
            "accuracy": _finite(latest[1]),
            "loss": _finite(latest[2]),
            "best": self.best,
            "diverged": (self.facts.get("health") or {}).get("diverged") is not None,
            "visits": outcomes[OUTCOMES["done"]] if counted else None,
            "lost": sum(outcomes[OUTCOMES[name]] for name in _LOST) if counted else None,
            "commits": commits if counted else self._version,
            "staleness": stale / commits if commits else None,
            "busy_ratio": min(1.0, busy_s / (self.n_clients * now_s)) if now_s > 0 and counted else None,
            "busy": None if now is None else now.busy,
            "bytes": sum((self.facts.get("bytes") or {}).values()),
        }

    def detail(self, now: Now | None, curve: int, calendar: int, log: int) -> dict[str, Any]:
        """Return the new data for the run's charts. curve, calendar, log: points, visits and lines already seen."""
        in_progress = [] if now is None else self._in_progress(now)
        by_group = [(visit.group, visit.started) for visit in in_progress]
        ungrouped = [(-1, started) for _, started in by_group]
        # Visits that began after `now` and have not ended are unknown, so counts end there.
        known_s = self._recorded_s if now is None else min(self._recorded_s, now.now_s)
        calendar, visits = self._calendar.after(calendar, _VISITS_AT_ONCE)
        log, lines = self._log.after(log, _LINES_KEPT)
        points = self.curve.total + sum(each.total for each in self.measures.values())
        is_new = curve != points
        return {
            "curve": _shown_points(self.curve) if is_new else None,
            "measures": {name: _shown_points(each) for name, each in self.measures.items()} if is_new else None,
            "alive": {"every_s": self._groups.every_s, "counts": self._groups.counts(known_s, by_group)},
            "busy": {"every_s": self._busy.every_s, "counts": self._busy.counts(known_s, ungrouped)},
            "staleness": {"width": self._staleness.width, "counts": self._staleness.counts()},
            "clients": [self.client(number) for number in self.rows.tolist()],
            "numbers": self.rows.tolist(),
            "visits": visits,
            "log": lines,
            "seen": {"curve": points, "calendar": calendar, "log": log},
            "in_progress": self._shown(in_progress),
            "who": now.bits(self.n_clients) if now is not None and self.n_clients <= MOST_CELLS else "",
            "more": calendar < self._calendar.total,
        }

    def _beginning(self) -> str:
        parts = [f"{self.n_clients:,} clients", *([f"seed {self.facts['seed']}"] if "seed" in self.facts else [])]
        if self.facts.get("resumed"):
            parts.append(f"resumed {self.facts['resumed']} times")
        return f"{self.facts.get('strategy', 'a run')}: {', '.join(parts)}"

    def _absorb_visits(self, piece: Piece) -> None:
        visits = piece.visits
        if not visits["number"].size:
            return
        names, index = np.unique(visits["outcome"], return_inverse=True)
        codes = np.array([OUTCOMES[name] for name in names.tolist()], np.int64)[index]
        self._outcomes += np.bincount(codes, minlength=len(OUTCOMES))
        self._recorded_s = max(self._recorded_s, float(visits["finished"].max()))
        held = ~np.isnan(visits["started"])
        client, group = visits["client"][held], visits["group"][held]
        started, finished = visits["started"][held], visits["finished"][held]
        np.add.at(self._busy_s, client, finished - started)
        np.maximum.at(self._latest_start, client, started)
        self._groups.add(group, started, finished)
        self._busy.add(np.full(group.size, -1), started, finished)
        rows = np.full(self.n_clients, -1, np.int64)
        rows[self.rows] = np.arange(self.rows.size)
        shown = np.flatnonzero(held & (rows[visits["client"]] >= 0))
        shown = shown[np.argsort(visits["finished"][shown], kind="stable")][-_VISITS_KEPT:]
        columns = [rows[visits["client"][shown]].tolist(), visits["group"][shown].tolist()]
        columns += [_rounded(visits[name][shown]) for name in ("started", "received", "computed", "finished")]
        self._calendar.add(list(zip(*columns, codes[shown].tolist())))

    def _absorb_commits(self, piece: Piece) -> None:
        staleness = piece.commits["staleness"]
        if staleness.size:
            self._staleness.add(staleness)
            self._commits += staleness.size
            self._staleness_sum += int(staleness.sum())
            self._version = int(piece.commits["version"].max())
            self._recorded_s = max(self._recorded_s, float(piece.commits["time"].max()))

    def _evaluation_lines(self, piece: Piece) -> list[Line]:
        lines: list[Line] = []
        columns = (piece.evaluations[name].tolist() for name in ("time", "version", "accuracy", "loss"))
        for time, version, accuracy, loss in zip(*columns):
            self.curve.add((time, accuracy, loss))
            self._version = max(self._version, version)
            if not math.isnan(accuracy):
                self.best = accuracy if self.best is None else max(self.best, accuracy)
                good = f"{self._measure.name} {words.score(accuracy, self._measure)}"
                lines.append((time, "evaluation", f"version {version}: {good}, loss {loss:.3f}"))
            elif not math.isfinite(loss):
                lines.append((time, "evaluation", f"version {version}: the loss is not finite"))
        return lines[-_LINES_KEPT:]

    def _absorb_metrics(self, piece: Piece) -> None:
        known = further_of(self.facts)
        for time, name, value in zip(*(piece.metrics[column].tolist() for column in ("time", "name", "value"))):
            if name in known:
                self.measures.setdefault(name, Curve()).add((time, value))

    def _warning_lines(self) -> list[Line]:
        """Return lines for new warnings; the text of a warning includes its time."""
        warnings = (self.facts.get("health") or {}).get("warnings", [])
        new, self._warnings = warnings[self._warnings :], len(warnings)
        return [(None, "warning", words.short(line, 300)) for line in new]

    def _lost_lines(self, piece: Piece) -> list[Line]:
        visits, lines = piece.visits, list[Line]()
        for i in np.flatnonzero(np.isin(visits["outcome"], _LOST))[-_LINES_KEPT:].tolist():
            who, what = self.client(int(visits["client"][i])), words.visit_outcome(str(visits["outcome"][i]))
            lines.append((float(visits["finished"][i]), "lost", f"visit {visits['number'][i]} of {who}: {what}"))
        return lines

    def _in_progress(self, now: Now) -> list[OpenVisit]:
        """Return the visits in progress, without those that newer rows show to have ended.

        A client makes one visit at a time, so a visit has ended if a recorded visit began later or at the same time.
        """
        return [
            visit
            for visit in now.in_progress
            if visit.client < self.n_clients and visit.started > self._latest_start[visit.client]
        ]

    def _shown(self, in_progress: list[OpenVisit]) -> list[tuple[Any, ...]]:
        rows = {int(client): row for row, client in enumerate(self.rows)}
        return [(rows[client], *details) for client, *details in in_progress if client in rows]


def _shown_points(curve: Curve) -> list[list[float | None]]:
    return [list(map(_finite, point)) for point in curve.points()]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _rounded(values: Floats) -> list[float | None]:
    """Return values rounded to four digits, which is finer than any screen; None for NaN."""
    return [None if math.isnan(value) else round(value, 4) for value in values.tolist()]

"""Monitoring of a run on real clients: metrics for Prometheus and a health page."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

from fedtempo.deploy.live.federation import LiveFederation
from fedtempo.errors import ConfigError
from fedtempo.record.metric import measure_of
from fedtempo.record.recorder import VisitRow
from fedtempo.record.schema import OUTCOMES
from fedtempo.runtime.evaluations import Evaluations

_STALENESS = (0, 1, 2, 5, 10, 20, 50, 100)
_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)


class Metrics:
    """Prometheus metrics of one run."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        options: dict[str, Any] = {"registry": self.registry, "namespace": "fedtempo"}
        self._visits = Counter("visits", "Visits that ended, by outcome.", ["outcome"], **options)
        for outcome in OUTCOMES:
            self._visits.labels(outcome)
        self._took_s = Histogram("visit_seconds", "Seconds of a visit with a model.", buckets=_SECONDS, **options)
        self._staleness = Histogram("staleness", "Commits since a commit's base.", buckets=_STALENESS, **options)
        self._not_finite = Counter("evaluations_not_finite", "Evaluations whose loss is not finite.", **options)
        self._scores: list[Gauge] = []
        self._metrics = Gauge("metric", "The latest evaluation by further measures (run.metrics).", ["name"], **options)
        self._bytes = Counter("bytes", "Bytes of models and examples.", ["direction"], **options)
        self._run: LiveFederation | None = None
        for name, meaning, value in (
            ("clients_connected", "Clients online.", lambda run: run.present),
            ("clients_busy", "Clients in a visit.", lambda run: run.busy),
            ("run_seconds", "Seconds on the run's clock.", lambda run: run.now),
            ("model_version", "Version of the global model.", lambda run: run.model.version),
            ("superlink_away", "1 while the SuperLink does not answer.", lambda run: float(run.away)),
        ):
            Gauge(name, meaning, **options).set_function(self._of_run(value))

    def watch(self, run: LiveFederation, evaluations: Evaluations) -> None:
        self._run = run

    def visit(self, row: VisitRow) -> None:
        self._visits.labels(row.outcome).inc()
        if row.outcome == "done" and row.started is not None:
            self._took_s.observe(row.finished - row.started)

    def commit(self, version: int, time: float, staleness: int) -> None:
        self._staleness.observe(staleness)

    def evaluation(self, time: float, version: int, accuracy: float, loss: float, mae: float | None) -> None:
        if not math.isfinite(loss):
            self._not_finite.inc()
        for score in self._scores:
            score.set(accuracy)

    def measured(self, time: float, version: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._metrics.labels(name).set(value)

    def traffic(self, down: int, up: int, relay: int) -> None:
        self._bytes.labels("down").inc(down)
        self._bytes.labels("up").inc(up)

    def fact(self, name: str, value: Any) -> None:
        if name == "data":  # the task decides what evaluations measure
            measure = measure_of(value)
            about = f"The latest evaluation: {measure.name}, at most 1."
            self._scores = [Gauge(measure.key, about, namespace="fedtempo", registry=self.registry)]

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the run is healthy, and its state."""
        run = self._run
        if run is None:
            return True, {"state": "waiting for clients"}
        state = {"run_s": run.now, "version": run.model.version, "clients": run.present, "busy": run.busy}
        return not run.away, {"state": "SuperLink away" if run.away else "running", **state}

    def _of_run(self, value: Callable[[LiveFederation], float]) -> Callable[[], float]:
        return lambda: 0.0 if self._run is None else value(self._run)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: the pages are read every few seconds."""


@contextlib.contextmanager
def served(metrics: Metrics, address: str) -> Iterator[int]:
    """Serve /metrics and /health at host:port inside the block; yield the port. Raises ConfigError if it is in use."""
    of_metrics = make_wsgi_app(metrics.registry)

    def page(environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/metrics":
            return of_metrics(environ, start_response)
        if environ["PATH_INFO"] == "/health":
            healthy, state = metrics.health()
            status = "200 OK" if healthy else "503 Service Unavailable"
            start_response(status, [("Content-Type", "application/json")])
            return [json.dumps(state).encode()]
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"/metrics or /health\n"]

    host, _, port = address.rpartition(":")
    try:
        server = make_server(host, int(port), page, server_class=_Server, handler_class=_Quiet)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"deploy.metrics = {address!r}: cannot listen there: {error}") from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

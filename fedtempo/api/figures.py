"""Figures of results: in notebooks, and as files for papers and pages."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.errors import ConfigError, nearest
from fedtempo.record import Records
from fedtempo.record.metric import Measure, Target
from fedtempo.record.strict_json import write_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Runs = Mapping[str, Sequence[Records]]


def _plotly(runs: Runs, target: Target | None) -> dict[str, Callable[[], Any]]:
    from fedtempo.report import charts, panels
    from fedtempo.report.series import further_measures

    metrics = {
        name: partial(charts.metric, runs, measure, _aim(target, measure))
        for name, measure in further_measures(runs).items()
    }
    return {
        **metrics,
        "accuracy": lambda: charts.accuracy(runs, _accuracy_aim(target)),
        "loss": lambda: charts.loss(runs),
        "busy": lambda: charts.busy(runs),
        "alive": lambda: charts.alive(runs),
        "staleness": lambda: charts.staleness(runs),
        "participation": lambda: charts.who_takes_part(runs),
        "calendars": lambda: panels.calendars(runs),
        "places": lambda: panels.positions(runs),
        "labels": lambda: panels.labels(next(iter(runs.values()))[0]),
        "clients": lambda: charts.at_clients(runs, "clients"),
        "own": lambda: charts.at_clients(runs, "own"),
        "by-class": lambda: charts.by_class(runs),
        "confusion": lambda: panels.confusion(runs),
    }


def _matplotlib(runs: Runs, target: Target | None) -> dict[str, Callable[[Path], None]]:
    from fedtempo.report import figures
    from fedtempo.report.series import further_measures

    metrics = {
        name: partial(figures.metric, runs, measure=measure, target=_aim(target, measure))
        for name, measure in further_measures(runs).items()
    }
    return {
        **metrics,
        "accuracy": lambda path: figures.accuracy(runs, path, target=_accuracy_aim(target)),
        "busy": lambda path: figures.busy(runs, path),
        "alive": lambda path: figures.alive(runs, path),
        "calendars": lambda path: figures.calendars(runs, path),
        "clients": lambda path: figures.at_clients(runs, path, "clients"),
        "own": lambda path: figures.at_clients(runs, path, "own"),
        "by-class": lambda path: figures.by_class(runs, path),
        "confusion": lambda path: figures.confusion(runs, path),
    }


def _aim(target: Target | None, measure: Measure) -> float | None:
    """Return the target's value if it is one of this further measure."""
    return target.value if target is not None and not target.column and target.measure == measure else None


def _accuracy_aim(target: Target | None) -> float | None:
    return target.value if target is not None and target.column == "accuracy" else None


class Pictures(abc.ABC):
    """A base for results with figures: runs by label, one per seed."""

    @property
    @abc.abstractmethod
    def shown_runs(self) -> Runs:
        """The runs that are drawn."""

    @property
    @abc.abstractmethod
    def shown_target(self) -> Target | None:
        """The target, if there is one."""

    def figure(self, name: str = "accuracy") -> Figure:
        """Return a figure (Plotly), which notebooks show.

        name: accuracy, loss (over time), busy (share of the run, by client), alive (groups over time), staleness,
        participation, calendars, places (of clusters in groups) or labels (who holds what); for runs with further
        measures (`run.metrics`) also by-class, confusion, and each measure by its name; for those with clients' own
        test sets clients and own (accuracy of the global and of clients' own models at each client). Raises ConfigError
        for another name, or where the runs have nothing to draw.
        """
        drawn = self._drawn(name, _plotly(self.shown_runs, self.shown_target))()
        if drawn is None:
            raise ConfigError(f"figure {name!r}: the runs have nothing to draw here")
        named: set[str] = set()
        for trace in drawn.data:
            shown = trace.legendgroup is not None and trace.legendgroup not in named and trace.hoverinfo != "skip"
            trace.showlegend = shown
            if shown:
                named.add(trace.legendgroup)
        drawn.update_layout(template="plotly_white", showlegend=len(self.shown_runs) > 1 and bool(named))
        return drawn

    def save_figure(self, name: str, path: Path | str) -> Path:
        """Write a figure to a file: an interactive page for .html, otherwise PNG, SVG or PDF.

        Papers' pictures there are of accuracy, busy, alive, calendars, and further measures. Raises ConfigError for
        another name, RunError where the file cannot be written. Returns the path.
        """
        path = Path(path)
        if path.suffix == ".html":
            write_text(path, self.figure(name).to_html(include_plotlyjs=True))
        else:
            self._drawn(name, _matplotlib(self.shown_runs, self.shown_target))(path)
        return path

    @staticmethod
    def _drawn(name: str, pictures: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
        if name not in pictures:
            raise ConfigError(f"figure {name!r}: no such figure{nearest(name, pictures)}")
        return pictures[name]

"""Pictures of results: as figures for notebooks, as files for papers and pages."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.errors import ConfigError, nearest
from fedtempo.record import Records
from fedtempo.record.strict_json import write_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Runs = Mapping[str, Sequence[Records]]


def _plotly(runs: Runs, target: float | None) -> dict[str, Callable[[], Any]]:
    from fedtempo.report import charts, panels

    return {
        "accuracy": lambda: charts.accuracy(runs, target),
        "loss": lambda: charts.loss(runs),
        "busy": lambda: charts.busy(runs),
        "alive": lambda: charts.alive(runs),
        "staleness": lambda: charts.staleness(runs),
        "participation": lambda: charts.who_takes_part(runs),
        "calendars": lambda: panels.calendars(runs),
        "places": lambda: panels.positions(runs),
        "labels": lambda: panels.labels(next(iter(runs.values()))[0]),
    }


def _matplotlib(runs: Runs, target: float | None) -> dict[str, Callable[[Path], None]]:
    from fedtempo.report import figures

    return {
        "accuracy": lambda path: figures.accuracy(runs, path, target=target),
        "busy": lambda path: figures.busy(runs, path),
        "alive": lambda path: figures.alive(runs, path),
        "calendars": lambda path: figures.calendars(runs, path),
    }


class Pictures(abc.ABC):
    """What has pictures: runs by label, several of one are its seeds."""

    @property
    @abc.abstractmethod
    def shown_runs(self) -> Runs:
        """The runs that are drawn."""

    @property
    @abc.abstractmethod
    def shown_target(self) -> float | None:
        """The accuracy that is aimed at; None for none."""

    def figure(self, name: str = "accuracy") -> Figure:
        """A picture as a Plotly figure, which notebooks show.

        name: accuracy, loss (over time), busy (share of the run, by client), alive (groups over time), staleness,
        participation, calendars, places (of clusters in groups) or labels (who holds what). Raises ConfigError for
        another name, or where the runs have nothing to draw.
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
        """A picture as a file: an interactive page of `figure` for .html; PNG, SVG or PDF for papers else.

        Papers' pictures there are of accuracy, busy, alive and calendars. Raises ConfigError for another name, RunError
        where the file cannot be written. Returns the path.
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
            raise ConfigError(f"figure {name!r}: no such picture{nearest(name, pictures)}")
        return pictures[name]

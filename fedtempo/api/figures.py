"""Figures of results: in notebooks, and as files for papers and pages."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.errors import ConfigError, nearest
from fedtempo.record import Records
from fedtempo.record.metric import Target, aim
from fedtempo.record.strict_json import write_text
from fedtempo.report.look import SCREEN, Look, length_in

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Runs = Mapping[str, Sequence[Records]]


def _plotly(runs: Runs, target: Target | None) -> dict[str, Callable[[], Any]]:
    from fedtempo.report import charts, panels
    from fedtempo.report.series import further_measures

    metrics = {
        name: partial(charts.metric, runs, measure, aim(target, name))
        for name, measure in further_measures(runs).items()
    }
    return {
        **metrics,
        "accuracy": lambda: charts.accuracy(runs, aim(target, "accuracy")),
        "loss": lambda: charts.loss(runs, aim(target, "loss")),
        "busy": lambda: charts.busy(runs),
        "alive": lambda: charts.alive(runs),
        "staleness": lambda: charts.staleness(runs),
        "participation": lambda: charts.who_takes_part(runs),
        "calendars": lambda: panels.calendars(runs),
        "places": lambda: panels.positions(runs),
        "labels": lambda: panels.labels(next(iter(runs.values()))[0]),
        "clients": lambda: charts.at_clients(runs, "clients"),
        "own": lambda: charts.at_clients(runs, "own"),
        "clients-over-time": lambda: charts.over_clients(runs, "clients", target),
        "own-over-time": lambda: charts.over_clients(runs, "own", target),
        "by-class": lambda: charts.by_class(runs),
        "confusion": lambda: panels.confusion(runs),
    }


def _matplotlib(runs: Runs, target: Target | None, look: Look) -> dict[str, Callable[[Path], None]]:
    from fedtempo.report import figures
    from fedtempo.report.series import further_measures

    metrics = {
        name: partial(figures.metric, runs, measure=measure, target=aim(target, name), look=look)
        for name, measure in further_measures(runs).items()
    }
    return {
        **metrics,
        "accuracy": lambda path: figures.accuracy(runs, path, target=aim(target, "accuracy"), look=look),
        "loss": lambda path: figures.loss(runs, path, target=aim(target, "loss"), look=look),
        "busy": lambda path: figures.busy(runs, path, look=look),
        "alive": lambda path: figures.alive(runs, path, look=look),
        "staleness": lambda path: figures.staleness(runs, path, look=look),
        "participation": lambda path: figures.who_takes_part(runs, path, look=look),
        "calendars": lambda path: figures.calendars(runs, path, look=look),
        "places": lambda path: figures.places(runs, path, look=look),
        "labels": lambda path: figures.labels(runs, path, look=look),
        "clients": lambda path: figures.at_clients(runs, path, "clients", look=look),
        "own": lambda path: figures.at_clients(runs, path, "own", look=look),
        "clients-over-time": lambda path: figures.over_clients(runs, path, "clients", target=target, look=look),
        "own-over-time": lambda path: figures.over_clients(runs, path, "own", target=target, look=look),
        "by-class": lambda path: figures.by_class(runs, path, look=look),
        "confusion": lambda path: figures.confusion(runs, path, look=look),
    }


def look_of(width: float | str | None, height: float | str | None, style: str | Iterable[str]) -> Look:
    """Return the look of a paper's figure, or that of a screen if nothing is asked for.

    width, height: "column", "page", a length such as "84mm", or inches. style: one style sheet or several, by name or
    file.
    """
    styles = (style,) if isinstance(style, str) else tuple(style)
    if width is None and height is None and not styles:
        return SCREEN
    sizes = [length_in(size) if isinstance(size, str) else size for size in (width, height)]
    return Look(sizes[0], sizes[1], styles=styles, paper=True)


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

    @property
    def figure_names(self) -> tuple[str, ...]:
        """Names of the figures that there are for these runs, some of which may have nothing to draw."""
        return tuple(_matplotlib(self.shown_runs, None, SCREEN))

    def figure(self, name: str = "accuracy") -> Figure:
        """Return a figure (Plotly), which notebooks show.

        name: accuracy, loss (over time), busy (share of the run, by client), alive (groups over time), staleness,
        participation, calendars, places (of clusters in groups) or labels (who holds what); for runs with further
        measures (`run.metrics`) also by-class, confusion, and each measure by its name; for those with clients' own
        test sets clients and own (accuracy of the global and of clients' own models at each client), clients-over-time
        and own-over-time (their mean and worst tenth). Raises ConfigError for another name, or where the runs have
        nothing to draw.
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

    def save_figure(
        self,
        name: str,
        path: Path | str,
        *,
        width: float | str | None = None,
        height: float | str | None = None,
        style: str | Iterable[str] = (),
    ) -> Path:
        """Write a figure to a file: an interactive page for .html, otherwise PDF with embedded fonts, SVG, EPS or PNG.

        name: as in `figure`. width, height: "column" (3.5 inches), "page" (7.16 inches), a length with a unit of in,
        cm, mm or pt, such as "84mm", or inches. style: one of Matplotlib's style sheets or several, by name, file or
        package. With any of these, the figure has small type and thin lines, as journals ask for; and without a width,
        the style sheet's `figure.figsize`, or else a column's width.

        Raises ConfigError for another name, a length or a style sheet that does not exist, or if the runs have nothing
        to draw, RunError if the file cannot be written. Returns the path.
        """
        path, look = Path(path), look_of(width, height, style)
        if path.suffix == ".html":
            if look != SCREEN:
                raise ConfigError(f"{path}: width, height and style are for PDF, SVG, EPS and PNG")
            write_text(path, self.figure(name).to_html(include_plotlyjs=True))
        else:
            self._drawn(name, _matplotlib(self.shown_runs, self.shown_target, look))(path)
        return path

    @staticmethod
    def _drawn(name: str, pictures: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
        if name not in pictures:
            raise ConfigError(f"figure {name!r}: no such figure{nearest(name, pictures)}")
        return pictures[name]

"""One self-contained page about runs, readable without a network in any browser."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import plotly.graph_objects as go
import tomli_w
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fedtempo.errors import ConfigError
from fedtempo.record.client_measures import MODELS
from fedtempo.record.compare import comparison as compare
from fedtempo.record.metric import Target, aim, measure_of_all, target_of_all
from fedtempo.record.reading import read_text
from fedtempo.record.run import Run
from fedtempo.record.strict_json import write_text
from fedtempo.record.summary import summarise
from fedtempo.report import charts, panels, words
from fedtempo.report.assets import REPORT_SCRIPT, STYLE
from fedtempo.report.columns import comparison_columns
from fedtempo.report.disclosure import leaving
from fedtempo.report.palette import strategy_colours
from fedtempo.report.rendering import render
from fedtempo.report.series import further_measures, kinds_at_clients

Groups = Mapping[str, Sequence[Run]]
"""Runs by label; those with the same label are its seeds."""

NO_NOTES: Mapping[str, str] = MappingProxyType({})

MEANINGS = {
    "Time to target": "The time of the first of three consecutive evaluations whose mean reaches the target. Over "
    "seeds: the median, in which a seed that misses the target counts as later than all others.",
    "Beside the first": "The first has the lowest median time to target or, without times, the highest mean of the "
    "final values. Later (lower): shown by Student's one-sided paired test over seeds, on logarithms of times (on "
    "differences), at the 5% level with Holm's correction. Level: the 90% interval of the ratio of times lies within "
    "1/1.1 to 1.1. Not told apart: none of these is shown. Ratios are geometric means over paired seeds, with "
    "Student's 95% intervals.",
    "Busy": "A client is busy from the start of a visit to its end: it receives the model, trains and sends.",
    "Group alive": "From the start of a group's first visit to the end of its last. A visit outside groups counts as a "
    "group.",
    "Staleness": "Commits made to the global model since the version that a client's chain of visits started from.",
    "Moved": "Bytes sent by the server, sent to the server and relayed between clients, in total.",
}

OVER_CLIENTS = {
    "Worst tenth, Jain's index": "Over the clients' own test sets, every client counting the same: the mean of the "
    "lowest tenth of the values, and (sum of x)² / (n · sum of x²), which is 1 if all clients fare alike.",
}
"""Meanings that only some runs need."""


@dataclass(frozen=True)
class LegendEntry:
    """A strategy in the legend of a chart. note: what stands beside its name, may be empty."""

    label: str
    colour: str
    note: str


@dataclass(frozen=True)
class Chart:
    """A chart on its card. size: "wide", "main", "half", or empty for a third of the page.

    height: pixels. description: for screen readers. data: Plotly's JSON, safe inside a script element.
    """

    number: int
    title: str
    text: str
    size: str
    height: int
    description: str
    legend: Sequence[LegendEntry]
    data: Markup


Card = Chart | Markup
"""A chart, or a card that is already HTML."""


@dataclass(frozen=True)
class Section:
    """Cards under a heading; left out of the page if there are none."""

    title: str
    cards: Sequence[Card]


def write_report(path: Path | str, runs: Sequence[Run], comparison: Mapping[str, Any] | None = None) -> None:
    """Write the page about `runs` (one or many; those with the same label are its seeds) to `path`.

    comparison: as `fedtempo.record.comparison` makes it from the same runs; computed here if None. Raises ConfigError
    if there are no runs or they have different targets, RunError if the file cannot be written.
    """
    if not runs:
        raise ConfigError("a report needs at least one run")
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    if comparison is None:
        comparison = compare(
            # Not from summary.json, which another version may have written, or anyone edited.
            {label: [summarise(run) for run in group] for label, group in groups.items()}
        )
    # Colours follow the order of the comparison, in the table and in the charts.
    ordered = [label for label in comparison["strategies"] if label in groups]
    ordered += [label for label in groups if label not in ordered]
    write_text(Path(path), _page({label: groups[label] for label in ordered}, comparison))


def _page(groups: Groups, comparison: Mapping[str, Any]) -> str:
    title, details = words.headline(comparison)
    return render(
        "report",
        title=title,
        details=details,
        about=_about(groups),
        columns=comparison_columns(comparison),
        colours=strategy_colours(list(groups)),
        significance=words.significance(comparison),
        endings=_endings(groups),
        warnings=_warnings(groups),
        sections=_sections(groups, comparison),
        meanings=MEANINGS | (OVER_CLIENTS if kinds_at_clients(groups) else {}),
        configurations=[
            (f"{run.label}, seed {run.facts['seed']}", _configuration(run))
            for group in groups.values()
            for run in group
        ],
        environments=_environments(groups),
        style=Markup(STYLE),  # noqa: S704  files of this package
        plotly=Markup(get_plotlyjs()),  # noqa: S704  a library's file
        script=Markup(REPORT_SCRIPT),  # noqa: S704  files of this package
    )


def _endings(groups: Groups) -> dict[str, list[str]]:
    """Return why runs ended: the reasons, each with the runs that it ended."""
    reasons: dict[str, list[str]] = {}
    for group in groups.values():
        for run in group:
            if reason := run.facts.get("end_reason"):
                reasons.setdefault(str(reason), []).append(f"{run.label}, seed {run.facts['seed']}")
    return reasons


def _warnings(groups: Groups) -> list[str]:
    """Return the warnings given during the runs."""
    return [
        f"{run.label}, seed {run.facts['seed']}: {line}"
        for group in groups.values()
        for run in group
        for line in (run.facts.get("health") or {}).get("warnings", [])
    ]


class _Charts:
    """Makes the charts of a page, and numbers them."""

    def __init__(self, groups: Groups) -> None:
        self._colours = strategy_colours(list(groups))
        self._count = 0

    def chart(
        self,
        title: str,
        text: str,
        figure: go.Figure | None,
        *,
        size: str = "",
        legend: bool = True,
        notes: Mapping[str, str] = NO_NOTES,
    ) -> list[Card]:
        """Return the chart of a figure; no chart if there is no figure.

        text: how to read it. notes: by strategy, what stands beside its name in the legend.
        """
        if figure is None:
            return []
        self._count += 1
        return [
            Chart(
                number=self._count,
                title=title,
                text=text,
                size=size,
                height=figure.layout.height,
                description=f"{title}. {text} {_final_values(figure)}".strip(),
                legend=self._legend(figure, notes) if legend and len(self._colours) > 1 else [],
                # Only "<" could end a script element or start a comment. Plotly escapes it too, but promises nothing.
                data=Markup(figure.to_json().replace("<", "\\u003c")),  # noqa: S704
            )
        ]

    def _legend(self, figure: go.Figure, notes: Mapping[str, str]) -> list[LegendEntry]:
        shown = {trace.legendgroup for trace in figure.data}
        return [
            LegendEntry(label, colour, notes.get(label, ""))
            for label, colour in self._colours.items()
            if label in shown
        ]


def _final_values(figure: go.Figure) -> str:
    """Return the final values of a chart over time, for screen readers; empty for other charts."""
    if (figure.layout.xaxis.title.text or "") != "time (s)":
        return ""
    form = figure.layout.yaxis.tickformat
    ends = {
        html.unescape(trace.name): float(trace.y[-1])
        for trace in figure.data
        if trace.type == "scatter" and not trace.fill and trace.name
    }

    def shown(value: float) -> str:
        if math.isnan(value):
            return "no finite value"
        return f"{value:.1%}" if form == ".0%" else f"{value:.4g}"

    values = (f"{name} {shown(value)}" for name, value in ends.items())
    return f"At the end: {', '.join(values)}." if ends else ""


def _sections(groups: Groups, comparison: Mapping[str, Any]) -> list[Section]:
    make, target = _Charts(groups), target_of_all(comparison)
    first_run = next(iter(groups.values()))[0]
    disclosed = leaving({label: group[0] for label, group in groups.items()})
    return [
        Section(
            "How good, how soon",
            [
                *make.chart(
                    f"{words.capital(measure_of_all(comparison).name)} over time",
                    f"The global model on the test data. {_band(groups)}",
                    charts.accuracy(groups, comparison["target_accuracy"]),
                    size="main",
                ),
                *make.chart("Loss over time", _band(groups), charts.loss(groups, aim(target, "loss"))),
                *_metrics(groups, target, make),
            ],
        ),
        Section("At the clients", _at_clients(groups, target, make)),
        Section("Who works when", _work(groups, comparison, make)),
        Section(
            "Who holds what",
            [
                *make.chart(
                    "Classes of each client",
                    f"Training examples.{_of_the_first_seed(groups)}",
                    panels.labels(first_run),
                    size="wide",
                    legend=False,
                ),
                *([disclosed] if disclosed else []),
            ],
        ),
    ]


def _metrics(groups: Groups, target: Target | None, make: _Charts) -> list[Card]:
    """Return the charts of further measures (`run.metrics`)."""
    cards: list[Card] = []
    for name, measure in further_measures(groups).items():
        cards += make.chart(f"{name} over time", _band(groups), charts.metric(groups, measure, aim(target, name)))
    return [
        *cards,
        *make.chart("Accuracy of each class", "At the last evaluation, mean over seeds.", charts.by_class(groups)),
        *make.chart(
            "Confusion",
            f"Test examples of each class by predicted class, at the last evaluation.{_of_the_first_seed(groups)}",
            panels.confusion(groups),
            size="wide",
            legend=False,
        ),
    ]


def _at_clients(groups: Groups, target: Target | None, make: _Charts) -> list[Card]:
    """Return the charts of evaluations on the clients' own test sets."""
    cards: list[Card] = []
    for kind in kinds_at_clients(groups):
        who = words.capital(MODELS[kind])
        ranked = " Ranked in each seed, then averaged." if _of_the_first_seed(groups) else ""
        cards += make.chart(
            f"{who} at every client",
            f"On each client's own test set, at the last evaluation, from the worst client to the best.{ranked}",
            charts.at_clients(groups, kind),
            size="half",
        )
        cards += make.chart(
            f"{who} over time",
            f"Solid: the mean over clients; dotted: the mean of the worst tenth. {_band(groups)}",
            charts.over_clients(groups, kind, target),
            size="half",
        )
    return cards


def _work(groups: Groups, comparison: Mapping[str, Any], make: _Charts) -> list[Card]:
    first_seed = _of_the_first_seed(groups)
    busy = {name: fields["busy_ratio"]["mean"]["mean"] for name, fields in comparison["strategies"].items()}
    staleness = "How many commits old the models are that commits build on."
    without_rows = [label for label, group in groups.items() if not all(run.has_rows for run in group)]
    fresh = [label for label, group in groups.items() if not any(run.commits["staleness"].any() for run in group)]
    if fresh := [label for label in fresh if label not in without_rows]:
        staleness += f" Always fresh: {words.listed(fresh)}."
    return [
        *make.chart(
            "Busy ratio of every client",
            "Dotted: the mean over clients." + (" Ranked in each seed, then averaged." if first_seed else ""),
            charts.busy(groups),
            notes={name: words.share(mean) for name, mean in busy.items()},
        ),
        *make.chart("Groups alive over time", _band(groups), charts.alive(groups)),
        *make.chart("Staleness", staleness, charts.staleness(groups)),
        *make.chart(
            "Calendars",
            "When clients are busy, from the fastest to the slowest, with the mean length of their visits. "
            f"Each colour is a group.{first_seed}",
            panels.calendars(groups),
            size="wide",
            legend=False,
        ),
        *make.chart(
            "Who takes part",
            f"Each point is a client that made visits.{first_seed}",
            charts.who_takes_part(groups),
            size="half",
        ),
        *make.chart(
            "Clusters and places",
            f"Which cluster serves at which place of a group, as a share of the visits at that place.{first_seed}",
            panels.positions(groups),
            size="half",
            legend=False,
        ),
        *([render("missing", labels=words.listed(without_rows))] if without_rows else []),
    ]


def _band(groups: Groups) -> str:
    seeds = max(len(group) for group in groups.values())
    return f"Mean over {seeds} seeds; the band spans the lowest to the highest." if seeds > 1 else ""


def _of_the_first_seed(groups: Groups) -> str:
    return " First seed only." if max(len(group) for group in groups.values()) > 1 else ""


def _about(groups: Groups) -> str:
    runs = [run for group in groups.values() for run in group]
    facts = runs[0].facts
    parts = [f"{facts['n_clients']:,} clients"]
    if data := facts.get("data"):
        parts.insert(0, str(data.get("source", "")))
    if facts.get("horizon_s"):
        parts.append(words.seconds(facts["horizon_s"]))
    seeds = words.whole_ranges([run.facts["seed"] for run in runs])
    parts.append(f"seed{'s' if len({run.facts['seed'] for run in runs}) > 1 else ''} {seeds}")
    return " · ".join(part for part in parts if part)


def _configuration(run: Run) -> str:
    return tomli_w.dumps(run.config) if run.folder is None else read_text(run.folder, "config.toml") or ""


def _environments(groups: Groups) -> dict[str, list[str]]:
    """Return each environment once, as JSON, with the runs that were made in it."""
    environments: dict[str, list[str]] = {}
    for group in groups.values():
        for run in group:
            shared = {name: value for name, value in run.environment.items() if name not in ("seed", "started_at")}
            environments.setdefault(json.dumps(shared, indent=2), []).append(f"{run.label}, seed {run.facts['seed']}")
    return environments

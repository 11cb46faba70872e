"""One page that shows what came of runs: self-contained, readable without network, in any browser."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import plotly.graph_objects as go
import tomli_w
from plotly.offline import get_plotlyjs

from fedtempo.errors import ConfigError
from fedtempo.record.compare import comparison as compare
from fedtempo.record.metric import measure_of_all
from fedtempo.record.reading import read_text
from fedtempo.record.run import Run
from fedtempo.record.strict_json import write_text
from fedtempo.record.summary import summarise
from fedtempo.report import charts, panels, words
from fedtempo.report.assets import SCRIPT, STYLE
from fedtempo.report.columns import comparison_columns
from fedtempo.report.disclosure import leaving
from fedtempo.report.markup import Markup, element, join
from fedtempo.report.palette import strategy_colours

NOTHING: Mapping[str, str] = MappingProxyType({})

MEANINGS = {
    "Time to target": "The first evaluation from which three in a row average at least the target. Over seeds: the "
    "median, where a seed that does not get there counts as later than all others.",
    "Busy": "A client is busy from the start of a visit to its end: it receives the model, computes and sends.",
    "Group alive": "From the start of a group's first visit to the end of its last. A visit without a group is one.",
    "Staleness": "Commits made to the global model since the version that a client's chain of visits started from.",
    "Moved": "Bytes from the server, to the server and relayed between clients, together.",
}


def write_report(path: Path | str, runs: Sequence[Run], comparison: Mapping[str, Any] | None = None) -> None:
    """Write the page about `runs` (one or many; several of a label are its seeds) to `path`.

    comparison: as `fedtempo.record.comparison` makes it from the same runs; made here where it is None. Raises
    ConfigError where there are no runs or they aim at different targets, RunError where the file cannot be written.
    """
    if not runs:
        raise ConfigError("a report needs at least one run")
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    if comparison is None:
        comparison = compare(
            # Not as summary.json has it: that may be of another version, or say anything.
            {label: [summarise(run) for run in group] for label, group in groups.items()}
        )
    # Colours follow the order of the comparison, in the table and in the pictures.
    ordered = [label for label in comparison["strategies"] if label in groups]
    ordered += [label for label in groups if label not in ordered]
    write_text(Path(path), _page({label: groups[label] for label in ordered}, comparison))


def _page(groups: Mapping[str, list[Run]], comparison: Mapping[str, Any]) -> str:
    title, details = words.headline(comparison)
    cards = _Cards(groups)
    body = element(
        "main",
        element("p", _about(groups), class_="about"),
        element("h1", title),
        element("p", " ".join(details), class_="details") if details else "",
        element("section", element("div", _table(groups, comparison), class_="scroll"), class_="card"),
        _warnings(groups),
        *_pictures(groups, comparison, cards),
        element("h2", "How to read this"),
        element("dl", *(join(element("dt", name), element("dd", text)) for name, text in MEANINGS.items())),
        element("h2", "Configuration"),
        *(_configuration(run) for group in groups.values() for run in group),
        element("h2", "Environment"),
        _environments(groups),
        element(
            "footer", "Made by fedtempo. Click a name to hide it, drag over a picture to zoom, double-click to go back."
        ),
    )
    head = join(
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    scripts = [element("script", Markup(text)) for text in (get_plotlyjs(), SCRIPT)]
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}{join(*scripts)}</body></html>\n'


def _warnings(groups: Mapping[str, list[Run]]) -> Markup:
    """What was said while runs went on; nothing if nothing was."""
    items = [
        element("li", f"{run.label}, seed {run.facts['seed']}: {line}")
        for group in groups.values()
        for run in group
        for line in (run.facts.get("health") or {}).get("warnings", [])
    ]
    return element("section", element("h3", "Warnings"), element("ul", *items), class_="card") if items else Markup("")


class _Cards:
    """Makes the cards that hold pictures, and numbers them."""

    def __init__(self, groups: Mapping[str, Sequence[Run]]) -> None:
        self._colours = strategy_colours(list(groups))
        self._count = 0

    def card(
        self,
        title: str,
        text: str,
        figure: go.Figure | None,
        *,
        size: str = "",
        legend: bool = True,
        beside: Mapping[str, str] = NOTHING,
    ) -> Markup:
        """A picture with a title and what to see in it; nothing where there is no picture.

        size: "wide", "main" or "half" where not a third of the page. beside: what to write beside the name of a
        strategy in the legend.
        """
        if figure is None:
            return Markup("")
        self._count += 1
        name = f"chart-{self._count}"
        # Inside a script element only "<" could end it or start a comment. Plotly escapes it too, but promises nothing.
        data = Markup(figure.to_json().replace("<", "\\u003c"))
        height = figure.layout.height
        return element(
            "section",
            element("h3", title),
            element("p", text) if text else "",
            self._legend(figure, beside) if legend and len(self._colours) > 1 else "",
            element(
                "div",
                id=name,
                class_="chart",
                style=f"height:{height}px",
                role="img",
                aria_label=f"{title}. {text} {_told(figure)}".strip(),
            ),
            element("script", data, type="application/json", id=f"{name}-data"),
            class_=f"card {size}",
        )

    def _legend(self, figure: go.Figure, beside: Mapping[str, str]) -> Markup:
        shown = {trace.legendgroup for trace in figure.data}
        buttons = [
            element(
                "button",
                element("i", style=f"--colour:{colour}"),
                label,
                element("small", beside[label]) if label in beside else "",
                type="button",
                data_strategy=label,
                aria_pressed="true",
            )
            for label, colour in self._colours.items()
            if label in shown
        ]
        return element("div", *buttons, class_="legend")


def _told(figure: go.Figure) -> str:
    """Where the lines of a picture over time end, for readers who do not see it."""
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

    said = (f"{name} {shown(value)}" for name, value in ends.items())
    return f"At the end: {', '.join(said)}." if ends else ""


def _pictures(groups: Mapping[str, list[Run]], comparison: Mapping[str, Any], cards: _Cards) -> list[Markup]:
    return [
        *_section(
            "How good, how soon",
            cards.card(
                f"{words.capital(measure_of_all(comparison).name)} over time",
                f"The global model on the test data. {_band(groups)}",
                charts.accuracy(groups, comparison["target_accuracy"]),
                size="main",
            ),
            cards.card("Loss over time", _band(groups), charts.loss(groups)),
        ),
        *_section("Who works when", *_work(groups, comparison, cards)),
        *_section(
            "Who holds what",
            cards.card(
                "Classes of each client",
                f"Training examples.{_of_the_first_seed(groups)}",
                panels.labels(next(iter(groups.values()))[0]),
                size="wide",
                legend=False,
            ),
            leaving({label: group[0] for label, group in groups.items()}),
        ),
    ]


def _work(groups: Mapping[str, list[Run]], comparison: Mapping[str, Any], cards: _Cards) -> list[Markup]:
    first_seed = _of_the_first_seed(groups)
    busy = {name: fields["busy_ratio"]["mean"]["mean"] for name, fields in comparison["strategies"].items()}
    how_old = "How old the models are that commits build on."
    left_out = [label for label, group in groups.items() if not all(run.has_rows for run in group)]
    fresh = [label for label, group in groups.items() if not any(run.commits["staleness"].any() for run in group)]
    if fresh := [label for label in fresh if label not in left_out]:
        how_old += f" Always fresh: {words.listed(fresh)}."
    return [
        cards.card(
            "Busy ratio of every client",
            "Dotted: the mean over clients." + (" Ranked in each seed, then averaged." if first_seed else ""),
            charts.busy(groups),
            beside={name: words.share(mean) for name, mean in busy.items()},
        ),
        cards.card("Groups alive over time", _band(groups), charts.alive(groups)),
        cards.card(
            "Staleness",
            how_old,
            charts.staleness(groups),
        ),
        cards.card(
            "Calendars",
            "When clients are busy, from the fastest to the slowest, with the mean length of their visits. "
            f"A colour is a group.{first_seed}",
            panels.calendars(groups),
            size="wide",
            legend=False,
        ),
        cards.card(
            "Who takes part",
            f"A point is a client that was served.{first_seed}",
            charts.who_takes_part(groups),
            size="half",
        ),
        cards.card(
            "Clusters and places",
            f"Which cluster serves at which place of a group, as a share of the visits at that place.{first_seed}",
            panels.positions(groups),
            size="half",
            legend=False,
        ),
        _missing(left_out),
    ]


def _missing(labels: Sequence[str]) -> Markup:
    """Why pictures lack some runs, where they do."""
    if not labels:
        return Markup("")
    text = (
        f'The records of {words.listed(labels)} hold totals and no rows of visits and commits (run.record = "totals"). '
        "Pictures of groups alive, staleness, calendars, who takes part and clusters are without them."
    )
    return element("section", element("h3", "What was left out"), element("p", text), class_="card")


def _section(title: str, *cards: Markup) -> list[Markup]:
    return [element("h2", title), element("div", *cards, class_="grid")] if any(cards) else []


def _band(groups: Mapping[str, Sequence[Run]]) -> str:
    seeds = max(len(group) for group in groups.values())
    return f"Mean over {seeds} seeds; the band goes from the lowest to the highest." if seeds > 1 else ""


def _of_the_first_seed(groups: Mapping[str, Sequence[Run]]) -> str:
    return " The first seed." if max(len(group) for group in groups.values()) > 1 else ""


def _about(groups: Mapping[str, Sequence[Run]]) -> str:
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


def _table(groups: Mapping[str, Sequence[Run]], comparison: Mapping[str, Any]) -> Markup:
    columns = comparison_columns(comparison)
    colours = strategy_colours(list(groups))
    rows = []
    for i in range(len(columns[0].cells)):
        label = columns[0].cells[i]
        colour = colours.get(label, "transparent")
        name = element("td", element("span", element("i", style=f"background:{colour}"), label))
        cells = [element("td", c.cells[i], class_="best" if i in c.best else False) for c in columns[1:]]
        rows.append(element("tr", name, *cells))
    head = element("thead", element("tr", *(element("th", column.title, scope="col") for column in columns)))
    return element("table", head, element("tbody", *rows))


def _configuration(run: Run) -> Markup:
    text = tomli_w.dumps(run.config) if run.folder is None else read_text(run.folder, "config.toml") or ""
    summary = f"{run.label}, seed {run.facts['seed']}"
    return element("details", element("summary", summary), element("pre", text))


def _environments(groups: Mapping[str, list[Run]]) -> Markup:
    """Each environment once, with the runs that were made in it."""
    made: dict[str, list[str]] = {}
    for group in groups.values():
        for run in group:
            same = {name: value for name, value in run.environment.items() if name not in ("seed", "started_at")}
            made.setdefault(json.dumps(same, indent=2), []).append(f"{run.label}, seed {run.facts['seed']}")
    total = sum(map(len, made.values()))
    return join(
        *(
            element(
                "details",
                element("summary", "all runs" if len(names) == total else "; ".join(names)),
                element("pre", text),
            )
            for text, names in made.items()
        )
    )

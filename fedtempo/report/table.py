"""Terminal tables of comparisons and runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from fedtempo.record.client_measures import MODELS, STATISTICS, measures_of
from fedtempo.record.metric import Measure, measure_of, metrics_of, target_of
from fedtempo.record.prediction import Predicted
from fedtempo.report import words
from fedtempo.report.columns import Column, comparison_columns

_GAP = 3
_SHOWN = ("mean", "std", "worst-tenth", "best", "jain")
"""Statistics over clients that a run's table shows."""


def comparison_table(comparison: Mapping[str, Any], width: int = 100) -> Table:
    """Return a table of a comparison (`fedtempo.record.comparison`), the best value of each column in bold.

    width: characters of the terminal; columns that do not fit are left out, the last first.
    """
    table = fitting_table(words.headline(comparison)[0], comparison_columns(comparison), width)
    if caption := words.significance(comparison):
        table.caption, table.caption_justify = Text(caption, style="dim"), "left"
    return table


def fitting_table(title: str, columns: Sequence[Column], width: int = 100) -> Table:
    """Return a table whose first column names the row; columns that do not fit `width` are left out, the last first."""
    ends = accumulate(_width(column) for column in columns)
    shown = columns[: max(2, sum(end < width for end in ends))]
    table = Table(title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, header_style="dim")
    for i, column in enumerate(shown):
        table.add_column(Text(column.title), justify="left" if i == 0 else "right", width=_width(column) - _GAP)
    for row in range(len(columns[0].cells)):
        table.add_row(*(Text(c.cells[row], style="bold green" if row in c.best else "") for c in shown))
    return table


def _width(column: Column) -> int:
    """Return the characters that a column takes with its gap; titles can wrap between words, cells cannot."""
    return max(cell_len(text) for text in (*column.title.split(" "), *column.cells)) + _GAP


def prediction_table(measures: Iterable[Predicted]) -> Table:
    """Return a table of a simulation beside the deployment that it predicts."""
    table = Table(box=box.SIMPLE_HEAD, header_style="dim")
    table.add_column("")
    for title in ("simulated", "deployed", "error"):
        table.add_column(title, justify="right")
    for measure in measures:
        cells = ["-" if value is None else f"{value:.3g}" for value in (measure.predicted, measure.real)]
        table.add_row(measure.name, *cells, "-" if measure.error is None else f"{measure.error:+.1%}")
    return table


def run_table(summary: Mapping[str, Any]) -> Table:
    """Return a table of one run (`fedtempo.record.summarise`), as `run_rows`."""
    table = Table(title=Text(run_title(summary), style="bold"), title_justify="left", box=box.SIMPLE, show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    aims = target_of(summary) is not None
    for row, (name, value) in enumerate(run_rows(summary)):
        table.add_row(name, Text(value, style="bold" if aims and row == 0 else ""))
    return table


def run_title(summary: Mapping[str, Any]) -> str:
    """Return the title of a run: "fedavg, seed 1"."""
    return f"{summary['strategy']}, seed {summary['seed']}"


def run_rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the key figures of a run, name and value; the time to its target comes first if it has one."""
    busy, alive, staleness, moved = (summary[name] for name in ("busy_ratio", "active_groups", "staleness", "bytes"))
    measure = measure_of(summary["data"])
    rows = {
        "ended": summary.get("end_reason") or summary["ended"],
        "failed": words.outcome(summary),
        "horizon": words.seconds(summary["horizon_s"]),
        "data": (summary["data"] or {}).get("about"),
        "warning": "; ".join((summary["data"] or {}).get("warnings", ())),
        f"final {measure.name}": words.score(summary["final_accuracy"], measure),
        f"best {measure.name}": words.score(summary["best_accuracy"], measure),
        **_beside(summary, measure),
        **_metrics(summary),
        **_over_clients(summary),
        "commits": words.plain_number(summary["commits"]),
        "visits done": words.plain_number(summary["visits"]),
        "visits lost": words.listed(words.lost_visits(summary["visits_lost"])),
        "busy ratio": f"{words.share(busy['mean'])} ({words.share(busy['min'])} to {words.share(busy['max'])})",
        "groups alive": f"{words.plain_number(alive['mean'])} (at most {words.plain_number(alive['max'])})",
        "staleness": f"{words.plain_number(staleness['mean'])} (at most {words.plain_number(staleness['max'])})",
        "moved down, up, relayed": ", ".join(words.size(moved[way]) for way in ("down", "up", "relay")),
        "privacy": words.privacy(summary["privacy"]),
        "real time": words.seconds(summary["wall_s"]),
    }
    aim = []
    if (target := target_of(summary)) is not None:
        level = words.level(target.value, target.measure)
        aim = [(f"time to {level}", words.seconds(summary["time_to_target_s"]))]
    return aim + [(name, str(value)) for name, value in rows.items() if value]


def _beside(summary: Mapping[str, Any], measure: Measure) -> dict[str, str]:
    """Return the usual further measures of numbers (RMSE, MAE) and of tokens (perplexity)."""
    loss = summary.get("final_loss")
    values = {} if loss is None else measure.beside(loss, summary.get("final_mae"))
    names = {"rmse": "RMSE", "mae": "MAE"}
    return {f"final {names.get(name, name)}": f"{value:.4g}" for name, value in values.items()}


def _metrics(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the final values of further measures."""
    measures, values = metrics_of({"metrics": summary.get("measures")}), summary.get("metrics") or {}
    return {
        f"final {name}": words.score(values[name]["final"], measure)
        for name, measure in measures.items()
        if name in values
    }


def _over_clients(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the last statistics over clients of a model's accuracy on their own test sets, a line per model."""
    rows = {}
    for kind in MODELS:
        values, measures = (summary.get("clients") or {}).get(kind) or {}, measures_of(summary, kind)
        shown = [f"{STATISTICS[name]} {words.score(values[name], measures[name])}" for name in _SHOWN if name in values]
        if shown:
            rows["at the clients" if kind == "clients" else "own models at the clients"] = ", ".join(shown)
    return rows

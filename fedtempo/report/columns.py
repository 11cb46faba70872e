"""The columns of a comparison, for any output: text for each strategy, and which value is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtempo.record.client_measures import MODELS, SHOWN, measures_of
from fedtempo.record.metric import Measure, Target, measure_of_all, metrics_of_all, target_of_all
from fedtempo.record.summary import EARLY
from fedtempo.report import words


@dataclass(frozen=True)
class Column:
    """A column. cells: text for each strategy in order. best: which cells show the best value, none if all agree."""

    title: str
    cells: tuple[str, ...]
    best: frozenset[int] = frozenset()


def comparison_columns(comparison: Mapping[str, Any]) -> list[Column]:
    """Return the columns of a comparison, most important first, with one row per strategy.

    A time to target is the median over seeds, everything else the mean ± standard deviation. With several seeds, ratios
    are means over paired seeds, with their intervals (`fedtempo.studies.significance`).
    """
    strategies: Mapping[str, Any] = comparison["strategies"]
    rows = list(strategies.values())
    columns = [Column("strategy", tuple(strategies))]
    if any(row["final_accuracy"]["mean"] is not None for row in rows):
        measure, finals = measure_of_all(comparison), [row["final_accuracy"] for row in rows]
        if (target := target_of_all(comparison)) is not None:
            columns.extend(_target_columns(comparison, rows, target))
        cells = tuple(words.mean_score_over(final, measure) for final in finals)
        of_all = [None if _diverged(row) else row["final_accuracy"]["mean"] for row in rows]
        columns.append(Column(f"final {measure.name}", cells, best(of_all, max)))
        if shown := _shown(comparison, "final_accuracy"):
            columns.append(_relations(shown))
        columns += [
            _metric_column(metric, [_final_of(row, metric.key) for row in rows], rows)
            for metric in metrics_of_all(comparison).values()
        ]
        columns += [
            _metric_column(
                measures[name], [((row.get("clients") or {}).get(kind) or {}).get(name) for row in rows], rows
            )
            for kind in MODELS
            if (measures := measures_of(comparison, kind))
            for name in SHOWN
        ]
    failed = tuple(", ".join(words.failures(row)) for row in rows)
    if any(failed):
        columns.append(Column("failed", failed))
    if any(ended in EARLY for row in rows for ended in (row.get("ended") or {}).get("values", ())):
        columns.append(Column("ended by", tuple(map(words.endings, rows))))
    columns += [
        _column("busy ratio", [row["busy_ratio"]["mean"] for row in rows], max, as_share=True),
        _column("groups alive", [row["active_groups"]["mean"] for row in rows]),
        _column("staleness", [row["staleness"]["mean"] for row in rows]),
        _column("idlest client", [row["busy_ratio"]["min"] for row in rows], max, as_share=True),
        _column("commits", [row["commits"] for row in rows]),
        _column("visits", [row["visits"] for row in rows]),
        Column("moved", tuple(words.size(_moved(row)) for row in rows)),
    ]
    return columns


def _final_of(row: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return a further measure of a strategy at the last evaluations, over seeds."""
    final: Mapping[str, Any] | None = ((row.get("metrics") or {}).get(name) or {}).get("final")
    return final


def _metric_column(measure: Measure, finals: Sequence[Mapping[str, Any] | None], rows: list[Any]) -> Column:
    """Return the column of a further measure. finals: over the seeds of each strategy."""
    known = [final or {"mean": None, "std": None} for final in finals]
    cells = tuple(words.mean_score_over(final, measure) for final in known)
    of_all = [None if _diverged(row) else final["mean"] for row, final in zip(rows, known)]
    return Column(measure.name, cells, best(of_all, measure.choose) if measure.choose else frozenset())


def _target_columns(comparison: Mapping[str, Any], rows: list[Any], target: Target) -> list[Column]:
    times = [row["time_to_target_s"] for row in rows]
    medians = [time["median"] for time in times]
    columns = [
        Column(
            f"time to\u00a0{words.level(target.value, target.measure)}",
            tuple(words.seconds(median) for median in medians),
            best(medians, min),
        )
    ]
    if any(time["of"] > 1 for time in times):
        columns.append(Column("reached", tuple(f"{time['reached']} of {time['of']}" for time in times)))
    if shown := _shown(comparison, "time_to_target_s"):
        baseline = comparison["first"]
        cells = tuple(
            "" if label == baseline else words.ratio_and_interval(each["to_baseline"]) for label, each in shown.items()
        )
        columns.append(Column(f"time against {baseline} (95% interval)", cells))
        columns.append(_relations(shown))
    elif len(rows) > 1:
        ratios = tuple("" if row is rows[0] else words.ratio(row["time_to_target_s"]["ratio_to_first"]) for row in rows)
        columns.append(Column(f"against {comparison['first']}", ratios))
    return columns


def _shown(comparison: Mapping[str, Any], measure: str) -> Mapping[str, Any]:
    """Return what seeds show of each strategy by `measure`; empty if the statistics are of another or there are none.

    See `fedtempo.studies.significance.compared`.
    """
    statistics = comparison.get("statistics") or {}
    shown: Mapping[str, Any] = statistics["strategies"] if statistics.get("measure") == measure else {}
    return shown


def _relations(shown: Mapping[str, Any]) -> Column:
    return Column("beside the first", tuple(words.relation(each["relation"]) for each in shown.values()))


def _column(
    title: str, means: list[Mapping[str, Any]], choose: Callable[..., float] | None = None, *, as_share: bool = False
) -> Column:
    cells = tuple(words.mean_and_deviation(m["mean"], m["std"], as_share=as_share) for m in means)
    return Column(title, cells, best([m["mean"] for m in means], choose) if choose else frozenset())


def best(values: Sequence[float | None], choose: Callable[..., float]) -> frozenset[int]:
    """Return the indices of the best value; empty if there is only one value or all agree."""
    numbers = [value for value in values if value is not None]
    if not numbers or len(values) == 1 or (len(numbers) == len(values) and len(set(numbers)) == 1):
        return frozenset()
    chosen = choose(numbers)
    return frozenset(i for i, value in enumerate(values) if value == chosen)


def _diverged(row: Mapping[str, Any]) -> bool:
    return bool((row.get("failed") or {}).get("diverged"))


def _moved(row: Mapping[str, Any]) -> float | None:
    totals = [row["bytes"][way]["mean"] for way in ("down", "up", "relay")]
    return None if None in totals else sum(totals)

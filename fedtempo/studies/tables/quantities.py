"""What the cells of a table can show: numbers of a run's summary, with a title, a unit and which way is better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedtempo.errors import ConfigError, nearest
from fedtempo.record.client_measures import MODELS, measures_of
from fedtempo.record.metric import Measure, measure_of, metrics_of, target_of
from fedtempo.report import words
from fedtempo.studies.tables.runs import TableRun

Summary = Mapping[str, Any]

_SCORES = ("final_accuracy", "best_accuracy")
_BETTER: dict[str, Literal["low", "high"]] = {"lower": "low", "higher": "high"}
_GIVEN = ("seed", "target_accuracy", "target.value")
"""Numbers of summaries that are settings."""

_SIZES = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Quantity:
    """A number of each run. name: as it is asked for. unit: in the title. factor: from the summary's unit to this one.

    digits: after the point; None to choose them by size. better: which values are best. late: a run without a value
    counts as later than all others, as for times to a target.
    """

    name: str
    title: str
    of: Callable[[Summary], float | None]
    unit: str = ""
    factor: float = 1.0
    digits: int | None = None
    better: Literal["low", "high"] | None = None
    late: bool = False

    @property
    def heading(self) -> str:
        """The title with its unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


def quantity(name: str, runs: Sequence[TableRun]) -> Quantity | None:
    """Return the quantity of a name: one of `known`, or any number of the runs' summaries by its dotted path.

    Raises ConfigError for a score if the runs have different ones, as those of classes and numbers.
    """
    if name in (listed := known(runs)):
        found = listed[name]
        measures = sorted({measure_of(run.summary.get("data")).name for run in runs})
        if name in _SCORES and len(measures) > 1:
            raise ConfigError(f"{name}: the runs measure {words.listed(measures)}; choose runs of one kind with where")
        return _sized(found, runs) if found.unit == "B" else found
    if name in leaves(runs):
        return Quantity(name, name.replace("_", " ").replace(".", " "), lambda summary: _at(summary, name))
    return None


def default_quantities(runs: Sequence[TableRun]) -> list[str]:
    """Return the names of the quantities that a table shows unless told otherwise."""
    aims = any(target_of(run.summary) is not None for run in runs)
    trained = any(run.summary["final_accuracy"] is not None for run in runs)
    return [*(["time_to_target"] if aims else []), *(["final_accuracy"] if trained else ["busy_ratio"]), "bytes"]


def unknown(name: str, runs: Sequence[TableRun], keys: Sequence[str]) -> ConfigError:
    """Return the error for a name that is neither a quantity nor a key in which runs differ."""
    return ConfigError(f"{name}: nothing that a table can show{nearest(name, {*keys, *known(runs), *leaves(runs)})}")


def known(runs: Sequence[TableRun]) -> dict[str, Quantity]:
    """Return the quantities with titles and units, by name, of runs with the same task."""
    first = runs[0].summary
    measure = measure_of(first.get("data"))
    targets = {target for run in runs if (target := target_of(run.summary)) is not None}
    shared = targets.pop() if len(targets) == 1 else None
    level = " target" if shared is None else f" {words.level(shared.value, shared.measure)}"
    listed = [
        *_further(runs),
        Quantity("time_to_target", f"time to{level}", _path("time_to_target_s"), "s", better="low", late=True),
        Quantity(
            "first_time_at_target", f"first at{level}", _path("first_time_at_target_s"), "s", better="low", late=True
        ),
        _score("final_accuracy", "final", measure),
        _score("best_accuracy", "best", measure),
        Quantity("final_loss", "final loss", _path("final_loss"), digits=3, better="low"),
        Quantity("final_mae", "final MAE", _path("final_mae"), better="low"),
        Quantity("bytes", "moved", _moved, "B", better="low"),
        Quantity("bytes_down", "downloads", _path("bytes.down"), "B", better="low"),
        Quantity("bytes_up", "uploads", _path("bytes.up"), "B", better="low"),
        Quantity("bytes_relay", "relayed", _path("bytes.relay"), "B", better="low"),
        _share("busy_ratio", "busy ratio", "busy_ratio.mean", "high"),
        _share("idlest_client", "idlest client", "busy_ratio.min", "high"),
        Quantity("groups_alive", "groups alive", _path("active_groups.mean")),
        Quantity("staleness", "staleness", _path("staleness.mean")),
        Quantity("commits", "commits", _path("commits")),
        Quantity("visits", "visits", _path("visits")),
        Quantity("examples_trained", "examples trained", _path("examples_trained")),
        Quantity("epsilon", "epsilon", _path("privacy.epsilon"), digits=2, better="low"),
        Quantity("wall_s", "real time", _path("wall_s"), "s"),
    ]
    return {each.name: each for each in listed}


def _further(runs: Sequence[TableRun]) -> list[Quantity]:
    """Return the further measures of runs (`run.metrics`, statistics over clients) at the last evaluation, by name."""
    found: dict[str, Quantity] = {}
    for run in runs:
        for name, measure in metrics_of({"metrics": run.summary.get("measures")}).items():
            found[name] = _measured(name, measure.name, measure, ("metrics", name, "final"))
        for kind in MODELS:
            for statistic, measure in measures_of(run.summary, kind).items():
                found[measure.key] = _measured(measure.key, measure.name, measure, ("clients", kind, statistic))
    return list(found.values())


def leaves(runs: Sequence[TableRun]) -> dict[str, None]:
    """Return the dotted paths of all numbers in the runs' summaries, in order."""
    return {path: None for run in runs for path in _numbers(run.summary) if path not in _GIVEN}


def _numbers(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}"


def _score(name: str, which: str, measure: Measure) -> Quantity:
    return _measured(name, f"{which} {measure.name}", measure, (name,))


def _measured(name: str, title: str, measure: Measure, path: Sequence[str]) -> Quantity:
    better = None if measure.better is None else _BETTER[measure.better]
    if measure.as_share:
        return _share(name, title, path, better)
    return Quantity(name, title, _path(path), digits=3, better=better)


def _share(name: str, title: str, path: str | Sequence[str], better: Literal["low", "high"] | None) -> Quantity:
    return Quantity(name, title, _path(path), "%", 100.0, 1, better)


def _sized(found: Quantity, runs: Sequence[TableRun]) -> Quantity:
    """Return a quantity in bytes with the unit that suits its largest value."""
    largest = max((found.of(run.summary) or 0.0 for run in runs), default=0.0)
    power = next((power for power in reversed(range(len(_SIZES))) if largest >= 1000.0**power), 0)
    return Quantity(found.name, found.title, found.of, _SIZES[power], 1000.0**-power, None, found.better)


def _path(path: str | Sequence[str]) -> Callable[[Summary], float | None]:
    return lambda summary: _at(summary, path)


def _at(summary: Summary, path: str | Sequence[str]) -> float | None:
    """Return the number at a path, which is dotted if it is text; None if there is none."""
    value: Any = summary
    for name in path.split(".") if isinstance(path, str) else path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _moved(summary: Summary) -> float | None:
    ways = [_at(summary, f"bytes.{way}") for way in ("down", "up", "relay")]
    return None if None in ways else sum(way for way in ways if way is not None)

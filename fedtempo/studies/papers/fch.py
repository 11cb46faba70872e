"""The figures and tables of FCH-FL (Zhao et al.), Fig. 1 apart.

An accuracy is the mean over the last tenth of a run's time. Rows are judged for what the text describes: both stages of
the selection, bounds of width c = 1, the prior of all clients together, labels skewed by client. Other readings and
settings of ours stand beside them without a verdict, with their 95 % interval over seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedtempo.runs.config import Config, parse
from fedtempo.studies.papers.fch_panels import BY_CLASS, CONVOLUTIONS, MANY, fch_panels, tuned_words
from fedtempo.studies.papers.fch_selection import ALIKE, LONG_TAIL, figure_1, skewed_by_class
from fedtempo.studies.papers.panels import (
    PairedTimes,
    Panels,
    draw_curves,
    in_words,
    late_accuracies,
    median_to,
    percentages,
    points_over,
    reached,
)
from fedtempo.studies.papers.reproduction import Exhibit, Request, flattened
from fedtempo.studies.papers.verdicts import Effect, Row, number, shown, spread
from fedtempo.studies.tuning.study import Study

_OTHERS = ("fedavg", "fedprox", "oort")
_ALPHA = 0.2
_SKEWED = {"kind": "dirichlet", "alpha": _ALPHA, "by": "client"}
"""The paper cites Hsu et al. 2019 for its distribution: clients draw their labels and hold equally many examples."""
_TWICE, _OWN_PRIOR = "fedavg-twice", "fch-loss-own-prior"
_WIDTHS = ("c010", "c003", "c000")
"""Suffixes of variants by the width of their confidence bounds: c = 0.1, 0.03 and 0."""
_TABLE_ONE = {  # FedAvg, FedProx, Oort, FCH-FL, in percent
    ("cifar10", "IID"): (74.13, 76.05, 77.83, 76.83),
    ("cifar10", "long tail"): (69.81, 75.21, 74.30, 75.70),
    ("emnist", "IID"): (83.91, 84.40, 86.40, 87.52),
    ("emnist", "long tail"): (76.17, 78.98, 79.15, 77.57),
}
_TABLE_TWO = {
    "cifar10": (((0.5, 8.82, 10.15), (0.6, 18.77, 13.69), (0.65, 34.94, 24.09)), 0.7),
    "emnist": (
        ((0.5, 2.40, 3.90), (0.6, 3.76, 5.86), (0.65, 6.49, 6.32), (0.7, 8.68, 8.16), (0.75, 22.80, 12.80)),
        0.8,
    ),
}
"""By data: (accuracy, hours of Oort, hours of FCH-FL) for several accuracies, and an accuracy that neither reaches."""
_GAINS = {  # final accuracy of FCH-FL over others, points
    "fig3": {"cifar10": {"fedavg": 2.70, "oort": -1.00}, "emnist": {"fedavg": 3.61, "oort": 1.12}},
    "fig4": {"cifar10": {"fedavg": 5.89, "oort": 1.40}, "emnist": {"fedavg": 1.40, "oort": -1.58}},
    "fig5": {"cifar10": {"fedavg": 14.42, "oort": 3.46}, "emnist": {"fedavg": 7.82, "oort": 4.17}},
}


def _bases(
    request: Request,
    partition: Mapping[str, object],
    emnist_clients: int = 200,
    *,
    stragglers: bool = False,
    convolutions: bool = False,
) -> dict[str, Config]:
    """Return configurations of the paper's two data sets, or of the requested one, by panel name.

    partition: how the data are divided. convolutions: at medium scale, which uses a perceptron, add a panel with a
    network like the paper's.
    """
    base = request.settings("fch").with_changes({"data.partition": dict(partition)} | ({} if stragglers else ALIKE))
    bases = {base.data.source: base}
    if request.scale == "medium" and convolutions:
        bases[f"{base.data.source}{CONVOLUTIONS}"] = parse({**base.given, "model": {"network": "cnn-psfl"}})
    if request.scale == "full" and request.data is None:
        changes = {"data.source": "emnist", "data.clients": emnist_clients, "run.max_commits": 100}
        tables = {
            f"compare.{label}.strategy.clients_per_round": table["strategy"]["clients_per_round"]
            * (emnist_clients // 10)
            // 10
            for label, table in base.variants.items()
        }
        bases["emnist"] = base.with_changes(changes | tables)
    return bases


def _by_class(request: Request, bases: Mapping[str, Config]) -> dict[str, Config]:
    """Return the configurations with labels skewed by class, as most of the literature does, in place of by client."""
    return {
        f"{name}{BY_CLASS}": skewed_by_class(request, base, _ALPHA)
        for name, base in bases.items()
        if not name.endswith(CONVOLUTIONS)
    }


def _many_images(request: Request, bases: Mapping[str, Config]) -> dict[str, Config]:
    """Return the configurations with as many images per client as `[variants.many]` says, none if nothing is said."""
    changes = flattened(request.table("fch", "variants")["many"].get(request.scale, {}))
    return {
        f"{name}{MANY}": base.with_changes(changes)
        for name, base in bases.items()
        if changes and not name.endswith(CONVOLUTIONS)
    }


def _beside(
    request: Request, stem: str, bases: Mapping[str, Config], panels: Panels, readings: Sequence[str]
) -> dict[str, Study]:
    """Run further competitors of the panels, those with convolutions apart, and draw them with the others.

    Returns the studies of all competitors by panel name.
    """
    bases = {name: base for name, base in bases.items() if not name.endswith(CONVOLUTIONS)}
    further = fch_panels(request, f"{stem}-readings", bases, readings)
    joined = {
        name: Study({**panels[name].trials, **study.trials}, {**panels[name].runs, **study.runs})
        for name, study in further.items()
    }
    draw_curves(request, f"{stem}-readings", joined, axis="rounds")
    return joined


def gain_row(name: str, study: Study, ours: str, other: str, printed: float | None = None) -> Row:
    """Return the row of what one competitor ends with over another, in points; not judged if nothing is printed."""
    gains = points_over(study, ours, other)
    what = f"{name}: final accuracy, {ours} over {other}, points"
    ends = ", ".join(percentages(late_accuracies(study, label)) for label in (ours, other))
    words = "; ".join(filter(None, (ends, tuned_words(study, ours, other))))
    effect = Effect.of(gains)
    if printed is None:
        return Row(what, "-", effect.words(), words)
    words = f"95 % interval {effect.low:.2f} to {effect.high:.2f}; {words}"
    direction = effect if printed > 0 else -effect
    return number(what, printed, gains, within=0.25, effect=direction, digits=2, remark=words)


def gain_rows(stem: str, panels: Panels, ours: str) -> list[Row]:
    """Return the final gains of FCH-FL, or of one half of it, over FedAvg (the headline) and Oort."""
    rows = []
    for source, study in panels.items():
        for other, printed in _GAINS[stem].get(source, _GAINS[stem]["cifar10"]).items():
            row = gain_row(source, study, ours, other, printed)
            rows.append(row.as_headline() if other == "fedavg" else row)
    return rows


def reading_rows(panels: Panels, pairs: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the final gains of one competitor over another, for pairs that the paper does not have."""
    return [gain_row(name, study, ours, other) for name, study in panels.items() for ours, other in pairs]


def _curves(
    request: Request, stem: str, bases: Mapping[str, Config], ours: str, *one_stage: str
) -> tuple[Panels, list[Row]]:
    """Draw accuracies over rounds; return the studies and the final gains. one_stage: that reading's label, if any."""
    panels = fch_panels(request, stem, bases, (*_OTHERS, ours, *one_stage))
    draw_curves(request, stem, panels, axis="rounds")
    pairs = [(label, other) for label in one_stage for other in ("fedavg", "oort")]
    return panels, [*gain_rows(stem, panels, ours), *reading_rows(panels, pairs)]


def _selections(
    request: Request, stem: str, bases: Mapping[str, Config], panels: Panels, ours: str, *losses: str
) -> list[Row]:
    """Return gains with other widths of the bounds, and of both stages over FedAvg that trains as many clients.

    losses: competitors that differ from FedAvg in their loss.
    """
    widths = [f"{ours}-{width}" for width in _WIDTHS]
    studies = _beside(request, stem, bases, panels, (*widths, _TWICE, *losses))
    return reading_rows(studies, [*((label, "fedavg") for label in (*widths, *losses)), (ours, _TWICE)])


def figure_3(request: Request) -> list[Row]:
    """Reproduce Fig. 3: accuracy over rounds with IID clients."""
    bases = _bases(request, {"kind": "iid"}, convolutions=True)
    panels, rows = _curves(request, "fig3", bases, "fch", "fch-one-stage")
    return [*rows, *_selections(request, "fig3", bases, panels, "fch")]


def figure_4(request: Request) -> list[Row]:
    """Reproduce Fig. 4: accuracy over rounds with long tails at half the clients; the loss by itself."""
    bases = _bases(request, LONG_TAIL)
    panels, rows = _curves(request, "fig4", bases, "fch-loss")
    return [*rows, *reading_rows(_beside(request, "fig4", bases, panels, (_OWN_PRIOR,)), [(_OWN_PRIOR, "fedavg")])]


def figure_5(request: Request) -> list[Row]:
    """Reproduce Fig. 5: accuracy over rounds with skewed labels; the selection by itself.

    The paper's text does not print Algorithm 2; it describes a screening by past utility and then a choice among the
    clients that trained. A further reading has only the first stage, after which as many clients train as with the
    other strategies. Beside them: the loss with each batch's own prior, also with ten times as many images per client,
    and labels skewed by class.
    """
    bases = _bases(request, _SKEWED, emnist_clients=360, convolutions=True)
    panels, rows = _curves(request, "fig5", bases, "fch-selection", "fch-one-stage-selection")
    rows += _selections(request, "fig5", bases, panels, "fch-selection", _OWN_PRIOR)
    labels = ("fedavg", "oort", "fch-selection", _OWN_PRIOR)
    by_class = fch_panels(request, "fig5-by-class", _by_class(request, bases), labels)
    draw_curves(request, "fig5-by-class", by_class, axis="rounds")
    pairs = [("fch-selection", "fedavg"), ("fch-selection", "oort"), (_OWN_PRIOR, "fedavg")]
    rows += reading_rows(by_class, pairs)
    if many := _many_images(request, bases):
        panels = fch_panels(request, "fig5-many", many, ("fedavg", _OWN_PRIOR))
        rows += reading_rows(panels, [(_OWN_PRIOR, "fedavg")])
    return rows


def table_1(request: Request) -> list[Row]:
    """Reproduce Table 1: final accuracies, IID and with long tails."""
    rows = []
    for name, deal in (("IID", {"kind": "iid"}), ("long tail", LONG_TAIL)):
        ours = "fch" if name == "IID" else "fch-loss"
        stem = f"table1-{name.replace(' ', '-')}"
        panels = fch_panels(request, stem, _bases(request, deal), (*_OTHERS, ours))
        draw_curves(request, stem, panels, axis="rounds")
        for source, study in panels.items():
            rows += accuracy_rows(source, name, study, ours)
    return rows


def accuracy_rows(source: str, name: str, study: Study, ours: str) -> list[Row]:
    """Return Table 1's accuracies on these data, and gains over FedAvg, those of FCH-FL as the headline.

    The accuracies are judged on the paper's data only. name: how data are divided.
    """
    rows = []
    printed = _TABLE_ONE.get((source, name), _TABLE_ONE["cifar10", name])
    for label, percent in zip((*_OTHERS, ours), printed, strict=True):
        percents = [100 * end for end in late_accuracies(study, label)]
        what = f"{source}, {name}, {label}"
        if (source, name) in _TABLE_ONE:
            rows.append(number(what, percent, percents, within=0.03, digits=2, unit=" %"))
        else:
            rows.append(Row(what, f"{percent:.2f} %", spread(percents, 2, " %")))
        if label != "fedavg":
            row = gain_row(f"{source}, {name}", study, label, "fedavg", percent - printed[0])
            rows.append(row.as_headline() if label == ours else row)
    return rows


class Race(NamedTuple):
    """How much sooner one competitor reaches a level than another. effect: positive if it is sooner.

    ratios: its time over the other's, one per seed. whole: whether all runs reach the level; otherwise the ratios are
    bounds.
    """

    effect: Effect
    ratios: list[float]
    whole: bool


def race(study: Study, ours: str, other: str, level: float) -> Race:
    """Compare times to an accuracy. They are times of commits, after each of which a model is evaluated."""
    paired = PairedTimes.of(study.records[ours], study.records[other], level)
    whole = all(math.isfinite(reached(run, level)) for label in (ours, other) for run in study.records[label])
    return Race(paired.effect(), paired.ratios, whole)


def _medians(study: Study, level: float, *labels: str) -> str:
    return ", ".join(f"{label} {in_words(median_to(study.records[label], level))}" for label in labels)


def _best(study: Study, ours: str) -> float:
    """Return the higher of the accuracies that Oort and FCH-FL end with."""
    return max(statistics.fmean(late_accuracies(study, label)) for label in ("oort", ours))


def race_rows(source: str, study: Study, ours: str = "fch", *, judged: bool = True) -> list[Row]:
    """Return who is first to 60 and to 97 % of the final accuracy; in the paper Oort, then FCH-FL (the headline)."""
    rows = []
    for share, first, second in ((0.6, "oort", ours), (0.97, ours, "oort")):
        level = share * _best(study, ours)
        effect = race(study, first, second, level).effect
        words = f"{_medians(study, level, 'oort', ours)}; {first} over {second} {effect.ratio_words}"
        rates = tuned_words(study, "oort", ours)
        rows.append(shown(f"{source}: time to {level:.0%}", f"{first} first", words, effect, rates))
    return [rows[0], rows[1].as_headline()] if judged else [row.unjudged() for row in rows]


def figure_6(request: Request) -> list[Row]:
    """Reproduce Fig. 6: accuracy over time with stragglers; Oort leads at first, FCH-FL later."""
    bases = _bases(request, _SKEWED, emnist_clients=360, stragglers=True)
    panels = fch_panels(request, "fig6", bases, (*_OTHERS, "fch"))
    draw_curves(request, "fig6", panels)
    rows = [row for source, study in panels.items() for row in race_rows(source, study)]
    readings = ("fch-one-stage", *(f"fch-{width}" for width in _WIDTHS))
    for source, study in _beside(request, "fig6", bases, panels, (*readings, _TWICE)).items():
        rows += [row for ours in readings for row in race_rows(source, study, ours, judged=False)]
        level = 0.97 * _best(study, "fch")
        words = f"{_medians(study, level, _TWICE, 'fch')}; {race(study, 'fch', _TWICE, level).effect.ratio_words}"
        rows.append(Row(f"{source}: time to {level:.0%}, as many clients train", "-", words))
    return rows


def time_rows(source: str, study: Study, ours: str = "fch", *, judged: bool = True) -> list[Row]:
    """Return Table 2's ratios of times of FCH-FL and Oort; the one at the highest accuracy is the headline.

    source: the data, which decide the levels: on other data than the paper's, the same shares of the final accuracy.
    """
    rows = []
    printed_times, unreached = _TABLE_TWO.get(source, _TABLE_TWO["cifar10"])
    for accuracy, oort_h, fch_h in printed_times:
        level = accuracy if source in _TABLE_TWO else accuracy / unreached * _best(study, ours)
        printed = fch_h / oort_h
        effect, ratios, whole = race(study, ours, "oort", level)
        words = (
            f"95 % interval of the ratio {effect.ratio_words}; the paper's {fch_h} h / {oort_h} h, here "
            f"{_medians(study, level, ours, 'oort')}; {tuned_words(study, ours, 'oort')}"
        )
        what = f"{source}: time to {level:.0%} (the paper's {accuracy:.0%}), {ours} over oort"
        direction = effect if printed < 1 else -effect
        within = 0.15 if whole else 0.0  # a bound cannot be near
        rows.append(number(what, printed, ratios, within=within, effect=direction, digits=2, remark=words))
    return [*rows[:-1], rows[-1].as_headline()] if judged else [row.unjudged() for row in rows]


def table_2(request: Request) -> list[Row]:
    """Reproduce Table 2: times to accuracies; on other data, to the same shares of the final accuracy."""
    bases = _bases(request, _SKEWED, emnist_clients=360, stragglers=True)
    panels = fch_panels(request, "table2", bases, (*_OTHERS, "fch", "fch-one-stage"))
    draw_curves(request, "table2", panels)
    rows = [row for source, study in panels.items() for row in time_rows(source, study)]
    for source, study in panels.items():
        rows += time_rows(source, study, "fch-one-stage", judged=False)
    by_class = fch_panels(request, "table2-by-class", _by_class(request, bases), ("oort", "fch"))
    draw_curves(request, "table2-by-class", by_class)
    return [*rows, *(row for name, study in by_class.items() for row in time_rows(name, study, judged=False))]


_BOTH = ("cifar10", "emnist")

EXHIBITS = (
    Exhibit("fch/fig1", "what tails and skew cost, and whom Oort chooses", figure_1, (1, 3, 200), _BOTH, "Fig. 1"),
    Exhibit("fch/fig3", "accuracy over rounds, clients alike", figure_3, (1, 7, 200), _BOTH, "Fig. 3"),
    Exhibit("fch/fig4", "accuracy over rounds, long tails: the loss", figure_4, (0.5, 1, 200), _BOTH, "Fig. 4"),
    Exhibit("fch/fig5", "accuracy over rounds, skewed labels: selection", figure_5, (1, 8, 200), _BOTH, "Fig. 5"),
    Exhibit("fch/fig6", "accuracy over time with stragglers", figure_6, (1, 2, 200), _BOTH, "Fig. 6"),
    Exhibit("fch/table1", "final accuracies", table_1, (0.5, 2, 400), _BOTH, "Table 1"),
    Exhibit("fch/table2", "times to accuracies, Oort and FCH-FL", table_2, (1, 2, 200), _BOTH, "Table 2"),
)

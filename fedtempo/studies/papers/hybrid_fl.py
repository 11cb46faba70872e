"""The figures and the table of Hybrid-FL (Yoshida, Nishio, Morikura, Yamamoto, Yonetani).

An accuracy is the mean over the last quarter of a run's time, and differences are paired by seed. As in Protocol 2, the
round's candidates upload; `iid-mincv-all`, in which any client may, stands beside it without a verdict.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from fedtempo.record import write_json
from fedtempo.runs.config import Config
from fedtempo.studies.papers.figures import draw_lines
from fedtempo.studies.papers.panels import late_accuracies, learning_rates, percentages, points_over, save_comparison
from fedtempo.studies.papers.reproduction import Exhibit, Request, save_picture
from fedtempo.studies.papers.verdicts import Effect, Row, number, shown
from fedtempo.studies.tuning.study import Study, run_settings
from fedtempo.studies.tuning.trials import Trial, tune

_VARIANTS = ("throughput-mincv", "iid-mincv", "throughput-clients", "iid-clients")
_LABELS = ("fedcs", *_VARIANTS, "centralized")
_ALL = "iid-mincv-all"
_TABLE_ONE = {  # fedcs, then _VARIANTS; sigma 0, 0.7, infinite
    "cifar10": ((71.6, 76.5, 76.2, 72.7, 72.6), (70.7, 75.6, 75.0, 73.1, 72.1), (73.3, 76.5, 77.1, 73.5, 74.5)),
    "fashion-mnist": ((85.0, 89.4, 89.8, 89.4, 89.4), (84.6, 89.4, 89.9, 89.2, 89.0), (89.1, 90.1, 90.6, 89.7, 90.0)),
}
_GAIN = {"cifar10": 13.5, "fashion-mnist": 12.5}
_DEAL = {"kind": "classes", "mean": 2.0, "std": 0.7, "share": True}


def _points(
    request: Request,
    stem: str,
    x: str,
    configs: Mapping[float, Config],
    labels: tuple[str, ...],
    *,
    tuned_at: float,
) -> dict[float, Study]:
    """Run the same strategies at several values of a parameter; draw their accuracy over the last quarter of the run.

    configs: by the parameter's value. Every strategy uses the learning rate that is best for it at the value
    `tuned_at`, if the budget has more than one.
    """
    budget = request.budget("hybrid-fl")
    trials: Mapping[str, Sequence[Trial]] = {}
    if len(budget.lr) > 1:
        trials = tune(configs[tuned_at], labels, {"training.lr": budget.lr}, budget.tuning_seeds)
    chosen = {label: trials[label][0].changes if trials else {"training.lr": budget.lr[0]} for label in labels}
    studies = {value: Study(trials, run_settings(config, chosen, budget.seeds)) for value, config in configs.items()}
    for value, study in studies.items():
        save_comparison(request, f"{stem}-{value:g}", configs[value], study)
    write_json(request.folder / f"{stem}.json", {f"{value:g}": study.facts() for value, study in studies.items()})
    ends = {label: [_late(study, label) for study in studies.values()] for label in labels}
    means = {label: [statistics.fmean(values) for values in lists] for label, lists in ends.items()}
    bars = {label: [statistics.pstdev(values) for values in lists] for label, lists in ends.items()}
    save_picture(
        draw_lines,
        request.folder,
        stem,
        list(range(len(studies))) if math.inf in studies else list(studies),
        means,
        x=x,
        y="accuracy",
        bands=bars,
    )
    return studies


_LATE = 0.25
"""The share of a run over which accuracies are averaged: minutes 300 to 400 in the paper."""


def _late(study: Study, label: str) -> list[float]:
    """Return each seed's mean accuracy over the last quarter of the run."""
    return late_accuracies(study, label, _LATE)


def _gains(study: Study, ours: str, other: str) -> list[float]:
    """Return each seed's difference between the accuracies of two competitors, in points."""
    return points_over(study, ours, other, _LATE)


def _rise(low: Study, high: Study, label: str) -> Effect:
    """Return by how many points a competitor is higher in one study than in another, paired by seed."""
    return Effect.of([100 * (b - a) for a, b in zip(_late(low, label), _late(high, label), strict=True)])


def _words(study: Study, labels: Sequence[str]) -> str:
    return ", ".join(f"{label} {percentages(_late(study, label))}" for label in labels)


def _over_values(studies: Mapping[float, Study], label: str) -> str:
    return ", ".join(f"{value:g}: {percentages(_late(study, label))}" for value, study in studies.items())


def above_row(what: str, claimed: str, study: Study, ours: str, other: str) -> Row:
    """Return whether one competitor ends above another."""
    effect = Effect.of(_gains(study, ours, other))
    words = f"{_words(study, (ours, other))}; {effect.words(1, ' points')}"
    return shown(what, claimed, words, effect, learning_rates(study, ours, other))


def gain_row(what: str, printed: float, study: Study, ours: str, remark: str = "") -> Row:
    """Return the row of a printed gain over FedCS, in points."""
    gains = _gains(study, ours, "fedcs")
    effect = Effect.of(gains)
    words = (
        f"95 % interval {effect.low:.1f} to {effect.high:.1f}",
        remark,
        _words(study, (ours, "fedcs")),
        learning_rates(study, ours, "fedcs"),
    )
    return number(what, printed, gains, within=0.25, effect=effect, remark="; ".join(filter(None, words)))


def balanced_row(where: str, study: Study) -> Row:
    """Return whether it pays to choose clients for balanced classes rather than for their number alone."""
    balanced, most = (
        [
            statistics.fmean(pair)
            for pair in zip(_late(study, f"throughput-{how}"), _late(study, f"iid-{how}"), strict=True)
        ]
        for how in ("mincv", "clients")
    )
    effect = Effect.of([100 * (a - b) for a, b in zip(balanced, most, strict=True)])
    words = f"{percentages(balanced)} against {percentages(most)}; {effect.words(1, ' points')}"
    return shown(f"{where}: minCV above maxClient, means of two variants", "yes", words, effect)


def figure_3(request: Request) -> list[Row]:
    """Reproduce Fig. 3: accuracy over the number of classes per client."""
    base = request.settings("hybrid-fl")
    values = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0) if request.scale == "full" else (1.0, 2.0, 5.0)
    configs = {mu: base.with_changes({"data.partition": {**_DEAL, "mean": mu}}) for mu in values}
    x = "mean number of classes, mu"
    return classes_rows(base.data.source, _points(request, "fig3", x, configs, (*_LABELS, _ALL), tuned_at=2.0))


def classes_rows(source: str, studies: Mapping[float, Study]) -> list[Row]:
    """Return Fig. 3's rows, the gain over FedCS at mu = 2 as the headline. studies: by mu, in ascending order."""
    first, two, last = min(studies), studies[2.0], max(studies)
    printed = _GAIN.get(source, _GAIN["cifar10"])
    rows = [
        gain_row("iid/minCV over FedCS at mu = 2, points", printed, two, "iid-mincv").as_headline(),
        above_row(f"accuracy at mu = {first:g}", "Hybrid-FL above FedCS", studies[first], "iid-mincv", "fedcs"),
    ]
    if source != "fashion-mnist":  # the paper does not claim it for this data set
        for label in ("fedcs", *_VARIANTS):
            what = f"{label} and centralized training at mu = 2"
            rows.append(above_row(what, "centralized the lowest", two, label, "centralized"))
    rows.append(balanced_row("mu = 2", two))
    rise = _rise(studies[first], studies[last], "fedcs")
    words = f"{_over_values(studies, 'fedcs')}; {rise.words(1, ' points')}"
    rows.append(shown(f"FedCS at mu = {last:g} over mu = {first:g}", "rises", words, rise))
    what = "iid/minCV over FedCS at mu = 2, any client may upload, points"
    return [*rows, gain_row(what, printed, two, _ALL).unjudged()]


def figure_4(request: Request) -> list[Row]:
    """Reproduce Fig. 4: accuracy over the share of clients that upload."""
    base = request.settings("hybrid-fl").with_changes({"data.partition": _DEAL})
    values = (0.02, 0.05, 0.1, 0.2) if request.scale == "small" else (0.001, 0.002, 0.005, 0.01)
    if request.scale == "medium":
        values = (0.01, 0.02, 0.05, 0.1)
    labels = ("fedcs", "iid-mincv", "centralized", _ALL)
    configs = {share: base.with_changes({"data.share_examples": share}) for share in values}
    return uploaders_rows(_points(request, "fig4", "share of clients that upload", configs, labels, tuned_at=values[1]))


def uploaders_rows(studies: Mapping[float, Study]) -> list[Row]:
    """Return Fig. 4's rows; the headline is Hybrid-FL above both others with the fewest uploaders.

    studies: by the share of clients that upload, in ascending order.
    """
    low, high = studies[min(studies)], studies[max(studies)]
    rows = []
    for label in ("iid-mincv", "centralized", _ALL):
        rise = _rise(low, high, label)
        words = f"{_over_values(studies, label)}; {rise.words(1, ' points')}"
        rows.append(shown(f"accuracy of {label} with more uploaders", "rises", words, rise))
    rows[-1] = rows[-1].unjudged()
    for other in ("fedcs", "centralized"):
        what = f"accuracy with a share of {min(studies):g}"
        rows.append(above_row(what, f"Hybrid-FL above {other}", low, "iid-mincv", other).as_headline())
        rows.append(above_row(what, f"{_ALL} above {other}", low, _ALL, other).unjudged())
    return rows


def figure_5(request: Request) -> list[Row]:
    """Reproduce Fig. 5: accuracy over the fluctuation of rates and speeds."""
    base = request.settings("hybrid-fl").with_changes({"data.partition": _DEAL})
    values = (0.0, 0.2, 0.4, 0.6, 0.8) if request.scale == "full" else (0.0, 0.4, 0.8)
    configs = {
        share: base.with_changes({"fleet.compute.fluctuation": share, "fleet.link.fluctuation": share})
        for share in values
    }
    labels = ("fedcs", "throughput-mincv", "iid-mincv")
    return fluctuation_rows(_points(request, "fig5", "fluctuation, r_var", configs, labels, tuned_at=0.0))


def fluctuation_rows(studies: Mapping[float, Study]) -> list[Row]:
    """Return whether accuracies fall with fluctuation, and Hybrid-FL still trains (the headline: both of iid/minCV).

    It still trains if it keeps more than half of its accuracy. studies: by fluctuation, in ascending order.
    """
    first, last = studies[min(studies)], studies[max(studies)]
    rows = []
    for label in ("fedcs", "throughput-mincv", "iid-mincv"):
        fall = -_rise(first, last, label)
        kept = Effect.of([100 * (b - 0.5 * a) for a, b in zip(_late(first, label), _late(last, label), strict=True)])
        words = f"{_over_values(studies, label)}; falls by {fall.words(1, ' points')}"
        of_label = [
            shown(f"{label} with more fluctuation", "falls", words, fall),
            shown(
                f"{label} with the most fluctuation",
                "still trains",
                f"above half of its accuracy without by {kept.words(1, ' points')}",
                kept,
            ),
        ]
        rows += [row.as_headline() for row in of_label] if label == "iid-mincv" else of_label
    return rows


def table_1(request: Request) -> list[Row]:
    """Reproduce Table I: accuracy over the variety of clients, from all alike to all different."""
    base = request.settings("hybrid-fl")
    sigmas = (0.0, 0.7, math.inf)
    configs = {sigma: base.with_changes({"data.partition": {**_DEAL, "mean": 4.0, "std": sigma}}) for sigma in sigmas}
    x = "standard deviation of the number of classes: 0, 0.7, infinite"
    studies = _points(request, "table1", x, configs, _LABELS[:-1], tuned_at=0.7)
    return variety_rows(base.data.source, studies, absolute=request.scale == "full")


def variety_rows(source: str, studies: Mapping[float, Study], *, absolute: bool) -> list[Row]:
    """Return Table I's gains over FedCS, those of iid/minCV as the headline, and whether balanced classes pay.

    absolute: on the paper's data, judge the accuracies too. studies: by sigma, in the table's order.
    """
    rows = []
    for index, (sigma, study) in enumerate(studies.items()):
        printed = _TABLE_ONE.get(source, _TABLE_ONE["cifar10"])[index]
        for label, percent in zip(_LABELS[:-1], printed, strict=True):
            if source in _TABLE_ONE and absolute:
                percents = [100 * value for value in _late(study, label)]
                rows.append(number(f"sigma = {sigma:g}, {label}", percent, percents, within=0.05, unit=" %"))
            if label != "fedcs":
                what = f"sigma = {sigma:g}, {label} over fedcs, points"
                remark = f"the paper's {percent} % and {printed[0]} %"
                row = gain_row(what, percent - printed[0], study, label, remark)
                rows.append(row.as_headline() if label == "iid-mincv" else row)
        rows.append(balanced_row(f"sigma = {sigma:g}", study))
    return rows


_CIFAR, _BOTH = ("cifar10",), ("cifar10", "fashion-mnist")

EXHIBITS = (
    Exhibit("hybrid-fl/fig3", "accuracy over the classes of clients", figure_3, (1, 3, 3000), _BOTH, "Fig. 3"),
    Exhibit("hybrid-fl/fig4", "accuracy over the share that uploads", figure_4, (0.6, 2, 2000), _CIFAR, "Fig. 4"),
    Exhibit("hybrid-fl/fig5", "accuracy over fluctuating resources", figure_5, (0.4, 1, 2000), _CIFAR, "Fig. 5"),
    Exhibit("hybrid-fl/table1", "accuracy over the variety of clients", table_1, (1, 2, 2000), _BOTH, "Table I"),
)

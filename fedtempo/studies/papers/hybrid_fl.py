"""The figures and the table of Hybrid-FL (Yoshida, Nishio, Morikura, Yamamoto, Yonetani)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from fedtempo.record import write_json
from fedtempo.runs.config import Config
from fedtempo.studies.papers.figures import draw_lines
from fedtempo.studies.papers.panels import late_accuracies, learning_rates, percentages, save_comparison
from fedtempo.studies.papers.reproduction import Exhibit, Request, Row, claim, number, save_picture
from fedtempo.studies.tuning.study import Study, run_settings
from fedtempo.studies.tuning.trials import Trial, tune

_VARIANTS = ("throughput-mincv", "iid-mincv", "throughput-clients", "iid-clients")
_LABELS = ("fedcs", *_VARIANTS, "centralized")
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


def _late(study: Study, label: str) -> list[float]:
    """Return each seed's mean accuracy over the last quarter of the run, minutes 300 to 400 in the paper."""
    return late_accuracies(study, label, 0.25)


def _mean(study: Study, label: str) -> float:
    return statistics.fmean(_late(study, label))


def _words(study: Study, labels: tuple[str, ...] = _LABELS) -> str:
    return ", ".join(f"{label} {percentages(_late(study, label))}" for label in labels)


def figure_3(request: Request) -> list[Row]:
    """Reproduce Fig. 3: accuracy over the number of classes per client."""
    base = request.settings("hybrid-fl")
    values = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0) if request.scale == "full" else (1.0, 2.0, 5.0)
    configs = {mu: base.with_changes({"data.partition": {**_DEAL, "mean": mu}}) for mu in values}
    studies = _points(request, "fig3", "mean number of classes, mu", configs, _LABELS, tuned_at=2.0)
    source, two = base.data.source, studies[2.0]
    gain = 100 * (_mean(two, "iid-mincv") - _mean(two, "fedcs"))
    printed = _GAIN.get(source, _GAIN["cifar10"])
    rows = [
        number(
            "iid/minCV over FedCS at mu = 2, points",
            printed,
            [gain],
            within=0.25,
            direction=gain > 0,
            remark=f"{_words(two)}; {learning_rates(two)}",
        )
    ]
    for mu in values:
        better = _mean(studies[mu], "iid-mincv") > _mean(studies[mu], "fedcs")
        if mu <= 2:
            rows.append(claim(f"accuracy at mu = {mu:g}", "Hybrid-FL above FedCS", _words(studies[mu]), better))
    others = [label for label in _LABELS if label != "centralized"]
    if source != "fashion-mnist":  # the paper does not claim it for this data set
        worst = _mean(two, "centralized") < min(_mean(two, label) for label in others)
        rows.append(claim("accuracy of centralized training at mu = 2", "the lowest", _words(two), worst))
    rows.append(_balanced("mu = 2", two))
    falls = _mean(studies[values[-1]], "fedcs") - _mean(studies[values[0]], "fedcs")
    words = f"{100 * falls:.1f} points lower at mu = {values[0]:g} than at {values[-1]:g}"
    rows.append(claim("FedCS with few classes a client", "falls", words, falls > 0))
    return rows


def _balanced(where: str, study: Study) -> Row:
    """Return whether it pays to choose clients for balanced classes rather than for their number alone."""
    balanced, most = (
        statistics.fmean(_mean(study, f"{upload}-{how}") for upload in ("throughput", "iid"))
        for how in ("mincv", "clients")
    )
    words = f"{100 * balanced:.1f} % against {100 * most:.1f} %"
    return claim(f"{where}: minCV above maxClient, means of two variants", "yes", words, balanced > most)


def figure_4(request: Request) -> list[Row]:
    """Reproduce Fig. 4: accuracy over the share of clients that upload."""
    base = request.settings("hybrid-fl").with_changes({"data.partition": _DEAL})
    values = (0.02, 0.05, 0.1, 0.2) if request.scale == "small" else (0.001, 0.002, 0.005, 0.01)
    if request.scale == "medium":
        values = (0.01, 0.02, 0.05, 0.1)
    labels = ("fedcs", "iid-mincv", "centralized")
    configs = {share: base.with_changes({"data.share_examples": share}) for share in values}
    studies = _points(request, "fig4", "share of clients that upload", configs, labels, tuned_at=values[1])
    rows = []
    for label in ("iid-mincv", "centralized"):
        low, high = _mean(studies[values[0]], label), _mean(studies[values[-1]], label)
        words = ", ".join(f"{share:g}: {percentages(_late(study, label))}" for share, study in studies.items())
        rows.append(claim(f"accuracy of {label} with more uploaders", "rises", words, high > low))
    least = studies[values[0]]
    above = _mean(least, "iid-mincv") > max(_mean(least, "fedcs"), _mean(least, "centralized"))
    what = f"accuracy with a share of {values[0]:g}"
    rows.append(claim(what, "Hybrid-FL above FedCS and centralized", _words(least, labels), above))
    return rows


def figure_5(request: Request) -> list[Row]:
    """Reproduce Fig. 5: accuracy over the fluctuation of rates and speeds."""
    base = request.settings("hybrid-fl").with_changes({"data.partition": _DEAL})
    values = (0.0, 0.2, 0.4, 0.6, 0.8) if request.scale == "full" else (0.0, 0.4, 0.8)
    labels = ("fedcs", "throughput-mincv", "iid-mincv")
    configs = {
        share: base.with_changes({"fleet.compute.fluctuation": share, "fleet.link.fluctuation": share})
        for share in values
    }
    studies = _points(request, "fig5", "fluctuation, r_var", configs, labels, tuned_at=0.0)
    rows = []
    for label in labels:
        first, last = _mean(studies[values[0]], label), _mean(studies[values[-1]], label)
        words = ", ".join(f"{share:g}: {percentages(_late(study, label))}" for share, study in studies.items())
        rows.append(
            claim(f"{label} with more fluctuation", "falls, and still trains", words, first > last > 0.5 * first)
        )
    return rows


def table_1(request: Request) -> list[Row]:
    """Reproduce Table I: accuracy over the variety of clients, from all alike to all different."""
    base = request.settings("hybrid-fl")
    labels = _LABELS[:-1]
    sigmas = (0.0, 0.7, math.inf)
    configs = {sigma: base.with_changes({"data.partition": {**_DEAL, "mean": 4.0, "std": sigma}}) for sigma in sigmas}
    x = "standard deviation of the number of classes: 0, 0.7, infinite"
    studies = _points(request, "table1", x, configs, labels, tuned_at=0.7)
    source = base.data.source
    rows = []
    for index, (sigma, study) in enumerate(studies.items()):
        printed = _TABLE_ONE.get(source, _TABLE_ONE["cifar10"])[index]
        for label, percent in zip(labels, printed):
            late = [100 * value for value in _late(study, label)]
            if source in _TABLE_ONE and request.scale == "full":
                rows.append(number(f"sigma = {sigma:g}, {label}", percent, late, within=0.05, unit=" %"))
            elif label != "fedcs":
                gain = statistics.fmean(late) - 100 * _mean(study, "fedcs")
                what = f"sigma = {sigma:g}, {label} over fedcs, points"
                remark = f"the paper's {percent} % and {printed[0]} %; here {percentages(_late(study, label))}"
                rows.append(number(what, percent - printed[0], [gain], within=0.25, direction=gain > 0, remark=remark))
        rows.append(_balanced(f"sigma = {sigma:g}", study))
    return rows


_CIFAR, _BOTH = ("cifar10",), ("cifar10", "fashion-mnist")

EXHIBITS = (
    Exhibit("hybrid-fl/fig3", "accuracy over the classes of clients", figure_3, (0.8, 1, 3000), _BOTH, "Fig. 3"),
    Exhibit("hybrid-fl/fig4", "accuracy over the share that uploads", figure_4, (0.4, 1, 2000), _CIFAR, "Fig. 4"),
    Exhibit("hybrid-fl/fig5", "accuracy over fluctuating resources", figure_5, (0.4, 1, 2000), _CIFAR, "Fig. 5"),
    Exhibit("hybrid-fl/table1", "accuracy over the variety of clients", table_1, (0.7, 1, 2000), _BOTH, "Table I"),
)

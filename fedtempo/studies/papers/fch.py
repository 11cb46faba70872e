"""The figures and tables of FCH-FL (Zhao et al.), Fig. 1 apart.

An accuracy is the mean over the last tenth of a run's time."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping

import numpy as np

from fedtempo.runs.config import Config, parse
from fedtempo.studies.papers.fch_selection import ALIKE, LONG_TAIL, figure_1
from fedtempo.studies.papers.panels import (
    Panels,
    draw_curves,
    in_words,
    late_accuracies,
    learning_rates,
    median_to,
    percentages,
    study_panels,
)
from fedtempo.studies.papers.reproduction import Exhibit, Request, Row, Verdict, claim, number, spread
from fedtempo.studies.tuning.study import Study

_OTHERS = ("fedavg", "fedprox", "oort")
_SKEWED = {"kind": "dirichlet", "alpha": 0.2, "by": "client"}
"""The paper cites Hsu et al. 2019 for its distribution: clients draw their labels and hold equally many examples."""
_READINGS = ("fch", "fch-one-stage")
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
        bases[f"{base.data.source}, convolutions"] = parse({**base.given, "model": {"network": "cnn-psfl"}})
    if request.scale == "full" and request.data is None:
        changes = {"data.source": "emnist", "data.clients": emnist_clients, "run.max_commits": 100}
        tables = {f"compare.{label}.strategy.clients_per_round": emnist_clients // 10 for label in base.variants}
        bases["emnist"] = base.with_changes(changes | tables)
    return bases


_GAINS = {  # final accuracy of FCH-FL over others, points
    "fig3": {"cifar10": {"fedavg": 2.70, "oort": -1.00}, "emnist": {"fedavg": 3.61, "oort": 1.12}},
    "fig4": {"cifar10": {"fedavg": 5.89, "oort": 1.40}, "emnist": {"fedavg": 1.40, "oort": -1.58}},
    "fig5": {"cifar10": {"fedavg": 14.42, "oort": 3.46}, "emnist": {"fedavg": 7.82, "oort": 4.17}},
}


def _curves(request: Request, stem: str, bases: Mapping[str, Config], *all_ours: str) -> list[Row]:
    """Draw accuracies over rounds; return the final gains of FCH-FL, or of one half of it, over other strategies."""
    panels = study_panels(request, stem, bases, (*_OTHERS, *all_ours), request.budget("fch"))
    draw_curves(request, stem, panels, axis="rounds")
    rows = []
    for (source, study), ours in itertools.product(panels.items(), all_ours):
        for other, printed in _GAINS[stem].get(source, _GAINS[stem]["cifar10"]).items():
            pairs = zip(late_accuracies(study, ours), late_accuracies(study, other), strict=True)
            gains = [100 * (a - b) for a, b in pairs]
            same = (statistics.fmean(gains) > 0) == (printed > 0)
            what = f"{source}: final accuracy, {ours} over {other}, points"
            ends = ", ".join(percentages(late_accuracies(study, label)) for label in (ours, other))
            words = f"{ends}; {learning_rates(study)}"
            rows.append(number(what, printed, gains, within=0.25, direction=same, digits=2, remark=words))
    return rows


def figure_3(request: Request) -> list[Row]:
    """Reproduce Fig. 3: accuracy over rounds with IID clients."""
    return _curves(request, "fig3", _bases(request, {"kind": "iid"}, convolutions=True), "fch")


def figure_4(request: Request) -> list[Row]:
    """Reproduce Fig. 4: accuracy over rounds with long tails at half the clients; the loss by itself."""
    return _curves(request, "fig4", _bases(request, LONG_TAIL), "fch-loss")


def figure_5(request: Request) -> list[Row]:
    """Reproduce Fig. 5: accuracy over rounds with skewed labels; the selection, in two readings.

    The paper's text does not print Algorithm 2; it describes a screening by past utility and then a choice among the
    clients that trained. One reading has both stages; the other has only the first, after which as many clients train
    as with the other strategies.
    """
    bases = _bases(request, _SKEWED, emnist_clients=360, convolutions=True)
    return _curves(request, "fig5", bases, "fch-selection", "fch-one-stage-selection")


def table_1(request: Request) -> list[Row]:
    """Reproduce Table 1: final accuracies, IID and with long tails."""
    rows = []
    for name, deal in (("IID", {"kind": "iid"}), ("long tail", LONG_TAIL)):
        ours = "fch" if name == "IID" else "fch-loss"
        stem = f"table1-{name.replace(' ', '-')}"
        panels = study_panels(request, stem, _bases(request, deal), (*_OTHERS, ours), request.budget("fch"))
        draw_curves(request, stem, panels, axis="rounds")
        for source, study in panels.items():
            printed = _TABLE_ONE.get((source, name), _TABLE_ONE["cifar10", name])
            ends = {label: [100 * end for end in late_accuracies(study, label)] for label in (*_OTHERS, ours)}
            for (label, percents), percent in zip(ends.items(), printed, strict=True):
                what = f"{source}, {name}, {label}"
                if (source, name) in _TABLE_ONE:
                    rows.append(number(what, percent, percents, within=0.03, digits=2, unit=" %"))
                else:  # on other data only the gain over FedAvg is judged
                    rows.append(Row(what, f"{percent:.2f} %", spread(percents, 2, " %")))
                if label != "fedavg":
                    gains = [a - b for a, b in zip(percents, ends["fedavg"], strict=True)]
                    paper = percent - printed[0]
                    same = (statistics.fmean(gains) > 0) == (paper > 0)
                    what = f"{what} over fedavg, points"
                    rows.append(number(what, paper, gains, within=0.25, direction=same, digits=2))
    return rows


def _efficiency(request: Request, stem: str) -> Panels:
    bases = _bases(request, _SKEWED, emnist_clients=360, stragglers=True)
    panels = study_panels(request, stem, bases, (*_OTHERS, *_READINGS), request.budget("fch"))
    draw_curves(request, stem, panels)
    return panels


def _best(study: Study, ours: str) -> float:
    """Return the higher of the accuracies that Oort and FCH-FL end with."""
    return max(statistics.fmean(late_accuracies(study, label)) for label in ("oort", ours))


def figure_6(request: Request) -> list[Row]:
    """Reproduce Fig. 6: accuracy over time with stragglers; Oort leads at first, FCH-FL later."""
    rows = []
    for (source, study), ours in itertools.product(_efficiency(request, "fig6").items(), _READINGS):
        for share, first, other in ((0.6, "oort", ours), (0.97, ours, "oort")):
            level = share * _best(study, ours)
            times = {label: median_to(study.records[label], level) for label in ("oort", ours)}
            words = ", ".join(f"{label} {in_words(time)}" for label, time in times.items())
            holds = times[first] < times[other]
            rows.append(claim(f"{source}: time to {level:.0%}", f"{first} first", words, holds, learning_rates(study)))
    return rows


def table_2(request: Request) -> list[Row]:
    """Reproduce Table 2: times to accuracies; on other data, to the same shares of the final accuracy."""
    rows = []
    for (source, study), ours in itertools.product(_efficiency(request, "table2").items(), _READINGS):
        printed_times, unreached = _TABLE_TWO.get(source, _TABLE_TWO["cifar10"])
        for accuracy, oort_h, fch_h in printed_times:
            level = accuracy if source in _TABLE_TWO else accuracy / unreached * _best(study, ours)
            oort, fch = (median_to(study.records[label], level) for label in ("oort", ours))
            remark = (
                f"the paper's {fch_h} h / {oort_h} h, here {in_words(fch)} / {in_words(oort)}; {learning_rates(study)}"
            )
            what = f"{source}: time to {level:.0%} (the paper's {accuracy:.0%}), {ours} over oort"
            printed = fch_h / oort_h
            same = fch > oort if printed > 1 else fch < oort
            if not np.isfinite([oort, fch]).all():
                verdict = Verdict.DIRECTION if same else Verdict.NOT_REACHED
                rows.append(Row(what, f"{printed:.2f}", f"{in_words(fch)} / {in_words(oort)}", remark, "", verdict))
                continue
            rows.append(number(what, printed, [fch / oort], within=0.15, direction=same, digits=2, remark=remark))
    return rows


_BOTH = ("cifar10", "emnist")

EXHIBITS = (
    Exhibit("fch/fig1", "what tails and skew cost, and whom Oort chooses", figure_1, (0.5, 2, 200), _BOTH, "Fig. 1"),
    Exhibit("fch/fig3", "accuracy over rounds, clients alike", figure_3, (0.4, 1, 200), _BOTH, "Fig. 3"),
    Exhibit("fch/fig4", "accuracy over rounds, long tails: the loss", figure_4, (0.3, 1, 200), _BOTH, "Fig. 4"),
    Exhibit("fch/fig5", "accuracy over rounds, skewed labels: selection", figure_5, (0.3, 1, 200), _BOTH, "Fig. 5"),
    Exhibit("fch/fig6", "accuracy over time with stragglers", figure_6, (0.4, 1, 200), _BOTH, "Fig. 6"),
    Exhibit("fch/table1", "final accuracies", table_1, (0.5, 2, 400), _BOTH, "Table 1"),
    Exhibit("fch/table2", "times to accuracies, Oort and FCH-FL", table_2, (0.4, 1, 200), _BOTH, "Table 2"),
)

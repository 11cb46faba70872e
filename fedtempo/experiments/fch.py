"""The figures and tables of FCH-FL (Zhao et al.)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from fedtempo.config import Config
from fedtempo.experiments.panels import (
    draw_curves,
    final_accuracies,
    highest,
    lrs,
    median_to,
    points,
    said,
    study_panels,
)
from fedtempo.experiments.pictures import draw_lines
from fedtempo.experiments.reproduction import Asked, Experiment, Row, claim, drawn, number
from fedtempo.experiments.study import Study
from fedtempo.launch import build_world
from fedtempo.record import Records, write_json
from fedtempo.record.measures import participation

_OTHERS = ("fedavg", "fedprox", "oort")
_LONG_TAIL = {"kind": "long-tail", "imbalance": 0.5, "clients_share": 0.5}
_TABLE_ONE = {  # FedAvg, FedProx, Oort, FCH-FL, in percent
    ("cifar10", "IID"): (74.13, 76.05, 77.83, 76.83),
    ("cifar10", "long tail"): (69.81, 75.21, 74.30, 75.70),
    ("emnist", "IID"): (83.91, 84.40, 86.40, 87.52),
    ("emnist", "long tail"): (76.17, 78.98, 79.15, 77.57),
}
_EMNIST = {"data.source": "emnist", "data.clients": 200, "run.max_commits": 100}


def _bases(asked: Asked, partition: Mapping[str, object], **changes: object) -> dict[str, Config]:
    """The paper's two data sets, or the one that was asked for, dealt in one way; a panel each."""
    base = asked.settings("fch").with_changes({"data.partition": dict(partition), **changes})
    bases = {base.data.source: base}
    if asked.scale == "full" and asked.data is None:
        tables = {f"compare.{label}.strategy.clients_per_round": 20 for label in base.variants}
        bases["emnist"] = base.with_changes(_EMNIST | tables)
    return bases


def _curves(asked: Asked, stem: str, partition: Mapping[str, object], ours: str, paper: Mapping[str, str]) -> list[Row]:
    panels = study_panels(asked, stem, _bases(asked, partition), (*_OTHERS, ours), asked.budget("fch"))
    draw_curves(asked, stem, panels, axis="rounds")
    return highest(panels, ours, _OTHERS, {name: paper.get(name, paper["cifar10"]) for name in panels})


def figure_1(asked: Asked) -> list[Row]:
    """What long tails and skewed labels cost, and whom Oort chooses among clients with and without a long tail."""
    budget, base = asked.budget("fch"), asked.settings("fch")
    tails = {share: {**_LONG_TAIL, "imbalance": share, "clients_share": 1.0} for share in (0.05, 0.2, 0.5, 1.0)}
    skews = {alpha: {"kind": "dirichlet", "alpha": alpha} for alpha in (0.1, 0.3, 1.0, 10.0)}
    rows = []
    for stem, name, said_of, deals in (
        ("fig1-a1", "imbalance factor", "the shorter the tail, the better", tails),
        ("fig1-a2", "Dirichlet's alpha", "the less skewed, the better", skews),
    ):
        bases = {f"{value:g}": base.with_changes({"data.partition": deal}) for value, deal in deals.items()}
        panels = study_panels(asked, stem, bases, ("fedavg",), budget)
        ends = {value: final_accuracies(study, "fedavg") for value, study in panels.items()}
        means = [statistics.fmean(values) for values in ends.values()]
        drawn(draw_lines, asked.folder, stem, list(deals), {"fedavg": means}, x=name, y="final accuracy")
        words = ", ".join(f"{value}: {points(values)}" for value, values in ends.items())
        rows.append(claim(f"final accuracy of FedAvg over {name}", said_of, words, means[-1] > means[0]))
    skewed = base.with_changes({"data.partition": {**_LONG_TAIL, "imbalance": 0.05}})
    panels = study_panels(asked, "fig1-b", {"half long tails": skewed}, ("fedavg", "oort", "fch"), budget)
    study = panels["half long tails"]
    gap = statistics.fmean(final_accuracies(study, "oort")) - statistics.fmean(final_accuracies(study, "fedavg"))
    words = f"{points(final_accuracies(study, 'oort'))}, {points(final_accuracies(study, 'fedavg'))}"
    rows.append(claim("final accuracy, Oort and FedAvg, half long tails", "alike", words, abs(gap) < 0.03, lrs(study)))
    tailed = [
        _picks_by_tail(skewed.with_changes({"run.seed": seed}), run)
        for seed, run in _seeded(study, "oort", budget.seeds)
    ]
    fewer = [long / short for long, short in tailed]
    rows.append(
        claim(
            "picks of clients with a long tail over others, Oort", "below 1", _mean(fewer), statistics.fmean(fewer) < 1
        )
    )
    slow = {label: [_picks_of_slow(run) for run in study.records[label]] for label in ("fedavg", "oort", "fch")}
    words = ", ".join(f"{label} {100 * statistics.fmean(values):.0f} %" for label, values in slow.items())
    fewest = statistics.fmean(slow["oort"]) < statistics.fmean(slow["fedavg"])
    rows.append(
        claim("share of picks that go to the slowest third of the clients", "Oort excludes them", words, fewest)
    )
    write_json(asked.folder / "fig1-c.json", {"picks_by_tail": tailed, "picks_of_slow": slow})
    return rows


def _seeded(study: Study, label: str, seeds: Sequence[int]) -> list[tuple[int, Records]]:
    return list(zip(seeds, study.records[label], strict=True))


def _picks_by_tail(config: Config, run: Records) -> tuple[float, float]:
    """Mean visits of a client with a long tail, and of one without."""
    counts = np.array(build_world(config).histograms)
    tail = counts.min(axis=1) < 0.5 * counts.max(axis=1)
    picks = participation(run)
    return float(picks[tail].mean()), float(picks[~tail].mean())


def _picks_of_slow(run: Records) -> float:
    """Share of the visits that the slowest third of the clients seen made."""
    picks, visits = participation(run), run.visits
    done = visits["outcome"] == "done"
    total_s = np.bincount(visits["client"][done], (visits["finished"] - visits["started"])[done], minlength=picks.size)
    seen = np.flatnonzero(picks)
    slowest = seen[np.argsort(total_s[seen] / picks[seen])][-(len(picks) // 3) :]
    return float(picks[slowest].sum() / picks.sum())


def _mean(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def figure_3(asked: Asked) -> list[Row]:
    """Accuracy over rounds where clients are alike."""
    return _curves(asked, "fig3", {"kind": "iid"}, "fch", {"cifar10": "Oort, then FCH-FL", "emnist": "FCH-FL highest"})


def figure_4(asked: Asked) -> list[Row]:
    """Accuracy over rounds where half the clients have long tails: the loss by itself."""
    paper = {"cifar10": "FCH-FL highest", "emnist": "Oort, FedProx, FCH-FL, FedAvg"}
    return _curves(asked, "fig4", _LONG_TAIL, "fch-loss", paper)


def figure_5(asked: Asked) -> list[Row]:
    """Accuracy over rounds under skewed labels: the selection."""
    deal = {"kind": "dirichlet", "alpha": 0.2, "by": "client" if asked.scale == "small" else "class"}
    paper = {"cifar10": "FCH-FL highest, by 3.46 points over Oort", "emnist": "FCH-FL highest, by 4.17 over Oort"}
    return _curves(asked, "fig5", deal, "fch-selection", paper)


def table_1(asked: Asked) -> list[Row]:
    """Final accuracies, clients alike and with long tails."""
    rows = []
    for name, deal in (("IID", {"kind": "iid"}), ("long tail", _LONG_TAIL)):
        ours = "fch" if name == "IID" else "fch-loss"
        stem = f"table1-{name.replace(' ', '-')}"
        panels = study_panels(asked, stem, _bases(asked, deal), (*_OTHERS, ours), asked.budget("fch"))
        for source, study in panels.items():
            printed = _TABLE_ONE.get((source, name), _TABLE_ONE["cifar10", name])
            base = statistics.fmean(final_accuracies(study, "fedavg"))
            for label, percent in zip((*_OTHERS, ours), printed):
                ends = [100 * value for value in final_accuracies(study, label)]
                if (source, name) in _TABLE_ONE:
                    rows.append(number(f"{source}, {name}, {label}", percent, ends, within=0.03, unit=" %"))
                elif label != "fedavg":
                    gain = statistics.fmean(ends) - 100 * base
                    what = f"{name}, {label} over fedavg, points"
                    printed_gain = percent - printed[0]
                    rows.append(number(what, printed_gain, [gain], within=0.25, direction=gain > 0, digits=2))
    return rows


def _efficiency(asked: Asked, stem: str) -> tuple[Study, Config]:
    deal = {"kind": "dirichlet", "alpha": 0.2, "by": "client" if asked.scale == "small" else "class"}
    bases = _bases(asked, deal)
    source = next(iter(bases))
    panels = study_panels(asked, stem, {source: bases[source]}, (*_OTHERS, "fch"), asked.budget("fch"))
    draw_curves(asked, stem, panels)
    return panels[source], bases[source]


def figure_6(asked: Asked) -> list[Row]:
    """Accuracy over time with stragglers: Oort leads first, FCH-FL from some accuracy on."""
    study, _ = _efficiency(asked, "fig6")
    best = max(statistics.fmean(final_accuracies(study, label)) for label in ("oort", "fch"))
    low, high = 0.6 * best, 0.97 * best
    times = {
        level: {label: median_to(study.records[label], level) for label in ("oort", "fch")} for level in (low, high)
    }
    return [
        claim(
            f"time to {level:.0%}",
            f"{first} first",
            ", ".join(f"{label} {said(time)}" for label, time in times[level].items()),
            min(times[level], key=lambda label: times[level][label]) == first,
            lrs(study),
        )
        for level, first in ((low, "oort"), (high, "fch"))
    ]


def table_2(asked: Asked) -> list[Row]:
    """Times to accuracies, Oort and FCH-FL."""
    study, _ = _efficiency(asked, "table2")
    best = max(statistics.fmean(final_accuracies(study, label)) for label in ("oort", "fch"))
    rows = []
    for share, printed in ((0.5, 10.15 / 8.82), (0.6, 13.69 / 18.77), (0.65, 24.09 / 34.94)):
        level = share / 0.7 * best  # 70 % is what neither reaches on CIFAR-10
        oort, fch = (median_to(study.records[label], level) for label in ("oort", "fch"))
        ratio = fch / oort if np.isfinite(oort) else 0.0
        remark = f"{said(fch)} / {said(oort)}, at {level:.0%}; {lrs(study)}"
        measured = [ratio] if np.isfinite(ratio) else [float("inf")]
        same = (ratio > 1) == (printed > 1)
        what = f"time to {share:.0%} (as a share of what is reached), FCH-FL over Oort"
        rows.append(number(what, printed, measured, within=0.15, direction=same, digits=2, remark=remark))
    return rows


_BOTH = "CIFAR-10, EMNIST"

EXPERIMENTS = (
    Experiment("fch/fig1", "what long tails and skew cost, and whom Oort chooses", figure_1, (2, 25, 200), _BOTH),
    Experiment("fch/fig3", "accuracy over rounds, clients alike", figure_3, (1, 20, 200), _BOTH),
    Experiment("fch/fig4", "accuracy over rounds, long tails: the loss", figure_4, (1, 20, 200), _BOTH),
    Experiment("fch/fig5", "accuracy over rounds, skewed labels: the selection", figure_5, (1, 20, 200), _BOTH),
    Experiment("fch/fig6", "accuracy over time with stragglers", figure_6, (1, 20, 200), _BOTH),
    Experiment("fch/table1", "final accuracies", table_1, (2, 30, 400), _BOTH),
    Experiment("fch/table2", "times to accuracies, Oort and FCH-FL", table_2, (1, 20, 200), _BOTH),
)

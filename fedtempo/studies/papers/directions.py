"""The direction of each paper's claim, on small data: who gets there first, or ends highest, and where that fails.

Competitors share data, fleet, clients a round and seeds; each has its learning rate tuned on one grid, on seeds that
the comparison does not use. FedHusky's is `fedhusky/variants`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from fedtempo.record import Records
from fedtempo.runs.config import Config
from fedtempo.runs.world import build_world
from fedtempo.studies.papers.figures import draw_lines
from fedtempo.studies.papers.panels import (
    draw_curves,
    final_accuracies,
    first_of,
    late_accuracies,
    median_to,
    reached,
    said,
    study_panels,
)
from fedtempo.studies.papers.reproduction import Asked, Exhibit, Row, claim, drawn, number
from fedtempo.studies.tuning.study import Study

CLUSTERS = ("one-cluster", "two-clusters", "three-clusters", "four-clusters")
_ROUNDS = {"one-cluster": 981, "two-clusters": 754, "three-clusters": 613, "four-clusters": 506}
"""Table III, one sub-channel: rounds to 96 % on MNIST with the perceptron."""
TAILS = {
    "IF = 0.5, half of the clients": {"data.partition.imbalance": 0.5, "data.partition.clients_share": 0.5},
    "IF = 0.05, half of the clients": {"data.partition.imbalance": 0.05, "data.partition.clients_share": 0.5},
    "IF = 0.05, all clients": {"data.partition.imbalance": 0.05, "data.partition.clients_share": 1.0},
}
"""Long tails: smallest class over the largest, and who holds them; the first is the paper's."""
_WORDS = {False: "final accuracy", True: "accuracy at the end"}
_UPLOADING = (0.02, 0.1, 0.2)


def psfl(asked: Asked) -> list[Row]:
    """Time to the target: parallel sequences against parallel and sequential training with as many clients a round."""
    base, budget = asked.settings("psfl-direction"), asked.budget("psfl-direction")
    twenty = ("psfl", "psfl-paper", "psfl-measured", "fedavg", "sequential")
    panels = {
        **study_panels(asked, "psfl-20", {"20 clients a round": base}, twenty, budget),
        **study_panels(asked, "psfl-50", {"50 clients a round": base}, ("psfl-50", "fedavg-50"), budget),
    }
    level = target(base)
    draw_curves(asked, "psfl", panels, targets=dict.fromkeys(panels, level))
    rows = []
    for (name, study), ours in zip(panels.items(), ("psfl", "psfl-50"), strict=True):
        rows += _each(study, name, level, "time")
        others = {label: median_to(study.records[label], level) for label in study.runs if not label.startswith("psfl")}
        ratio = median_to(study.records[ours], level) / min(others.values())
        what = f"{name}: time to {level:.0%}, {ours} over the better of {', '.join(others)}"
        rows.append(number(what, 0.67, [_or_infinite(ratio)], within=0.1, direction=ratio < 1, digits=2))
    found = [run.note("structure") for run in panels["20 clients a round"].records["psfl-measured"]]
    words = ", ".join(f"{each['width']} x {each['length']}" for each in found)
    return [*rows, Row("structure after the warm-up, W x S of each seed", "5 x 4", words)]


def psfl_limits(asked: Asked) -> list[Row]:
    """Time to the target where noise, not curvature, limits the step: a network of one hidden layer."""
    shallow = {"model.network": "mlp", "model.hidden": [64], "run.target_accuracy": 0.7, "run.horizon": 600.0}
    base = asked.settings("psfl-direction").with_changes(shallow)
    bases = {
        "one step of 32": base,
        "six steps of 5": base.with_changes({"training.steps": 6, "training.batch_size": 5}),
    }
    panels = study_panels(asked, "psfl-limits", bases, ("psfl", "fedavg"), asked.budget("psfl-direction"))
    levels = dict.fromkeys(panels, target(base))
    draw_curves(asked, "psfl-limits", panels, targets=levels)
    rows = [row for name, study in panels.items() for row in _each(study, name, levels[name], "time")]
    return [*rows, *first_of(panels, levels, "psfl", ("fedavg",), "psfl first")]


def fch(asked: Asked) -> list[Row]:
    """Accuracy at the end: the loss that is adjusted for the classes' shares against plain cross-entropy."""
    base = asked.settings("fch-direction")
    panels = {name: base.with_changes(changes) for name, changes in TAILS.items()}
    pairs = [("adjusted", "plain")] + ([] if asked.scale == "small" else [("fch-adjusted", "fch-plain")])
    labels = [label for pair in pairs for label in pair]
    studies = study_panels(asked, "fch", panels, labels, asked.budget("fch-direction"))
    draw_curves(asked, "fch", studies, axis="rounds")
    return [row for name, study in studies.items() for pair in pairs for row in _above(study, name, *pair, late=True)]


def csgd(asked: Asked) -> list[Row]:
    """Rounds to the target on one sub-channel, over the number of clusters; rounds last the same."""
    base = asked.settings("csgd-direction")
    name = "one sub-channel"
    panels = study_panels(asked, "csgd", {name: base}, CLUSTERS, asked.budget("csgd-direction"))
    level = target(base)
    draw_curves(asked, "csgd", panels, axis="rounds", targets={name: level})
    study = panels[name]
    rows = _each(study, name, level, "rounds")
    rounds = {label: median_to(study.records[label], level, "rounds") for label in CLUSTERS}
    for label in CLUSTERS[1:]:
        ratio = rounds[label] / rounds["one-cluster"]
        what = f"rounds to {level:.0%}, {label} over one-cluster"
        printed = _ROUNDS[label] / _ROUNDS["one-cluster"]
        rows.append(number(what, printed, [_or_infinite(ratio)], within=0.1, direction=ratio < 1, digits=2))
    lasting = {label: round_s(study.records[label]) for label in CLUSTERS}
    words = ", ".join(f"{label} {seconds:.2f} s" for label, seconds in lasting.items())
    same = max(lasting.values()) - min(lasting.values()) < 1e-6
    return [*rows, claim("time of a round", "the same for all", words, same)]


def hybrid_fl(asked: Asked) -> list[Row]:
    """Final accuracy over the number of clients that upload, each with examples of one class."""
    base, budget = asked.settings("hybrid-fl-direction"), asked.budget("hybrid-fl-direction")
    labels = ("hybrid-fl", "fedcs", "centralized")
    sharing = {
        f"{round(share * base.n_clients)} upload": base.with_changes({"data.share_examples": share})
        for share in _UPLOADING
    }
    panels = study_panels(asked, "hybrid-fl", sharing, labels, budget)
    draw_curves(asked, "hybrid-fl-time", panels)
    medians = {label: [statistics.median(final_accuracies(s, label)) for s in panels.values()] for label in labels}
    numbers = [round(share * base.n_clients) for share in _UPLOADING]
    drawn(draw_lines, asked.folder, "hybrid-fl", numbers, medians, x="clients that upload", y="final accuracy")
    rows = []
    for (name, study), config in zip(panels.items(), sharing.values(), strict=True):
        rows += _above(study, name, "hybrid-fl", "fedcs")
        rows += _ends(study, name, "centralized")
        held = ", ".join(str(classes_uploaded(config, seed)) for seed in budget.seeds)
        rows.append(Row(f"{name}: classes that they hold, each seed", "-", held))
    return rows


def target(config: Config) -> float:
    """The accuracy that a configuration aims at."""
    assert config.run.target_accuracy is not None
    return config.run.target_accuracy


def round_s(runs: Sequence[Records]) -> float:
    """Mean time from one commit to the next, seconds."""
    return statistics.fmean(float(np.diff(run.commits["time"], prepend=0.0).mean()) for run in runs)


def classes_uploaded(config: Config, seed: int) -> int:
    """How many classes the clients that agreed to upload hold together."""
    world = build_world(config.with_changes({"run.seed": seed}))
    held = [counts for client, counts in zip(world.clients, world.histograms) if client.shares_examples]
    return int((np.sum(held, axis=0) > 0).sum())


def _or_infinite(ratio: float) -> float:
    """A ratio of times; infinite where nobody gets there."""
    return math.inf if math.isnan(ratio) else ratio


def _each(study: Study, name: str, level: float, axis: str) -> list[Row]:
    """Time or rounds to an accuracy: of each competitor the median, and every seed."""
    rows = []
    for label, runs in study.records.items():
        seeds = ", ".join(said(reached(run, level, axis), axis) for run in runs)
        words = f"{said(median_to(runs, level, axis), axis)} ({seeds})"
        rows.append(Row(f"{name}: {axis} to {level:.0%}, {label}", "-", words, _lr(study, label)))
    return rows


def _ends(study: Study, name: str, *labels: str, late: bool = False) -> list[Row]:
    """Accuracy at the end: of each competitor the median, and every seed."""
    rows = []
    for label in labels:
        ends = _end(study, label, late)
        words = f"{statistics.median(ends):.1%} ({', '.join(f'{end:.1%}' for end in ends)})"
        rows.append(Row(f"{name}: {_WORDS[late]}, {label}", "-", words, _lr(study, label)))
    return rows


def _above(study: Study, name: str, ours: str, other: str, *, late: bool = False) -> list[Row]:
    """Accuracies at the end of two competitors, and by how much the first is above the second, seed by seed."""
    gains = [a - b for a, b in zip(_end(study, ours, late), _end(study, other, late), strict=True)]
    median = statistics.median(gains)
    words = f"{100 * median:+.1f} points ({', '.join(f'{100 * gain:+.1f}' for gain in gains)})"
    gain = claim(f"{name}: {_WORDS[late]}, {ours} over {other}", f"{ours} higher", words, median > 0)
    return [*_ends(study, name, ours, other, late=late), gain]


def _end(study: Study, label: str, late: bool) -> list[float]:
    return late_accuracies(study, label) if late else final_accuracies(study, label)


def _lr(study: Study, label: str) -> str:
    return f"lr {study.chosen(label)['training.lr']:g}"


EXHIBITS = (
    Exhibit("psfl/direction", "parallel sequences reach the target sooner", psfl, (4, 40, 900), ("cifar10",)),
    Exhibit("psfl/limits", "where parallel sequences do not pay", psfl_limits, (1, 20, 200), ("cifar10",)),
    Exhibit("fch/direction", "the adjusted loss ends higher", fch, (2, 40, 900), ("cifar10",)),
    Exhibit("csgd/direction", "more clusters need fewer rounds", csgd, (1, 20, 200), ("mnist",)),
    Exhibit("hybrid-fl/direction", "uploads help, one class a client", hybrid_fl, (3, 60, 3000), ("cifar10",)),
)

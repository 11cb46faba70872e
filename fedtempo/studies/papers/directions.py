"""The direction of each paper's claim on small data: what reaches the target first, or ends highest, and when not.

Competitors share data, fleet, clients per round and seeds; the learning rate of each is tuned on one grid, on seeds
that the comparison does not use. FedHusky's claim is measured by `fedhusky/variants`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from fedtempo.runs.config import Config
from fedtempo.runs.world import build_world
from fedtempo.studies.papers.csgd import saved_rows
from fedtempo.studies.papers.figures import draw_lines
from fedtempo.studies.papers.panels import (
    draw_curves,
    final_accuracies,
    first_to_reach,
    in_words,
    late_accuracies,
    median_to,
    reached,
    resolution,
    round_times_row,
    study_panels,
    target,
)
from fedtempo.studies.papers.psfl import time_saved
from fedtempo.studies.papers.reproduction import Exhibit, Request, save_picture
from fedtempo.studies.papers.verdicts import Effect, Row, shown
from fedtempo.studies.tuning.study import Study

CLUSTERS = ("one-cluster", "two-clusters", "three-clusters", "four-clusters")
_ROUNDS = {"one-cluster": 981, "two-clusters": 754, "three-clusters": 613, "four-clusters": 506}
"""Table III, one sub-channel: rounds to 96 % on MNIST with the perceptron."""
TAILS = {
    "IF = 0.5, half of the clients": {"data.partition.imbalance": 0.5, "data.partition.clients_share": 0.5},
    "IF = 0.05, half of the clients": {"data.partition.imbalance": 0.05, "data.partition.clients_share": 0.5},
    "IF = 0.05, all clients": {"data.partition.imbalance": 0.05, "data.partition.clients_share": 1.0},
}
"""Long tails: smallest class over the largest, and the share of clients that have them; the paper's is the first."""
_WORDS = {False: "final accuracy", True: "accuracy at the end"}
_UPLOADING = (0.02, 0.1, 0.2)


def psfl(request: Request) -> list[Row]:
    """Compare times to the target: parallel sequences against parallel and against sequential training.

    The paper's claim is about its own structure, 5 sequences of 4 for 20 clients per round; sequences of 2, and the
    structure from a warm-up, are shown beside.
    """
    base, budget = request.settings("psfl-direction"), request.budget("psfl-direction")
    twenty = ("psfl", "psfl-short", "psfl-measured", "fedavg", "sequential")
    fifty = ("psfl-short-50", "fedavg-50")
    panels = {
        **study_panels(request, "psfl-20", {"20 clients a round": base}, twenty, budget),
        **study_panels(request, "psfl-50", {"50 clients a round": base}, fifty, budget),
    }
    level, tick_s = target(base), resolution(base)
    draw_curves(request, "psfl", panels, targets=dict.fromkeys(panels, level))
    rows = []
    for name, study in panels.items():
        rows += _times_rows(study, name, level, "time")
        others = [label for label in study.runs if not label.startswith("psfl")]
        for ours in (label for label in study.runs if label.startswith("psfl")):
            row = time_saved(study, name, level, ours, others, tick_s)
            rows.append(row.as_headline() if ours == "psfl" else row.unjudged())
    structures = [run.note("structure") for run in panels["20 clients a round"].records["psfl-measured"]]
    words = ", ".join(f"{structure['width']} x {structure['length']}" for structure in structures)
    return [*rows, Row("structure after the warm-up, W x S of each seed", "5 x 4", words)]


def psfl_limits(request: Request) -> list[Row]:
    """Compare times to the target if noise, not curvature, limits the step: a network of one hidden layer.

    The paper says nothing of this setting, so nothing is judged.
    """
    shallow = {"model.network": "mlp", "model.hidden": [64], "run.target_accuracy": 0.7, "run.horizon": 600.0}
    base = request.settings("psfl-direction").with_changes(shallow)
    bases = {
        "one step of 32": base,
        "six steps of 5": base.with_changes({"training.steps": 6, "training.batch_size": 5}),
    }
    panels = study_panels(request, "psfl-limits", bases, ("psfl-short", "fedavg"), request.budget("psfl-direction"))
    levels = dict.fromkeys(panels, target(base))
    draw_curves(request, "psfl-limits", panels, targets=levels)
    rows = [row for name, study in panels.items() for row in _times_rows(study, name, levels[name], "time")]
    first = first_to_reach(panels, levels, "psfl-short", ("fedavg",), "-", resolution=resolution(base))
    return [*rows, *(row.unjudged() for row in first)]


def fch(request: Request) -> list[Row]:
    """Compare final accuracies: the loss adjusted for class shares against plain cross-entropy.

    The headline is the paper's setting, with FedAvg's choice of clients. The prior of each batch is shown beside.
    """
    base = request.settings("fch-direction")
    panels = {name: base.with_changes(changes) for name, changes in TAILS.items()}
    pairs = [("adjusted", "plain")] + ([] if request.scale == "small" else [("fch-adjusted", "fch-plain")])
    labels = [*(label for pair in pairs for label in pair), "own-prior"]
    studies = study_panels(request, "fch", panels, labels, request.budget("fch-direction"))
    draw_curves(request, "fch", studies, axis="rounds")
    return [row for name, study in studies.items() for row in loss_rows(name, study, pairs)]


def loss_rows(name: str, study: Study, pairs: Sequence[tuple[str, str]]) -> list[Row]:
    """Return the rows of a panel of `fch`. pairs: the adjusted and the plain loss under the same choice of clients."""
    rows = []
    for ours, other in pairs:
        gain = _gain_row(study, name, ours, other, late=True)
        headline = name == next(iter(TAILS)) and ours == "adjusted"
        rows += [*_end_rows(study, name, ours, other, late=True), gain.as_headline() if headline else gain]
    own = _gain_row(study, name, "own-prior", "plain", late=True).unjudged()
    return [*rows, *_end_rows(study, name, "own-prior", late=True), own]


def csgd(request: Request) -> list[Row]:
    """Compare rounds and times to the target on one sub-channel over the number of clusters."""
    base = request.settings("csgd-direction")
    name = "one sub-channel"
    panels = study_panels(request, "csgd", {name: base}, CLUSTERS, request.budget("csgd-direction"))
    level = target(base)
    draw_curves(request, "csgd", panels, axis="rounds", targets={name: level})
    study = panels[name]
    rows = [row for axis in ("rounds", "time") for row in _times_rows(study, name, level, axis)]
    for label in CLUSTERS[1:]:
        saved, sooner = saved_rows(study, label, level, (_ROUNDS[label], _ROUNDS["one-cluster"]), label, "one-cluster")
        rows += [saved.as_headline(), sooner]
    return [*rows, round_times_row(study.records, "the same for all")]


def hybrid_fl(request: Request) -> list[Row]:
    """Compare final accuracies over the number of clients that upload, each with examples of one class.

    The headline is the gain over FedCS with the fewest uploaders. Uploads by any client, and not only by the round's
    candidates, are shown beside.
    """
    base, budget = request.settings("hybrid-fl-direction"), request.budget("hybrid-fl-direction")
    labels = ("hybrid-fl", "fedcs", "centralized", "hybrid-fl-all")
    sharing = {
        f"{round(share * base.n_clients)} upload": base.with_changes({"data.share_examples": share})
        for share in _UPLOADING
    }
    panels = study_panels(request, "hybrid-fl", sharing, labels, budget)
    draw_curves(request, "hybrid-fl-time", panels)
    medians = {label: [statistics.median(final_accuracies(s, label)) for s in panels.values()] for label in labels}
    numbers = [round(share * base.n_clients) for share in _UPLOADING]
    save_picture(draw_lines, request.folder, "hybrid-fl", numbers, medians, x="clients that upload", y="final accuracy")
    rows = []
    for (name, study), config in zip(panels.items(), sharing.values(), strict=True):
        rows += uploads_rows(name, study, headline=name == next(iter(panels)))
        held = ", ".join(str(classes_uploaded(config, seed)) for seed in budget.seeds)
        rows.append(Row(f"{name}: classes that they hold, each seed", "-", held))
    return rows


def uploads_rows(name: str, study: Study, *, headline: bool) -> list[Row]:
    """Return the rows of a panel of `hybrid_fl`. headline: whether its gain over FedCS is the main statement."""
    gain = _gain_row(study, name, "hybrid-fl", "fedcs")
    return [
        *_end_rows(study, name, "hybrid-fl", "fedcs"),
        gain.as_headline() if headline else gain,
        *_end_rows(study, name, "centralized", "hybrid-fl-all"),
        _gain_row(study, name, "hybrid-fl-all", "fedcs").unjudged(),
    ]


def classes_uploaded(config: Config, seed: int) -> int:
    """Return how many classes the clients that agreed to upload hold together."""
    world = build_world(config.with_changes({"run.seed": seed}))
    held = [counts for client, counts in zip(world.clients, world.histograms) if client.shares_examples]
    return int((np.sum(held, axis=0) > 0).sum())


def _times_rows(study: Study, name: str, level: float, axis: str) -> list[Row]:
    """Return rows of the time or rounds to an accuracy: median and every seed of each competitor."""
    rows = []
    for label, runs in study.records.items():
        seeds = ", ".join(in_words(reached(run, level, axis), axis) for run in runs)
        words = f"{in_words(median_to(runs, level, axis), axis)} ({seeds})"
        rows.append(Row(f"{name}: {axis} to {level:.0%}, {label}", "-", words, _lr(study, label)))
    return rows


def _end_rows(study: Study, name: str, *labels: str, late: bool = False) -> list[Row]:
    """Return rows of the final accuracy: median and every seed of each competitor."""
    rows = []
    for label in labels:
        ends = _end(study, label, late)
        words = f"{statistics.median(ends):.1%} ({', '.join(f'{end:.1%}' for end in ends)})"
        rows.append(Row(f"{name}: {_WORDS[late]}, {label}", "-", words, _lr(study, label)))
    return rows


def _gain_row(study: Study, name: str, ours: str, other: str, *, late: bool = False) -> Row:
    """Return the row of the difference between two competitors' final accuracies, seed by seed."""
    gains = [100 * (a - b) for a, b in zip(_end(study, ours, late), _end(study, other, late), strict=True)]
    effect = Effect.of(gains)
    seeds = ", ".join(f"{gain:+.1f}" for gain in gains)
    what = f"{name}: {_WORDS[late]}, {ours} over {other}"
    return shown(what, f"{ours} higher", effect.words(1, " points"), effect, f"each seed: {seeds}")


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

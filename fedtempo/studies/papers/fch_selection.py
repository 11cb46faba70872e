"""Fig. 1 of FCH-FL: what long tails and skewed labels cost, and which clients Oort selects."""

from __future__ import annotations

import statistics

import numpy as np
import scipy

from fedtempo.record import write_json
from fedtempo.record.measures import participation
from fedtempo.report.series import visit_seconds
from fedtempo.runs.config import Config
from fedtempo.runs.world import build_world
from fedtempo.studies.papers.figures import draw_lines, draw_points, draw_shares
from fedtempo.studies.papers.panels import (
    draw_curves,
    late_accuracies,
    learning_rates,
    percentages,
    save_comparison,
    study_panels,
)
from fedtempo.studies.papers.reproduction import Request, Row, claim, save_picture
from fedtempo.studies.tuning.study import Study, plain_study

LONG_TAIL = {"kind": "long-tail", "imbalance": 0.5, "clients_share": 0.5}
ALIKE = {"fleet.compute": {"unit": "s/visit", "speed": 10.0}}
"""Clients that take the same time: the paper has stragglers only in its efficiency experiments (Section 4.3)."""


def figure_1(request: Request) -> list[Row]:
    """Reproduce Fig. 1: the cost of long tails and skewed labels, and which clients Oort selects."""
    base = request.settings("fch")
    tails, study = _tails_of_half(request, base)
    return [*_costs(request, base), *tails, *_dilemma(request, base, study)]


def _costs(request: Request, base: Config) -> list[Row]:
    """Reproduce panels a-1 and a-2: FedAvg's accuracy over the length of tails and over the skew of labels."""
    tails = {share: {**LONG_TAIL, "imbalance": share, "clients_share": 1.0} for share in (0.05, 0.2, 0.5, 1.0)}
    skews = {alpha: {"kind": "dirichlet", "alpha": alpha} for alpha in (0.1, 0.3, 1.0, 10.0)}
    rows = []
    for stem, name, claimed, deals in (
        ("fig1-a1", "imbalance factor", "the shorter the tail, the better", tails),
        ("fig1-a2", "Dirichlet's alpha", "the less skewed, the better", skews),
    ):
        bases = {f"{value:g}": base.with_changes({"data.partition": deal, **ALIKE}) for value, deal in deals.items()}
        panels = study_panels(request, stem, bases, ("fedavg",), request.budget("fch"))
        ends = {value: late_accuracies(study, "fedavg") for value, study in panels.items()}
        means = [statistics.fmean(values) for values in ends.values()]
        save_picture(draw_lines, request.folder, stem, list(deals), {"fedavg": means}, x=name, y="final accuracy")
        words = ", ".join(f"{value}: {percentages(values)}" for value, values in ends.items())
        rows.append(claim(f"final accuracy of FedAvg over {name}", claimed, words, means[-1] > means[0]))
    return rows


def _tails_of_half(request: Request, base: Config) -> tuple[list[Row], Study]:
    """Reproduce panel b: Oort's accuracy, and how often it picks clients with a long tail."""
    name, labels, budget = "half long tails", ("fedavg", "oort", "fch"), request.budget("fch")
    config = base.with_changes({"data.partition": {**LONG_TAIL, "imbalance": 0.05}})
    study = study_panels(request, "fig1-b", {name: config}, labels, budget)[name]
    draw_curves(request, "fig1-b", {name: study}, axis="rounds")
    tail = np.concatenate([_evenness(config, seed) for seed in budget.seeds]) < 0.95  # 0.84 for clients with a tail
    picks = _picks(study)
    by_tail = {
        label: {"long tail": float(own[tail].mean()), "other": float(own[~tail].mean())} for label, own in picks.items()
    }
    save_picture(draw_shares, request.folder, "fig1-b-picks", by_tail, y="picks of a client")
    write_json(request.folder / "fig1-b-picks.json", by_tail)
    ends = {label: late_accuracies(study, label) for label in ("oort", "fedavg")}
    gap = statistics.fmean(ends["oort"]) - statistics.fmean(ends["fedavg"])
    words = ", ".join(f"{label} {percentages(values)}" for label, values in ends.items())
    ratio = by_tail["oort"]["long tail"] / by_tail["oort"]["other"]
    return [
        claim(
            "final accuracy, Oort and FedAvg, half long tails", "alike", words, abs(gap) < 0.03, learning_rates(study)
        ),
        claim("picks of clients with a long tail over others, Oort", "below 1", f"{ratio:.2f}", ratio < 1),
    ], study


def _dilemma(request: Request, base: Config, tuned: Study) -> list[Row]:
    """Reproduce panel c: whether slow clients with good data are picked; learning rates as in panel b."""
    labels, seeds = tuple(tuned.runs), request.budget("fch").seeds
    rates = {f"compare.{label}.training.lr": tuned.chosen(label)["training.lr"] for label in labels}
    config = base.with_changes({"data.partition": {"kind": "dirichlet", "alpha": 0.3}, **rates})
    study = plain_study(config, labels, seeds)
    save_comparison(request, "fig1-c", config, study)
    evenness = np.concatenate([_evenness(config, seed) for seed in seeds])
    seconds = np.concatenate([visit_seconds(run) for run in study.records["fedavg"]])  # whose picks are random
    picks = _picks(study)
    save_picture(
        draw_points,
        request.folder,
        "fig1-c",
        (seconds, evenness, picks["oort"]),
        x="seconds of a visit",
        y="evenness of a client's labels",
        colour="picks by Oort",
    )
    write_json(request.folder / "fig1-c.json", {"seconds": seconds, "evenness": evenness, "picks": picks})
    slow, good = seconds >= np.nanquantile(seconds, 2 / 3), evenness >= np.quantile(evenness, 2 / 3)
    of_slow = {label: float(own[slow].sum() / own.sum()) for label, own in picks.items()}
    of_good = {label: float(own[slow & good].mean() / own[good].mean()) for label, own in picks.items()}
    return [
        claim(
            "share of picks that go to the slowest third of the clients",
            "Oort excludes them",
            ", ".join(f"{label} {100 * share:.0f} %" for label, share in of_slow.items()),
            of_slow["oort"] < _FEWER * of_slow["fedavg"],
        ),
        claim(
            "picks of the slowest third over all, of the third with the evenest labels",
            "Oort excludes clients that would contribute, FCH-FL less so",
            ", ".join(f"{label} {ratio:.2f}" for label, ratio in of_good.items()),
            of_good["oort"] < _FEWER * min(of_good["fedavg"], of_good["fch"]),
        ),
    ]


_FEWER = 0.9
"""Clients count as excluded if they are picked less than this share of what chance would give."""


def _picks(study: Study) -> dict[str, np.ndarray]:
    """Return how often each client of each seed was trained, by competitor."""
    return {label: np.concatenate([participation(run) for run in runs]) for label, runs in study.records.items()}


def _evenness(config: Config, seed: int) -> np.ndarray:
    """Return the evenness of each client's labels: their entropy over that of equal shares."""
    counts = np.array(build_world(config.with_changes({"run.seed": seed})).histograms, dtype=float)
    evenness: np.ndarray = scipy.stats.entropy(counts, axis=1) / np.log(counts.shape[1])
    return evenness

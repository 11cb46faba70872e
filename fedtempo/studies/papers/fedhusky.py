"""The figures of FedHusky (Zhou, Shi, Lou, Hou) about learning, results of its variants, and all its entries."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedtempo.record import write_json
from fedtempo.report import figures
from fedtempo.runs.config import Config
from fedtempo.runs.world import build_world
from fedtempo.studies.papers.fedhusky_schedules import HUSKY, LITERAL, PACED, figure_6, figure_7, figure_8, positions
from fedtempo.studies.papers.pages import settings_in_words
from fedtempo.studies.papers.panels import in_words, median_to, save_comparison
from fedtempo.studies.papers.reproduction import (
    Budget,
    Exhibit,
    Request,
    Row,
    Verdict,
    claim,
    number,
    save_picture,
    spread,
)
from fedtempo.studies.tuning.study import Study, plain_study, tuned_study
from fedtempo.studies.tuning.trials import Grid

_FIGURE_5 = (HUSKY, LITERAL, "hybrid", "sequential", "fedavg", "fedavg-momentum")
_VARIANTS = (
    HUSKY,
    "fedhusky-gain1",
    "fedhusky-unsteady",
    "fedhusky-models",
    "fedhusky-uncorrected",
    PACED,
    "fedhusky-group",
    LITERAL,
    "hybrid",
    "sequential",
    "fedavg",
    "fedavg-momentum",
)
_FASTER, _FASTER_ON_FASHION = {"hybrid": 5.9, "sequential": 7.9}, {"hybrid": 3.0}
"""How many times as long others take to the target, on MNIST (to 80 %) and on Fashion-MNIST."""


def figure_4(request: Request) -> list[Row]:
    """Reproduce Fig. 4: label distributions of clients at three degrees of heterogeneity."""
    rows, worlds = [], {}
    for alpha in (0.0, 0.5, 10.0):
        config = request.settings("fedhusky").with_changes({"data.partition": {"kind": "dirichlet", "alpha": alpha}})
        histograms = np.array(build_world(request.save_config(config, f"fig4-{alpha:g}")).histograms)
        worlds[f"epsilon = {alpha:g}"] = histograms
        classes, largest = (histograms > 0).sum(axis=1), (histograms.max(axis=1) / histograms.sum(axis=1)).mean()
        printed, holds = {
            0.0: ("one label each", bool((classes == 1).all())),
            0.5: ("moderate", 0.2 < largest < 0.5),
            10.0: ("a nearly uniform mix of all", largest < 0.2),
        }[alpha]
        words = f"{classes.mean():.1f} of {histograms.shape[1]} ({classes.min()} to {classes.max()})"
        remark = f"the most frequent one has {100 * largest:.0f} % of a client's examples"
        rows.append(claim(f"labels a client holds, ε = {alpha:g}", printed, words, holds, remark))
    save_picture(figures.label_shares, request.folder, "fig4", worlds)
    write_json(request.folder / "fig4.json", {"examples_by_client_and_label": worlds})
    return rows


def figure_5(request: Request) -> list[Row]:
    """Reproduce Fig. 5: accuracy over time, lr 0.01 for all as in the paper, and with lr and local work tuned."""
    base, budget, grid, levels = _learning(request)
    at_paper = base.with_changes({"training.lr": 0.01, "training.batch_size": 10})

    def drawn_rows(name: str, config: Config, study: Study) -> list[Row]:
        stem = "fig5-" + name.split()[0]
        save_picture(figures.accuracy, request.folder, stem, study.records, target=target)
        write_json(request.folder / f"{stem}.json", study.facts())
        save_comparison(request, stem, config, study)
        rows = [row for level in levels for row in _ratios(name, config, study, level)]
        if study.trials:
            rows += [
                Row(f"{name}: setting of {label}", "lr 0.01", settings_in_words(study.chosen(label)))
                for label in study.runs
            ]
        return rows

    target = base.run.target_accuracy
    rows = drawn_rows("lr 0.01 for all", at_paper, plain_study(at_paper, _FIGURE_5, budget.seeds))
    # The paper's literal rules are slow at any learning rate (see `variants`), and their runs take as long as others.
    labels = [label for label in _FIGURE_5 if request.scale == "small" or label != LITERAL]
    tuned = tuned_study(
        base,
        labels,
        grid,
        tuning_seeds=budget.tuning_seeds,
        seeds=budget.seeds,
        tuning_horizon=budget.tuning_horizon,
    )
    return rows + drawn_rows("tuned", base, tuned)


def _learning(request: Request, of: str = "study") -> tuple[Config, Budget, Grid, Sequence[float]]:
    """Return configuration, budget, grid (with batch sizes, and epochs at full scale) and accuracies to reach."""
    base, budget = request.settings("fedhusky"), request.budget("fedhusky", of)
    if request.scale == "small":
        return base, budget, {"training.lr": budget.lr}, (0.6, 0.8, 0.9)
    grid: Grid = {"training.lr": budget.lr, "training.batch_size": [10, 50]}
    if request.scale == "full":
        grid = {**grid, "training.epochs": [1, 3]}
    return base, budget, grid, (0.4, 0.5, 0.6)


def _ratios(name: str, config: Config, study: Study, level: float) -> list[Row]:
    """Return how much longer others take to an accuracy than FedHusky, by median over seeds; judged at the target."""
    factors = _FASTER_ON_FASHION if config.data.source == "fashion-mnist" else _FASTER
    printed = factors if level == config.run.target_accuracy else {}
    median = {label: median_to(runs, level) for label, runs in study.records.items()}
    rows = []
    for husky in (LITERAL, HUSKY):
        for label in ("hybrid", "sequential", "fedavg", "fedavg-momentum"):
            if husky not in median:
                continue
            what = f"{name}: time to {100 * level:.0f} %, {label} over {husky}"
            ours, other = median[husky], median[label]
            remark = f"{in_words(other)} / {in_words(ours)}"
            if label not in printed:
                rows.append(Row(what, "-", _ratio(other, ours), remark))
            elif math.isinf(ours) or math.isinf(other):
                verdict = Verdict.NOT_REACHED if math.isinf(ours) else Verdict.DIRECTION
                rows.append(Row(what, f"{printed[label]:.1f}", _ratio(other, ours), remark, verdict=verdict))
            else:
                sooner = other > ours
                rows.append(number(what, printed[label], [other / ours], within=0.25, direction=sooner, remark=remark))
    if printed and not study.trials:
        never = math.isinf(median["fedavg"])
        rows.append(claim(f"{name}: time to {100 * level:.0f} %, fedavg", "never", in_words(median["fedavg"]), never))
    return rows


def _ratio(time: float, base: float) -> str:
    if math.isinf(base):
        return "neither reaches it" if math.isinf(time) else "never reached"
    return "reached only here" if math.isinf(time) else f"{time / base:.1f}"


def variants(request: Request) -> list[Row]:
    """Compare FedHusky's variants and competitors, all tuned on one grid, in several data regimes."""
    base, budget, grid, _ = _learning(request, "variants")
    grid = {key: values for key, values in grid.items() if key != "training.epochs"}
    regimes = {"one label": 0.0, "Dir(0.1)": 0.1} if request.scale == "small" else {"one label": 0.0}
    rows = []
    for name, alpha in regimes.items():
        config = base.with_changes({"data.partition": {"kind": "dirichlet", "alpha": alpha}})
        study = tuned_study(config, _VARIANTS, grid, tuning_seeds=budget.tuning_seeds, seeds=budget.seeds)
        stem = "variants-" + name.replace(" ", "-").replace("(", "").replace(")", "")
        save_picture(figures.accuracy, request.folder, stem, study.records, target=base.run.target_accuracy)
        write_json(request.folder / f"{stem}.json", study.facts())
        save_comparison(request, stem, config, study)
        for label in _VARIANTS:
            summaries = [run.summary for run in study.runs[label]]
            times = [summary["time_to_target_s"] for summary in summaries]
            by_seed = ", ".join(in_words(time) for time in times)
            rows.append(
                Row(
                    f"{name}: time to {100 * (base.run.target_accuracy or 0):.0f} %, {label}",
                    "-",
                    f"{in_words(median_to(study.records[label], base.run.target_accuracy or 0))} ({by_seed})",
                    f"{settings_in_words(study.chosen(label))}; final accuracy "
                    + spread([100 * (summary["final_accuracy"] or 0.0) for summary in summaries], 1, " %"),
                )
            )
    return rows


_BOTH = ("mnist", "fashion-mnist")

EXHIBITS = (
    Exhibit("fedhusky/fig4", "label distributions of clients", figure_4, (0.1, 0.2, 0.2), _BOTH, "Fig. 4"),
    Exhibit("fedhusky/fig5", "accuracy against time, four strategies", figure_5, (1.8, 27, 200), _BOTH, "Fig. 5"),
    Exhibit("fedhusky/fig6", "busy ratio of each client", figure_6, (0.3, 3, 3), (), "Fig. 6"),
    Exhibit("fedhusky/fig7", "groups alive over time", figure_7, (0.2, 3, 3), (), "Fig. 7"),
    Exhibit("fedhusky/fig8", "calendars of five clients, 100 seconds", figure_8, (0.2, 0.2, 0.2), (), "Fig. 8"),
    Exhibit("fedhusky/positions", "which cluster comes when in a group", positions, (0.2, 3, 3)),
    Exhibit("fedhusky/variants", "variants of FedHusky and competitors, tuned", variants, (15, 40, 120), _BOTH),
)

"""The figures of FedHusky (Zhou, Shi, Lou, Hou) about learning, results of its variants, and all its entries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtempo.record import write_json
from fedtempo.report import figures
from fedtempo.runs.config import Config
from fedtempo.runs.world import build_world
from fedtempo.studies.papers.fedhusky_schedules import (
    HUSKY,
    LITERAL,
    PACED,
    STEP,
    figure_6,
    figure_7,
    figure_8,
    positions,
)
from fedtempo.studies.papers.pages import settings_in_words
from fedtempo.studies.papers.panels import (
    PairedTimes,
    final_accuracies,
    in_words,
    median_to,
    percentages,
    resolution,
    save_comparison,
    weakest,
)
from fedtempo.studies.papers.reproduction import Budget, Exhibit, Request, save_picture
from fedtempo.studies.papers.verdicts import Effect, Row, holds, number, shown, spread
from fedtempo.studies.tuning.study import Study, plain_study, tuned_study
from fedtempo.studies.tuning.trials import Grid

_BASELINES = ("hybrid", "sequential", "fedavg")
_FIGURE_5 = (HUSKY, LITERAL, STEP, *_BASELINES, "fedavg-momentum")
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
        printed, fits = {
            0.0: ("one label each", bool((classes == 1).all())),
            0.5: ("moderate", 0.2 < largest < 0.5),
            10.0: ("a nearly uniform mix of all", largest < 0.2),
        }[alpha]
        words = f"{classes.mean():.1f} of {histograms.shape[1]} ({classes.min()} to {classes.max()})"
        remark = f"the most frequent one has {100 * largest:.0f} % of a client's examples"
        row = holds(f"labels a client holds, ε = {alpha:g}", printed, words, fits, remark)
        rows.append(row.as_headline() if alpha else row.unjudged())  # with ε = 0 it is one label by definition
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
    plain = plain_study(at_paper, _FIGURE_5, budget.seeds)
    at_paper_rows = claims("lr 0.01 for all", at_paper, plain)
    # The literal rules run at the paper's learning rate only; tuned, they are in `variants`.
    labels = [label for label in _FIGURE_5 if label not in (LITERAL, STEP)]
    tuned = tuned_study(
        base,
        labels,
        grid,
        tuning_seeds=budget.tuning_seeds,
        seeds=budget.seeds,
        tuning_horizon=budget.tuning_horizon,
    )
    return [
        *at_paper_rows,
        *drawn_rows("lr 0.01 for all", at_paper, plain),
        *drawn_rows("tuned", base, tuned),
    ]


def claims(name: str, config: Config, study: Study) -> list[Row]:
    """Return the judged rows of Fig. 5, all about the literal method and its baselines at the paper's learning rate.

    The headline is how many times as long hybrid FL takes to the target. The order of the final accuracies is judged
    too, since not all of them reach it.
    """
    assert config.run.target_accuracy is not None
    level, tick_s = config.run.target_accuracy, resolution(config)
    factors = _FASTER_ON_FASHION if config.data.source == "fashion-mnist" else _FASTER
    rows = []
    for label, factor in factors.items():
        times = PairedTimes.of(study.records[label], study.records[LITERAL], level)
        what = f"{name}: time to {100 * level:.0f} %, {label} over {LITERAL}"
        medians = " / ".join(in_words(median_to(study.records[of], level)) for of in (label, LITERAL))
        row = number(what, factor, times.ratios, within=0.25, effect=-times.effect(tick_s), remark=medians)
        rows.append(row.as_headline() if label == "hybrid" else row)
    if config.data.source == "mnist":
        never = sum(np.isinf(median_to([run], level)) for run in study.records["fedavg"])
        words = f"never on {never} of {len(study.records['fedavg'])} seeds"
        all_miss = bool(never == len(study.records["fedavg"]))
        rows.append(holds(f"{name}: time to {100 * level:.0f} %, fedavg", "never", words, all_miss))
    rows += [_higher(study, name, LITERAL, _BASELINES), _higher(study, name, "hybrid", ("sequential",))]
    return [*rows, _lowest(study, name, "fedavg", (LITERAL, "hybrid", "sequential"))]


def _higher(study: Study, name: str, ours: str, others: Sequence[str]) -> Row:
    effects = [_gain(study, ours, other) for other in others]
    return _accuracy_row(study, name, ours, f"above {', '.join(others)}", others, effects)


def _lowest(study: Study, name: str, label: str, others: Sequence[str]) -> Row:
    effects = [_gain(study, other, label) for other in others]
    return _accuracy_row(study, name, label, "worst of all", others, effects)


def _accuracy_row(
    study: Study, name: str, label: str, paper: str, others: Sequence[str], effects: Sequence[Effect]
) -> Row:
    words = ", ".join(f"{of} {percentages(final_accuracies(study, of))}" for of in (label, *others))
    remark = "differences " + ", ".join(effect.words(1, " points") for effect in effects)
    return shown(f"{name}: final accuracy, {label}", paper, words, weakest(effects), remark)


def _gain(study: Study, ours: str, other: str) -> Effect:
    pairs = zip(final_accuracies(study, ours), final_accuracies(study, other), strict=True)
    return Effect.of([100 * (a - b) for a, b in pairs])


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
    """Return how much longer others take to an accuracy than the literal FedHusky and than ours, none of it judged.

    A run that misses the accuracy counts as taking until its end.
    """
    printed = _FASTER_ON_FASHION if config.data.source == "fashion-mnist" else _FASTER
    rows = []
    for husky in (label for label in (LITERAL, STEP, HUSKY) if label in study.runs):
        for label in (*_BASELINES, "fedavg-momentum"):
            at_target = husky == LITERAL and level == config.run.target_accuracy and not study.trials
            if at_target and label in printed:
                continue  # judged by `claims`
            times = PairedTimes.of(study.records[label], study.records[husky], level)
            medians = " / ".join(in_words(median_to(study.records[of], level)) for of in (label, husky))
            what = f"{name}: time to {100 * level:.0f} %, {label} over {husky}"
            rows.append(Row(what, "-", times.effect(resolution(config)).ratio_words, medians))
    return rows


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

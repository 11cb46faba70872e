"""The figures of PSFL (Zhou, Zhao, Xu, Xiao, Wu, Zhang), and all its entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedtempo.record import write_json
from fedtempo.studies.papers.figures import draw_lines
from fedtempo.studies.papers.panels import (
    PairedTimes,
    Panels,
    draw_curves,
    final_accuracies,
    first_to_reach,
    in_words,
    learning_rates,
    median_to,
    percentages,
    ratio_words,
    resolution,
    round_times,
    save_comparison,
    slug,
    study_panels,
    target,
    weakest,
)
from fedtempo.studies.papers.psfl_structure import (
    ALL,
    OTHERS,
    OURS,
    everyone,
    figure_6,
    figure_7,
    reduced_settings,
    table_1,
)
from fedtempo.studies.papers.reproduction import Exhibit, Request, save_picture
from fedtempo.studies.papers.verdicts import Effect, Row, number, shown, spread
from fedtempo.studies.tuning.study import Study, plain_study

_LABELS = ("psfl", *OTHERS)


def figure_1(request: Request) -> list[Row]:
    """Reproduce Fig. 1: rounds and times of the three training methods, 9 clients per round, 3 sequences of 3."""
    base = everyone(reduced_settings(request), 9, width=3, length=3)
    assert base.run.horizon is not None
    base = base.with_changes({"run.horizon": 2 * base.run.horizon})  # nine clients per round need more rounds
    panels = study_panels(request, "fig1", {"9 clients a round": base}, _LABELS, request.budget("psfl"))
    draw_curves(request, "fig1-rounds", panels, axis="rounds")
    draw_curves(request, "fig1-time", panels)
    rows = training_methods(panels["9 clients a round"], target(base), resolution(base))
    first = first_to_reach(
        panels, {"9 clients a round": target(base)}, "psfl", OTHERS, "psfl first", resolution=resolution(base)
    )
    return [*rows, *(row.as_headline() for row in first)]


def training_methods(study: Study, level: float, tick_s: float) -> list[Row]:
    """Return what Fig. 1 says of parallel and sequential training: rounds to an accuracy, and times of a round.

    tick_s: time between evaluations.
    """
    sequential, parallel = study.records["sequential"], study.records["fedavg"]
    rounds = PairedTimes.of(sequential, parallel, level, "rounds")
    round_s = {"sequential": round_times(sequential), "fedavg": round_times(parallel)}
    slower = [a / b for a, b in zip(round_s["sequential"], round_s["fedavg"], strict=True)]
    words = " / ".join(in_words(median_to(runs, level, "rounds"), "rounds") for runs in (parallel, sequential))
    return [
        number(
            f"rounds to {level:.0%}, parallel over sequential",
            4.0,
            [1 / ratio for ratio in rounds.ratios],
            within=0.25,
            effect=rounds.effect(tick_s / min(*round_s["fedavg"], *round_s["sequential"])),
            remark=f"{words}; {learning_rates(study)}",
        ),
        shown(
            "time of a round, sequential over parallel",
            "more than 4",
            spread(slower),
            Effect.of([ratio - 4 for ratio in slower]),
        ),
    ]


def _baselines(request: Request, stem: str) -> tuple[Panels, dict[str, float]]:
    """Run the training methods on the paper's three data sets, or on the requested one, in two readings.

    The paper states neither the learning rate nor whether all methods share it: one reading tunes it for each method,
    the other uses that of the settings for all. Returns the panels and the target accuracy of each.
    """
    base = request.settings("psfl")
    bases = {base.data.source: base}
    if request.scale == "full" and request.data is None:
        bases["cifar100"] = base.with_changes({"data.source": "cifar100", "run.target_accuracy": 0.25})
        ham = {"data.source": "ham10000", "model.network": "cnn-ham10000", "run.target_accuracy": 0.7}
        bases["ham10000"] = base.with_changes(ham)
    budget = request.budget("psfl")
    panels = dict(study_panels(request, stem, bases, ALL, budget))
    level = {name: target(config) for name, config in bases.items()}
    alike = {f"{name}, lr {config.training.lr:g} for all": config for name, config in bases.items()}
    for name, config in alike.items():
        panels[name] = plain_study(config, _LABELS, budget.seeds)
        level[name] = target(config)
        save_comparison(request, f"{stem}-{slug(name)}", config, panels[name])
    write_json(request.folder / f"{stem}-one-lr.json", {name: panels[name].facts() for name in alike})
    return panels, level


def _ours(study: Study) -> tuple[str, ...]:
    return tuple(label for label in OURS if label in study.runs)


def judged(row: Row, ours: str, panel: str) -> Row:
    """Return a row as what it says of the paper: the headline, nothing if the structure is ours, or a reading.

    The headline is what tuned competitors reach; with a common learning rate, which the paper does not print, it is
    another reading, which counts but does not lead.
    """
    if ours != "psfl":
        return row.unjudged()
    return row if panel.endswith("for all") else row.as_headline()


def _firsts(panels: Panels, level: Mapping[str, float], tick_s: float) -> list[Row]:
    """Return for each panel whether PSFL, in each of its structures, is first. tick_s: time between evaluations."""
    return [
        judged(row, ours, name)
        for name, study in panels.items()
        for ours in _ours(study)
        for row in first_to_reach({name: study}, level, ours, OTHERS, f"{ours} first", resolution=tick_s)
    ]


def figure_3(request: Request) -> list[Row]:
    """Reproduce Fig. 3: test accuracy over time."""
    panels, level = _baselines(request, "fig3")
    draw_curves(request, "fig3", panels, targets=level)
    return _firsts(panels, level, resolution(request.settings("psfl")))


def figure_4(request: Request) -> list[Row]:
    """Reproduce Fig. 4: test loss over time, compared by its mean over the run."""
    panels, _ = _baselines(request, "fig4")
    draw_curves(request, "fig4", panels, column="loss")
    return [judged(loss_row(study, name, ours), ours, name) for name, study in panels.items() for ours in _ours(study)]


def loss_row(study: Study, name: str, ours: str) -> Row:
    """Return the row that says whether a competitor's mean test loss is below that of the others."""
    mean = {label: [float(run.evaluations["loss"].mean()) for run in study.records[label]] for label in study.runs}
    words = ", ".join(f"{label} {spread(values, 2)}" for label, values in mean.items())
    effects = {other: Effect.of([b - a for a, b in zip(mean[ours], mean[other], strict=True)]) for other in OTHERS}
    below = ", ".join(f"{other} {effect.words()}" for other, effect in effects.items())
    what, paper = f"{name}: test loss, mean over the run, {ours}", f"below {' and '.join(OTHERS)}"
    remark = "; ".join(filter(None, (f"below by {below}", learning_rates(study))))
    return shown(what, paper, words, weakest(effects.values()), remark)


def figure_5(request: Request) -> list[Row]:
    """Reproduce Fig. 5: time to several accuracies."""
    panels, level = _baselines(request, "fig5")
    tick_s = resolution(request.settings("psfl"))
    rows: list[Row] = []
    for name, study in panels.items():
        levels = [round(share * level[name], 3) for share in (0.7, 0.8, 0.9, 1.0)]
        times = {label: [median_to(runs, at) for at in levels] for label, runs in study.records.items()}
        save_picture(draw_lines, request.folder, f"fig5-{slug(name)}", levels, times, x="target accuracy", y="time (s)")
        for ours in _ours(study):
            for at in levels[:-1]:
                first = first_to_reach({name: study}, {name: at}, ours, OTHERS, f"{ours} first", resolution=tick_s)
                rows += [row if ours == "psfl" else row.unjudged() for row in first]
            rows.append(judged(time_saved(study, name, levels[-1], ours, OTHERS, tick_s), ours, name))
    return rows


def time_saved(study: Study, name: str, level: float, ours: str, others: Sequence[str], tick_s: float) -> Row:
    """Return the row of the time to an accuracy over that of the better of the others, which the paper has as 0.67.

    tick_s: time between evaluations.
    """
    runs = study.records
    against = {other: PairedTimes.of(runs[ours], runs[other], level) for other in others}
    effects = {other: times.effect(tick_s) for other, times in against.items()}
    ratios = [max(by_other) for by_other in zip(*(times.ratios for times in against.values()), strict=True)]
    medians = ", ".join(f"{label} {in_words(median_to(runs[label], level))}" for label in (ours, *others))
    return number(
        f"{name}: time to {level:.0%}, {ours} over the better of {' and '.join(others)}",
        0.67,
        ratios,
        within=0.15,
        effect=weakest(effects.values()),
        digits=2,
        remark=f"{medians}; {ratio_words(effects)}",
    )


def figure_8(request: Request) -> list[Row]:
    """Reproduce Fig. 8: accuracy over time for three partitions of the data."""
    base = reduced_settings(request)
    deals = {
        "Dir(0.2)": {"kind": "dirichlet", "alpha": 0.2, "by": "class", "min_examples": 5},
        "ExDir(1, 10)": {"kind": "ex-dirichlet", "classes_per_client": 1, "alpha": 10.0},
        "ExDir(2, 5)": {"kind": "ex-dirichlet", "classes_per_client": 2, "alpha": 5.0},
    }
    bases = {name: base.with_changes({"data.partition": deal}) for name, deal in deals.items()}
    panels = study_panels(request, "fig8", bases, ALL, request.budget("psfl"))
    level = dict.fromkeys(panels, target(base))
    draw_curves(request, "fig8", panels, targets=level)
    return _firsts(panels, level, resolution(base))


def figure_9(request: Request) -> list[Row]:
    """Reproduce Fig. 9: accuracy over time with more clients per round."""
    base = reduced_settings(request)
    numbers = (50, 100, 200) if request.scale == "full" else (base.n_clients // 5, base.n_clients // 2)
    bases = {f"{clients} clients a round": everyone(base, clients) for clients in numbers}
    panels = study_panels(request, "fig9", bases, ALL, request.budget("psfl"))
    level = dict.fromkeys(panels, target(base))
    draw_curves(request, "fig9", panels, targets=level)
    rows = _firsts(panels, level, resolution(base))
    for name, study in panels.items():
        ends = ", ".join(f"{label} {percentages(final_accuracies(study, label))}" for label in ALL)
        rows.append(Row(f"{name}: final accuracy", "-", ends))
    return rows


_CIFAR, _THREE = ("cifar10",), ("cifar10", "cifar100", "ham10000")

EXHIBITS = (
    Exhibit("psfl/fig1", "parallel, sequential and mixed training", figure_1, (0.3, 1, 120), _CIFAR, "Fig. 1"),
    Exhibit("psfl/fig3", "test accuracy over time", figure_3, (0.3, 3, 300), _THREE, "Fig. 3"),
    Exhibit("psfl/fig4", "test loss over time", figure_4, (0.3, 3, 300), _THREE, "Fig. 4"),
    Exhibit("psfl/fig5", "time to several accuracies", figure_5, (0.3, 3, 300), _THREE, "Fig. 5"),
    Exhibit("psfl/fig6", "times of rounds under three ways to sample", figure_6, (0.2, 2, 2), (), "Fig. 6"),
    Exhibit("psfl/fig7", "the best length of sequences", figure_7, (0.4, 1, 300), _CIFAR, "Fig. 7"),
    Exhibit("psfl/fig8", "accuracy under three ways to deal the data", figure_8, (0.7, 2, 300), _CIFAR, "Fig. 8"),
    Exhibit("psfl/fig9", "accuracy with more clients a round", figure_9, (0.5, 2, 500), _CIFAR, "Fig. 9"),
    Exhibit("psfl/table1", "best structures, by Eq. 21 and by training", table_1, (0.5, 2, 500), _CIFAR, "Table I"),
)

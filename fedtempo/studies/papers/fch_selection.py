"""Fig. 1 of FCH-FL: what long tails and skewed labels cost, and which clients Oort selects."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import scipy

from fedtempo.record import write_json
from fedtempo.record.measures import participation
from fedtempo.report.series import visit_seconds
from fedtempo.runs.config import Config, parse
from fedtempo.runs.world import build_world
from fedtempo.studies.papers.fch_panels import BY_CLASS, budget_of, fch_panels, tuned_words
from fedtempo.studies.papers.figures import draw_lines, draw_points, draw_shares
from fedtempo.studies.papers.panels import (
    draw_curves,
    late_accuracies,
    percentages,
    points_over,
)
from fedtempo.studies.papers.reproduction import Request, flattened, save_picture
from fedtempo.studies.papers.verdicts import Effect, Row, shown
from fedtempo.studies.tuning.study import Study

Floats = npt.NDArray[np.float64]

LONG_TAIL = {"kind": "long-tail", "imbalance": 0.5, "clients_share": 0.5}
_CHOOSING = ("fedavg", "oort", "fch")
"""Competitors of which it is shown whom they choose."""
ALIKE = {"fleet.compute": {"unit": "s/visit", "speed": 10.0}}
"""Clients that take the same time: the paper has stragglers only in its efficiency experiments (Section 4.3)."""


def skewed_by_class(request: Request, base: Config, alpha: float) -> Config:
    """Return the configuration with each class dealt to all clients by Dirichlet shares, and all examples dealt out.

    Rounds and other settings that this changes are those of `[variants.by-class.<scale>]` of the settings.
    """
    data = {key: value for key, value in base.given["data"].items() if key != "examples_per_client"}
    deal = {"kind": "dirichlet", "alpha": alpha, "by": "class"}
    by_class = parse({**base.given, "data": {**data, "partition": deal}})
    return by_class.with_changes(flattened(request.table("fch", "variants")["by-class"].get(request.scale, {})))


def figure_1(request: Request) -> list[Row]:
    """Reproduce Fig. 1: the cost of long tails and skewed labels, and which clients Oort selects.

    The headline is the dilemma of its panel c, which the method answers: Oort excludes slow clients with good data.
    """
    base = request.settings("fch")
    return [*_costs(request, base), *_tails_of_half(request, base), *_dilemma(request, base)]


def _costs(request: Request, base: Config) -> list[Row]:
    """Reproduce panels a-1 and a-2: FedAvg's accuracy over the length of tails and over the skew of labels.

    Labels skewed by class, not judged, have only the least and the greatest alpha.
    """
    alike = base.with_changes(ALIKE)
    tails = {
        share: alike.with_changes({"data.partition": {**LONG_TAIL, "imbalance": share, "clients_share": 1.0}})
        for share in (0.05, 0.2, 0.5, 1.0)
    }
    skews = {
        alpha: alike.with_changes({"data.partition": {"kind": "dirichlet", "alpha": alpha, "by": "client"}})
        for alpha in (0.1, 0.3, 1.0, 10.0)
    }
    by_class = {alpha: skewed_by_class(request, alike, alpha) for alpha in (0.1, 10.0)}
    short, even = "the shorter the tail, the better", "the less skewed, the better"
    return [
        _cost(request, "fig1-a1", "imbalance factor", short, tails),
        _cost(request, "fig1-a2", "Dirichlet's alpha", even, skews),
        _cost(request, "fig1-a2-by-class", "Dirichlet's alpha by class", even, by_class, BY_CLASS).unjudged(),
    ]


def _cost(
    request: Request, stem: str, name: str, claimed: str, configs: Mapping[float, Config], suffix: str = ""
) -> Row:
    """Draw FedAvg's final accuracy over a parameter; return whether it is higher at the last value than at the first.

    configs: by the parameter's value. suffix: of the panels' names, which decides their budget.
    """
    bases = {f"{value:g}{suffix}": config for value, config in configs.items()}
    panels = fch_panels(request, stem, bases, ("fedavg",))
    ends = {panel.removesuffix(suffix): late_accuracies(study, "fedavg") for panel, study in panels.items()}
    means = [statistics.fmean(values) for values in ends.values()]
    save_picture(draw_lines, request.folder, stem, list(configs), {"fedavg": means}, x=name, y="final accuracy")
    return rise_row(f"final accuracy of FedAvg over {name}", claimed, ends)


def rise_row(what: str, claimed: str, ends: Mapping[str, Sequence[float]]) -> Row:
    """Return whether accuracies at the last value of a parameter are above those at the first, seed by seed."""
    first, *_, last = ends.values()
    effect = Effect.of([100 * (high - low) for low, high in zip(first, last, strict=True)])
    words = ", ".join(f"{value}: {percentages(values)}" for value, values in ends.items())
    return shown(what, claimed, f"{words}; last over first {effect.words(1, ' points')}", effect)


def _tails_of_half(request: Request, base: Config) -> list[Row]:
    """Reproduce panel b: Oort's accuracy, and how often it picks clients with a long tail."""
    name = "half long tails"
    config = base.with_changes({"data.partition": {**LONG_TAIL, "imbalance": 0.05}})
    study = fch_panels(request, "fig1-b", {name: config}, _CHOOSING)[name]
    draw_curves(request, "fig1-b", {name: study}, axis="rounds")
    tails = [_evenness(config, seed) < 0.95 for seed in budget_of(request, name).seeds]  # 0.84 for clients with a tail
    picks = _picks(study)
    by_tail = {
        label: {
            "long tail": [float(run[tail].mean()) for run, tail in zip(runs, tails, strict=True)],
            "other": [float(run[~tail].mean()) for run, tail in zip(runs, tails, strict=True)],
        }
        for label, runs in picks.items()
    }
    means = {
        label: {kind: statistics.fmean(values) for kind, values in kinds.items()} for label, kinds in by_tail.items()
    }
    save_picture(draw_shares, request.folder, "fig1-b-picks", means, y="picks of a client")
    write_json(request.folder / "fig1-b-picks.json", by_tail)
    ends = ", ".join(f"{label} {percentages(late_accuracies(study, label))}" for label in ("oort", "fedavg"))
    gaps = points_over(study, "oort", "fedavg")
    return [
        alike_row("final accuracy, Oort and FedAvg, half long tails", ends, gaps, tuned_words(study)),
        fewer_row(
            "picks of a client with a long tail and of another, Oort",
            "fewer",
            by_tail["oort"]["long tail"],
            by_tail["oort"]["other"],
        ),
    ]


def alike_row(what: str, words: str, gaps: Sequence[float], remark: str = "") -> Row:
    """Return whether two competitors end alike: the interval of their difference, in points, is within a margin."""
    gap = Effect.of(gaps)
    farthest, mean = max(abs(gap.low), abs(gap.high)), abs(gap.mean)
    nearest = 0.0 if gap.low <= 0 <= gap.high else min(abs(gap.low), abs(gap.high))
    effect = Effect(_ALIKE_POINTS - mean, _ALIKE_POINTS - farthest, _ALIKE_POINTS - nearest)
    return shown(
        what, f"alike (within {_ALIKE_POINTS:g} points)", f"{words}; {gap.words(2, ' points')}", effect, remark
    )


def fewer_row(
    what: str, claimed: str, ours: Sequence[float], others: Sequence[float], share: float = 1.0, remark: str = ""
) -> Row:
    """Return whether one quantity is less than a share of another, seed by seed."""
    effect = Effect.of([share * other - one for one, other in zip(ours, others, strict=True)])
    words = f"{statistics.fmean(ours):.2f} against {statistics.fmean(others):.2f}"
    limit = "" if share == 1 else f"{share:g} of "
    return shown(what, claimed, f"{words}; below {limit}that by {effect.words()}", effect, remark)


def _dilemma(request: Request, base: Config) -> list[Row]:
    """Reproduce panel c: whether slow clients with good data are picked."""
    name = "skewed labels"
    config = base.with_changes({"data.partition": {"kind": "dirichlet", "alpha": 0.3, "by": "client"}})
    study = fch_panels(request, "fig1-c-runs", {name: config}, _CHOOSING)[name]
    evenness = [_evenness(config, seed) for seed in budget_of(request, name).seeds]
    seconds = [visit_seconds(run) for run in study.records["fedavg"]]  # whose picks are random
    picks = _picks(study)
    save_picture(
        draw_points,
        request.folder,
        "fig1-c",
        (np.concatenate(seconds), np.concatenate(evenness), np.concatenate(picks["oort"])),
        x="seconds of a visit",
        y="evenness of a client's labels",
        colour="picks by Oort",
    )
    write_json(request.folder / "fig1-c.json", {"seconds": seconds, "evenness": evenness, "picks": picks})
    return dilemma_rows(seconds, evenness, picks)


def dilemma_rows(
    seconds: Sequence[Floats], evenness: Sequence[Floats], picks: Mapping[str, Sequence[Floats]]
) -> list[Row]:
    """Return how often Oort picks slow clients, and slow ones with good data (the headline), beside FedAvg and FCH-FL.

    Each argument has one array per seed, with one value per client; picks: by competitor.
    """
    slow = [times >= np.nanquantile(times, 2 / 3) for times in seconds]
    good = [values >= np.quantile(values, 2 / 3) for values in evenness]
    of_slow = {label: [float(run[s].sum() / run.sum()) for run, s in zip(runs, slow)] for label, runs in picks.items()}
    both = [bool((s & g).any()) for s, g in zip(slow, good, strict=True)]
    of_good = {
        label: [
            float(run[s & g].mean() / run[g].mean())
            for run, s, g, any_of_both in zip(runs, slow, good, both, strict=True)
            if any_of_both
        ]
        for label, runs in picks.items()
    }
    excluded = fewer_row(
        "share of picks that go to the slowest third of the clients, Oort and FedAvg",
        "Oort excludes them",
        of_slow["oort"],
        of_slow["fedavg"],
        _FEWER,
        ", ".join(f"{label} {100 * statistics.fmean(shares):.0f} %" for label, shares in of_slow.items()),
    )
    if not any(both):
        return [excluded, Row("slow clients with the evenest labels", "some", "none")]
    what = "picks of the slowest third over all, of the third with the evenest labels"
    words = ", ".join(f"{label} {statistics.fmean(ratios):.2f}" for label, ratios in of_good.items())
    return [
        excluded,
        fewer_row(
            f"{what}, Oort and FedAvg",
            "Oort excludes clients that would contribute",
            of_good["oort"],
            of_good["fedavg"],
            _FEWER,
            words,
        ).as_headline(),
        fewer_row(f"{what}, Oort and FCH-FL", "FCH-FL excludes fewer", of_good["oort"], of_good["fch"], _FEWER, words),
    ]


_FEWER = 0.9
"""Clients count as excluded if they are picked less than this share of what chance would give."""
_ALIKE_POINTS = 3.0
"""Accuracies count as alike if they differ by less than this."""


def _picks(study: Study) -> dict[str, list[Floats]]:
    """Return how often each client of each seed was trained, by competitor."""
    return {label: [participation(run).astype(float) for run in runs] for label, runs in study.records.items()}


def _evenness(config: Config, seed: int) -> Floats:
    """Return the evenness of each client's labels: their entropy over that of equal shares."""
    counts = np.array(build_world(config.with_changes({"run.seed": seed})).histograms, dtype=float)
    evenness: Floats = scipy.stats.entropy(counts, axis=1) / np.log(counts.shape[1])
    return evenness

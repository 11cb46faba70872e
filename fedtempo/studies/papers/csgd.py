"""The example, the figure and the tables of pipelined federated learning (Keçeci et al.)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedtempo.record import write_json
from fedtempo.runs.config import Config
from fedtempo.runs.world import build_world
from fedtempo.strategies.planning.pipeline import lower_hull, relaxed_sizes
from fedtempo.studies.papers.figures import draw_bars, draw_lines
from fedtempo.studies.papers.panels import (
    PairedTimes,
    in_words,
    median_to,
    round_times_row,
    study_panels,
    target,
)
from fedtempo.studies.papers.reproduction import Exhibit, Request, save_picture
from fedtempo.studies.papers.verdicts import Row, holds, number, shown
from fedtempo.studies.tuning.study import Study, run_settings

_CHANNELS = (1, 2, 4, 8)
_TABLES = {  # rounds for K = 1 to 4, N = 1, 2, 4, 8
    "table2": ((273, 180, 152, 118), (186, 129, 109, 106), (139, 129, 114, 100), (131, 122, 105, 97)),
    "table3": ((981, 767, 528, 445), (754, 514, 480, 436), (613, 451, 479, 432), (506, 472, 443, 424)),
    "table4": ((686, 221, 189, 170), (274, 184, 178, 160), (191, 182, 158, 158), (191, 175, 156, 160)),
    "table5": ((1182, 661, 429, 354), (605, 379, 273, 213), (419, 282, 239, 198), (372, 257, 215, 190)),
}


def example_1(request: Request) -> list[Row]:
    """Reproduce Example 1 and Fig. 3: cluster sizes from the lower convex hull of (10, 46, 80, 100)."""
    done = [10, 46, 80, 100]
    hull = lower_hull(done)
    sizes = [float(size) for size in relaxed_sizes(hull)]
    ks, counts = np.array(hull).T
    at_hull = np.interp(range(5), ks, counts).tolist()
    lines = {"clients that are done": [0.0, *map(float, done)], "lower convex hull": at_hull}
    save_picture(draw_lines, request.folder, "fig3", range(5), lines, x="k", y="clients")
    write_json(request.folder / "fig3.json", {"hull": hull, "sizes": sizes})
    inner = [(int(k), int(count)) for k, count in hull if 0 < k < len(done)]
    return [
        holds(
            "points on the hull between its ends", "(1, 10) alone", ", ".join(map(str, inner)), inner == [(1, 10)]
        ).as_headline(),
        *(
            number(f"size of cluster {k}", printed, [size], within=0.0, digits=0)
            for k, (printed, size) in enumerate(zip((10, 30, 30, 30), sizes), start=1)
        ),
    ]


def figure_4(request: Request) -> list[Row]:
    """Reproduce Fig. 4: examples per client, by FEMNIST's writers.

    At medium scale, or on other data, by all roles in the plays; at small scale by a few of them.
    """
    every_role = request if request.scale == "small" else replace(request, scale="full")
    base = every_role.settings("csgd-roles")
    if request.scale == "full" and request.data is None:
        base = base.with_changes({"data.source": "femnist", "data.clients": 3383, "data.options": {}})
    histograms = build_world(request.save_config(base, "fig4")).histograms
    held = np.array(histograms).sum(axis=1)
    save_picture(draw_bars, request.folder, "fig4", np.histogram(held, bins=40), x="examples of a client", y="clients")
    write_json(request.folder / "fig4.json", {"examples": np.sort(held)})
    return examples_rows(base.data.source, held)


def examples_rows(source: str, held: npt.NDArray[np.int64]) -> list[Row]:
    """Return Fig. 4's rows, whose statement is about FEMNIST and is judged on it alone. held: examples per client."""
    words = f"{held.min()} to {held.max()}, median {np.median(held):.0f}, mean {held.mean():.0f}"
    uneven = bool(held.std() > 0.2 * held.mean())
    balance = holds(
        "examples a client holds",
        "FEMNIST: unbalanced and not uniform",
        words,
        uneven,
        f"std {held.std() / held.mean():.2f} of the mean; unbalanced from 0.2 on",
    )
    return [
        balance.as_headline() if source == "femnist" else balance.unjudged(),
        Row("clients", "3383", str(len(held)), "FEMNIST's writers of digits"),
        Row("examples in all", "341873", str(held.sum()), "341,873 of them train, 40,832 test"),
    ]


def _table(
    request: Request, name: str, base: Config, paper: str, clusters: Sequence[int], channels: Sequence[int]
) -> list[Row]:
    """Return rows of the rounds and times to the target for numbers of clusters (K) and sub-channels (N).

    The learning rate is tuned for every cell. The paper counts rounds, so the headline is the rounds that clusters save
    on the fewest sub-channels, where it saves most. Its rounds last the same for any K; with Eq. 6 they do not, so the
    time is judged too. As a variant, rounds wait for the slowest of all clients (`slowest = "all"`).
    """

    def table(k: int, n: int) -> dict[str, object]:
        return {"strategy": {"name": "csgd", "n_clusters": k, "channels": n, "mode": "local-sgd"}}

    cells = {f"K{k}-N{n}": table(k, n) for k in clusters for n in channels}
    config = base.with_changes({f"compare.{label}": changes for label, changes in cells.items()})
    study = study_panels(request, name, {name: config}, list(cells), request.budget(paper))[name]
    level = target(base)
    lines = {f"N = {n}": [median_to(study.records[f"K{k}-N{n}"], level, "rounds") for k in clusters] for n in channels}
    save_picture(draw_lines, request.folder, name, clusters, lines, x="clusters, K", y="rounds to the target")
    printed = {(k, n): _TABLES[name][k - 1][_CHANNELS.index(n)] for k in clusters for n in channels}
    rows = []
    for n in channels:
        by_k = {f"K = {k}": study.records[f"K{k}-N{n}"] for k in clusters}
        rows.append(round_times_row(by_k, "the same for all K", f"N = {n}"))
        rows.append(
            Row(
                f"rounds to {level:.0%}, K = 1, N = {n}",
                str(printed[1, n]),
                in_words(median_to(study.records[f"K1-N{n}"], level, "rounds"), "rounds"),
                _lr(study, f"K1-N{n}"),
            )
        )
        for k in clusters[1:]:
            pair = (printed[k, n], printed[1, n])
            saved = saved_rows(study, f"K = {k}, N = {n}", level, pair, f"K{k}-N{n}", f"K1-N{n}")
            rows += [saved[0].as_headline() if n == channels[0] else saved[0], *saved[1:]]
    ends = (f"K1-N{channels[0]}", f"K{clusters[-1]}-N{channels[0]}")
    return [*rows, *_fixed_frames(request, name, request.budget(paper).seeds, config, study, ends)]


def saved_rows(
    study: Study, cell: str, level: float, printed: tuple[int, int], several: str, one: str
) -> tuple[Row, Row]:
    """Return rows of the rounds that several clusters save against one, and of the time that they take.

    printed: rounds with several clusters and with one. The saved share is reached if it is off by at most a quarter of
    the printed one, or by five percentage points. several, one: labels in the study.
    """
    runs, others = study.records[several], study.records[one]
    rounds, times = (PairedTimes.of(runs, others, level, axis) for axis in ("rounds", "time"))
    paper = 1 - printed[0] / printed[1]
    words = " / ".join(in_words(median_to(of, level, "rounds"), "rounds") for of in (runs, others))
    saved = number(
        f"rounds saved to {level:.0%}, {cell}",
        100 * paper,
        [100 * (1 - ratio) for ratio in rounds.ratios],
        within=max(0.25, 0.05 / paper),
        effect=rounds.effect(),
        digits=0,
        unit=" %",
        remark=f"{words} rounds, the paper's {printed[0]} / {printed[1]}; "
        f"ratio {rounds.effect().ratio_words}; {_lr(study, several)}",
    )
    seconds = ", ".join(f"{in_words(median_to(of, level))} with {k}" for of, k in ((runs, "K"), (others, "K = 1")))
    remark = f"over K = 1 {times.effect().ratio_words}"
    return saved, shown(f"time to {level:.0%}, {cell}", "converges faster", seconds, times.effect(), remark)


def _fixed_frames(
    request: Request, name: str, seeds: Sequence[int], config: Config, study: Study, cells: tuple[str, str]
) -> list[Row]:
    """Return unjudged rows of a variant: rounds wait for the slowest of all clients, learning rates as in the study.

    cells: labels of one cluster and of the most clusters.
    """
    level = target(config)
    settings = {label: {**study.chosen(label), "strategy.slowest": "all"} for label in cells}
    fixed = Study({}, run_settings(config, settings, seeds))
    request.save_comparison(f"{name}-all", config, settings)
    write_json(request.folder / f"{name}-all.json", fixed.facts())
    one, several = (fixed.records[label] for label in cells)
    words = " / ".join(in_words(median_to(runs, level)) for runs in (several, one))
    remark = f"ratio {PairedTimes.of(several, one, level).effect().ratio_words}"
    return [
        round_times_row(dict(zip(cells, (one, several))), "the same for all K", 'slowest = "all"'),
        Row(f'time to {level:.0%}, {cells[1]} over {cells[0]}, slowest = "all"', "-", words, remark),
    ]


def _lr(study: Study, label: str) -> str:
    return f"lr {study.chosen(label)['training.lr']:g}"


def _sizes(request: Request, *, quick: bool = False) -> tuple[Sequence[int], Sequence[int]]:
    """Return values of K and N: all of the paper's at full scale and, if runs are quick, at medium scale."""
    whole = request.scale == "full" or (quick and request.scale == "medium")
    return ((1, 2, 3, 4), _CHANNELS) if whole else ((1, 2, 4), (1, 4))


def _perceptron(request: Request) -> Config:
    return request.settings("csgd").with_changes({"model.network": "mlp", "model.hidden": [200, 200]})


def table_2(request: Request) -> list[Row]:
    """Reproduce Table II: rounds to the target, convolutional network; at small scale a perceptron of one layer."""
    return _table(request, "table2", request.settings("csgd"), "csgd", *_sizes(request))


def table_3(request: Request) -> list[Row]:
    """Reproduce Table III: rounds to the target, perceptron of two layers."""
    base = _perceptron(request)
    if request.scale == "full":
        base = base.with_changes({"run.target_accuracy": 0.96})
    return _table(request, "table3", base, "csgd", *_sizes(request, quick=True))


def table_4(request: Request) -> list[Row]:
    """Reproduce Table IV: rounds to the target on digits by writer; for other data, clients with skewed labels.

    At medium scale the perceptron of Table III replaces the convolutions, for speed.
    """
    base = _perceptron(request) if request.scale == "medium" else request.settings("csgd")
    if request.scale == "full" and request.data is None:
        changes = {"data.source": "femnist", "data.clients": 3383, "data.partition": "by-owner"}
        return _table(request, "table4", base.with_changes(changes), "csgd", *_sizes(request))
    uneven = base.with_changes({"data.partition": {"kind": "dirichlet", "alpha": 1.0}})
    return _table(request, "table4", uneven, "csgd", *_sizes(request, quick=True))


def table_5(request: Request) -> list[Row]:
    """Reproduce Table V: rounds to the target on the roles of Shakespeare's plays."""
    sizes = ((1, 4), (1, 4)) if request.scale == "small" else _sizes(request)
    return _table(request, "table5", request.settings("csgd-roles"), "csgd-roles", *sizes)


_MNIST, _WRITERS, _ROLES = ("mnist",), ("femnist",), ("shakespeare",)

EXHIBITS = (
    Exhibit(
        "csgd/example1", "sizes of clusters from a convex hull", example_1, (0.1, 0.1, 0.1), (), "Example 1, Fig. 3"
    ),
    Exhibit("csgd/fig4", "examples that clients hold", figure_4, (0.2, 0.2, 1), _WRITERS, "Fig. 4"),
    Exhibit("csgd/table2", "rounds to the target, convolutions", table_2, (0.2, 3, 400), _MNIST, "Table II"),
    Exhibit("csgd/table3", "rounds to the target, perceptron", table_3, (0.2, 2, 300), _MNIST, "Table III"),
    Exhibit("csgd/table4", "rounds to the target, digits by writer", table_4, (0.2, 2, 400), _WRITERS, "Table IV"),
    Exhibit("csgd/table5", "rounds to the target, roles of plays", table_5, (0.3, 2, 2000), _ROLES, "Table V"),
)

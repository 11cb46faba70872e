"""The example, the figure and the tables of pipelined federated learning (Keçeci et al.)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedtempo.record import write_json
from fedtempo.runs.config import Config
from fedtempo.runs.world import build_world
from fedtempo.strategies.planning.pipeline import lower_hull, relaxed_sizes
from fedtempo.studies.papers.figures import draw_bars, draw_lines
from fedtempo.studies.papers.panels import leave_comparison, lrs, median_to, said, study_panels
from fedtempo.studies.papers.reproduction import Asked, Exhibit, Row, Verdict, claim, drawn, number
from fedtempo.studies.tuning.study import plain_study

_CHANNELS = (1, 2, 4, 8)
_TABLES = {  # rounds for K = 1 to 4, N = 1, 2, 4, 8
    "table2": ((273, 180, 152, 118), (186, 129, 109, 106), (139, 129, 114, 100), (131, 122, 105, 97)),
    "table3": ((981, 767, 528, 445), (754, 514, 480, 436), (613, 451, 479, 432), (506, 472, 443, 424)),
    "table4": ((686, 221, 189, 170), (274, 184, 178, 160), (191, 182, 158, 158), (191, 175, 156, 160)),
    "table5": ((1182, 661, 429, 354), (605, 379, 273, 213), (419, 282, 239, 198), (372, 257, 215, 190)),
}


def example_1(asked: Asked) -> list[Row]:
    """Example 1 and Fig. 3: sizes of clusters from the lower convex hull of (10, 46, 80, 100)."""
    done = [10, 46, 80, 100]
    hull = lower_hull(done)
    sizes = [float(size) for size in relaxed_sizes(hull)]
    ks, counts = np.array(hull).T
    at_hull = np.interp(range(5), ks, counts).tolist()
    lines = {"clients that are done": [0.0, *map(float, done)], "lower convex hull": at_hull}
    drawn(draw_lines, asked.folder, "fig3", range(5), lines, x="k", y="clients")
    write_json(asked.folder / "fig3.json", {"hull": hull, "sizes": sizes})
    inner = [(int(k), int(count)) for k, count in hull if 0 < k < len(done)]
    return [
        claim("points on the hull between its ends", "(1, 10) alone", ", ".join(map(str, inner)), inner == [(1, 10)]),
        *(
            number(f"size of cluster {k}", printed, [size], within=0.0, digits=0)
            for k, (printed, size) in enumerate(zip((10, 30, 30, 30), sizes), start=1)
        ),
    ]


def figure_4(asked: Asked) -> list[Row]:
    """Examples that clients hold, by writer; in place of FEMNIST by role in the plays."""
    base = asked.settings("csgd-roles")
    if asked.scale == "full" and asked.data is None:
        base = base.with_changes({"data.source": "femnist", "data.clients": 3383, "data.options": {}})
    histograms = build_world(asked.leave(base, "fig4")).histograms
    held = np.array(histograms).sum(axis=1)
    drawn(draw_bars, asked.folder, "fig4", np.histogram(held, bins=40), x="examples of a client", y="clients")
    write_json(asked.folder / "fig4.json", {"examples": np.sort(held)})
    words = f"{held.min()} to {held.max()}, median {np.median(held):.0f}, mean {held.mean():.0f}"
    uneven = held.std() > 0.2 * held.mean()
    return [
        claim("examples a client holds", "unbalanced and not uniform", words, uneven, "std above a fifth of the mean"),
        Row("clients", "3383", str(len(held)), "FEMNIST's writers of digits"),
        Row("examples in all", "341873", str(held.sum()), "341,873 of them train, 40,832 test"),
    ]


def _table(
    asked: Asked, name: str, base: Config, paper: str, clusters: Sequence[int], channels: Sequence[int]
) -> list[Row]:
    """Rounds to the target for numbers of clusters and sub-channels.

    The learning rate is tuned for conventional training and for the most clusters, with two sub-channels; those between
    take the rate of the latter.
    """
    budget = asked.budget(paper)

    def table(k: int, n: int) -> dict[str, object]:
        return {"strategy": {"name": "csgd", "n_clusters": k, "channels": n, "mode": "local-sgd"}}

    ends = (clusters[0], clusters[-1])
    tuned_base = base.with_changes({f"compare.K{k}": table(k, 2) for k in ends})
    labels = [f"K{k}" for k in ends]
    once = replace(budget, seeds=budget.seeds[:1])
    tuned = study_panels(asked, f"{name}-tuning", {"two sub-channels": tuned_base}, labels, once)["two sub-channels"]
    variants = {
        f"compare.K{k}-N{n}": {**table(k, n), **tuned.chosen(f"K{ends[0] if k == ends[0] else ends[-1]}")}
        for k in clusters
        for n in channels
    }
    study = plain_study(
        base.with_changes(variants), [label.removeprefix("compare.") for label in variants], budget.seeds
    )
    write_json(asked.folder / f"{name}.json", study.facts())
    leave_comparison(asked, name, base.with_changes(variants), study)
    assert base.run.target_accuracy is not None
    rounds = {
        (k, n): median_to(study.records[f"K{k}-N{n}"], base.run.target_accuracy, "rounds")
        for k in clusters
        for n in channels
    }
    lines = {f"N = {n}": [rounds[k, n] for k in clusters] for n in channels}
    drawn(draw_lines, asked.folder, name, clusters, lines, x="clusters, K", y="rounds to the target")
    rows = [_round_times(study.records, clusters, channels)]
    for n in channels:
        for k in clusters:
            printed, printed_one = (_TABLES[name][of - 1][_CHANNELS.index(n)] for of in (k, 1))
            what = f"rounds to {base.run.target_accuracy:.0%}, K = {k}, N = {n}"
            if k == 1:
                rows.append(Row(what, str(printed), said(rounds[k, n], "rounds"), lrs(tuned)))
            else:
                rows.append(saved(what, (printed, printed_one), (rounds[k, n], rounds[1, n])))
    return rows


def saved(what: str, printed: tuple[int, int], measured: tuple[float, float]) -> Row:
    """Rounds with several clusters and with one, and the share that is saved, which is what is judged.

    Reached where that is off by a quarter of the printed share at most, or by five points.
    """
    paper = 1 - printed[0] / printed[1]
    said_of_paper, rounds = f"{printed[0]} ({paper:.0%} saved)", said(measured[0], "rounds")
    if not np.isfinite(measured).all():  # one cluster alone may not get there
        verdict = Verdict.DIRECTION if np.isfinite(measured[0]) else Verdict.NOT_REACHED
        return Row(what, said_of_paper, rounds, verdict=verdict)
    share = 1 - measured[0] / measured[1]
    near = abs(share - paper) <= max(0.25 * paper, 0.05)
    verdict = Verdict.REACHED if near else Verdict.DIRECTION if share > 0 else Verdict.NOT_REACHED
    return Row(what, said_of_paper, f"{rounds} ({share:.0%} saved)", "", f"{share / paper:.2f}", verdict)


def _round_times(records: object, clusters: Sequence[int], channels: Sequence[int]) -> Row:
    """Rounds last the same however many clusters there are: the thresholds take the slowest of all clients."""
    assert isinstance(records, dict)
    times = {
        k: [float(np.diff(run.commits["time"], prepend=0.0).mean()) for run in records[f"K{k}-N{channels[0]}"]]
        for k in clusters
    }
    means = {k: statistics.fmean(values) for k, values in times.items()}
    words = ", ".join(f"K = {k}: {mean:.2f} s" for k, mean in means.items())
    return claim("time of a round", "the same for all K", words, max(means.values()) - min(means.values()) < 1e-6)


def _sizes(asked: Asked, *, quick: bool = False) -> tuple[Sequence[int], Sequence[int]]:
    """K and N; all that the paper has at the full scale, and where runs are quick at the medium one."""
    whole = asked.scale == "full" or (quick and asked.scale == "medium")
    return ((1, 2, 3, 4), _CHANNELS) if whole else ((1, 2, 4), (1, 4))


def _perceptron(asked: Asked) -> Config:
    return asked.settings("csgd").with_changes({"model.network": "mlp", "model.hidden": [200, 200]})


def table_2(asked: Asked) -> list[Row]:
    """Rounds to the target, convolutional network; at the small scale a perceptron of one layer."""
    return _table(asked, "table2", asked.settings("csgd"), "csgd", *_sizes(asked))


def table_3(asked: Asked) -> list[Row]:
    """Rounds to the target, perceptron of two layers."""
    base = _perceptron(asked)
    if asked.scale == "full":
        base = base.with_changes({"run.target_accuracy": 0.96})
    return _table(asked, "table3", base, "csgd", *_sizes(asked, quick=True))


def table_4(asked: Asked) -> list[Row]:
    """Rounds to the target on digits by writer; without writers, clients with skewed labels.

    At the medium scale the perceptron of Table III takes the convolutions' place, for its speed.
    """
    base = _perceptron(asked) if asked.scale == "medium" else asked.settings("csgd")
    if asked.scale == "full" and asked.data is None:
        changes = {"data.source": "femnist", "data.clients": 3383, "data.partition": "by-owner"}
        return _table(asked, "table4", base.with_changes(changes), "csgd", *_sizes(asked))
    uneven = base.with_changes({"data.partition": {"kind": "dirichlet", "alpha": 1.0}})
    return _table(asked, "table4", uneven, "csgd", *_sizes(asked, quick=True))


def table_5(asked: Asked) -> list[Row]:
    """Rounds to the target on the roles of Shakespeare's plays."""
    sizes = ((1, 4), (1, 4)) if asked.scale == "small" else _sizes(asked)
    return _table(asked, "table5", asked.settings("csgd-roles"), "csgd-roles", *sizes)


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

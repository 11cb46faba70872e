"""Figures of `fedtempo plan --out`: predicted calendars, and what explains a strategy's schedule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from fedtempo.report import figures
from fedtempo.report.figures import plain_axes, write_figure
from fedtempo.report.palette import category_colour
from fedtempo.strategies.planning.structure import Structure, StructureProblem
from fedtempo.studies.plan import Prediction
from fedtempo.studies.plan_explained import Pipeline, explained_pipeline, explained_structure

_WIDTHS_MARKED = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
_ONE, _OTHER = category_colour(0), category_colour(6)


def draw_plans(folder: Path, plans: Mapping[str, Prediction]) -> list[Path]:
    """Draw predicted runs by label as PNG and SVG; return the PNG files."""
    records = {label: [plan.records] for label, plan in plans.items()}
    end_s = min(plan.records.facts["elapsed_s"] for plan in plans.values())
    drawn = []
    for suffix in ("png", "svg"):
        figures.busy(records, folder / f"busy.{suffix}")
        figures.alive(records, folder / f"alive.{suffix}")
        figures.calendars(records, folder / f"calendars.{suffix}", end=min(end_s, 100.0))
        for label, plan in plans.items():
            pipeline = explained_pipeline(plan.config, plan.world)
            structure = explained_structure(plan.config, plan.world)
            if pipeline is not None:
                draw_pipeline(pipeline, folder / f"{label}-pipeline.{suffix}")
            if structure is not None:
                draw_structure(*structure, folder / f"{label}-structure.{suffix}")
        drawn = sorted(folder.glob("*.png"))
    return drawn


def draw_structure(problem: StructureProblem, chosen: Structure, path: Path | str) -> None:
    """Draw Eq. 21 of PSFL over the number of sequences, with its real optimum and the structure that trains."""
    best, most = problem.optimum(), problem.clients_per_round
    widths = np.geomspace(1, most, 300)
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = plain_axes(figure.add_subplot())
    axes.plot(widths, problem.objective(widths), color=_ONE, linewidth=1.8)
    for width, words, marker in (
        (best.width, f"least: W = {best.width:.2f}, S = {best.length:.2f}", "o"),
        (float(chosen.width), f"trains: {chosen.width} sequences of {chosen.length}", "D"),
    ):
        value = float(problem.objective([width])[0])
        axes.plot(
            [width],
            [value],
            marker,
            color=_OTHER,
            label=words,
            markersize=8,
            fillstyle="none" if marker == "o" else "full",
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([width for width in _WIDTHS_MARKED if width <= most]))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(f"parallel sequences, W; each of {most} / W clients")
    axes.set_ylabel("Eq. 21")
    axes.legend(frameon=False)
    write_figure(figure, path)


def draw_pipeline(pipeline: Pipeline, path: Path | str) -> None:
    """Draw CS-GD's hull over finished clients, cluster sizes, and the frames of a round."""
    found, compute_s = pipeline.clusters, pipeline.compute_s
    n_clusters = len(found.members)
    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1, 1))
    hull, sizes, frames = (plain_axes(figure.add_subplot(place)) for place in (grid[0, 0], grid[0, 1], grid[1, :]))

    hull.plot(range(n_clusters + 1), [0, *found.done], "o", color=_ONE, label="done when its frame opens")
    hull.plot(*zip(*found.hull), color=_OTHER, linewidth=1.8, label="lower convex hull")
    hull.set_xlabel("clusters so far")
    hull.set_ylabel("clients")
    hull.set_xticks(range(n_clusters + 1))
    hull.legend(frameon=False, fontsize=9)

    sizes.bar(range(n_clusters), found.sizes, color=[category_colour(k) for k in range(n_clusters)])
    sizes.plot(
        range(n_clusters),
        [float(size) for size in found.relaxed],
        "_",
        color="0.2",
        markersize=22,
        label="before rounding",
    )
    sizes.set_xlabel("cluster")
    sizes.set_ylabel("clients")
    sizes.set_xticks(range(n_clusters))
    sizes.set_ylim(top=1.2 * max(found.sizes))
    sizes.legend(frameon=False, fontsize=9, loc="upper left")

    for k, (opens_s, members) in enumerate(zip(found.opens_s, found.members)):
        own = compute_s[list(members)]
        colour = category_colour(k)
        if members:
            frames.barh(k, own.max(), height=0.5, color=colour, alpha=0.3)
            frames.barh(k, opens_s - own.max(), left=own.max(), height=0.08, color="0.5")
            frames.plot(own, np.full(len(own), k), "|", color=colour, markersize=9)
        frames.barh(k, pipeline.upload_s, left=opens_s, height=0.5, color=colour if members else "0.9")
    frames.axvspan(pipeline.round_s - pipeline.server_s, pipeline.round_s, color="0.88", linewidth=0)
    frames.set_xlim(0, pipeline.round_s)
    frames.set_yticks(range(n_clusters), [f"cluster {k}" for k in range(n_clusters)])
    frames.invert_yaxis()
    frames.set_xlabel(
        "seconds of a round: computing (pale, a mark where each client is done), waiting (line), sending (full)"
    )
    write_figure(figure, path)

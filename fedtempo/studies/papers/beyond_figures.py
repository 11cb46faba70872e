"""A picture of what goes beyond the papers: each variant's time over the first variant's, one panel per cell."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtempo.report.figures import new_figure, plain_axes, write_figure
from fedtempo.studies.papers.ranking import ratio

_SOONER, _LATER, _OPEN = "#0077BB", "#EE7733", "#999999"
_COLUMNS = 4
_RATIOS = [2.0**power for power in range(-4, 11)]


def draw_ratios(facts: Mapping[str, Any], path: Path | str) -> None:
    """Draw geometric means over seeds with 95 % intervals; left of 1 is sooner than the first variant."""
    from matplotlib.ticker import FixedLocator, NullLocator

    cells = facts["cells"]
    others = [label for label in facts["variants"] if any(label in list(cell["tried"])[1:] for cell in cells)]
    columns = min(_COLUMNS, len(cells))
    n_rows = -(-len(cells) // columns)
    figure = new_figure(2.9 * columns + 1.2, (0.17 * len(others) + 0.75) * n_rows)
    panels = figure.subplots(n_rows, columns, squeeze=False, sharey=True)
    for index, cell in enumerate(cells):
        axes = plain_axes(panels[index // columns][index % columns])
        base = next(iter(cell["tried"].values()))["runs"]["target_s"]
        for height, label in enumerate(reversed(others)):
            if label not in list(cell["tried"])[1:]:
                continue
            relative = ratio(cell["tried"][label]["runs"]["target_s"], base, cell["horizon_s"])
            colour = _SOONER if relative.high < 1 else _LATER if relative.low > 1 else _OPEN
            axes.plot([relative.low, relative.high], [height, height], color=colour, linewidth=1.4)
            axes.plot(relative.mean, height, ">" if relative.bound else "o", color=colour, markersize=4)
        axes.axvline(1.0, color="0.7", linewidth=0.8, zorder=0)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(_RATIOS))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_yticks(range(len(others)), list(reversed(others)), fontsize=7)
        axes.tick_params(axis="x", labelsize=7)
        axes.set_title(textwrap.fill(cell["title"], 34), loc="left", fontsize=8, fontweight="bold")
    for index in range(len(cells), n_rows * columns):
        panels[index // columns][index % columns].set_visible(False)
    figure.supxlabel("time to the target over that of the panel's first variant (triangle: at least)", fontsize=8)
    write_figure(figure, path)

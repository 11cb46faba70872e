"""What is beyond the papers as a page: all that it says of measurements is computed from `beyond.json`."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from fedtempo.studies.papers.page_parts import markdown_table, settings_in_words
from fedtempo.studies.papers.ranking import Ratio, median, ratio
from fedtempo.studies.papers.standings import seconds

Facts = Mapping[str, Any]

_HEAD = """# Beyond the papers: FedHusky taken further

FedHusky's paper mixes whole groups into the global model, and [to the letter it learns slowly](fedhusky.md). What
fedtempo runs by default keeps the paper's groups and calendars, and commits every hop with a correction for its
cluster. This page asks what each part of that is worth, and what is better still. It is written by `fedtempo
reproduce --index` from the numbers that `{command}` left in [all/beyond](all/beyond/result.md).

## The algorithm

```text
server: model w, version t; a remembered change m_c for each c, and the mean of all m; c is a cluster, or a client
whenever a client is to train (a planned group hops to it, a paced group does, or it is simply free):
    x, v  =  w, t                                        what it receives, and its version
    d     =  train(x) - x                                its change, one visit later
    gap   =  t - v                                       commits that it missed
    beta  =  gain / (1 + max(gap, mean gap))^exponent    at most 1
    w    +=  beta * (d - m_c + mean of all m)
    m_c  +=  memory * (d - m_c)                          the first time m_c = d
    t    +=  1
```

`planned` has the exact planner's groups, a memory for each cluster, gain 2, exponent 1. `free` has neither groups
nor clusters: everyone trains all the time, with a memory for each client, gain 1, exponent 0.75. It is told nothing
of the clients' data, and is `preset = "free"` of [fedhusky](../strategies/fedhusky.md).

Why whoever is free may train: let c be visited with any frequencies p_c, and let g_c(w) be its mean change at w.
Where memories have settled, m_c = g_c(w), and the mean step is the sum over c of p_c (g_c - m_c + mean of m), the
mean of all g, whatever p is. A fast client does not pull the model to its labels, so nobody has to wait in order to
keep the balance. Without the correction the mean step is the sum of p_c g_c. What this leaves out: memories lag
behind while w moves fast, most for slow clients, and each has the noise of a visit in it.

What is not new in it: memories that reduce variance are SAGA's (Defazio et al., NeurIPS 2014), for each client in
rounds FedVARP's (Jhunjhunwala et al., UAI 2022), in a buffer CA2FL's (Wang et al., ICLR 2024).

## How it is made fair

- **One change at a time** against the first variant of a cell (`{first}` where there is nothing else); same
  clients, data, initial models, local work and seeds in a cell.
- **Same budget**: every variant has two settings of its own, each with the cell's learning rates, on the tuning's
  seed; the best then runs on seeds that the tuning did not see. The variants' defaults were chosen before, on
  digits, with seeds 11 to 16 and the four fleets of the [league](league.md).
- **Targets** are 95 % of what tuned FedAvg ends with in the cell, or in that of two labels where the data are the
  same.
- **Ratios** are geometric means over seeds of a variant's time over the first one's on the same seed, with
  Student's 95 % interval for the mean of logarithms. A run that does not reach the target counts as one at the
  horizon, and the ratio is a lower bound then (>). Intervals are not corrected for the number of comparisons.
"""

_LIMITS = """## What to know before quoting this

- Small networks and few examples, so that hundreds of runs fit on two cores; the convolutional and the recurrent
  network are small too.
- The tuning has one seed. Where two settings are close, the choice is a coin's.
- Servers know mean times exactly but where a cell says otherwise. Variants with clusters by labels are told the
  clients' histograms. Arithmetic at the server takes no time.
- A memory for each client is a model's size for each at the server.
- What is not kept lives beside the experiment and is no option of a strategy.
"""


def beyond_page(facts: Facts, command: str) -> str:
    """The page, from what is in `beyond.json`."""
    first = next(iter(facts["variants"]))
    parts = [
        _HEAD.format(command=command, first=first),
        "## What each change is worth\n\nTimes to the target over those of the first variant of the cell, whose own\n"
        "time stands in its place; bold: the interval excludes 1.\n",
        _matrix(facts),
        "![ratios of times with intervals](all/beyond/beyond.png)\n",
        "## What was kept\n",
        _kept(facts),
        *([_ends(facts)] if facts["ends"] else []),
        *(_cell(cell) for cell in facts["cells"]),
        _LIMITS,
    ]
    return "\n".join(parts)


def _ratio(cell: Facts, label: str) -> Ratio:
    base = next(iter(cell["tried"].values()))["runs"]["target_s"]
    return ratio(cell["tried"][label]["runs"]["target_s"], base, cell["horizon_s"])


def _matrix(facts: Facts) -> str:
    rows = []
    for label in facts["variants"]:
        cells = []
        for cell in facts["cells"]:
            if label not in cell["tried"]:
                cells.append("")
                continue
            if label == next(iter(cell["tried"])):
                cells.append(_times(cell["tried"][label]["runs"]["target_s"]))
                continue
            found = _ratio(cell, label)
            cells.append(f"**{found.words}**" if found.high < 1 or found.low > 1 else found.words)
        if any(cells):
            rows.append([f"`{label}`", *cells])
    return markdown_table(["variant", *(cell["title"] for cell in facts["cells"])], rows)


def _kept(facts: Facts) -> str:
    rows = []
    for label, variant in facts["variants"].items():
        found = [_ratio(cell, label) for cell in facts["cells"] if label in list(cell["tried"])[1:]]
        if not found:
            continue
        sooner, later = sum(each.high < 1 for each in found), sum(each.low > 1 for each in found)
        rows.append([f"`{label}`", variant["title"], str(len(found)), str(sooner), str(later), variant["kept"]])
    return markdown_table(["variant", "what it is", "cells", "sooner in", "later in", "kept as"], rows)


def _ends(facts: Facts) -> str:
    rows = []
    for cell in facts["ends"]:
        tried = cell["tried"]
        base = next(iter(tried))
        for label, own in tried.items():
            late = own["runs"]["late_accuracy"]
            above = [a - b for a, b in zip(late, tried[base]["runs"]["late_accuracy"], strict=True)]
            more = "" if label == base else f"{statistics.fmean(above):+.3f} ({min(above):+.3f} to {max(above):+.3f})"
            span = f"{statistics.fmean(late):.3f} ({min(late):.3f} to {max(late):.3f})"
            rows.append([cell["title"], f"`{label}`", span, more, settings_in_words(own["chosen"])])
    words = (
        "## How high it ends\n\nAccuracy over the last tenth of the horizon, tuned for that: mean over seeds, least "
        "and greatest, and the difference on the same seeds.\n\n"
    )
    return words + markdown_table(["cell", "variant", "accuracy at the end", "more than the first", "settings"], rows)


def _cell(cell: Facts) -> str:
    budget, rows = cell["budget"], []
    for label, own in sorted(cell["tried"].items(), key=lambda item: median(item[1]["runs"]["target_s"])):
        runs = own["runs"]
        stale = [value for value in runs["staleness"] if value is not None]
        rows.append(
            [
                f"`{label}`",
                _times(runs["target_s"]),
                _ratio(cell, label).words,
                f"{statistics.median(runs['visits']):,.0f}",
                f"{statistics.median(runs['busy']):.1%}",
                f"{statistics.median(stale):.1f}" if stale else "-",
                f"{statistics.median(runs['took_part']):.0%}",
                f"{statistics.median(runs['mb']):,.0f}",
                settings_in_words(own["chosen"]),
            ]
        )
    head = ["variant", "time to the target", "ratio", "visits", "busy", "staleness", "took part", "MB", "settings"]
    rates = ", ".join(f"{lr:g}" for lr in budget["lr"])
    return (
        f"## {cell['title']}\n\n{cell['clients']} clients, {cell['data']}, {cell['network']}; target "
        f"{cell['target']:.0%}, FedAvg ends with {cell['reference']:.1%}; rates {rates}, tuned on seed "
        f"{', '.join(map(str, budget['tuning_seeds']))}, compared on seeds {', '.join(map(str, budget['seeds']))}.\n\n"
        + markdown_table(head, rows)
    )


def _times(times: Sequence[float | None]) -> str:
    known = [time for time in times if time is not None]
    if not known:
        return "never"
    middle = median(times)
    words = "never" if middle == float("inf") else f"{seconds(middle)} s"
    some = "" if len(known) == len(times) else f"{len(known)} of {len(times)}: "
    return f"{words} ({some}{seconds(min(known))} to {seconds(max(known))})"

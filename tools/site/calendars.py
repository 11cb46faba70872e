"""Calendars of a small fleet as SVG: who works when under a strategy, drawn from a run without training.

Each picture is whole as it stands; docs/assets/calendar.js lets time pass in it.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from fedtempo.config import parse
from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.launch import run
from fedtempo.record.run import Records
from fedtempo.report.palette import category_colour

SECONDS = 40.0
VISIT_S = [1.0, 1.4, 1.8, 2.3, 2.9, 3.6, 4.4, 5.2, 6.0]
"""Computing time of each client, from the fastest to the slowest; sending takes 0.25 s down and 0.35 s up besides."""

_WIDTH, _LEFT, _TOP, _ROW, _BAR = 860, 92, 26, 24, 16
_SETTINGS: dict[str, dict[str, Any]] = {
    "centralized": {"round_s": 10.0},
    "csgd": {"n_clusters": 3, "channels": 1, "mode": "local-sgd"},
    "fch": {"clients_per_round": 3},
    "fedasync": {},
    "fedavg": {},
    "fedbuff": {"buffer": 4},
    "fedcs": {"candidates": 1.0, "deadline_s": 5.5},
    "fedhusky": {"clusters": "labels"},
    "fedprox": {"clients_per_round": 4},
    "hybrid": {"clusters": "labels"},
    "hybrid-fl": {"candidates": 1.0, "deadline_s": 5.5, "selection": "max-clients"},
    "oort": {"clients_per_round": 4},
    "psfl": {"width": 3, "length": 3},
    "sequential": {},
}


def three_kinds(each: int = 90) -> Dataset:
    """A data set with three classes and nothing to learn: for schedules."""
    labels = np.arange(3 * each) % 3
    examples = np.zeros((3 * each, 4), np.float32)
    return from_arrays("three kinds", examples, labels, examples, labels)


@lru_cache(maxsize=32)
def _records(strategy: str) -> tuple[dict[str, Any], Records]:
    """The summary and the records of a strategy on the small fleet."""
    config = parse(
        {
            "run": {"horizon": SECONDS},
            "data": {
                "source": "tools.site.calendars:three_kinds",
                "clients": len(VISIT_S),
                "examples_per_client": 20,
                "tell_labels": True,
                "share_examples": 0.34,
                "partition": "one-label",
            },
            "model": {"network": "logistic", "size_bytes": 1000},
            "training": {"lr": 0.1},
            "fleet": {
                "compute": {"unit": "s/visit", "kind": "list", "values": VISIT_S},
                "link": {"kind": "fixed", "download_s": 0.25, "upload_s": 0.35},
                "estimates": "exact",
            },
            "strategy": {"name": strategy, **_SETTINGS.get(strategy, {})},
            "executor": {"kind": "none"},
        }
    )
    summary, records, _ = run(config)
    return summary, records


def settings(strategy: str) -> Mapping[str, Any]:
    """What the calendar of a strategy sets beside its name."""
    return _SETTINGS[strategy]


def measures(strategy: str) -> dict[str, float]:
    """What the calendar amounts to: the mean busy ratio, commits, visits, the mean staleness of commits."""
    summary, _ = _records(strategy)
    return {
        "busy": summary["busy_ratio"]["mean"],
        "commits": summary["commits"],
        "visits": summary["visits"],
        "staleness": summary["staleness"]["mean"] or 0.0,
    }


def calendar_figure(strategy: str) -> str:
    """The calendar of a strategy as one HTML element, with a text that says the same to who does not see it."""
    summary, records = _records(strategy)
    visits, commits = records.visits, records.commits["time"]
    told = measures(strategy)
    height = _TOP + _ROW * len(VISIT_S) + 30
    scale = (_WIDTH - _LEFT - 12) / SECONDS
    name = f"calendar-{strategy}"
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="{name}-title {name}-text">',
        f'<title id="{name}-title">Calendar of {html.escape(strategy)}: nine clients in {SECONDS:g} seconds</title>',
        f'<desc id="{name}-text">{_words(strategy, told)}</desc>',
        f'<clipPath id="{name}-clip"><rect class="seen" x="0" y="0" width="{_WIDTH}" height="{height}"/></clipPath>',
    ]
    for second in range(0, int(SECONDS) + 1, 5):
        x = _LEFT + second * scale
        bottom = height - 30
        parts.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{bottom}"/>')
        unit = " s" if second == 0 else ""
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{second}{unit}</text>')
    for client, seconds in enumerate(VISIT_S):
        y = _TOP + _ROW * client + _BAR - 3
        parts.append(f'<text x="{_LEFT - 10}" y="{y}" text-anchor="end">{seconds:.1f} s a visit</text>')
    parts.append(f'<g clip-path="url(#{name}-clip)">')
    columns = ("client", "group", "base_version", "started", "received", "computed", "finished")
    for row in zip(*(visits[column].tolist() for column in columns), strict=True):
        parts.append(_bar(row, scale))
    for number, time in enumerate(commits.tolist(), start=1):
        x = _LEFT + time * scale
        parts.append(
            f'<path class="commit" d="M{x:.1f} {_TOP - 6}l-4 -8h8z"><title>model {number} at {time:.1f} s</title></path>'
        )
    parts.append("</g>")
    parts.append(f'<line class="now" x1="0" x2="0" y1="{_TOP - 4}" y2="{height - 30}" visibility="hidden"/></svg>')
    caption = f"{told['busy']:.0%} busy · {_counted(told['visits'], 'visit')} · {_counted(told['commits'], 'new model')}"
    controls = (
        '<button type="button" class="play" aria-label="Let time pass">▶</button>'
        f'<input type="range" min="0" max="{SECONDS:g}" step="0.1" value="{SECONDS:g}" aria-label="Seconds of the run"/>'
        f'<output>{SECONDS:.1f} s</output>'
    )
    return (
        f'<figure class="calendar" data-left="{_LEFT}" data-scale="{scale:.4f}" data-seconds="{SECONDS:g}">'
        f"{''.join(parts)}<figcaption><span class=\"controls\" hidden=\"\">{controls}</span><span>{caption}</span></figcaption>"
        "</figure>"
    )


def _bar(row: tuple[Any, ...], scale: float) -> str:
    """One visit: what it receives and sends is paler than what it computes."""
    client, group, version, started, received, computed, finished = row
    end = min(finished, SECONDS)
    y = _TOP + _ROW * client
    colour = category_colour(int(group if group >= 0 else version))
    phases = [(started, received, 0.45), (received, computed, 1.0), (computed, finished, 0.45)]
    rects = []
    for begins, ends, opacity in phases:
        if begins != begins or begins >= end:  # NaN: the visit did not come so far
            continue
        ends = end if ends != ends else min(ends, end)
        x, width = _LEFT + begins * scale, max((ends - begins) * scale - 0.6, 0.4)
        rects.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}" fill-opacity="{opacity}"/>'
        )
    of_group = f"group {group}, " if group >= 0 else ""
    return f"<g><title>{of_group}model {version}: {started:.1f} to {end:.1f} s</title>{''.join(rects)}</g>"


def _words(strategy: str, told: Mapping[str, float]) -> str:
    return html.escape(
        f"Under {strategy} nine clients, whose visits compute for {VISIT_S[0]:g} to {VISIT_S[-1]:g} seconds, are busy "
        f"{told['busy']:.0%} of the time on average. In {SECONDS:g} seconds they make "
        f"{_counted(told['visits'], 'visit')}, and the server {_counted(told['commits'], 'new global model')}, "
        f"on average {told['staleness']:.1f} versions behind."
    )


def _counted(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"
